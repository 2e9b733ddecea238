package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/overview"
)

// proposalAge is how old may be what is shown of proposals, and of all else that waits in records.
const proposalAge = 10 * time.Second

// readings are what is known of sessions and of the installation, as far as it was read,
// and the names of the states that pages show.
type readings struct {
	Options

	pages kept[overview.Page]
	// proofs are what verifying the chains of sessions came to.
	proofs kept[proven]
	health kept[[]Finding]
	learnt kept[Proposal]
	found  kept[[]Other]
	// replays is what the policy in force decides otherwise than the accepted one, by its version.
	replays kept[Replayed]
	// indexed is whether records can be searched at once.
	indexed kept[struct{}]
}

// Close gives up what is read for pages, and returns when nothing is read any more.
func (k *readings) Close() {
	k.pages.close()
	k.proofs.close()
	k.health.close()
	k.learnt.close()
	k.found.close()
	k.replays.close()
	k.indexed.close()
}

// proven is what verifying a session came to.
type proven struct {
	chains []audit.Report
	// receipt says that there is a receipt, and problem why it does not hold.
	receipt bool
	problem error
}

// proof says whether the chains of a session are what was written, and its receipt holds.
type proof struct {
	// Known says that they were verified, Fresh that nothing was written since.
	Known, Fresh bool
	Proven       bool
	Problem      string
	Chains       []audit.Report
	// Receipt says that the latest work has one, and ReceiptProblem why it does not hold.
	Receipt        bool
	ReceiptProblem string
}

// overview is what is known of a session from its records, as far as they are read.
func (k *readings) overview(ctx context.Context, id nacre.SessionID) look[overview.Page] {
	stamp, err := k.Work.Stamp(id)
	if err != nil {
		return look[overview.Page]{Err: err, Known: true}
	}
	return k.pages.get(ctx, string(id), stamp, func(context.Context) (overview.Page, error) { return k.Records.Overview(id) })
}

// stateOfSession names what the page of a session says: its records, its questions, and how
// far those are read and proven.
func (k *readings) stateOfSession(ctx context.Context, id nacre.SessionID) string {
	stamp, err := k.Work.Stamp(id)
	if err != nil {
		return named(err.Error())
	}
	questions, _ := k.Desk.Approvals(ctx) // the page of what waits says what cannot be read
	questions = of(questions, id)
	told := ""
	if steps := k.Records.Steps(id); len(steps) > 0 {
		told = steps[len(steps)-1].Time.String()
	}
	return named(stamp, stateOf(questions), told, fmt.Sprint(k.overview(ctx, id).Fresh), fmt.Sprint(k.proof(ctx, id).Fresh))
}

func (k *readings) proof(ctx context.Context, id nacre.SessionID) proof {
	stamp, err := k.Work.Stamp(id)
	if err != nil {
		return proof{Known: true, Problem: err.Error()}
	}
	last := k.proofs.get(ctx, string(id), stamp, func(context.Context) (found proven, err error) {
		found.receipt, found.problem = k.Records.Receipt(id)
		found.chains, err = k.Records.Verify(id)
		return found, err
	})
	p := proof{Known: last.Known, Fresh: last.Fresh, Chains: last.Value.chains, Receipt: last.Value.receipt}
	p.Proven = last.Known && last.Err == nil && len(p.Chains) > 0
	if last.Err != nil {
		p.Problem = last.Err.Error()
	}
	if last.Value.problem != nil {
		p.ReceiptProblem = last.Value.problem.Error()
	}
	return p
}

func (k *readings) examined(ctx context.Context) look[[]Finding] {
	stamp := k.Now().Truncate(time.Minute).String()
	return k.health.get(ctx, "health", stamp, func(ctx context.Context) ([]Finding, error) { return k.Facts.Health(ctx), nil })
}

func (k *readings) stateOfHealth(ctx context.Context) string {
	last := k.examined(ctx)
	shown := []string{"unknown"}
	if last.Known {
		shown = shown[:0]
	}
	for _, f := range last.Value {
		shown = append(shown, f.Name, f.Status, f.Text, f.Fix)
	}
	return named(shown...)
}

// proposal is what sessions were refused, as of some seconds ago.
func (k *readings) proposal(ctx context.Context) look[Proposal] {
	stamp := k.Now().Truncate(proposalAge).String()
	return k.learnt.get(ctx, "proposal", stamp, k.Learn.Proposal)
}

// elsewhere is what waits that was found in records, as of some seconds ago.
func (k *readings) elsewhere(ctx context.Context) look[[]Other] {
	stamp := k.Now().Truncate(proposalAge).String()
	return k.found.get(ctx, "found", stamp, k.Desk.Found)
}

// searchable tells whether a search of records does not take long: they were read once.
func (k *readings) searchable(ctx context.Context) bool {
	return k.indexed.get(ctx, "records", "", func(ctx context.Context) (struct{}, error) { return struct{}{}, k.Records.Index(ctx) }).Known
}

// stateOfProposal changes when a proposal is there, and never again: nothing moves while a person
// chooses. What they approve of an older proposal is refused.
func stateOfProposal(last look[Proposal]) string { return named(fmt.Sprint(last.Known)) }

// sessionList is a part of the list of sessions, and next the place behind it.
type sessionList struct {
	live, over []nacre.SessionStatus
	next       int
	err        error
}

func (k *readings) list(first int) sessionList {
	live, liveErr := k.Work.Live()
	over, next, err := k.Work.Over(first, sessionsShown)
	return sessionList{live, over, next, errors.Join(liveErr, err)}
}

// state names what the list says.
func (l sessionList) state() string {
	var shown []string
	for _, one := range slices.Concat(l.live, l.over) {
		shown = append(shown, string(one.ID)+" "+string(one.State)+" "+one.Outcome)
	}
	return named(shown...)
}

// watched is what names the state of something that a page shows.
func (k *readings) watched(what string) (state func(context.Context) string, ok bool) {
	switch what {
	case watchWaiting:
		return func(ctx context.Context) string {
			questions, _ := k.Desk.Approvals(ctx) // the page says what cannot be read
			return stateOf(questions)
		}, true
	case watchSessions:
		return func(context.Context) string { return k.list(0).state() }, true
	case watchHealth:
		return k.stateOfHealth, true
	case watchLearn:
		return func(ctx context.Context) string { return stateOfProposal(k.proposal(ctx)) }, true
	}
	if first, ok := strings.CutPrefix(what, watchSessionsFrom); ok {
		return func(context.Context) string { return k.list(placeOf(first)).state() }, true
	}
	name, named := strings.CutPrefix(what, watchSession)
	id, err := nacre.ParseSessionID(name)
	if !named || err != nil {
		return nil, false
	}
	return func(ctx context.Context) string { return k.stateOfSession(ctx, id) }, true
}
