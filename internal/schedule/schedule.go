package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
)

// Limits.
const (
	// MaxPrompt is the longest prompt, in bytes.
	MaxPrompt = 8192
	// MaxSchedules is how many one group can have, MaxAgents how many of them its
	// agents can have made.
	MaxSchedules = 100
	MaxAgents    = 10
	// MaxGate is the longest script's command line, in bytes, all words together.
	MaxGate = 4096
	// Grace is how late a tick may be and not count as missed.
	Grace = 5 * time.Minute
	// keptTicks is how many ticks of a schedule are remembered.
	keptTicks = 100
	// maxBegun is how often a tick is started, if its process dies while it runs.
	maxBegun = 2
	// maxOutcome is how much of an outcome is kept, in bytes.
	maxOutcome = 1024
)

// Errors of what is asked.
var (
	ErrInvalid  = errors.New("schedule not valid")
	ErrLimit    = errors.New("too many schedules")
	ErrNotFound = errors.New("no such schedule")
	// ErrLost says that a tick is not this process's any more.
	ErrLost = errors.New("the tick was taken over, or its schedule removed")
)

// SessionPolicy says which conversation a tick's session goes on with (D-36).
type SessionPolicy string

// The policies: a session that knows nothing of the ticks before, or one that
// goes on from them.
const (
	Fresh  SessionPolicy = "fresh"
	Resume SessionPolicy = "resume"
)

// Operator is who made a schedule that no session made.
const Operator = "operator"

// Schedule is a task for later.
type Schedule struct {
	ID    string        `json:"id"`
	Group nacre.Group   `json:"group"`
	Kind  calendar.Kind `json:"kind"`
	// Value is the expression, the interval or the moment.
	Value string `json:"value"`
	// Zone is the IANA name of the time zone.
	Zone   string `json:"zone"`
	Prompt string `json:"prompt"`
	// Gate is a command that says whether there is something to do; nil for none.
	Gate    []string        `json:"gate,omitempty"`
	Missed  calendar.Policy `json:"missed"`
	Session SessionPolicy   `json:"session"`
	Enabled bool            `json:"enabled"`
	// CreatedBy is [Operator] or the session that made it.
	CreatedBy string `json:"created_by"`
	// Label is the trust of the prompt: that of who made the schedule (M-52).
	Label   nacre.Label `json:"label"`
	Created time.Time   `json:"created"`

	reckoning reckoning
}

// reckoning is how far a schedule's ticks are dealt with, in seconds since 1970 (see schema.go).
type reckoning struct{ handled, due, forgotten int64 }

// Draft is what a new schedule is made of.
type Draft struct {
	Group   nacre.Group
	Kind    calendar.Kind
	Value   string
	Zone    string // empty means UTC
	Prompt  string
	Gate    []string
	Missed  calendar.Policy // empty means run-once
	Session SessionPolicy   // empty means fresh
	// By is [Operator] or the session that asks.
	By    string
	Label nacre.Label
}

// ByAgent tells whether a session made it.
func (s Schedule) ByAgent() bool { return s.CreatedBy != Operator }

// Source says whose words the prompt is (K-26): the operator's, or those of an
// agent, as far as that one could be trusted when it made the schedule.
func (s Schedule) Source() nacre.Source {
	source := nacre.Source{Provenance: nacre.SeenUntrusted, Name: "schedule " + s.ID + ", made by session " + s.CreatedBy}
	switch {
	case !s.ByAgent():
		source = nacre.Source{Provenance: nacre.SeenOperator, Name: "schedule " + s.ID}
	case s.Label == nacre.Trusted:
		source.Provenance = nacre.SeenTrusted
	}
	return source
}

// Payload is that of the events task.created and task.triggered.
func (s Schedule) Payload() (json.RawMessage, error) {
	type when struct {
		Type  calendar.Kind `json:"type"`
		Value string        `json:"value"`
		Zone  string        `json:"zone"`
	}
	return json.Marshal(struct {
		TaskID   string `json:"task_id"`
		Prompt   string `json:"prompt"`
		Schedule when   `json:"schedule"`
	}{s.ID, s.Prompt, when{s.Kind, s.Value, s.Zone}})
}

func (s Schedule) spec() (calendar.Spec, error) {
	return calendar.Parse(s.Kind, s.Value, s.Zone, s.Created)
}

// State is how far a tick is.
type State string

// The states. A tick that is waiting is there for any process to claim.
const (
	Waiting     State = "waiting"
	Claimed     State = "claimed"
	Started     State = "started"
	Done        State = "done"
	Failed      State = "failed"
	NothingToDo State = "nothing-to-do"
	Skipped     State = "skipped"
	Interrupted State = "interrupted"
)

// Tick is one time at which a schedule is due, and what came of it.
type Tick struct {
	Schedule string    `json:"schedule"`
	At       time.Time `json:"at"`
	// Extra marks a tick that a person asked for beside those of the calendar.
	Extra bool  `json:"extra,omitempty"`
	State State `json:"state"`
	// Begun is how often it was started: twice at most, the second time because the
	// first was interrupted.
	Begun int `json:"begun,omitempty"`
	// Session is that of the tick, whether it was opened or not: [SessionID].
	Session nacre.SessionID `json:"session"`
	Outcome string          `json:"outcome,omitempty"`
	// Changed is when the state was reached.
	Changed time.Time `json:"changed"`
}

// Claim is a tick that this process, and no other, may start.
type Claim struct {
	Tick
	Task Schedule
}

// SessionID is the session of a tick: the same for the same tick, in whichever
// process, so that what was begun can be found again.
func SessionID(schedule string, at time.Time, extra bool) nacre.SessionID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%t", schedule, at.Unix(), extra))
	return nacre.SessionID("s-" + hex.EncodeToString(sum[:6]))
}

// made checks a draft and makes a schedule of it.
func made(d Draft, id string, now time.Time) (Schedule, error) {
	s := Schedule{
		ID: id, Group: d.Group, Kind: d.Kind, Zone: d.Zone, Prompt: d.Prompt, Gate: d.Gate, Session: d.Session, Enabled: true,
		CreatedBy: d.By, Label: d.Label, Created: now.UTC().Truncate(time.Second),
	}
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	if s.Session == "" {
		s.Session = Fresh
	}
	var err error
	if s.Missed, err = calendar.ParsePolicy(string(d.Missed)); err != nil {
		return s, invalid("%w", err)
	}
	if err := s.check(); err != nil {
		return s, err
	}
	spec, err := calendar.Parse(s.Kind, d.Value, s.Zone, s.Created)
	if err != nil {
		return s, invalid("%w", err)
	}
	s.Value, s.reckoning.handled = spec.Value(), s.Created.Unix()
	if s.reckoning.due = moment(spec.Next(s.Created)); s.reckoning.due == 0 {
		return s, invalid("%w", calendar.ErrNever)
	}
	return s, nil
}

func (s Schedule) check() error {
	if _, err := nacre.ParseGroup(string(s.Group)); err != nil {
		return invalid("%w", err)
	}
	size := 0
	for _, word := range s.Gate {
		size += len(word)
	}
	switch {
	case strings.TrimSpace(s.Prompt) == "":
		return invalid("the prompt is empty: say what is to be done")
	case len(s.Prompt) > MaxPrompt:
		return invalid("the prompt has %d bytes: at most %d", len(s.Prompt), MaxPrompt)
	case !utf8.ValidString(s.Prompt) || strings.ContainsRune(s.Prompt, 0):
		return invalid("the prompt is no text")
	case s.Session != Fresh && s.Session != Resume:
		return invalid("session policy %.40q: use fresh or resume", string(s.Session))
	case size > MaxGate:
		return invalid("the gate's command has %d bytes: at most %d", size, MaxGate)
	case len(s.Gate) > 0 && s.Gate[0] == "" || strings.ContainsRune(strings.Join(s.Gate, ""), 0):
		return invalid("the gate's command names no program")
	case s.CreatedBy == Operator:
		return nil
	case len(s.Gate) > 0:
		return invalid("an agent's schedule has no gate: only the operator can give it one")
	}
	if _, err := nacre.ParseSessionID(s.CreatedBy); err != nil {
		return invalid("%w", err)
	}
	return nil
}

func invalid(format string, values ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, values...))
}

// moment is a time that may be absent, 0 for none.
func moment(t time.Time, ok bool) int64 {
	if !ok || t.IsZero() {
		return 0
	}
	return t.Unix()
}
