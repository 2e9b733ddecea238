package web_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/web"
)

// office is an installation whose every part a test writes.
type office struct {
	mu        sync.Mutex
	questions []nacre.Question
	pressed   []nacre.Press
	sessions  []nacre.SessionStatus
	pages     map[nacre.SessionID]overview.Page
	// stopped are the sessions that were told to stop; refusal is why one may not be.
	stopped []nacre.SessionID
	refusal error
	// entries is how many records each session has, words what stands in each.
	entries int
	words   string
	problem error
	// hold keeps a reading of records from its end, where it is not nil.
	hold  chan struct{}
	stamp int
	read  int
	// done is what was decided on the pages; refusal refuses that, too.
	done []string
	// learned is the proposal's name, "3fa9" where it is empty.
	learned string
	// keys are the passkeys; nobody is an operator any more where strangers is set.
	keys      []web.Passkey
	strangers bool
}

func (o *office) options(now func() time.Time) web.Options {
	return web.Options{Desk: o, Work: o, Records: o, Facts: o, Memory: o, Learn: o, Powers: o, Rules: o, Passkeys: o, Identity: person.OfVisitor(1000), Host: host, Now: now}
}

func (o *office) change(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
}

func (o *office) Approvals(context.Context) ([]nacre.Question, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.questions), nil
}

func (o *office) Answer(_ context.Context, p nacre.Press) (nacre.Pressed, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.ContainsFunc(o.pressed, func(old nacre.Press) bool { return old.ID == p.ID }) {
		return nacre.Pressed{}, errors.New("it was answered")
	}
	o.pressed = append(o.pressed, p)
	o.questions = slices.DeleteFunc(o.questions, func(q nacre.Question) bool { return q.ID == p.ID })
	return nacre.Pressed{By: "owner"}, nil
}

func (o *office) Stop(_ context.Context, id nacre.SessionID, by person.Identity) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusal != nil {
		return o.refusal
	}
	if by != "web:1000" && !by.Passkey() {
		return fmt.Errorf("%s stops", by)
	}
	o.stopped = append(o.stopped, id)
	for i := range o.sessions {
		if o.sessions[i].ID == id {
			o.sessions[i].State = nacre.SessionStopped
		}
	}
	o.stamp++
	return nil
}

func (o *office) Land(_ context.Context, l web.Landing) error {
	return o.does("land", l.Session, l.Verb, l.Shown)
}

func (o *office) Others(context.Context) ([]web.Other, error) {
	if o.words == "" {
		return nil, nil
	}
	return []web.Other{{Kind: "landing", What: o.words, Next: "nacre sessions diff s1", Session: "s1"}}, nil
}

func (o *office) Found(context.Context) ([]web.Other, error) {
	if o.words == "" {
		return nil, nil
	}
	return []web.Other{{Kind: "memory", What: o.words, Next: "nacre memory review"}}, nil
}

func (o *office) Live() ([]nacre.SessionStatus, error) {
	return o.those(func(s nacre.SessionStatus) bool { return s.Live() }), nil
}

func (o *office) Over(from, most int) (page []nacre.SessionStatus, next int, err error) {
	over := o.those(func(s nacre.SessionStatus) bool { return !s.Live() })
	from = min(from, len(over))
	if next = from + most; next >= len(over) {
		return over[from:], 0, nil
	}
	return over[from:next], next, nil
}

func (o *office) those(wanted func(nacre.SessionStatus) bool) (those []nacre.SessionStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.sessions {
		if wanted(s) {
			those = append(those, s)
		}
	}
	return those
}

func (o *office) Session(id nacre.SessionID) (nacre.SessionStatus, error) {
	for _, s := range o.those(func(s nacre.SessionStatus) bool { return s.ID == id }) {
		return s, nil
	}
	return nacre.SessionStatus{}, fmt.Errorf("no session %s", id)
}

func (o *office) Cost(id nacre.SessionID) (int64, bool) { return 1_230_000, id != "live" }

func (o *office) Stamp(nacre.SessionID) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.stamp), nil
}

func (o *office) Overview(id nacre.SessionID) (overview.Page, error) {
	o.mu.Lock()
	hold, page := o.hold, o.pages[id]
	o.read++
	o.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return page, nil
}

func (o *office) Receipt(id nacre.SessionID) (bool, error) {
	if id == "live" {
		return false, nil
	}
	return true, errors.New("the receipt" + o.words)
}

func (o *office) Verify(id nacre.SessionID) ([]audit.Report, error) {
	return []audit.Report{{Chain: string(id), State: "closed", Records: uint64(o.entries)}}, o.problem
}

func (o *office) Index(context.Context) error {
	o.mu.Lock()
	hold := o.hold
	o.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return nil
}

func (o *office) Find(_ context.Context, q audit.Query) (page []audit.Found, next string, err error) {
	first := 0
	if q.After != "" {
		if _, err := fmt.Sscan(q.After, &first); err != nil {
			return nil, "", err
		}
	}
	for i := first; i < min(first+q.Limit, o.entries); i++ {
		page = append(page, audit.Found{Chain: "s1", Entry: audit.Entry{Seq: uint64(i), Record: nacre.Record{
			Kind: nacre.KindCallReject, Topic: "tool.invoke." + o.words, Reason: o.words, Time: time.Unix(1000, 0),
		}}})
	}
	if first+q.Limit < o.entries {
		next = fmt.Sprint(first + q.Limit)
	}
	return page, next, nil
}

func (o *office) Steps(nacre.SessionID) []web.Step {
	if o.words == "" {
		return nil
	}
	return []web.Step{{Time: time.Unix(1000, 0), Text: o.words}}
}

func (o *office) Diff(context.Context, nacre.SessionID) (web.Diff, error) {
	return web.Diff{Text: "+++ b/x\n+" + o.words + "\n", Looks: []string{o.words}, Shown: "d2", Held: []string{o.words}}, nil
}

func (o *office) Health(context.Context) []web.Finding {
	return []web.Finding{{Name: "sandbox", Status: "ok", Text: "it seals" + o.words}, {Name: "git", Status: "fail", Text: "not found", Fix: "install git"}}
}

func (o *office) Schedules(context.Context) ([]web.Schedule, error) {
	return []web.Schedule{{ID: "k1", When: "cron 0 7 * * *", Prompt: "look " + o.words, Group: "main", Enabled: true, Next: time.Unix(2000, 0)}}, nil
}

func (o *office) Credentials(context.Context) []web.Credential {
	return []web.Credential{{Name: "mail" + o.words, Store: "file", For: "api.example.com GET /v1" + o.words, Groups: "main", Since: time.Unix(500, 0)}}
}

// does notes what a person decided, unless they may not.
func (o *office) does(what string, facts ...any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusal == nil {
		o.done = append(o.done, strings.TrimSpace(what+" "+fmt.Sprintln(facts...)))
	}
	return o.refusal
}

func (o *office) Groups(context.Context) ([]nacre.Group, error) {
	return []nacre.Group{"family", "main"}, nil
}

func (o *office) Memories(_ context.Context, group nacre.Group, waiting bool, most int) ([]web.MemoryEntry, error) {
	if waiting {
		return []web.MemoryEntry{{ID: "mem-1", Type: "fact", Content: "the parser\n" + o.words, Written: "2026-01-01", Session: "s1"}}, nil
	}
	var all []web.MemoryEntry
	for i := range most {
		all = append(all, web.MemoryEntry{ID: fmt.Sprintf("mem-%d", i+2), Type: o.words, Content: string(group) + o.words, Written: "2026-01-01", Trusted: i%2 == 0, Tainting: i%3 == 0})
	}
	return all, nil
}

func (o *office) Trust(_ context.Context, group nacre.Group, id string, trusted bool) error {
	return o.does("trust", group, id, trusted)
}

func (o *office) Doomed(_ context.Context, group nacre.Group, id string) (web.Doomed, error) {
	if id != "mem-2" {
		return web.Doomed{}, errors.New("no such entry" + o.words)
	}
	goes := web.Doomed{Told: "d1", Restored: []string{"mem-9" + o.words}, Besides: []string{o.words}, Recalled: 3}
	for range 51 {
		goes.Entries = append(goes.Entries, web.DoomedEntry{MemoryEntry: web.MemoryEntry{ID: id, Content: string(group) + o.words, Type: "fact"}, Why: "chosen" + o.words})
	}
	return goes, nil
}

func (o *office) Forget(_ context.Context, group nacre.Group, id, told string) (string, error) {
	return "", o.does("forget", group, id, told)
}

func (o *office) Proposal(context.Context) (web.Proposal, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return web.Proposal{ID: cmp.Or(o.learned, "3fa9"), Left: []string{o.words}, Lines: []web.ProposalLine{
		{Number: 1, Times: 3, Allows: "api.example.com:443 GET /v1/" + o.words, Wider: "/v1/" + o.words, Evidence: []string{o.words}},
		{Number: 2, Times: 1, Allows: "evil.example:443 by its name", Apart: "sends or changes something" + o.words},
	}}, nil
}

func (o *office) Approved(context.Context) ([]web.Approval, error) {
	return []web.Approval{{ID: "77aa", By: "ada" + o.words, Allows: []string{o.words}, Until: time.Unix(3000, 0)}}, nil
}

func (o *office) Approve(_ context.Context, c web.Choice) error {
	return o.does("approve", c.Proposal, c.Lines, c.Wider, c.Days)
}

func (o *office) Undo(_ context.Context, id string) error { return o.does("undo", id) }

func (o *office) Powers(context.Context) ([]web.Power, error) {
	return []web.Power{
		{Name: "package-installation", State: "proposed", Hosts: []string{"bundle:go" + o.words}, Counted: []string{o.words}},
		{Name: "dns", State: "unlocked", Until: time.Unix(3000, 0)}, {Name: "push", State: "locked", Missing: []string{"3 more verified runs" + o.words}},
	}, nil
}

func (o *office) Unlock(_ context.Context, name string, days int) error {
	return o.does("unlock", name, days)
}

func (o *office) Lock(_ context.Context, name string) error { return o.does("lock", name) }

func (o *office) Policy(context.Context) (web.Policy, error) {
	return web.Policy{File: "/home/ada/policy.toml" + o.words, Text: "[[rule]]\n" + o.words, Version: "sha256:aa", Changes: []string{"added " + o.words}}, nil
}

func (o *office) Replay(context.Context) (web.Replayed, error) {
	return web.Replayed{Calls: 9, Same: 6, Changed: 2, Undecidable: 1, Changes: []string{"2 calls of " + o.words}}, nil
}

func (o *office) AcceptPolicy(_ context.Context, version string) error {
	return o.does("accept", version)
}

func (o *office) Roles(context.Context) ([]web.Role, error) {
	return []web.Role{{Name: "writer", About: "writes " + o.words, Extends: []string{o.words}, Capabilities: []string{o.words}, Denied: []string{o.words}, Tools: []string{o.words}, Limited: true}}, nil
}

func (o *office) Egress(context.Context) (web.Egress, error) {
	return web.Egress{Open: []string{"localhost:5432" + o.words}, Bundles: []web.Bundle{{Name: "go" + o.words, About: o.words, Hosts: []string{o.words}}}}, nil
}

// working is an office with a session at work, one that landed, and a question.
func working(words string) *office {
	status := func(id nacre.SessionID, state nacre.SessionState) nacre.SessionStatus {
		return nacre.SessionStatus{
			ID: id, Group: "main", Kind: "run", Title: "mend the parser " + words, Project: "/home/ada/" + words, Brain: "claude", State: state,
			Started: time.Unix(400, 0), Outcome: strings.Repeat("landed", len(id)%2), Finished: time.Unix(700, 0),
		}
	}
	o := &office{
		questions: []nacre.Question{asked(words)}, entries: 250, words: words,
		sessions: []nacre.SessionStatus{status("live", nacre.SessionRunning), status("s1", nacre.SessionDone)},
		pages:    map[nacre.SessionID]overview.Page{},
		keys:     []web.Passkey{{Key: passkey.Key{ID: []byte("1"), Name: "phone " + words, Site: "localhost", Since: time.Unix(400, 0)}, Owner: "ada" + words}, {Key: passkey.Key{Copied: true}}},
	}
	for _, s := range o.sessions {
		o.pages[s.ID] = overview.Page{
			SessionStatus: s, Task: "mend the parser\n" + words, Records: o.entries,
			Calls: []overview.Count{{What: "bank.pay" + words, Times: 3}}, Denied: []overview.Count{{What: "connect to evil.example" + words, Why: words, Times: 2}},
			Asked:   []overview.Question{{What: words, Why: words, Answer: "allowed", By: words}},
			Reached: []overview.Connection{{Host: "api.example.com:443" + words, Times: 2, Sent: 10, Received: 20_000}},
			Read:    []overview.Source{{From: words, Label: "untrusted", Times: 1, Bytes: 7}},
			Spent:   overview.Spent{MicroUSD: 4_560_000, ModelCalls: 7, InputTokens: 10, OutputTokens: 20}, Receipt: "/state/receipts/" + words,
			Made: overview.Made{Result: &nacre.RunResult{
				RunWork: nacre.RunWork{Branch: "main", Changes: []nacre.Change{{Path: "src/" + words, Kind: "modified", Warning: words}}, Left: []string{words}}, Reason: words, Next: "nacre sessions diff s1",

				Checks: []nacre.CheckResult{{Command: "go test " + words, ExitCode: 1, Tail: words, Strength: "weak"}},
				Atoms:  []nacre.AtomResult{{Capability: "tests", Passed: true, Reason: words}},
			}},
		}
	}
	return o
}

func (o *office) Keys() ([]web.Passkey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.keys), nil
}

func (o *office) SignsIn(id person.Identity) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.keys {
		if k.Identity() == id && !k.Copied && !o.strangers {
			return k.Owner, nil
		}
	}
	return "", passkey.ErrUnknown
}

func (o *office) Use(_ context.Context, id person.Identity, count uint32) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, k := range o.keys {
		if k.Identity() == id && count <= k.Count {
			o.keys[i].Copied = true
			return passkey.ErrCopied
		}
		if k.Identity() == id {
			o.keys[i].Count = count
		}
	}
	return nil
}

func (o *office) Owners(ctx context.Context) ([]string, error) {
	if web.Visitor(ctx) != "web:1000" {
		return nil, errors.New("a passkey is added with the code" + o.words)
	}
	return []string{"ada", "bob"}, nil
}

func (o *office) Add(_ context.Context, owner string, key passkey.Key) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, web.Passkey{Key: key, Owner: owner})
	return nil
}

func (o *office) Remove(_ context.Context, id person.Identity) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = slices.DeleteFunc(o.keys, func(k web.Passkey) bool { return k.Identity() == id })
	return o.refusal
}
