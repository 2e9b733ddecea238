package asking

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/session"
)

// Manner is how a person is asked. With its zero value a question waits
// for `nacre approvals` in another terminal until it expires.
type Manner struct {
	// Ask is told of each question and may answer it through answer, from any
	// goroutine. It must not block.
	Ask func(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error))
	// Settled, where set, is told of each question that waits no longer, whoever
	// answered it.
	Settled func(id string)
	// In and Out, where set, are a terminal that is asked y or n, and Columns how wide it
	// is. By is recorded as who answered there.
	In      io.Reader
	Out     io.Writer
	Columns func() int
	By      string
	// Watched says that a person sees each question at once: connections to hosts that
	// are not listed wait for the answer (U-11).
	Watched bool
	// Patience is how long a question waits where the config does not say; zero means 5
	// minutes.
	Patience time.Duration
	// Confirm, where set, is told before a run begins what will keep its work from landing.
	// With an error nothing begins.
	Confirm func(ctx context.Context, obstacles []string) error
}

// Questions are those of one session, on their way to whoever asked to be told.
type Questions struct {
	manner  Manner
	session *session.Session // nil until Follow
	typed   *approval.Queue  // for the terminal
	asked   sync.WaitGroup
	told    approval.Teller
}

// NewQuestions are asked in a manner.
func NewQuestions(m Manner) *Questions { return &Questions{manner: m, typed: approval.NewQueue()} }

// Follow says which session's they are, once it is open and before anything of it can ask.
func (w *Questions) Follow(s *session.Session) { w.session = s }

// Notify tells whoever asked to be told, and queues the question for the terminal. It waits
// for neither.
func (w *Questions) Notify(q nacre.Question) {
	if w.manner.In != nil {
		w.typed.Put(q)
	}
	told := w.manner.Ask == nil || w.told.Tell(func() {
		w.manner.Ask(q, func(ruling nacre.Ruling) (nacre.Pressed, error) {
			return w.session.Approvals.Press(approval.Here(q, ruling))
		})
	})
	settled := w.session.Approvals.Settled(q.ID)
	w.asked.Go(func() { // every question is settled with the session's end
		<-settled
		w.typed.Drop(q.ID)
		if told && w.manner.Settled != nil {
			w.told.Follow(func() { w.manner.Settled(q.ID) })
		}
	})
}

// AtTerminal asks a person at the terminal the session was started from, until it closes.
func (w *Questions) AtTerminal() {
	if w.manner.In == nil {
		return
	}
	ctx, lines := w.session.Context(), make(chan string)
	go func() { _ = approval.Lines(ctx, w.manner.In, lines) }() // ends with the next line typed, or the process
	terminal := approval.Terminal{Desk: w.session.Approvals, Lines: lines, Out: w.manner.Out, Columns: w.manner.Columns, By: w.manner.By}
	w.asked.Go(func() { _ = terminal.Run(ctx, w.typed) }) // a terminal that is gone leaves questions to others
}

// facePatience is how long a session that ends waits for the terminal that it was started from
// to take what it is told: one that nobody reads keeps no session.
const facePatience = 5 * time.Second

// Leave waits until all was told, when the session has closed, but not long.
func (w *Questions) Leave() {
	ended := make(chan struct{})
	go func() { // it goes on where the terminal is not read, which the process ends
		defer close(ended)
		w.asked.Wait()
	}()
	approval.Within(facePatience, ended)
	w.told.Told(facePatience)
}
