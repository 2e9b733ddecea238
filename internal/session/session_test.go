package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is where sessions live.
type house struct {
	registry *registry.Registry
	keys     audit.Keys
	init     string
}

func newHouse(t *testing.T) house {
	t.Helper()
	home := t.TempDir()
	runtime, err := os.MkdirTemp("", "ns") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) }) // the system's temporary folder is emptied anyway
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": runtime}
	paths, err := registry.ResolvePaths(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.LoadKeys(paths.Keys())
	if err != nil {
		t.Fatal(err)
	}
	return house{registry.New(paths), keys, testpeer.Program(t, sandbox.Init)}
}

func (h house) options() session.Options {
	return session.Options{
		Directory: func() (person.Directory, error) { return person.Directory{Owner: strconv.Itoa(os.Geteuid())}, nil },
		Registry:  h.registry, Keys: h.keys, Now: time.Now, EndOrphans: sandbox.EndOrphans,
		Sandbox: func(dir string) (sandbox.Backend, error) {
			return sandbox.Open(sandbox.Options{Init: h.init, StateDir: dir})
		},
		Session: registry.Session{SessionStatus: nacre.SessionStatus{
			ID: "s1", Group: "g1", Kind: "run", State: nacre.SessionRunning, Started: time.Now(),
		}},
	}
}

func (h house) open(t *testing.T) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), h.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h house) show(t *testing.T) registry.Session {
	t.Helper()
	s, err := h.registry.Show("s1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *session.Session, finished bool) {
	t.Helper()
	if err := s.Close(t.Context(), "ended", finished); err != nil {
		t.Fatal(err)
	}
}

// F-105: whenever nacre is killed after a session was named, the audit's index is there:
// one that is missing was removed.
func TestTheAuditBeginsBeforeASessionIsNamed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	o := h.options()
	o.EndOrphans = func(string) ([]string, error) { return nil, errors.New("killed here") }
	if _, err := session.Open(t.Context(), o); err == nil {
		t.Fatal("it opened")
	}
	h.verify(t)
	closed(t, h.open(t), true)
	h.verify(t)
}

// sleeper starts a sealed command that ends by force only.
func sleeper(t *testing.T, s *session.Session) sandbox.Process {
	t.Helper()
	p, err := posture.Compute(posture.Input{Offline: true, System: sandbox.SystemMounts()})
	if err != nil {
		t.Fatal(err)
	}
	process, err := s.Start(t.Context(), sandbox.Command{Posture: p, Argv: []string{"/bin/sh", "-c", "trap '' TERM INT; sleep 1000 & wait; wait"}})
	if err != nil {
		t.Fatal(err)
	}
	return process
}

func (h house) verify(t *testing.T) {
	t.Helper()
	if _, err := audit.VerifyAll(h.registry.Paths().Audit(), audit.VerifyOptions{PublicKey: h.keys.Public(), MACKey: h.keys.MAC()}); err != nil {
		t.Fatal(err)
	}
}

// echo is what a test serves on a socket.
func echo(ctx context.Context, listener *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil // the session has ended
		}
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}
}

// After Close nothing of the session runs or lies about; goleak sees to goroutines.
func TestCloseLeavesNothing(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	if err := s.Listen(nacre.DoorSocket, echo); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", filepath.Join(s.SocketDir(), nacre.DoorSocket))
	if err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello" {
		t.Fatalf("have %q %v", said, err)
	}
	_ = conn.Close()
	process := sleeper(t, s)
	room := h.show(t).Sockets
	if info, err := os.Stat(filepath.Join(room, "control.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the control socket: %v %v", info, err)
	}
	closed(t, s, true)
	if exit, err := process.Wait(); err != nil || !exit.Killed {
		t.Errorf("have %+v %v", exit, err)
	}
	if _, err := os.Stat(room); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the sockets are still there: %v", err)
	}
	if _, err := s.Start(t.Context(), sandbox.Command{}); !errors.Is(err, session.ErrStopped) {
		t.Errorf("have %v", err)
	}
	have := h.show(t)
	if have.State != nacre.SessionDone || have.Work != "" || have.Chain != "" || have.Resumable {
		t.Errorf("have %+v", have)
	}
	if left, err := h.registry.Unsettled(); err != nil || len(left) != 0 {
		t.Errorf("have %v %v", left, err)
	}
	h.verify(t)
}

// M-16: stop from another process ends what runs. (How fast: BenchmarkStop of cmd/nacre.)
func TestStopThroughTheControlSocket(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	process := sleeper(t, s)
	remote, err := session.Dial(h.show(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := process.Wait(); err != nil || !exit.Killed {
		t.Errorf("have %+v %v", exit, err)
	}
	if cause := context.Cause(s.Context()); !errors.Is(cause, session.ErrStopped) {
		t.Errorf("have %v", cause)
	}
	closed(t, s, false)
	if have := h.show(t); have.State != nacre.SessionStopped || !have.Resumable {
		t.Errorf("have %+v", have)
	}
	if _, err := session.Dial(h.show(t)); err == nil {
		t.Error("a session that ended was dialled")
	}
}

// M-16: whoever stops a session is answered however long its sandbox takes to end.
func TestAStopIsAnsweredBeforeItsProcessesHaveEnded(t *testing.T) {
	h, release := newHouse(t), make(chan struct{})
	o := h.options()
	native := o.Sandbox
	o.Sandbox = func(dir string) (sandbox.Backend, error) {
		b, err := native(dir)
		return slowToEnd{b, release}, err
	}
	s, err := session.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	process := sleeper(t, s)
	remote, err := session.Dial(h.show(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Stop(t.Context()); err != nil {
		t.Errorf("have %v", err)
	}
	close(release)
	if _, err := process.Wait(); err != nil {
		t.Error(err)
	}
	closed(t, s, false)
}

// slowToEnd is a backend whose sandboxes end no earlier than they may.
type slowToEnd struct {
	sandbox.Backend
	release <-chan struct{}
}

func (b slowToEnd) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := b.Backend.Start(context.WithoutCancel(ctx), c) // which would end it at once
	return slowProcess{p, b.release}, err
}

type slowProcess struct {
	sandbox.Process
	release <-chan struct{}
}

func (p slowProcess) Kill() error {
	<-p.release
	return p.Process.Kill()
}

func TestQuestionsThroughTheControlSocket(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	remote, err := session.Dial(h.show(t))
	if err != nil {
		t.Fatal(err)
	}
	ruled := make(chan nacre.Ruling, 1)
	go func() {
		ruling, _ := s.Approvals.Ask(t.Context(), nacre.Question{Capability: "a.b", Digest: "d"}) // its zero value denies
		ruled <- ruling
	}()
	var questions []nacre.Question
	for len(questions) == 0 {
		if questions, err = remote.Approvals(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	press := func(q nacre.Question, r nacre.Ruling) error {
		r.By = "ada"
		_, err := remote.Press(t.Context(), approval.Here(q, r))
		return err
	}
	for name, c := range map[string]struct {
		press nacre.Press
		want  error
	}{
		"an unknown question":  {approval.Here(nacre.Question{ID: "nope"}, nacre.Ruling{Verdict: nacre.Allow, By: "ada"}), approval.ErrUnknown},
		"no answer":            {approval.Here(questions[0], nacre.Ruling{Verdict: nacre.Ask, By: "ada"}), approval.ErrAnswer},
		"a stranger in a chat": {nacre.Press{ID: questions[0].ID, Identity: "telegram:1", Ruling: nacre.Ruling{Verdict: nacre.Allow, By: "chat"}}, person.ErrStranger},
		"another card":         {nacre.Press{ID: questions[0].ID, Identity: string(person.OfUser(os.Geteuid())), Shown: "x", Ruling: nacre.Ruling{Verdict: nacre.Allow, By: "ada"}}, approval.ErrShown},
	} {
		if _, err := remote.Press(t.Context(), c.press); !errors.Is(err, c.want) {
			t.Errorf("%s: have %v, want %v", name, err, c.want)
		}
	}
	forged := approval.Here(questions[0], nacre.Ruling{Verdict: nacre.Allow, By: "ada"})
	forged.Identity = string(person.OfUser(os.Geteuid() + 1))
	if _, err := remote.Press(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "cannot answer as") {
		t.Errorf("another user's terminal: have %v", err)
	}
	if err := press(questions[0], nacre.Ruling{Verdict: nacre.Allow}); err != nil {
		t.Fatal(err)
	}
	if have := <-ruled; have.Verdict != nacre.Allow || have.By != "ada" || have.Digest != "d" {
		t.Errorf("have %+v", have)
	}
	closed(t, s, true)
}

// K-21: a chain that cannot be written ends the session, since nothing may happen any more.
// However large the questions are that an agent has asked, all that wait are seen.
func TestLargeQuestionsAreSeenThroughTheControlSocket(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.open(t)
	arguments := []byte(`{"text":"` + strings.Repeat("&", 900<<10) + `"}`)
	var asked []string
	for {
		id, err := s.Approvals.Propose(t.Context(), nacre.Question{Capability: "notes.add", Arguments: arguments, Digest: "d"}, func(nacre.Question, nacre.Ruling, error) {})
		if errors.Is(err, approval.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, id)
	}
	remote, err := session.Dial(h.show(t))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := remote.Approvals(t.Context())
	for range 9 { // megabytes under the race detector may take a busy machine longer than a person waits
		if err == nil {
			break
		}
		seen, err = remote.Approvals(t.Context())
	}
	if err != nil || len(seen) != len(asked) || len(asked) == 0 {
		t.Errorf("%d of %d questions are seen: %v", len(seen), len(asked), err)
	}
	closed(t, s, true)
}

func TestAChainThatCannotBeWrittenStopsTheSession(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	process := sleeper(t, s)
	err := s.Recorder.Commit(t.Context(), nacre.Record{Kind: "test", Detail: []byte(`{"float":1.5}`)})
	if err == nil {
		t.Fatal("a record that is malformed was written")
	}
	if exit, err := process.Wait(); err != nil || !exit.Killed {
		t.Errorf("have %+v %v", exit, err)
	}
	if failure := s.Failure(); failure == nil || !strings.Contains(failure.Error(), "nothing may happen") {
		t.Errorf("have %v", failure)
	}
	closed(t, s, false)
	h.verify(t)
}

func TestASocketThatFailsStopsTheSession(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	broken := errors.New("broken")
	if err := s.Listen(nacre.DoorSocket, func(context.Context, *net.UnixListener) error { return broken }); err != nil {
		t.Fatal(err)
	}
	<-s.Context().Done()
	if !errors.Is(s.Failure(), broken) {
		t.Errorf("have %v", s.Failure())
	}
	closed(t, s, false)
}

// What cannot be opened is closed again, and loses neither work nor chain.
func TestAnOpeningThatFailsLosesNothing(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	work := s.Work()
	closed(t, s, false)
	o := h.options()
	o.Sandbox = func(string) (sandbox.Backend, error) { return nil, errors.New("no sandbox") }
	if _, err := session.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no sandbox") {
		t.Fatalf("have %v", err)
	}
	if have := h.show(t); have.Work != work || !have.Resumable || have.Live() {
		t.Fatalf("have %+v", have)
	}
	s = h.open(t)
	if !s.Resumed() || s.Work() != work || len(s.Chains()) != 2 {
		t.Errorf("have %v %s %v", s.Resumed(), s.Work(), s.Chains())
	}
	closed(t, s, true)
	if s = h.open(t); s.Resumed() || s.Work() == work {
		t.Errorf("finished work goes on: %s", s.Work())
	}
	closed(t, s, true)
	h.verify(t)
}

// A session without a sandbox names no chain that never was, and keeps those that were.
func TestASessionThatIsNotOpenedNamesNoChain(t *testing.T) {
	h := newHouse(t)
	o := h.options()
	o.Sandbox = func(string) (sandbox.Backend, error) { return nil, errors.New("no sandbox") }
	for _, want := range [][]string{nil, {"s1.1"}} {
		if _, err := session.Open(t.Context(), o); err == nil {
			t.Fatal("it was opened")
		}
		if have := h.show(t); have.Chain != "" || !slices.Equal(have.Chains, want) {
			t.Errorf("have %q %v, want %v", have.Chain, have.Chains, want)
		}
		if want == nil {
			closed(t, h.open(t), true)
		}
	}
	h.verify(t)
}

// M-16: what a dead process left is ended by the next start of any session.
func TestSettleEndsWhatADeadProcessLeft(t *testing.T) {
	h := newHouse(t)
	s := h.open(t)
	if err := session.Settle(t.Context(), h.options(), "s1", nil); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("a live session was settled: %v", err)
	}
	closed(t, s, false)
	// As a process leaves it that is killed: open in the registry, its chain not closed.
	left := h.registry.Paths().Audit()
	chain, err := audit.Open(t.Context(), audit.Options{Root: left, Chain: "s1.9", Keys: h.keys, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	held, err := h.registry.Adopt("s1")
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Update(func(s *registry.Session) { s.State, s.Chain = nacre.SessionRunning, "s1.9" }); err != nil {
		t.Fatal(err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	fail := func(registry.Session, string) error { return broken }
	if err := session.Settle(t.Context(), h.options(), "s1", fail); err == nil {
		t.Fatal("a chain that is being written was sealed")
	}
	if err := chain.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := session.Settle(t.Context(), h.options(), "s1", fail); !errors.Is(err, broken) {
		t.Fatalf("have %v", err)
	}
	if ids, err := h.registry.Unsettled(); err != nil || len(ids) != 1 {
		t.Fatalf("what failed is not tried again: %v %v", ids, err)
	}
	if err := session.Settle(t.Context(), h.options(), "s1", func(registry.Session, string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	have := h.show(t)
	if ids, err := h.registry.Unsettled(); err != nil || len(ids) != 0 || have.State != nacre.SessionInterrupted || have.Chain != "" || !have.Resumable {
		t.Errorf("have %v %v %+v", ids, err, have)
	}
	h.verify(t)
}

// F-73: an opening that was killed between the name of its chain and the chain has none,
// whether the session is settled first or opened again at once.
func TestAChainThatNeverWasIsForgotten(t *testing.T) {
	for name, goesOn := range map[string]func(house) error{
		"opened": func(house) error { return nil },
		"settled": func(h house) error {
			return session.Settle(t.Context(), h.options(), "s1", func(registry.Session, string) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			closed(t, h.open(t), false)
			held, err := h.registry.Adopt("s1")
			if err != nil {
				t.Fatal(err)
			}
			err = held.Update(func(s *registry.Session) {
				s.State, s.Chain, s.Chains, s.Openings = nacre.SessionRunning, "s1.2", append(s.Chains, "s1.2"), 2
			})
			if err = errors.Join(err, held.Release(), goesOn(h)); err != nil {
				t.Fatal(err)
			}
			s := h.open(t)
			if have := s.Chains(); !slices.Equal(have, []string{"s1.1", "s1.3"}) {
				t.Errorf("have %v", have)
			}
			closed(t, s, true)
			h.verify(t)
		})
	}
}
