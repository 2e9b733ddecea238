package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
)

// maxHosts is how many names the page has beside its address.
const maxHosts = 16

// Options are what the page stands on. All but Local and Hosts are required.
type Options struct {
	Desk    Desk
	Work    Work
	Records Records
	Facts   Facts
	Memory  Memory
	Learn   Learn
	Powers  Powers
	Rules   Rules
	// Passkeys are what persons sign in with beside the code.
	Passkeys Passkeys
	// Identity is whoever signs in with the code, at this face.
	Identity person.Identity
	// Host is where the page answers, as requests name it.
	Host string
	// Local are its other names, where nobody else can answer under them. The first is the one
	// that it is opened under.
	Local []string
	// Hosts are the names, each with the port unless that is 443, under which the operator's
	// own TLS brings browsers to the page. None is the default.
	Hosts []string
	Now   func() time.Time
}

func (o Options) check() error {
	if o.Desk == nil || o.Work == nil || o.Records == nil || o.Facts == nil || o.Memory == nil || o.Learn == nil || o.Powers == nil || o.Rules == nil ||
		o.Passkeys == nil || o.Now == nil || o.Host == "" || o.Identity.Face() != person.Web {
		return errors.New("a web page needs all that it shows, a clock, a host and an identity of its own face")
	}
	if len(o.Hosts) > maxHosts {
		return fmt.Errorf("[web] hosts has %d names: use at most %d", len(o.Hosts), maxHosts)
	}
	for _, host := range o.Hosts {
		if !isName(host) {
			return fmt.Errorf("[web] hosts: %.100q is not a host name: write it as a browser does, such as \"nacre.example.com\" or \"nacre.example.com:8443\"", host)
		}
	}
	return nil
}

// isName accepts a name of a host in lower case, with a port or without. An address is not
// one: a name is what stands in a certificate.
func isName(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0 || n == 443 || strconv.FormatUint(n, 10) != port) {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// origin is where forms of the page come from that is asked for under a name, and false
// where the page has no such name.
func (o Options) origin(host string) (origin string, ok bool) {
	if host == o.Host || slices.Contains(o.Local, host) {
		return "http://" + host, true
	}
	return "https://" + host, slices.Contains(o.Hosts, host)
}

// Passkeys are the keys with which persons sign in, and whose they are.
type Passkeys interface {
	// Keys are all that there are.
	Keys() ([]Passkey, error)
	// SignsIn tells whom a passkey signs in now, by name.
	SignsIn(id person.Identity) (name string, err error)
	// Use takes the counter of a sign-in, and refuses one that was there before.
	Use(ctx context.Context, id person.Identity, count uint32) error
	// Owners are those, by name, whom whoever is signed in may add a passkey for.
	Owners(ctx context.Context) ([]string, error)
	Add(ctx context.Context, owner string, key passkey.Key) error
	Remove(ctx context.Context, id person.Identity) error
}

// Passkey is a key that is kept; Owner is empty where it is nobody's.
type Passkey struct {
	passkey.Key
	Owner string
}

// Desk is where questions wait, and where a press is decided.
type Desk interface {
	Approvals(ctx context.Context) ([]nacre.Question, error)
	Answer(ctx context.Context, p nacre.Press) (nacre.Pressed, error)
	// Stop tells a live session to end what runs in it, where the person may.
	Stop(ctx context.Context, id nacre.SessionID, by person.Identity) error
	// Others is what waits for a person that this page cannot answer: with an error, what
	// can be read of it.
	Others(ctx context.Context) ([]Other, error)
	// Found is more of that, which is looked for in records: it may take long.
	Found(ctx context.Context) ([]Other, error)
	// Land does with work that did not land what the person says, where they may and have seen all
	// of it as it is.
	Land(ctx context.Context, l Landing) error
}

// Landing is what becomes of work that did not land.
type Landing struct {
	Session nacre.SessionID
	// Verb is one of the three below. Shown is the [Diff]'s.
	Verb, Shown string
}

// What a person says of such work.
const (
	LandAll  = "all"  // it lands, with the files that programs of the host obey
	LandRest = "rest" // it lands without those
	Discard  = "discard"
)

// Other is something that waits, and Next the command that shows it.
type Other struct {
	Kind, What, Next string
	Session          nacre.SessionID
	// Since is when it began to wait, where that is known, and Expires when its answer is no,
	// zero where it waits without an end.
	Since, Expires time.Time
}

// Work is which sessions there are. Its methods read no records.
type Work interface {
	// Live are those at work, the newest first: with an error, those that can be read.
	Live() ([]nacre.SessionStatus, error)
	// Over is a part of those that are over, the newest first: at most so many, from a place in the list
	// on. next is the place behind them, or 0 at the end.
	Over(from, most int) (page []nacre.SessionStatus, next int, err error)
	Session(id nacre.SessionID) (nacre.SessionStatus, error)
	// Cost is what the latest work cost in millionths of a dollar, where it left a result.
	Cost(id nacre.SessionID) (micro int64, known bool)
	// Stamp is another one as soon as Overview or Verify may say something else.
	Stamp(id nacre.SessionID) (string, error)
}

// Records are what is recorded of a session, and what it told.
type Records interface {
	Overview(id nacre.SessionID) (overview.Page, error)
	Verify(id nacre.SessionID) ([]audit.Report, error)
	// Receipt verifies the receipt of its latest work, where that has one; there tells so.
	Receipt(id nacre.SessionID) (there bool, err error)
	// Index reads what Find has to know of records, which takes long the first time. Find does that, too,
	// where it was not done.
	Index(ctx context.Context) error
	Find(ctx context.Context, q audit.Query) (page []audit.Found, next string, err error)
	// Steps are the newest that it told, in their order.
	Steps(id nacre.SessionID) []Step
	// Diff is its work that did not land.
	Diff(ctx context.Context, id nacre.SessionID) (Diff, error)
}

// Step is one thing that a session told. Text is an agent's.
type Step struct {
	Time time.Time
	Text string
}

// Diff is work that did not land, as its agent wrote it. Cut says that there is more.
type Diff struct {
	Text string
	Cut  bool
	// Shown names all of it; empty where it can only be looked at. Held are the files that programs
	// of the host obey, with the reason, and All says that there are no others.
	Shown string
	Held  []string
	All   bool
	// Looks are what a person has to look at: files that cannot land, and what was planted.
	Looks []string
}

// Facts are what else an installation has to tell.
type Facts interface {
	// Health is what was found of each part, which takes seconds.
	Health(ctx context.Context) []Finding
	Schedules(ctx context.Context) ([]Schedule, error)
	// Credentials holds no value.
	Credentials(ctx context.Context) []Credential
}

// Finding is what was found of one part. Status is "ok", "warn" (works, with less) or "fail".
type Finding struct{ Name, Status, Text, Fix string }

// Schedule is a task for later.
type Schedule struct {
	ID, When, Prompt, Group string
	Enabled                 bool
	Next                    time.Time
	Last                    string
}

// Credential says what a secret is for, and where it is kept.
type Credential struct {
	Name, Store, For, Groups string
	Since                    time.Time
}

// Memory is what agents have learned. Who may vouch for it is not the page's to say, here and
// in all that follows.
type Memory interface {
	Groups(ctx context.Context) ([]nacre.Group, error)
	// Memories are the latest entries of a group, at most so many: those that wait for a
	// review, or all.
	Memories(ctx context.Context, group nacre.Group, waiting bool, most int) ([]MemoryEntry, error)
	Trust(ctx context.Context, group nacre.Group, id string, trusted bool) error
	// Doomed is what goes with an entry that is forgotten. Nothing changes.
	Doomed(ctx context.Context, group nacre.Group, id string) (Doomed, error)
	// Forget erases it, where what goes still is what was told. With left all of it is gone,
	// and left says where traces stay for now.
	Forget(ctx context.Context, group nacre.Group, id, told string) (left string, err error)
}

// MemoryEntry is one thing that is remembered, in an agent's words.
type MemoryEntry struct {
	ID, Type, Content, Written string
	Session                    nacre.SessionID
	// Trusted says that a person vouches for it, Tainting that who recalls it has listened to
	// an outsider.
	Trusted, Tainting bool
}

// Doomed is what goes with an entry that is forgotten.
type Doomed struct {
	// Told names all of it.
	Told    string
	Entries []DoomedEntry
	// Restored are the entries that become current again.
	Restored []string
	// Besides is what else is kept of the sessions that wrote it or were shown it, and goes.
	Besides []string
	// Recalled is how many entries stay that were written by sessions that had been shown these.
	Recalled int
}

// DoomedEntry is an entry that goes, and why.
type DoomedEntry struct {
	MemoryEntry
	Why string
}

// Learn is what sessions were refused, as a person may approve it.
type Learn interface {
	// Proposal reads records, which takes long.
	Proposal(ctx context.Context) (Proposal, error)
	Approved(ctx context.Context) ([]Approval, error)
	Approve(ctx context.Context, c Choice) error
	Undo(ctx context.Context, id string) error
}

// Proposal is what could be approved. ID names exactly these lines.
type Proposal struct {
	ID    string
	Lines []ProposalLine
	// Left is what stays refused, and why.
	Left []string
}

// ProposalLine is one of them: Allows holds text that an agent asked for. Apart is why it is
// approved by itself alone, Wider a wider path that a person may choose.
type ProposalLine struct {
	Number, Times int
	Allows        string
	Apart, Wider  string
	Evidence      []string
}

// Choice is what a person approves of the proposal that they saw.
type Choice struct {
	Proposal     string
	Lines, Wider []int
	Days         int
}

// Approval is what was approved.
type Approval struct {
	ID, By string
	Allows []string
	Until  time.Time
}

// Powers are what runs may be let reach by what earlier runs have shown (M-51).
type Powers interface {
	Powers(ctx context.Context) ([]Power, error)
	Unlock(ctx context.Context, name string, days int) error
	Lock(ctx context.Context, name string) error
}

// Power is one of them. State is "locked", "proposed" or "unlocked".
type Power struct {
	Name, State string
	Hosts       []string
	Until       time.Time
	// Missing says what it takes before it is proposed, Counted on what evidence it stands.
	Missing []string
	Counted []string
}

// Rules are what decides in sessions that begin now.
type Rules interface {
	Policy(ctx context.Context) (Policy, error)
	// AcceptPolicy accepts the policy in force, where that is its version.
	AcceptPolicy(ctx context.Context, version string) error
	// Replay is what the policy in force would have decided otherwise than the accepted one on
	// all that was recorded: it may take long.
	Replay(ctx context.Context) (Replayed, error)
	Roles(ctx context.Context) ([]Role, error)
	Egress(ctx context.Context) (Egress, error)
}

// Policy is the one in force. Changes are how its rules differ from those of the one that a
// person accepted last; File is empty for the shipped one.
type Policy struct {
	File, Text, Version string
	Accepted            bool
	Changes             []string
}

// Replayed is what a policy would have decided on recorded calls. Undecidable are those of which the
// records keep too little; Changes says how decisions differ, in a line for each kind.
type Replayed struct {
	Calls, Same, Changed, Undecidable int
	Changes                           []string
}

// Role is what agents are held by.
type Role struct {
	Name, About           string
	Extends, Capabilities []string
	Denied                []string
	// Tools are the only ones; Limited says that there is such a limit.
	Tools   []string
	Limited bool
}

// Egress is what sessions may reach: all of them by the config and by what was approved, and
// one that is started with the name of a bundle.
type Egress struct {
	Open    []string
	Bundles []Bundle
}

// Bundle is a name for hosts.
type Bundle struct {
	Name, About string
	Hosts       []string
}
