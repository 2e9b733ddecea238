package braintest

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Actor is a program played by a function of the test.
type Actor struct {
	In     *io.PipeReader
	Out    *io.PipeWriter
	Err    *io.PipeWriter
	Killed chan struct{}
	// Released is closed when the conversation is over.
	Released chan struct{}

	traits         Traits
	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader
	kill           sync.Once
	exited         chan struct{}
	code           int
}

// Traits are how an actor meets its end.
type Traits struct {
	// Immortal actors do not end when killed.
	Immortal bool
	// Leave keeps an actor's pipes open when it has ended, as a child of its would.
	Leave bool
}

// Act starts an actor; play returns its exit code.
func Act(traits Traits, play func(a *Actor) int) *Actor {
	a := &Actor{traits: traits, Killed: make(chan struct{}), Released: make(chan struct{}), exited: make(chan struct{})}
	a.In, a.stdin = io.Pipe()
	a.stdout, a.Out = io.Pipe()
	a.stderr, a.Err = io.Pipe()
	go func() {
		code := play(a)
		if !traits.Immortal {
			select {
			case <-a.Killed:
				code = 137
			default:
			}
		}
		a.code = code
		if !traits.Leave {
			_ = errors.Join(a.Out.Close(), a.Err.Close(), a.In.Close()) // never fails
		}
		close(a.exited)
	}()
	return a
}

// Say writes lines and reports whether somebody read them.
func (a *Actor) Say(lines ...string) bool {
	for _, line := range lines {
		if _, err := io.WriteString(a.Out, line+"\n"); err != nil {
			return false
		}
	}
	return true
}

// Listening reads and forgets what the host says, until its end.
func (a *Actor) Listening() { go func() { _, _ = io.Copy(io.Discard, a.In) }() }

// Stdin is what the actor reads; with the methods below it makes an actor a process.
func (a *Actor) Stdin() io.WriteCloser { return a.stdin }

// Stdout is what the actor writes.
func (a *Actor) Stdout() io.Reader { return a.stdout }

// Stderr is what it complains about.
func (a *Actor) Stderr() io.Reader { return a.stderr }

// Wait waits for its end.
func (a *Actor) Wait() (int, error) {
	<-a.exited
	return a.code, nil
}

// Kill ends it, unless it is immortal.
func (a *Actor) Kill() error {
	a.kill.Do(func() {
		close(a.Killed)
		if !a.traits.Immortal && !a.traits.Leave {
			killed := errors.New("killed")
			a.Out.CloseWithError(io.EOF)
			a.Err.CloseWithError(io.EOF)
			a.In.CloseWithError(killed)
		}
	})
	return nil
}

// Acted runs the part of the suite in which the program is acted: no clock
// runs, and a goroutine left behind is a failure.
func Acted(t *testing.T, s Subject) {
	turn, _ := s.Turn(t, []brain.Choice{{Say: "end"}})
	for _, c := range plays(s.Wire) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				a := Act(c.traits, c.play)
				h := Listen(ctx, t, s.Brain, a, turn)
				h.Ends(t, c.kind, c.class)
				if c.also != nil {
					c.also(t, h)
				}
				release(a)
			})
		})
	}
}

// release ends an actor that outlived its conversation.
func release(a *Actor) {
	close(a.Released)
	_ = a.Kill() // it may have been killed already
	_ = errors.Join(a.Out.Close(), a.Err.Close(), a.In.Close(), a.stdout.Close(), a.stderr.Close())
}

type play struct {
	name   string
	play   func(a *Actor) int
	kind   brain.EventKind
	class  brain.Class
	also   func(t *testing.T, h Heard)
	traits Traits
}

func plays(w Wire) []play {
	return append(append(orderly(w), broken(w)...), stubborn(w)...)
}

func orderly(w Wire) []play {
	return []play{
		{name: "unknown events and garbage pass as raw", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(`{"type":"from_the_future","kind":"from_the_future","x":1}`, "plain words", "\x1b[2J\x1b]0;pwned\a", "\xff\xfe", "",
				`[1,2]`, `null`, `{"type":`, strings.Repeat("[", 20000), `{"type":7,"kind":7}`, w.Text("hello"), w.End("bye"))
			return 0
		}, also: func(t *testing.T, h Heard) {
			if n := len(h.Of(brain.Raw)); n < 8 {
				t.Errorf("%d raw events, want at least 8", n)
			}
			h.said(t, "hello")
		}},
		{name: "a second end changes nothing", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.End("bye"), w.End("bye"))
			return 0
		}},
		{name: "a call without a result gets one", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Call("one"), w.Call("two"), w.Result("two"), w.End("bye"))
			return 0
		}, also: func(t *testing.T, h Heard) {
			results := h.Of(brain.ToolResult)
			if len(results) != 2 || results[1].ID != "one" || !results[1].IsError {
				t.Errorf("results %+v, want a made-up error for one", results)
			}
		}},
		{name: "a result without a call, and a call twice, pass as raw", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Result("none"), w.Call("one"), w.Call("one"), w.Result("one"), w.Result("one"), w.End("bye"))
			return 0
		}, also: func(t *testing.T, h Heard) {
			if n := len(h.Of(brain.Raw)); n != 3 {
				t.Errorf("%d raw events, want 3", n)
			}
		}},
		{name: "a line of almost 64 MiB passes", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Text(strings.Repeat("x", brain.MaxLine-4096)), w.End("bye"))
			return 0
		}, also: func(t *testing.T, h Heard) {
			if texts := h.Of(brain.Text); len(texts) != 1 || len(texts[0].Text) != brain.MaxLine-4096 {
				t.Errorf("%d texts, want the long one whole", len(texts))
			}
		}},
		{name: "a brain that lingers after its turn is ended, and the turn counts", kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.End("bye"))
			<-a.Killed
			return 1
		}},
		{name: "a brain whose child holds its pipes has finished", traits: Traits{Leave: true}, kind: brain.Done, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.End("bye"))
			return 0
		}},
	}
}

func broken(w Wire) []play {
	return []play{
		{name: "a cut stream", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Call("one"))
			_, _ = io.WriteString(a.Out, w.End("bye")[:9]) // cut in the middle
			return 0
		}},
		{name: "nothing at all", kind: brain.Error, class: brain.ClassProtocol, play: func(*Actor) int { return 0 }},
		{name: "an exit code after the end", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.End("bye"))
			return 3
		}},
		{name: "a signal", kind: brain.Error, class: brain.ClassKilled, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Text("hello"))
			_, _ = io.WriteString(a.Err, strings.Repeat("noise\n", 100_000)+"last complaint\x1b[0m")
			return 139
		}, also: func(t *testing.T, h Heard) {
			if text := h.Last().Text; !strings.Contains(text, "last complaint") || len(text) > 4096 {
				t.Errorf("the end of what it complained about is missing or long: %d bytes", len(text))
			}
		}},
		{name: "a line over 64 MiB", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			chunk := strings.Repeat("x", 1<<20)
			for {
				if _, err := io.WriteString(a.Out, chunk); err != nil {
					return 1
				}
				select {
				case <-a.Killed:
					return 1
				default:
				}
			}
		}},
		{name: "a flood of garbage", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			for a.Say("garbage") {
				select {
				case <-a.Killed:
					return 1
				default:
				}
			}
			return 1
		}},
		{name: "a flood of calls that nobody answers", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			for i := 0; a.Say(w.Call("id" + strconv.Itoa(i))); i++ {
				select {
				case <-a.Killed:
					return 1
				default:
				}
			}
			return 1
		}},
		{name: "a call without an id", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Call(""))
			<-a.Killed
			return 1
		}},
	}
}

func stubborn(w Wire) []play {
	return []play{
		{name: "a brain that hangs", kind: brain.Error, class: brain.ClassKilled, play: func(a *Actor) int {
			a.Listening()
			a.Say(w.Call("one"))
			<-a.Killed
			return 1
		}, also: func(t *testing.T, h Heard) {
			if !errors.Is(h.Err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the deadline behind it", h.Err)
			}
		}},
		{name: "a brain that never reads", kind: brain.Error, class: brain.ClassKilled, play: func(a *Actor) int {
			<-a.Killed
			return 1
		}},
		{name: "a brain that closes its output and stays", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			_ = errors.Join(a.Out.Close(), a.Err.Close())
			<-a.Killed
			return 1
		}},
		{name: "a brain that closes all its pipes and stays", kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			_ = errors.Join(a.Out.Close(), a.Err.Close(), a.In.Close())
			<-a.Killed
			return 1
		}},
		{name: "a brain that exits while its child holds its pipes", traits: Traits{Leave: true}, kind: brain.Error, class: brain.ClassProtocol, play: func(a *Actor) int {
			a.Listening()
			return 0
		}},
		{name: "a brain that cannot be killed", traits: Traits{Immortal: true}, kind: brain.Error, class: brain.ClassKilled, play: func(a *Actor) int {
			a.Listening()
			<-a.Released
			return 0
		}},
	}
}
