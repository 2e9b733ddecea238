package workcmd

import (
	"crypto/rand"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// maxWaiting is how many notices wait for the end of an agent; all are in the audit.
const maxWaiting = 200

// screen is the person's terminal while a sealed program has it. Nothing of nacre's is
// written over a program that draws: a question is an overlay, and what else there is
// to tell waits for the end (U-10).
type screen struct {
	agent bool // an agent has it from its start to its end
	// word is the host's own, made for this session; empty where there is no terminal that
	// could show it over a program.
	word    string
	overlay *terminal.Overlay // nil where there is no such terminal
	notice  *terminal.Notice

	mu       sync.Mutex
	begun    bool
	waits    []func()
	outcomes map[string]string // of questions, by id
	notices  *terminal.Unheld  // nil before the first
	events   approval.Teller   // for the overlay, which a slow terminal may hold up
}

// is tells whether there is a terminal to draw on.
func (s *screen) is(env *command.Env) bool {
	return !env.JSON && terminal.Is(env.Stdin) && terminal.Is(env.Stdout)
}

// on makes the overlay in front of the program on a pseudo terminal. On a terminal that obeys no
// sequences it shows no questions: those are lines, which `nacre approvals` answers.
func (s *screen) on(env *command.Env, master *os.File) *terminal.Overlay {
	dumb := terminal.Dumb(env.Getenv)
	if !dumb {
		s.word = terminal.Word(func(b []byte) { _, _ = rand.Read(b) }) // never fails
	}
	overlay := terminal.NewOverlay(terminal.OverlayOptions{
		Out: env.Out(env.Stdout), Word: s.word, Style: terminal.Detect(true, env.Getenv), Dumb: dumb,
		Size:   func() (columns, rows int) { return sandbox.Size(env.Stdin) },
		Redraw: func() { sandbox.Redraw(env.Stdin, master) },
		Draws:  func() bool { return sandbox.Draws(master) }, Now: time.Now, Suspends: func() bool { return s.agent || sandbox.Alone(master) },
		Hear: func() []byte { return sandbox.Hear(env.Stdin) },
	})
	if s.is(env) && !dumb {
		s.overlay = overlay
	}
	return overlay
}

// unheld is where notices are written, which may be a terminal that somebody stops.
func (s *screen) unheld(stream *os.File) io.Writer {
	if !terminal.Is(stream) {
		return stream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notices == nil {
		s.notices = terminal.NewUnheld(stream)
	}
	return s.notices
}

// notice is for the person before a command's terminal; nil where the config is against it.
func notice(env *command.Env, rt *assembly.Runtime, before io.Writer) *terminal.Notice {
	if !assembly.Notifies(rt) {
		return nil
	}
	return terminal.NewNotice(env.Getenv, before, time.Now, func() bool { return assembly.Wanted(rt) })
}

// past writes to the person's terminal past a program that has it.
type past struct {
	*screen
	stream *os.File
}

// Write implements [io.Writer].
func (n past) Write(p []byte) (int, error) {
	n.mu.Lock()
	overlay, begun := n.overlay, n.begun
	n.mu.Unlock()
	if overlay == nil || !begun {
		return n.unheld(n.stream).Write(p)
	}
	sequence := string(p)
	n.events.Tell(func() { overlay.Tell(sequence) }) // a slow terminal holds up no notice
	return len(p), nil
}

// begins says that the program has the terminal.
func (s *screen) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

// drawn tells whether the program draws on the terminal now. It is called with mu held.
func (s *screen) drawn() bool {
	return s.begun && s.overlay != nil && (s.agent || s.overlay.Draws())
}

// ask puts a question in front of a program that draws, and is false where none does.
func (s *screen) ask(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drawn() {
		return false
	}
	s.events.Tell(func() { // where too much waits, it is answered with nacre approvals
		s.overlay.Ask(q, func(r nacre.Ruling) {
			r.By = command.Operator() + " in the overlay"
			pressed, err := answer(r)
			outcome := approval.Told(q, pressed, r)
			if err != nil {
				outcome = "not answered: " + err.Error()
			}
			s.note(q.ID, outcome)
		})
	})
	return true
}

// settled takes the question out of the overlay.
func (s *screen) settled(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overlay != nil {
		s.events.Follow(func() { s.overlay.Settled(id) })
	}
}

func (s *screen) note(id, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcomes == nil {
		s.outcomes = map[string]string{}
	}
	if len(s.outcomes) < maxWaiting {
		s.outcomes[id] = outcome
	}
}

// outcome is how a question ended. It is asked for when notices are told.
func (s *screen) outcome(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if outcome := s.outcomes[id]; outcome != "" {
		return outcome
	}
	return "not answered here"
}

// later tells now, or at the end where a program draws.
func (s *screen) later(tell func()) {
	s.mu.Lock()
	wait := s.drawn()
	if wait && len(s.waits) < maxWaiting {
		s.waits = append(s.waits, tell)
	}
	s.mu.Unlock()
	if !wait {
		tell()
	}
}

// tell tells what waited, once the program is gone.
func (s *screen) tell() {
	s.mu.Lock()
	waits := s.waits
	s.begun, s.waits = false, nil
	s.mu.Unlock()
	for _, tell := range waits {
		tell()
	}
}
