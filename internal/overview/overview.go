// Package overview is one page about a session, for a person (U-24). It shows what was asked of
// whom, what was read, changed, asked, denied, reached and spent, and what came of it.
//
// It is a projection of what the session's chains record and of what its folder keeps, and
// says nothing else. It changes nothing, and works for a session that runs, too.
package overview

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
)

// maxEntries is how many different things each part of a page lists; More counts the rest.
const maxEntries = 100

// Page is what is known of a session's latest work.
type Page struct {
	nacre.SessionStatus
	// Task is what was asked, whole; Title is its beginning.
	Task string `json:"task,omitempty"`
	// Read are the tools and hosts whose answers the session has seen.
	Read []Source `json:"read"`
	// Calls are the tools that were carried out.
	Calls   []Count      `json:"calls"`
	Asked   []Question   `json:"asked"`
	Denied  []Count      `json:"denied"`
	Reached []Connection `json:"reached"`
	// Leases are the credentials that it took and gave back, by name and never by value.
	Leases []Count `json:"leases,omitempty"`
	Spent  Spent   `json:"spent"`
	Made
	Alarms  []Count  `json:"alarms,omitempty"`
	More    int      `json:"more,omitempty"`
	Records int      `json:"records"`
	Chains  []string `json:"chains"`
	Receipt string   `json:"receipt,omitempty"`
}

// Made is what came of a session's work.
type Made struct {
	Result *nacre.RunResult `json:"result,omitempty"`
	// Branches are those of commits that were made in the live files.
	Branches []Branch `json:"branches,omitempty"`
}

// Branch is one of them: the agent's Name of it, and the one it is On now.
type Branch struct {
	Name    string `json:"name"`
	On      string `json:"on"`
	Commits int    `json:"commits"`
}

// Source is who gave the session something to read.
type Source struct {
	From string `json:"from"`
	// Label is trusted or untrusted.
	Label string `json:"label"`
	Times int    `json:"times"`
	Bytes int64  `json:"bytes"`
}

// Count is something that happened so many times.
type Count struct {
	What  string `json:"what"`
	Why   string `json:"why,omitempty"`
	Times int    `json:"times"`
}

// Question is something that a person was asked.
type Question struct {
	What string `json:"what"`
	Why  string `json:"why,omitempty"`
	// Answer is allowed, denied, or how the question ended without an answer; empty while
	// it waits.
	Answer string `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
}

// Connection is a host that was reached.
type Connection struct {
	Host     string `json:"host"`
	Times    int    `json:"times"`
	Sent     int64  `json:"bytes_sent"`
	Received int64  `json:"bytes_received"`
}

// Spent is what the model cost.
type Spent struct {
	MicroUSD     int64 `json:"micro_usd"`
	ModelCalls   int64 `json:"model_calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// Of reads the page of a session.
func Of(inst *installation.Installation, id nacre.SessionID) (Page, error) {
	known, err := inst.Registry.Show(id)
	if err != nil {
		return Page{}, err
	}
	p := Page{
		SessionStatus: known.SessionStatus, Task: known.Title, Chains: known.Chains,
		Read: []Source{}, Calls: []Count{}, Asked: []Question{}, Denied: []Count{}, Reached: []Connection{},
	}
	dir := inst.Registry.Paths().Session(id)
	failed, checkErr := registry.FailedCheck(dir)
	result, resultErr := registry.Result(dir)
	p.FailedCheck, p.Result = failed, result
	if task := taskOf(dir); task != "" {
		p.Task = task
	}
	if !known.Live() {
		p.Receipt = Receipt(inst, id)
	}
	r := reader{page: &p, asked: map[string]int{}}
	readErr := receipt.ReadAudit(inst, id, func(e audit.Entry) error { r.add(e); return nil })
	_, cost, countErr := receipt.Count(inst, known.Chains)
	p.Spent = Spent{MicroUSD: cost.MicroUSD, ModelCalls: cost.ModelCalls, InputTokens: cost.InputTokens, OutputTokens: cost.OutputTokens}
	return p, errors.Join(checkErr, resultErr, readErr, countErr)
}

// Receipt is the file of a session's receipt; empty where it has none.
func Receipt(inst *installation.Installation, id nacre.SessionID) string {
	if path := inst.ReceiptPath(id); installation.IsThere(path) {
		return path
	}
	return ""
}

// taskOf is what a run was asked, whole; "" where that is not kept.
func taskOf(dir string) string {
	var spec struct {
		Task  string `json:"task"`
		Order *struct{ Body string }
	}
	data, err := os.ReadFile(filepath.Join(dir, registry.SpecFile))
	if err != nil || json.Unmarshal(data, &spec) != nil {
		return ""
	}
	if spec.Order != nil && spec.Order.Body != "" {
		return spec.Order.Body
	}
	return spec.Task
}

// reader turns records into a page.
type reader struct {
	page *Page
	// asked is where the latest question stands about what has a digest.
	asked map[string]int
}

// facts are the members of a record's detail that a page is made of.
type facts struct {
	Capability, Rule, By, Label, Host, Message, Digest, Credential, Folder string
	Port                                                                   int
	Shown                                                                  shown
	Sent                                                                   int64 `json:"bytes_sent"`
	Received                                                               int64 `json:"bytes_received"`
	Denied                                                                 bool
	// Repeated is how many more such records there were, which were counted alone.
	Repeated int
}

// shown is how much an agent saw of a result. The record of an answer has the digest of what a
// person saw in its place, which is of no use here.
type shown struct{ Bytes int64 }

// UnmarshalJSON implements json.Unmarshaler.
func (s *shown) UnmarshalJSON(data []byte) error {
	type members shown
	var m members
	if json.Unmarshal(data, &m) == nil {
		*s = shown(m)
	}
	return nil
}

func (r *reader) add(e audit.Entry) {
	r.page.Records++
	if r.page.Started.IsZero() { // of a session that was removed its records alone say when it was
		r.page.Started = e.Time
	}
	var d facts
	if len(e.Detail) > 0 && json.Unmarshal(e.Detail, &d) != nil {
		return // a detail of another form says nothing that a page has
	}
	tool := strings.TrimPrefix(e.Topic, "tool.invoke.")
	switch e.Kind {
	case nacre.KindCallBegin:
		r.count(&r.page.Calls, tool, "")
	case nacre.KindCallReject:
		r.counted(&r.page.Denied, tool, reasonOf(e, d), d.times())
	case nacre.KindMergeDone:
		var b Branch
		if json.Unmarshal(e.Detail, &b) == nil && b.On != "" && !r.full(len(r.page.Branches)) {
			r.page.Branches = append(r.page.Branches, b)
		}
	case nacre.KindCallEnd:
		if e.Outcome != nacre.OutcomeError {
			r.read(d.Capability, d.Label, d.Shown.Bytes)
		}
	case nacre.KindApprovalAsk:
		r.ask(d.Digest, question.Subject(d.Capability, d.Rule, d.Folder), e.Reason)
	case nacre.KindApprovalReply, nacre.KindApprovalClaim:
		r.answer(d.Digest, e.Outcome, d.By)
	case nacre.KindEgress:
		r.connect(e, d)
	case lease.Kind:
		r.count(&r.page.Leases, d.Credential, e.Outcome)
	case nacre.KindModelBegin:
		if e.Outcome == nacre.OutcomeDenied {
			r.count(&r.page.Denied, "a call to the model", e.Reason)
		}
	case nacre.KindGateRefuse:
		r.count(&r.page.Denied, e.Topic, "its role's gates refused it")
	case nacre.KindBrainEvent:
		if d.Denied {
			r.count(&r.page.Denied, e.Topic, "the agent's own program refused it")
		}
	default:
		if e.Kind == "tripwire" {
			r.count(&r.page.Alarms, e.Topic, e.Reason)
		}
	}
}

// reasonOf is why something was refused or asked, in the words that say most.
func reasonOf(e audit.Entry, d facts) string {
	for _, why := range []string{d.Message, d.Rule, e.Reason} {
		if why != "" {
			return why
		}
	}
	return ""
}

// full tells whether a part of the page takes no more, and counts what it does not take.
func (r *reader) full(have int) bool {
	if have >= maxEntries {
		r.page.More++
		return true
	}
	return false
}

func (r *reader) count(list *[]Count, what, why string) { r.counted(list, what, why, 1) }

// counted counts something that happened so many times.
func (r *reader) counted(list *[]Count, what, why string, times int) {
	for i, c := range *list {
		if c.What == what && c.Why == why {
			(*list)[i].Times += times
			return
		}
	}
	if !r.full(len(*list)) {
		*list = append(*list, Count{What: what, Why: why, Times: times})
	}
}

// times is how often what a record tells happened.
func (d facts) times() int { return max(d.Repeated, 1) }

func (r *reader) read(from, label string, bytes int64) {
	for i, s := range r.page.Read {
		if s.From == from && s.Label == label {
			r.page.Read[i].Times++
			r.page.Read[i].Bytes += bytes
			return
		}
	}
	if !r.full(len(r.page.Read)) {
		r.page.Read = append(r.page.Read, Source{From: from, Label: label, Times: 1, Bytes: bytes})
	}
}

func (r *reader) ask(digest, what, why string) {
	if !r.full(len(r.page.Asked)) {
		r.asked[digest] = len(r.page.Asked)
		r.page.Asked = append(r.page.Asked, Question{What: what, Why: why})
	}
}

// answer ends a question. What ended it first is what counts;
// who said so is added where it is known later.
func (r *reader) answer(digest, how, by string) {
	at, there := r.asked[digest]
	if !there {
		return
	}
	q := &r.page.Asked[at]
	if q.Answer == "" || how == nacre.OutcomeAllowed || how == nacre.OutcomeDenied {
		q.Answer = how
	}
	if by != "" {
		q.By = by
	}
}

func (r *reader) connect(e audit.Entry, d facts) {
	host := d.Host
	if d.Port != 0 {
		host += ":" + strconv.Itoa(d.Port)
	}
	switch e.Outcome {
	case nacre.OutcomeDenied:
		switch {
		case d.Repeated > 0:
			host = "hosts that are not named here"
		case host == "": // it was refused before anybody read where it was to go
			host = "a host that was not read"
		}
		r.counted(&r.page.Denied, "connect to "+host, e.Reason, d.times())
		return
	case nacre.OutcomeAllowed:
		r.reach(host, 1, 0, 0)
		return
	}
	r.reach(host, 0, d.Sent, d.Received)
	if d.Received > 0 {
		r.read(host, "untrusted", d.Received)
	}
}

func (r *reader) reach(host string, times int, sent, received int64) {
	for i, c := range r.page.Reached {
		if c.Host == host {
			r.page.Reached[i].Times += times
			r.page.Reached[i].Sent += sent
			r.page.Reached[i].Received += received
			return
		}
	}
	if !r.full(len(r.page.Reached)) {
		r.page.Reached = append(r.page.Reached, Connection{host, times, sent, received})
	}
}
