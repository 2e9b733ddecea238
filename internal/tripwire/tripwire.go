// Package tripwire promises a reaction to what a session does that ordinary work does not (M-58).
// It reacts to the use of a credential that is a decoy or not approved, and to a download that runs
// as a script. It reacts to a write to the configuration of ssh or of an agent, to a burst of
// refusals, and to an injection's fingerprints. It decides, from what it is told and nothing else.
// It reads no file, stops nothing and records nothing.
//
// A tripwire is no wall. What an agent says of its own tools is a claim, and a command can be
// written so that nobody reads it before it runs. What holds is the sandbox, the egress list and
// the door. A tripwire says that somebody tries, and ends it there.
package tripwire

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Wire is one kind of tripwire.
type Wire string

// The tripwires.
const (
	// DeniedEgress is a connection that the session's list refused.
	DeniedEgress Wire = "denied_egress"
	// Credential is a credential that was used without approval.
	Credential Wire = "credential_use"
	// PipeToShell is a download that a shell or an interpreter is given to run.
	PipeToShell Wire = "pipe_to_shell"
	// ConfigWrite is a write to the configuration of ssh, git's hooks or an agent.
	ConfigWrite Wire = "config_write"
	// Canary is the use of a decoy credential, which is good for nothing.
	Canary Wire = "canary"
	// Burst is more refusals in a minute than work makes by mistake.
	Burst Wire = "burst"
	// Injection is a text that gives orders to an agent which reads it.
	Injection Wire = "injection"
)

// Wires are all tripwires.
func Wires() []Wire {
	return []Wire{DeniedEgress, Credential, PipeToShell, ConfigWrite, Canary, Burst, Injection}
}

// Reaction is what follows. The zero value is the strictest.
type Reaction uint8

// The reactions.
const (
	// Contain ends the run: nothing of it runs on, reaches out or is granted.
	Contain Reaction = iota
	// Notify records it and tells the operator; the run goes on.
	Notify
	// Block does nothing beyond the refusal that there was.
	Block
)

var reactionNames = [...]string{"contain", "notify", "block"}

func (r Reaction) String() string {
	if int(r) < len(reactionNames) {
		return reactionNames[r]
	}
	return reactionNames[Contain]
}

// UnmarshalText accepts exactly "contain", "notify" or "block".
func (r *Reaction) UnmarshalText(text []byte) error {
	i := slices.Index(reactionNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("reaction %.40q: contain, notify or block", text)
	}
	*r = Reaction(i)
	return nil
}

// Reactions says what each tripwire does. What is missing contains.
type Reactions map[Wire]Reaction

// Default are the reactions of row M-58.
func Default() Reactions {
	return Reactions{
		DeniedEgress: Block, Credential: Contain, PipeToShell: Contain, ConfigWrite: Contain, Canary: Contain,
		Burst: Notify, Injection: Notify,
	}
}

const (
	// BurstDenials is how many refusals within BurstSpan are a burst.
	BurstDenials = 30
	// BurstSpan is one minute.
	BurstSpan = time.Minute
	// burstGrowth is how much a burst has grown when it is told of again.
	burstGrowth = 10
	// maxTold is how many different alarms of one tripwire a session is told of.
	maxTold = 128
)

// Alarm is a tripwire that was touched.
type Alarm struct {
	Wire     Wire
	Reaction Reaction
	// What says what happened, in words of ours and names; no secret's value.
	What string
}

// Watch follows one session. It is safe for concurrent use.
type Watch struct {
	reactions Reactions

	mu      sync.Mutex
	denials [BurstDenials]time.Time // a ring
	next    int
	// burst counts the refusals of the burst that goes on, and tellAt is how many
	// of them are told of next.
	burst, tellAt int
	// told holds what each tripwire has told.
	told map[Wire]map[string]bool
	// fetched are the files that commands downloaded: a later one may run them.
	fetched map[string]bool
}

// New makes a watch of a session that has done nothing yet.
func New(reactions Reactions) *Watch {
	return &Watch{reactions: reactions, told: map[Wire]map[string]bool{}, fetched: map[string]bool{}}
}

// Refused is told of each connection that was refused, and when. A burst is told
// once and then counted: again when it has grown tenfold, and none is told of
// more often than that until refusals have become few.
func (w *Watch) Refused(now time.Time, host string) []Alarm {
	w.mu.Lock()
	count := w.bursts(now)
	w.mu.Unlock()
	alarms := w.once(DeniedEgress, host, "egress to "+host+" was refused")
	switch {
	case count > BurstDenials:
		alarms = append(alarms, Alarm{Burst, w.reaction(Burst), fmt.Sprintf("%d refusals in a burst that goes on, the last of %s", count, host)})
	case count > 0:
		alarms = append(alarms, Alarm{Burst, w.reaction(Burst), fmt.Sprintf("%d refusals within a minute, the last of %s", count, host)})
	}
	return alarms
}

// bursts counts a refusal, and says of how many in a burst is to be told now, or 0.
func (w *Watch) bursts(now time.Time) int {
	oldest := w.denials[w.next]
	w.denials[w.next] = now
	w.next = (w.next + 1) % BurstDenials
	if oldest.IsZero() || now.Sub(oldest) >= BurstSpan {
		w.burst, w.tellAt = 0, 0
		return 0
	}
	if w.burst == 0 {
		w.burst, w.tellAt = BurstDenials-1, BurstDenials
	}
	if w.burst++; w.burst < w.tellAt {
		return 0
	}
	w.tellAt *= burstGrowth
	return w.burst
}

// Unleased is told that a session tried to use a host's credential for what the
// operator has not leased it for, and was refused. More cannot happen: a
// credential is added by the proxy, after it has decided. So it is told.
func (w *Watch) Unleased(host string) []Alarm {
	return w.atMost(Notify, Credential, host, "the credential for "+host+" was wanted for what it is not leased for")
}

// Place is where a decoy was seen.
type Place string

// The places.
const (
	InEgress Place = "a connection"
	InCall   Place = "a tool call"
	InModel  Place = "a request to the model"
	InMerge  Place = "a file of the result"
)

// Seen is told of a decoy that turned up. A variable of the environment that
// the model is shown is no use of it: `env` prints it, and it goes nowhere else.
func (w *Watch) Seen(d Decoy, where Place) []Alarm {
	most := Contain
	if d.Shown && where == InModel {
		most = Notify
	}
	return w.atMost(most, Canary, d.Name+string(where), "the decoy credential "+d.Name+" is in "+string(where))
}

func (w *Watch) reaction(wire Wire) Reaction { return min(w.reactions[wire], Block) }

// once gives an alarm the first time that it is raised for one thing. One that
// contains is given each time.
func (w *Watch) once(wire Wire, key, what string) []Alarm { return w.atMost(Contain, wire, key, what) }

// atMost is once for what calls for no more than a reaction. When a tripwire has
// told of as much as it may, the last alarm says that there is more.
func (w *Watch) atMost(most Reaction, wire Wire, key, what string) []Alarm {
	alarm := Alarm{wire, max(w.reaction(wire), most), what}
	w.mu.Lock()
	defer w.mu.Unlock()
	if alarm.Reaction == Contain {
		return []Alarm{alarm}
	}
	told := w.told[wire]
	if told == nil {
		told = map[string]bool{}
		w.told[wire] = told
	}
	if told[key] || len(told) > maxTold {
		return nil
	}
	if told[key] = true; len(told) > maxTold {
		alarm.What = fmt.Sprintf("%s was touched for %d reasons; further ones are not told", wire, maxTold)
	}
	return []Alarm{alarm}
}
