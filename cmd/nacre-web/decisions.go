package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/replay"
	"github.com/nacre-dev/nacre/internal/review"
	"github.com/nacre-dev/nacre/internal/role"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
	"github.com/nacre-dev/nacre/internal/web"
)

// day is the unit in which a page says how long something stands.
const day = 24 * time.Hour

// remembers is what agents have learned.
type remembers struct{ *assembly.Runtime }

func (m remembers) Groups(ctx context.Context) ([]nacre.Group, error) {
	return assembly.MemoryGroups(ctx, m.Runtime)
}

func (m remembers) Memories(ctx context.Context, group nacre.Group, waiting bool, most int) ([]web.MemoryEntry, error) {
	list, err := assembly.Memories(ctx, m.Runtime, group, waiting, most)
	var all []web.MemoryEntry
	for _, e := range list {
		all = append(all, web.MemoryEntry(e))
	}
	return all, err
}

func (m remembers) Trust(ctx context.Context, group nacre.Group, id string, trusted bool) error {
	return assembly.TrustMemory(ctx, as(ctx, m.Runtime), group, id, trusted)
}

func (m remembers) Doomed(ctx context.Context, group nacre.Group, id string) (web.Doomed, error) {
	found, err := assembly.LookForgetting(ctx, as(ctx, m.Runtime), forgets(ctx, group, id))
	return doomed(found), err
}

func (m remembers) Forget(ctx context.Context, group nacre.Group, id, told string) (left string, err error) {
	found, err := assembly.LookForgetting(ctx, as(ctx, m.Runtime), forgets(ctx, group, id))
	if err == nil && told != doomed(found).Told {
		err = errors.New("what would be erased has changed meanwhile: look again")
	}
	if err == nil {
		err = assembly.ForgetMemory(ctx, as(ctx, m.Runtime), forgets(ctx, group, id), found)
	}
	if errors.Is(err, sqlitefile.ErrLingers) {
		return err.Error(), nil
	}
	return "", err
}

func forgets(ctx context.Context, group nacre.Group, id string) assembly.Forget {
	return assembly.Forget{ID: id, Group: group, Who: visitor(ctx)}
}

// doomed is what goes, as a page shows it. It is named by a digest of the ids of all of it.
func doomed(f assembly.Forgetting) web.Doomed {
	m := f.Memories()
	goes := web.Doomed{Restored: m.Restored, Recalled: m.Recalled}
	var all []string
	for _, e := range m.Entries {
		goes.Entries = append(goes.Entries, web.DoomedEntry{MemoryEntry: web.MemoryEntry(review.EntryOf(e.Entry)), Why: why(e)})
		all = append(all, e.ID)
	}
	for _, c := range f.Traces.Conversations {
		goes.Besides = append(goes.Besides, fmt.Sprintf("conversation %s: %d of its turns, and the brain's own transcript; %d turns stay", c.Key, len(c.Gone), c.Left))
	}
	if n := len(f.Traces.Checkpoints); n > 0 {
		goes.Besides = append(goes.Besides, fmt.Sprintf("what was kept of the work of %d sessions", n))
	}
	if n := len(f.Traces.Rows); n > 0 {
		goes.Besides = append(goes.Besides, fmt.Sprintf("the texts of %d agents in the ledger", n))
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(all, goes.Besides, goes.Restored), "\n")))
	goes.Told = hex.EncodeToString(sum[:])
	return goes
}

// why says in words why an entry goes.
func why(e memory.Doomed) string {
	switch e.Why {
	case "derived_from":
		return "it was derived from " + e.Of
	case "supersedes":
		return "it replaced " + e.Of
	case "superseded":
		return "it is an earlier version of " + e.Of
	case "recalled":
		return "the session that wrote it had been shown " + e.Of
	}
	return "it was chosen"
}

// learns is what sessions were refused.
type learns struct{ *assembly.Runtime }

func (l learns) Proposal(context.Context) (web.Proposal, error) {
	found, err := assembly.Learn(l.Runtime, nil)
	p := web.Proposal{ID: found.ID}
	for _, one := range found.Lines {
		p.Lines = append(p.Lines, web.ProposalLine{
			Number: one.Number, Times: one.Times, Allows: one.Text(),
			Apart: strings.Join(one.Apart, "; "), Wider: one.Wider, Evidence: one.Evidence,
		})
	}
	for _, one := range found.Left {
		p.Left = append(p.Left, fmt.Sprintf("%s: %s (%d times)", one.What, one.Why, one.Times))
	}
	return p, err
}

// asks is what is asked of a host; a host without methods is reached by its name.
func asks(methods, paths []string) string {
	return strings.TrimSpace(strings.Join(methods, ",") + " " + strings.Join(paths, " "))
}

func (l learns) Approved(context.Context) ([]web.Approval, error) {
	list, err := assembly.AllLearned(l.Runtime)
	var all []web.Approval
	for _, one := range list {
		all = append(all, web.Approval{ID: one.ID, By: one.By, Until: one.Until, Allows: one.Texts()})
	}
	return all, err
}

func (l learns) Approve(ctx context.Context, c web.Choice) error {
	now, err := assembly.Learn(l.Runtime, nil)
	if err != nil {
		return err
	}
	_, err = assembly.ApproveLearned(ctx, as(ctx, l.Runtime), now, assembly.LearnChoice{
		Proposal: c.Proposal, Lines: c.Lines, Wider: c.Wider, For: time.Duration(c.Days) * day, By: visitor(ctx),
	})
	return err
}

func (l learns) Undo(ctx context.Context, id string) error {
	_, err := assembly.UndoLearned(ctx, as(ctx, l.Runtime), id)
	return err
}

// powers are what runs may be let reach.
type powers struct{ *assembly.Runtime }

func (p powers) Powers(ctx context.Context) ([]web.Power, error) {
	list, err := assembly.Powers(ctx, p.Runtime)
	var all []web.Power
	for _, one := range list {
		shown := web.Power{Name: one.Name, State: one.State.String(), Hosts: slices.Clone(one.Hosts), Until: one.Until, Missing: one.Missing}
		for _, name := range one.Credentials {
			shown.Hosts = append(shown.Hosts, "credential "+name)
		}
		for _, e := range one.Counted {
			shown.Counted = append(shown.Counted, fmt.Sprintf("%s · run %s · %s, record %d", e.At.UTC().Format("2006-01-02"), e.DNA, e.Anchor.Chain, e.Anchor.Seq))
		}
		all = append(all, shown)
	}
	return all, err
}

func (p powers) Unlock(ctx context.Context, name string, days int) error {
	_, err := assembly.UnlockPower(ctx, as(ctx, p.Runtime), name, visitor(ctx), time.Duration(days)*day)
	return err
}

func (p powers) Lock(ctx context.Context, name string) error {
	return assembly.LockPower(ctx, as(ctx, p.Runtime), name, visitor(ctx))
}

// rules are what decides in sessions that begin now. What was read of the config when this
// program began may be another one by now, so it is read again.
type rules struct {
	*assembly.Runtime
	again func(context.Context) (*assembly.Runtime, error)
}

func (r rules) Policy(ctx context.Context) (web.Policy, error) {
	now, err := r.again(ctx)
	if err != nil {
		return web.Policy{}, err
	}
	all := assembly.PoliciesOf(now)
	file, text, version, err := all.PolicyText()
	if err != nil {
		return web.Policy{}, err
	}
	p := web.Policy{File: file, Text: text, Version: version}
	accepted, err := all.AcceptedPolicy()
	if err != nil {
		return p, err
	}
	p.Accepted = accepted.Version() == version
	for _, c := range all.PolicyInForce().Diff(accepted) {
		line := c.What + " " + c.Rule
		if c.Was != nil {
			line += ", was " + c.Was.String()
		}
		if c.Is != nil {
			line += ", is " + c.Is.String()
		}
		p.Changes = append(p.Changes, line)
	}
	return p, nil
}

// maxReplayed is how many kinds of changed decisions a page shows.
const maxReplayed = 50

func (r rules) Replay(ctx context.Context) (web.Replayed, error) {
	now, err := r.again(ctx)
	if err != nil {
		return web.Replayed{}, err
	}
	all := assembly.PoliciesOf(now)
	accepted, err := all.AcceptedPolicy()
	if err != nil {
		return web.Replayed{}, err
	}
	said, err := replay.Between(accepted, all.PolicyInForce(), all.AuditRoot())
	shown := web.Replayed{Calls: said.Calls, Same: said.Same, Changed: said.Changed, Undecidable: said.Undecidable + said.Unrecorded}
	for _, c := range said.Changes[:min(len(said.Changes), maxReplayed)] {
		shown.Changes = append(shown.Changes, fmt.Sprintf("%d × %s: %s → %s, by %s, such as %s", c.Calls, c.Capability, c.Was, c.WouldBe, c.Rule, strings.Join(c.Examples, " ")))
	}
	return shown, err
}

func (r rules) AcceptPolicy(ctx context.Context, version string) error {
	return assembly.PoliciesOf(as(ctx, r.Runtime)).AcceptPolicy(ctx, version, visitor(ctx))
}

// Roles are those that ship: the page is of no project.
func (r rules) Roles(context.Context) ([]web.Role, error) {
	list, err := role.Library{}.All()
	var all []web.Role
	for _, one := range list {
		shown := web.Role{Name: one.Name, About: one.Description, Extends: one.Extends, Tools: one.Tools, Limited: one.Tools != nil, Denied: one.Denied}
		for _, a := range one.Atoms {
			shown.Capabilities = append(shown.Capabilities, string(a.ID))
		}
		all = append(all, shown)
	}
	return all, err
}

func (r rules) Egress(ctx context.Context) (web.Egress, error) {
	now, err := r.again(ctx)
	if err != nil {
		return web.Egress{}, err
	}
	open, err := assembly.OpenEgress(now)
	bundles, bundlesErr := config.Bundles()
	shown := web.Egress{Open: open}
	for _, b := range bundles {
		one := web.Bundle{Name: b.Name, About: b.About}
		for _, h := range b.Hosts {
			line := h.Host
			for _, only := range h.Only {
				line += " · " + asks(only.Methods, only.Paths)
			}
			one.Hosts = append(one.Hosts, line)
		}
		shown.Bundles = append(shown.Bundles, one)
	}
	return shown, errors.Join(err, bundlesErr)
}
