package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/question"
)

// Links lead from the policy that was in force over what was asked, spent, borrowed and sent
// to what was verified, landed and remembered. Each names the records that say so.
type Links struct {
	Policy      []Link `json:"policy"`
	Questions   []Link `json:"questions"`
	Calls       []Link `json:"calls"`
	Models      []Link `json:"models"`
	Credentials []Link `json:"credentials"`
	Sent        []Link `json:"sent"`
	Verified    []Link `json:"verified"`
	Landed      []Link `json:"landed"`
	Remembered  []Link `json:"remembered"`
}

// Link is one thing that happened, or several that are alike.
type Link struct {
	// What is a policy's version, a tool, a model, a credential, a host, a check or a branch.
	What    string `json:"what"`
	Outcome string `json:"outcome,omitempty"`
	By      string `json:"by,omitempty"`
	Why     string `json:"why,omitempty"`
	Times   int64  `json:"times"`
	// Sent and Received are bytes of connections; In and Out tokens, and MicroUSD the
	// price, of calls to a model.
	Sent     int64 `json:"bytes_sent,omitempty"`
	Received int64 `json:"bytes_received,omitempty"`
	In       int64 `json:"input_tokens,omitempty"`
	Out      int64 `json:"output_tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`
	// Tree is what was verified, or landed, by From and the Commit.
	Tree     string `json:"tree,omitempty"`
	Strength string `json:"strength,omitempty"`
	From     string `json:"from,omitempty"`
	Commit   string `json:"commit,omitempty"`
	// Records are the first of them and the last, as CHAIN#SEQ.
	Records []string `json:"records"`
}

// Groups are the links under the words that a person reads, in the order of the work.
func (l *Links) Groups() []Group {
	return []Group{
		{"Policy", l.Policy}, {"Questions", l.Questions}, {"Calls", l.Calls}, {"Models", l.Models}, {"Credentials", l.Credentials},
		{"Sent out", l.Sent}, {"Verified", l.Verified}, {"Landed", l.Landed}, {"Remembered", l.Remembered},
	}
}

// Group is one kind of links.
type Group struct {
	Name  string
	Links []Link
}

// detail are the members of a record's detail that links are made of.
type detail struct {
	Policy, Backend, Model, Credential string
	asked
	verified
	used
	Lessons lessons
}

// lessons are the entries that the host itself wrote at the end of a task. Where it told some, they are
// a list, which is of no use here.
type lessons struct {
	Failures, Prevents []string
	Fix                string
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *lessons) UnmarshalJSON(data []byte) error {
	type members lessons
	var m members
	if json.Unmarshal(data, &m) == nil {
		*l = lessons(m)
	}
	return nil
}

// named lists the entries.
func (l lessons) named() string {
	all := slices.Clone(l.Failures)
	if l.Fix != "" {
		all = append(all, l.Fix)
	}
	return strings.Join(all, " ")
}

// asked is what a person was asked, verified what was checked or landed, and used what went
// over the wire.
type (
	asked    struct{ Capability, Rule, Folder, By, Digest string }
	verified struct {
		Tree, Strength, Branch, From, To, Atom string

		Command string `json:"command_digest"`
	}
	used struct {
		Host     string
		Port     int
		Sent     int64 `json:"bytes_sent"`
		Received int64 `json:"bytes_received"`
		In       int64 `json:"input_tokens"`
		Out      int64 `json:"output_tokens"`
		MicroUSD int64 `json:"micro_usd"`
	}
)

// verified takes what came of a check.
func (t *told) verified(d detail, l Link) {
	if l.What = "check " + d.Command; d.Atom != "" {
		l.What = "atom " + d.Atom
	}
	l.Tree, l.Strength = d.Tree, d.Strength
	t.links.Verified = append(t.links.Verified, l)
	t.verdicts = append(t.verdicts, audit.ReceiptVerdict{Check: l.What, Passed: l.Outcome == "passed", Tree: d.Tree, Detail: d.Strength})
}

// add takes the next record of a chain.
func (t *told) add(chain string, e audit.Entry) error {
	if err := t.tally.Add(e); err != nil {
		return err
	}
	if t.first.IsZero() {
		t.first = e.Time
	}
	t.last = e.Time
	var d detail
	if len(e.Detail) > 0 && json.Unmarshal(e.Detail, &d) != nil {
		d = detail{} // a detail of another form links nothing
	}
	at := chain + "#" + strconv.FormatUint(e.Seq, 10)
	l := Link{Outcome: e.Outcome, By: d.By, Times: 1, Records: []string{at}}
	switch e.Kind {
	case nacre.KindSessionOpen:
		t.group = e.Group
		l.What = d.Policy
		join(&t.links.Policy, l)
	case nacre.KindSandboxStart:
		t.sandbox = d.Backend
	case nacre.KindSessionClose:
		t.outcome = e.Outcome
	case nacre.KindApprovalAsk:
		l.What, l.Why = question.Subject(d.Capability, d.Rule, d.Folder), e.Reason
		t.asked[d.Digest] = len(t.links.Questions)
		t.links.Questions = append(t.links.Questions, l)
	case nacre.KindApprovalReply, nacre.KindApprovalClaim:
		t.answer(d, e.Outcome, at)
	case nacre.KindCallBegin, nacre.KindCallReject:
		l.What = strings.TrimPrefix(e.Topic, "tool.invoke.")
		if l.Outcome == "" {
			l.Outcome = nacre.OutcomeAllowed
		}
		if e.Kind == nacre.KindCallReject {
			l.Outcome = nacre.OutcomeDenied
		}
		join(&t.links.Calls, l)
	case nacre.KindCallEnd:
		if remembers(d.Capability) && e.Outcome != nacre.OutcomeError {
			l.What, l.Outcome = strings.TrimPrefix(e.Topic, "tool.invoke."), "written"
			join(&t.links.Remembered, l)
		}
	case nacre.KindModelEnd:
		l.What, l.In, l.Out, l.MicroUSD = d.Model, d.In, d.Out, d.MicroUSD
		join(&t.links.Models, l)
	case lease.Kind:
		l.What = d.Credential
		join(&t.links.Credentials, l)
	case nacre.KindEgress:
		if l.What = d.Host; d.Port != 0 {
			l.What += ":" + strconv.Itoa(d.Port)
		}
		l.Sent, l.Received = d.Sent, d.Received
		if e.Outcome != nacre.OutcomeAllowed { // its end says what it came to
			join(&t.links.Sent, l)
		}
	case nacre.KindVerify:
		t.verified(d, l)
	case nacre.KindMergeDone:
		l.What, l.From, l.Commit, l.Tree = d.Branch, d.From, d.To, d.Tree
		t.links.Landed = append(t.links.Landed, l)
	case nacre.KindMemory:
		l.What, l.Why = e.Source, e.Reason
		if e.Outcome == "learned" {
			l.Why = d.Lessons.named()
		}
		join(&t.links.Remembered, l)
	default:
	}
	return nil
}

// remembers tells whether a call changes the group's memory.
func remembers(capability string) bool {
	return slices.Contains([]string{"memory.memory_store", "memory.memory_link", "memory.memory_delete"}, capability)
}

// answer ends the latest question about what has the digest.
func (t *told) answer(d detail, how, at string) {
	i, there := t.asked[d.Digest]
	if !there {
		return
	}
	q := &t.links.Questions[i]
	if q.Outcome == "" || how == nacre.OutcomeAllowed || how == nacre.OutcomeDenied {
		q.Outcome = how
	}
	if d.By != "" {
		q.By = d.By
	}
	q.Records = append(q.Records[:1], at)
}

// join adds a link to those that it is like, or as a new one.
func join(list *[]Link, l Link) {
	for i := range *list {
		have := &(*list)[i]
		if have.What != l.What || have.Outcome != l.Outcome || have.By != l.By || have.Why != l.Why {
			continue
		}
		have.Times++
		have.Sent += l.Sent
		have.Received += l.Received
		have.In += l.In
		have.Out += l.Out
		have.MicroUSD += l.MicroUSD
		have.Records = append(have.Records[:1], l.Records...)
		return
	}
	*list = append(*list, l)
}

// whole makes every group a list, which JSON has as [].
func (l *Links) whole() {
	for _, list := range []*[]Link{&l.Policy, &l.Questions, &l.Calls, &l.Models, &l.Credentials, &l.Sent, &l.Verified, &l.Landed, &l.Remembered} {
		if *list == nil {
			*list = []Link{}
		}
	}
}

// unverified is what landed without that a check held of it: a tree, or "".
func (l *Links) unverified() string {
	for _, landing := range l.Landed {
		held := slices.ContainsFunc(l.Verified, func(v Link) bool { return v.Tree == landing.Tree && v.Outcome == "passed" })
		if len(l.Verified) > 0 && !held {
			return fmt.Sprintf("%.12s", landing.Tree)
		}
	}
	return ""
}
