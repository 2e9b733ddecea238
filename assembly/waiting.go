package assembly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learn"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/review"
)

// Everything is all that waits for a person: with an error, what can be read.
func Everything(ctx context.Context, r *Runtime) ([]Waiting, error) {
	return cockpit.Everything(ctx, r.inst, signIns, earned, reviews, proposals)
}

// EverythingAtHand is what of [Everything] is known without a look through records.
func EverythingAtHand(ctx context.Context, r *Runtime) ([]Waiting, error) {
	return cockpit.Everything(ctx, r.inst, signIns)
}

// EverythingElse is what of [Everything] is found in records and memories, which takes as long
// as it takes to read the latest sessions.
func EverythingElse(ctx context.Context, r *Runtime) (all []Waiting, err error) {
	for _, find := range []func(context.Context, *installation.Installation) ([]Waiting, error){earned, reviews, proposals} {
		found, unread := find(ctx, r.inst)
		all, err = append(all, found...), errors.Join(err, unread)
	}
	return all, err
}

// signIns are the credentials, of sessions and of plugins, that open nothing before a person
// has signed in.
func signIns(_ context.Context, inst *installation.Installation) (all []Waiting, _ error) {
	find := func(id string, source lease.Source) {
		if command, why := source.SignIn(inst.Options.Now); why != nil {
			all = append(all, Waiting{Kind: string(person.Credential), ID: id, What: id + " " + why.Error(), Next: command})
		}
	}
	for _, c := range inst.Config.Credentials {
		find(c.Name, c.Source())
	}
	for _, plugin := range slices.Sorted(maps.Keys(inst.Config.Access)) {
		values := inst.Config.Access[plugin].Credentials
		for _, key := range slices.Sorted(maps.Keys(values)) {
			find(plugin+"."+key, values[key].Source())
		}
	}
	return all, nil
}

// earned are the powers that the evidence speaks for.
func earned(ctx context.Context, inst *installation.Installation) (all []Waiting, err error) {
	standings, err := graduation.Standings(ctx, inst)
	for _, p := range standings {
		if p.State == graduation.Proposed {
			what := fmt.Sprintf("%d verified runs of %d tasks speak for it", len(p.Counted), p.Tasks)
			all = append(all, Waiting{Kind: string(person.Graduation), ID: p.Name, What: what, Next: "nacre power show " + p.Name})
		}
	}
	return all, err
}

// reviews are the groups in whose memory something waits for a review.
func reviews(ctx context.Context, inst *installation.Installation) (all []Waiting, err error) {
	groups, err := installation.MemoryGroups(ctx, inst)
	for _, group := range groups {
		many, unread := review.Waiting(ctx, inst, group)
		err = errors.Join(err, unread)
		if many > 0 {
			what := fmt.Sprintf("memories to review: %d", many)
			all = append(all, Waiting{Kind: string(person.Memory), ID: string(group), Group: group, What: what, Next: "nacre memory review --group " + string(group)})
		}
	}
	return all, err
}

// proposals are what the latest sessions were refused, and what could be allowed from now on.
func proposals(_ context.Context, inst *installation.Installation) (all []Waiting, err error) {
	found, err := learn.Look(inst, nil)
	if err == nil && len(found.Lines) > 0 {
		what := fmt.Sprintf("what sessions were refused and could be allowed: %d", len(found.Lines))
		all = append(all, Waiting{Kind: string(person.Learn), ID: found.ID, What: what, Next: "nacre learn"})
	}
	return all, err
}
