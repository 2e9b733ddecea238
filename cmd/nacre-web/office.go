package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/web"
)

// maxSteps is how many of a session's newest steps a page shows.
const maxSteps = 40

// desk is where questions wait, in the sessions themselves.
type desk struct{ *assembly.Runtime }

func (d desk) Stop(ctx context.Context, id nacre.SessionID, by person.Identity) error {
	return assembly.StopFor(ctx, d.Runtime, id, string(by))
}

// Others are what waits beside the questions of sessions.
func (d desk) Others(ctx context.Context) ([]web.Other, error) {
	all, err := assembly.EverythingAtHand(ctx, d.Runtime)
	all = slices.DeleteFunc(all, func(w assembly.Waiting) bool { return strings.HasPrefix(w.Next, "nacre approvals ") }) // questions of sessions
	return listed(all), err
}

// Found is what waits in records and memories.
func (d desk) Found(ctx context.Context) ([]web.Other, error) {
	all, err := assembly.EverythingElse(ctx, d.Runtime)
	return listed(all), err
}

// Land decides on work that did not land.
func (d desk) Land(ctx context.Context, l web.Landing) error {
	t := assembly.Taking{Session: l.Session, Shown: l.Shown, Who: visitor(ctx), Killed: func(assembly.Killed) {}}
	switch l.Verb {
	case web.Discard:
		return assembly.DiscardLeftover(ctx, as(ctx, d.Runtime), t)
	case web.LandAll:
		t.Held = "take"
	case web.LandRest:
		t.Held = "leave-out"
	}
	_, err := assembly.TakeLeftover(ctx, as(ctx, d.Runtime), t)
	return err
}

func listed(all []assembly.Waiting) (others []web.Other) {
	for _, w := range all {
		others = append(others, web.Other{Kind: w.Kind, What: w.What, Next: w.Next, Session: w.Session, Since: w.Since, Expires: w.Expires})
	}
	return others
}

// work is which sessions there are.
type work struct{ *assembly.Runtime }

func (w work) Live() ([]nacre.SessionStatus, error) { return assembly.LiveSessions(w.Runtime) }

func (w work) Over(from, most int) (page []nacre.SessionStatus, next int, err error) {
	return assembly.SessionsOver(w.Runtime, from, most)
}

func (w work) Cost(id nacre.SessionID) (int64, bool) { return assembly.CostOf(w.Runtime, id) }

func (w work) Stamp(id nacre.SessionID) (string, error) {
	return assembly.OverviewStamp(w.Runtime, id)
}

// records are what is recorded of sessions.
type records struct{ *assembly.Runtime }

func (r records) Overview(id nacre.SessionID) (overview.Page, error) {
	return assembly.Overview(r.Runtime, id)
}

func (r records) Verify(id nacre.SessionID) ([]audit.Report, error) { return r.VerifyAudit(id) }

func (r records) Receipt(id nacre.SessionID) (there bool, err error) {
	file := assembly.ReceiptOf(r.Runtime, id)
	if file == "" {
		return false, nil
	}
	receipt, err := audit.ReadReceipt(file)
	if err == nil {
		_, err = audit.VerifyReceipt(receipt, r.AuditRoot(), r.PublicKey())
	}
	return true, err
}

func (r records) Index(ctx context.Context) error {
	catalog, err := audit.OpenCatalog(ctx, assembly.PoliciesOf(r.Runtime).AuditRoot())
	if err != nil {
		return err // whoever searches is told
	}
	return catalog.Close()
}

func (r records) Find(ctx context.Context, q audit.Query) (page []audit.Found, next string, err error) {
	catalog, err := audit.OpenCatalog(ctx, assembly.PoliciesOf(r.Runtime).AuditRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil // nothing was recorded yet
	}
	if err != nil {
		return nil, "", err
	}
	page, next, err = catalog.Find(ctx, q)
	return page, next, errors.Join(err, catalog.Close())
}

func (r records) Steps(id nacre.SessionID) []web.Step {
	var steps []web.Step
	for _, e := range assembly.LastEvents(r.Runtime, id, maxSteps, "progress", "notice") {
		var told nacre.Step
		if json.Unmarshal(e.Data, &told) != nil {
			continue // an event of another form
		}
		if text := strings.TrimSpace(told.Name + " " + told.Text); text != "" { // the end of a turn has none
			steps = append(steps, web.Step{Time: e.Time, Text: text})
		}
	}
	return steps
}

func (r records) Diff(ctx context.Context, id nacre.SessionID) (web.Diff, error) {
	var looks []string
	left, err := assembly.LeftoverOf(ctx, r.Runtime, id, func(k assembly.Killed) { looks = append(looks, k.Lines()...) })
	diff := web.Diff{Text: left.Diff, Cut: left.Cut, Looks: slices.Concat(looks, left.Left)}
	if err != nil || len(left.Changes) == 0 || left.Branch == "" {
		return diff, err
	}
	for _, c := range left.Changes {
		if c.Held {
			diff.Held = append(diff.Held, c.Path+": "+c.Warning)
		}
	}
	diff.All = len(diff.Held) == len(left.Changes)
	diff.Shown, err = left.Digest()
	return diff, err
}

// facts are what else the installation tells.
type facts struct{ *assembly.Runtime }

func (f facts) Health(ctx context.Context) []web.Finding {
	var all []web.Finding
	for _, found := range f.Doctor(ctx, false) {
		all = append(all, web.Finding{Name: found.Name, Status: found.Status, Text: found.Text, Fix: found.Fix})
	}
	return all
}

func (f facts) Schedules(ctx context.Context) ([]web.Schedule, error) {
	list, err := f.Runtime.Schedules(ctx, "")
	var all []web.Schedule
	for _, s := range list {
		one := web.Schedule{
			ID: s.ID, When: strings.TrimSpace(s.Kind + " " + s.Value + " " + s.Zone), Prompt: s.Prompt, Group: string(s.Group), Enabled: s.Enabled,
		}
		if s.Next != nil {
			one.Next = *s.Next
		}
		if s.Last != nil {
			one.Last = strings.TrimSpace(s.Last.State + " " + s.Last.Outcome)
		}
		all = append(all, one)
	}
	return all, err
}

func (f facts) Credentials(ctx context.Context) []web.Credential {
	var all []web.Credential
	for _, c := range assembly.Credentials(ctx, f.Runtime) {
		reach := "inside the sandbox"
		if !c.Inside {
			reach = strings.TrimSpace(c.Host + " " + strings.Join(c.Methods, ",") + " " + strings.Join(c.Paths, ","))
		}
		all = append(all, web.Credential{Name: c.Name, Store: c.Store, For: reach, Groups: strings.Join(c.Groups, ", "), Since: c.Since})
	}
	return all
}
