package cockpit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/registry"
)

// Waiting is something that waits for a person.
type Waiting struct {
	// Kind is one of [person.Kinds].
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Session nacre.SessionID `json:"session,omitempty"`
	Group   nacre.Group     `json:"group,omitempty"`
	// What says in a few words what is asked for.
	What string `json:"what"`
	// Since is when it began to wait, where that is known; Expires when the answer is no,
	// zero where it waits without an end.
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Next is the command that shows it whole.
	Next string `json:"next"`
}

// Everything is all that waits for a person, in one list: what ends first in front. With
// an error it is what can be read. Others find what rooms of their own know of.
func Everything(ctx context.Context, inst *installation.Installation, others ...func(context.Context, *installation.Installation) ([]Waiting, error)) ([]Waiting, error) {
	questions, unread := Questions(ctx, inst)
	var all []Waiting
	for _, q := range questions {
		card := question.Of(q)
		all = append(all, Waiting{
			Kind: string(card.Kind), ID: card.ID, Session: card.Session, Group: card.Group, What: card.Title,
			Since: q.Asked, Expires: card.Expires, Next: "nacre approvals show " + card.ID,
		})
	}
	landings, err := landings(inst)
	pairings, pairing := pairings(inst)
	all = slices.Concat(all, landings, pairings)
	unread = errors.Join(unread, err, pairing)
	for _, find := range others {
		found, err := find(ctx, inst)
		all, unread = append(all, found...), errors.Join(unread, err)
	}
	slices.SortStableFunc(all, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(endless(a), endless(b)), a.Expires.Compare(b.Expires), a.Since.Compare(b.Since))
	})
	return all, unread
}

// endless puts what waits without an end behind all else.
func endless(w Waiting) int {
	if w.Expires.IsZero() {
		return 1
	}
	return 0
}

// landings are the runs whose verified work did not land and waits for a person (M-67).
func landings(inst *installation.Installation) ([]Waiting, error) {
	sessions, err := inst.Registry.Unlanded()
	var all []Waiting
	for _, s := range sessions {
		if s.Live() || s.Kind != "run" {
			continue
		}
		result, failed := registry.Result(inst.Registry.Paths().Session(s.ID))
		err = errors.Join(err, failed)
		if result == nil || result.Landed || !isHeld(*result) {
			continue
		}
		all = append(all, Waiting{
			Kind: string(person.Landing), ID: string(s.ID), Session: s.ID, Group: s.Group, What: result.Reason, Since: s.Finished,
			Next: "nacre sessions diff " + string(s.ID),
		})
	}
	return all, err
}

// isHeld tells work that passed its checks, and changes what programs of the host obey.
func isHeld(r nacre.RunResult) bool {
	return !slices.ContainsFunc(r.Checks, func(c nacre.CheckResult) bool { return !c.Passed() }) &&
		slices.ContainsFunc(r.Changes, func(c nacre.Change) bool { return c.Held })
}

// pairings are the identities that wait with a code.
func pairings(inst *installation.Installation) ([]Waiting, error) {
	w, open, err := Roster(inst).Pairing()
	if !open {
		return nil, err
	}
	var all []Waiting
	for _, p := range w.Pending {
		all = append(all, Waiting{
			Kind: string(person.Pairing), ID: string(p.Identity), What: fmt.Sprintf("%s wants to be %s", p.Identity, w.Operator),
			Since: p.Asked, Expires: w.Until, Next: "nacre operators pair " + w.Operator + " CODE",
		})
	}
	return all, err
}

// Operator is one person as a list shows it.
type Operator struct {
	Name       string   `json:"name"`
	Identities []string `json:"identities"`
	// Paired are the identities that were approved on the host.
	Paired  []string `json:"paired"`
	Groups  []string `json:"groups"`
	Approve []string `json:"approve"`
	UpTo    string   `json:"up_to,omitempty"`
	Ask     bool     `json:"ask"`
	Stop    bool     `json:"stop"`
	Config  bool     `json:"config"`
	// Notify are the places of the person's choice; nil means all of them.
	Notify     []string `json:"notify"`
	QuietHours string   `json:"quiet_hours,omitempty"`
	Zone       string   `json:"zone,omitempty"`
}

// Operators are all persons who may decide something now, by name. Where nobody is
// configured, that is the owner of the installation.
func Operators(inst *installation.Installation) ([]Operator, error) {
	d, err := Roster(inst).Directory()
	if err != nil {
		return nil, err
	}
	if len(d.Operators) == 0 {
		return []Operator{{
			Name: person.Implicit, Identities: []string{string(person.Terminal) + ":" + d.Owner, string(person.Web) + ":" + d.Owner},
			Paired: pairedWith(d, person.Implicit), Groups: []string{}, Approve: []string{"*"}, UpTo: nacre.Destructive.String(), Ask: true, Stop: true, Config: true,
		}}, nil
	}
	var all []Operator
	for _, name := range slices.Sorted(maps.Keys(d.Operators)) {
		o := d.Operators[name]
		shown := Operator{
			Name: name, Identities: append([]string{}, o.Identities...), Paired: pairedWith(d, name), Groups: append([]string{}, o.Groups...),
			Approve: append([]string{}, o.Approve...), Ask: o.Ask, Stop: o.Stop, Config: o.Config,
			Notify: o.Notify, QuietHours: o.QuietHours, Zone: o.Zone,
		}
		if o.UpTo != nil {
			shown.UpTo = o.UpTo.String()
		}
		all = append(all, shown)
	}
	return all, nil
}

// pairedWith are the identities that became an operator's on the host.
func pairedWith(d person.Directory, name string) []string {
	ids := []string{}
	for _, p := range d.Paired {
		if p.Operator == name {
			ids = append(ids, p.Identity)
		}
	}
	return ids
}
