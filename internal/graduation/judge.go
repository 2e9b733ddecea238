package graduation

import (
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
)

// What it takes before a power is proposed (M-51).
const (
	// Successes is how many verified runs used it, Tasks of how many different tasks, and Span how far apart
	// the first and the last of them are.
	Successes = 5
	Tasks     = 3
	Span      = 7 * 24 * time.Hour
)

// State is where a power stands. The zero value is locked.
type State int

// The states.
const (
	Locked State = iota
	// Proposed waits for a person.
	Proposed
	// Unlocked was granted by a person, for a time.
	Unlocked
)

func (s State) String() string {
	switch s {
	case Proposed:
		return "proposed"
	case Unlocked:
		return "unlocked"
	case Locked:
	}
	return "locked"
}

// MarshalText is String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Standing is where a power stands, and on what evidence.
type Standing struct {
	State State `json:"state"`
	// Counted are the verified successes since the last failure, and Tasks how many different tasks they are of.
	Counted []ledger.Evidence `json:"counted"`
	Tasks   int               `json:"tasks"`
	// Until is when what was granted ends; zero where nothing is.
	Until time.Time `json:"until,omitzero"`
	// Left says of which evidence nothing was counted, and why.
	Left []Left `json:"left_out,omitempty"`
	// Missing says what it takes before the power is proposed, or why it is not; empty where it is.
	Missing []string `json:"missing,omitempty"`
}

// Left is evidence that does not count.
type Left struct {
	ledger.Evidence
	Why string `json:"why"`
}

// Judge says where a power stands at a moment. A verified success counts where sound finds the audit
// record that it stands on, the run had listened to no outsider, and the clock had not gone back before it.
// A failure always counts: it takes back what was granted, and what counted before it. While the clock
// is behind what is known already, nothing is granted and nothing proposed.
func Judge(evidence []ledger.Evidence, now time.Time, sound func(ledger.Evidence) error) Standing {
	s := Standing{Counted: []ledger.Evidence{}}
	var latest time.Time
	for _, e := range evidence {
		back := e.At.Before(latest)
		if !back {
			latest = e.At
		}
		switch e.What {
		case ledger.Held:
			if why := s.refuse(e, back, sound); why != "" {
				s.Left = append(s.Left, Left{e, why})
				continue
			}
			s.Counted = append(s.Counted, e)
		case ledger.Granted:
			s.Until = e.Until
			if back {
				s.Until = time.Time{}
			}
		default: // a failure, or a person who took it back: so does what is not known
			s.Counted, s.Until = []ledger.Evidence{}, time.Time{}
		}
	}
	s.settle(now, latest)
	return s
}

// refuse says why a success does not count; empty where it does.
func (s *Standing) refuse(e ledger.Evidence, back bool, sound func(ledger.Evidence) error) string {
	if back {
		return "the clock had gone back"
	}
	if e.Tainted {
		return "its run had listened to an outsider"
	}
	for _, counted := range s.Counted {
		if counted.DNA == e.DNA {
			return "its run counts already"
		}
	}
	if err := sound(e); err != nil {
		return err.Error()
	}
	return ""
}

func (s *Standing) settle(now, latest time.Time) {
	tasks := map[string]bool{}
	for _, e := range s.Counted {
		tasks[e.Task] = true
	}
	s.Tasks = len(tasks)
	if now.Before(latest) {
		s.Until = time.Time{}
		s.Missing = []string{fmt.Sprintf("the clock is before %s, which evidence is from", latest.Format(time.RFC3339))}
		return
	}
	if now.Before(s.Until) {
		s.State = Unlocked
		return
	}
	s.Until = time.Time{}
	if n := len(s.Counted); n < Successes {
		s.Missing = append(s.Missing, fmt.Sprintf("%d of %d verified successes", n, Successes))
	}
	if s.Tasks < Tasks {
		s.Missing = append(s.Missing, fmt.Sprintf("%d of %d different tasks", s.Tasks, Tasks))
	}
	if span := s.span(); span < Span {
		s.Missing = append(s.Missing, fmt.Sprintf("%d of %d days between the first and the last", int(span/(24*time.Hour)), int(Span/(24*time.Hour))))
	}
	if len(s.Missing) == 0 {
		s.State = Proposed
	}
}

// span is how far apart the first and the last success are.
func (s *Standing) span() time.Duration {
	if len(s.Counted) == 0 {
		return 0
	}
	return s.Counted[len(s.Counted)-1].At.Sub(s.Counted[0].At)
}
