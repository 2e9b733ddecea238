package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("NACRE_ENGINE_CHILD"); child != "" {
		os.Exit(runChild(child))
	}
	goleak.VerifyTestMain(m)
}

const ok = `"ok"`

func text(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

func open(t *testing.T, path, executor string, workflows map[string]engine.Workflow) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: executor}, workflows)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

func step(w *engine.Run, name string, output string) error {
	_, err := w.Step(name, func(context.Context) (json.RawMessage, error) { return json.RawMessage(output), nil })
	return err
}

func one(fn engine.Workflow) map[string]engine.Workflow {
	return map[string]engine.Workflow{"work": fn}
}

func start(t *testing.T, e *engine.Engine, id string, input string) {
	t.Helper()
	if err := e.Start(t.Context(), id, "work", json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
}

// M-55: what a workflow returns is kept, and its input reaches it byte for byte.
func TestAWorkflowReturnsWhatItWasGiven(t *testing.T) {
	for _, input := range []string{`null`, `{"a": [1, 2.50, "é\u0000"]}`, `"<&>"`, `12345678901234567890`} {
		t.Run(input, func(t *testing.T) {
			e := open(t, filepath.Join(t.TempDir(), "engine.sqlite"), "s1", one(
				func(w *engine.Run, in json.RawMessage) (json.RawMessage, error) {
					return w.Step("echo", func(context.Context) (json.RawMessage, error) { return in, nil })
				}))
			start(t, e, "w", input)
			have, err := e.Wait(t.Context(), "w")
			if err != nil || string(have) != input {
				t.Fatalf("have %s, %v; want %s", have, err, input)
			}
		})
	}
}

func TestStartingTwiceRunsOnce(t *testing.T) {
	var runs sync.Map
	e := open(t, filepath.Join(t.TempDir(), "engine.sqlite"), "s1", map[string]engine.Workflow{
		"work": func(w *engine.Run, in json.RawMessage) (json.RawMessage, error) {
			if _, again := runs.LoadOrStore(w.ID(), true); again {
				return nil, errors.New("ran twice")
			}
			return json.RawMessage(ok), step(w, "a", ok)
		},
		"other": func(*engine.Run, json.RawMessage) (json.RawMessage, error) { return nil, nil },
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := e.Start(t.Context(), "w", "work", json.RawMessage("1")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if have, err := e.Wait(t.Context(), "w"); err != nil || string(have) != ok {
		t.Fatalf("have %s, %v", have, err)
	}
	start(t, e, "w", "2")
	if err := e.Start(t.Context(), "w", "other", json.RawMessage("1")); err == nil {
		t.Error("an id was reused for another workflow")
	}
	if err := e.Start(t.Context(), "w2", "missing", json.RawMessage("1")); !errors.Is(err, engine.ErrUnknownWorkflow) {
		t.Errorf("have %v, want ErrUnknownWorkflow", err)
	}
}

// M-16: a panic is an error of the workflow; it never ends the process.
func TestAPanicIsAnError(t *testing.T) {
	e := open(t, filepath.Join(t.TempDir(), "engine.sqlite"), "s1", map[string]engine.Workflow{
		"in-step": func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			return w.Step("boom", func(context.Context) (json.RawMessage, error) { panic("in the step") })
		},
		"in-workflow": func(*engine.Run, json.RawMessage) (json.RawMessage, error) { panic("in the workflow") },
		"survived": func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			_, err := w.Step("boom", func(context.Context) (json.RawMessage, error) { panic("once") })
			var failed *engine.StepError
			if !errors.As(err, &failed) || failed.Step != "boom" {
				return nil, fmt.Errorf("have %w", err)
			}
			return text(failed.Message), step(w, "after", ok)
		},
	})
	for name, want := range map[string]string{"in-step": "in the step", "in-workflow": "in the workflow"} {
		if err := e.Start(t.Context(), name, name, json.RawMessage("1")); err != nil {
			t.Fatal(err)
		}
		_, err := e.Wait(t.Context(), name)
		var failure *engine.Failure
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, want) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if err := e.Start(t.Context(), "s", "survived", json.RawMessage("1")); err != nil {
		t.Fatal(err)
	}
	if have, err := e.Wait(t.Context(), "s"); err != nil || string(have) != `"panic: once"` {
		t.Errorf("have %s, %v", have, err)
	}
}

// M-16: Cancel ends a running step, also from another process's client.
func TestCancelEndsARunningStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	running, after := make(chan struct{}), make(chan struct{}, 1)
	e := open(t, path, "s1", one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		_, err := w.Step("long", func(ctx context.Context) (json.RawMessage, error) {
			close(running)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err == nil {
			after <- struct{}{}
		}
		if next := step(w, "next", ok); next == nil {
			after <- struct{}{}
		}
		return nil, err
	}))
	start(t, e, "w", "1")
	<-running
	c := client(t, path)
	if err := c.Cancel(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(t.Context(), "w"); !errors.Is(err, engine.ErrCancelled) {
		t.Errorf("have %v, want ErrCancelled", err)
	}
	if err := c.Cancel(t.Context(), "w"); err != nil {
		t.Errorf("cancelling twice: %v", err)
	}
	if err := c.Signal(t.Context(), "w", "go", json.RawMessage("1")); err == nil {
		t.Error("a cancelled workflow took a signal")
	}
	if len(after) != 0 {
		t.Error("a step ran after the cancellation")
	}
}

func TestCancelEndsAWaitForASignal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	got := make(chan error, 1)
	e := open(t, path, "s1", one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		_, err := w.Receive("never", time.Hour)
		got <- err
		return nil, err
	}))
	start(t, e, "w", "1")
	if err := client(t, path).Cancel(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err == nil {
		t.Error("a cancelled wait gave an answer")
	}
}

func client(t *testing.T, path string) *engine.Client {
	t.Helper()
	c, err := engine.OpenClient(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return c
}

func TestSignalsArriveInOrderAndSilenceIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	e := open(t, path, "s1", one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		a, err := w.Receive("answer", time.Minute)
		if err != nil {
			return nil, err
		}
		b, err := w.Receive("answer", time.Minute)
		if err != nil {
			return nil, err
		}
		if _, err := w.Receive("silence", time.Millisecond); err == nil {
			return nil, errors.New("silence was an answer")
		}
		return json.RawMessage("[" + string(a) + "," + string(b) + "]"), step(w, "after", ok)
	}))
	start(t, e, "w", "1")
	c := client(t, path)
	for _, payload := range []string{`1`, `"two"`} {
		if err := c.Signal(t.Context(), "w", "answer", json.RawMessage(payload)); err != nil {
			t.Fatal(err)
		}
	}
	have, err := c.Wait(t.Context(), "w")
	if want := `[1,"two"]`; err != nil || string(have) != want {
		t.Fatalf("have %s, %v; want %s", have, err, want)
	}
	list, err := c.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "work" || list[0].Executor != "s1" || list[0].State != engine.Done {
		t.Errorf("have %+v, %v", list, err)
	}
}

// M-16: Close interrupts without cancelling, and the next Open carries on.
func TestCloseInterruptsAndOpenCarriesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	var first, second int
	block := true
	running := make(chan struct{})
	work := one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		if _, err := w.Step("first", func(context.Context) (json.RawMessage, error) { first++; return nil, nil }); err != nil {
			return nil, err
		}
		return w.Step("second", func(ctx context.Context) (json.RawMessage, error) {
			second++
			if block {
				close(running)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return json.RawMessage(ok), nil
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	e, err := engine.Open(ctx, engine.Options{Path: path, Executor: "s1"}, work)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the end of the context that Open had must cancel nothing
	start(t, e, "w", "1")
	<-running
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	block = false
	e = open(t, path, "s1", work)
	have, err := e.Wait(t.Context(), "w")
	if err != nil || string(have) != ok || first != 1 || second != 2 {
		t.Fatalf("have %s, %v, first %d, second %d", have, err, first, second)
	}
}

// A session's workflows are not taken by another session on the same file,
// even in the moment when recovery has put them on the library's one queue.
func TestTwoExecutorsOnOneFileLeaveEachOtherAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	ran := make(chan string, 16)
	interrupt(t, path, "owner", "mine")
	interrupt(t, path, "other", "theirs")
	requeue(t, path, "mine")

	other, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: "other"}, naming("other", ran))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := other.Wait(t.Context(), "theirs"); err != nil || string(have) != `"other"` {
		t.Errorf("have %s, %v", have, err)
	}
	if err := other.Start(t.Context(), "mine", "work", json.RawMessage("1")); err == nil {
		t.Error("a session attached to another session's workflow")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	owner := open(t, path, "owner", naming("owner", ran))
	if have, err := owner.Wait(t.Context(), "mine"); err != nil || string(have) != `"owner"` {
		t.Errorf("have %s, %v", have, err)
	}
	close(ran)
	for who := range ran {
		if who != "owner runs mine" && who != "other runs theirs" {
			t.Error(who)
		}
	}
}

// naming is a workflow that tells who runs it.
func naming(who string, ran chan<- string) map[string]engine.Workflow {
	return one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		return w.Step("who", func(context.Context) (json.RawMessage, error) {
			ran <- who + " runs " + w.ID()
			return text(who), nil
		})
	})
}

// interrupt leaves a workflow of an executor unfinished.
func interrupt(t *testing.T, path, executor, id string) {
	t.Helper()
	running := make(chan struct{})
	e, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: executor},
		one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			return w.Step("who", func(ctx context.Context) (json.RawMessage, error) {
				close(running)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}))
	if err != nil {
		t.Fatal(err)
	}
	start(t, e, id, "1")
	<-running
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// requeue leaves a workflow as recovery does when it is killed half-way.
func requeue(t *testing.T, path, id string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `UPDATE workflow_status SET status = 'ENQUEUED',
		queue_name = '_dbos_internal_queue', started_at_epoch_ms = NULL WHERE workflow_uuid = ?`, id)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestStepErrorsAreTheSameOnReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	var seen []string
	block, running := true, make(chan struct{})
	work := one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		_, err := w.Step("fails", func(context.Context) (json.RawMessage, error) {
			return nil, fmt.Errorf("wrapped: %w", os.ErrNotExist)
		})
		seen = append(seen, fmt.Sprintf("%T %v", err, err))
		return w.Step("second", func(ctx context.Context) (json.RawMessage, error) {
			if block {
				close(running)
				<-ctx.Done()
			}
			return json.RawMessage(ok), nil
		})
	})
	e, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: "s1"}, work)
	if err != nil {
		t.Fatal(err)
	}
	start(t, e, "w", "1")
	<-running
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	block = false
	e = open(t, path, "s1", work)
	if _, err := e.Wait(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] != seen[1] {
		t.Errorf("have %q", seen)
	}
}

func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "engine.sqlite")
	work := one(func(w *engine.Run, in json.RawMessage) (json.RawMessage, error) {
		switch string(in) {
		case `"same name"`:
			return nil, errors.Join(step(w, "a", ok), step(w, "a", ok))
		case `"bad name"`:
			return nil, step(w, "Bad Name", ok)
		case `"not json"`:
			return nil, step(w, "a", "{")
		case `"big"`:
			return nil, step(w, "a", `"`+strings.Repeat("x", engine.MaxPayload)+`"`)
		case `"wait"`:
			_, err := w.Receive("x", 0)
			return nil, err
		}
		return json.RawMessage("{"), nil
	})
	e := open(t, path, "s1", work)
	for _, input := range []string{`"same name"`, `"bad name"`, `"not json"`, `"big"`, `"wait"`, `"bad result"`} {
		id := strings.ReplaceAll(strings.Trim(input, `"`), " ", "-")
		start(t, e, id, input)
		var failure *engine.Failure
		if _, err := e.Wait(t.Context(), id); !errors.As(err, &failure) {
			t.Errorf("%s: have %v, want a failure", input, err)
		}
	}
	for name, err := range map[string]error{
		"input that is not JSON": e.Start(t.Context(), "x", "work", json.RawMessage("{")),
		"input not in UTF-8":     e.Start(t.Context(), "x", "work", json.RawMessage("\"\xff\"")),
		"empty id":               e.Start(t.Context(), "", "work", json.RawMessage("1")),
		"id with a space":        e.Start(t.Context(), "a b", "work", json.RawMessage("1")),
		"big input":              e.Start(t.Context(), "x", "work", make(json.RawMessage, engine.MaxPayload+1)),
		"signal to nobody":       e.Signal(t.Context(), "nobody", "x", json.RawMessage("1")),
		"signal without topic":   e.Signal(t.Context(), "big", "", json.RawMessage("1")),
		"cancel of nobody":       e.Cancel(t.Context(), "nobody"),
		"relative path":          openError(t, engine.Options{Path: "x.sqlite", Executor: "s1"}),
		"missing directory":      openError(t, engine.Options{Path: filepath.Join(dir, "no", "x"), Executor: "s1"}),
		"no executor":            openError(t, engine.Options{Path: path}),
		"odd executor":           openError(t, engine.Options{Path: path, Executor: "A B"}),
		"one attempt":            openError(t, engine.Options{Path: path, Executor: "s1", Attempts: 1}),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := e.Wait(t.Context(), "nobody"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("have %v, want ErrNotFound", err)
	}
}

func openError(t *testing.T, o engine.Options) error {
	t.Helper()
	e, err := engine.Open(t.Context(), o, nil)
	if err == nil {
		t.Cleanup(func() { _ = e.Close() })
	}
	return err
}

func TestTheStoreIsPrivateWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a b.sqlite", "50%25.sqlite", "q?x=1.sqlite", "h#x.sqlite", "é.sqlite"} {
		path := filepath.Join(dir, name)
		e := open(t, path, "s1", nil)
		if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			info, err := os.Stat(path + suffix)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s%s: %v, %v", name, suffix, info, err)
			}
		}
	}
}

func TestAStoreThatOthersMayReadOrThatIsALinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	loose := filepath.Join(dir, "loose")
	if err := os.WriteFile(loose, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{loose, link, junk, dir} {
		if openError(t, engine.Options{Path: path, Executor: "s1"}) == nil {
			t.Errorf("%s was opened", path)
		}
	}
}

func TestAClientNeverMakesAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	if _, err := engine.OpenClient(t.Context(), path, nil); !errors.Is(err, engine.ErrNoStore) {
		t.Errorf("have %v, want ErrNoStore", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a client made a store")
	}
}

func TestTheLibrarysEnvironmentIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	for _, name := range []string{"DBOS__VMID", "DBOS__APPVERSION", "DBOS__CLOUD"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "true")
			err := openError(t, engine.Options{Path: path, Executor: "s1"})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("have %v", err)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	e := open(t, filepath.Join(t.TempDir(), "engine.sqlite"), "s1", one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		return w.Receive("never", time.Hour)
	}))
	start(t, e, "w", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Wait(ctx, "w"); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v, want context.Canceled", err)
	}
}

func TestManyProcessesMayStartAtOnceOnANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			e, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: fmt.Sprintf("s%d", i)}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Why nobody waits for a store any longer is told, and not only that it is so.
func TestOpenSaysWhyItDoesNotWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	lock, err := os.Create(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the session was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := engine.Open(ctx, engine.Options{Path: path, Executor: "s1"}, nil); !errors.Is(err, why) || errors.Is(err, context.Canceled) {
		t.Errorf("have %v, want %v", err, why)
	}
}

// watching tells of each thing that the library logs.
type watching struct{ tell func(message string) }

func (w watching) Enabled(context.Context, slog.Level) bool { return true }
func (w watching) Handle(_ context.Context, r slog.Record) error {
	w.tell(r.Message)
	return nil
}
func (w watching) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w watching) WithGroup(string) slog.Handler      { return w }

// M-16: somebody else's write to the file, however long it takes, does not hold up who stops a
// session while its engine opens. Nor does it hold up the next one who opens it.
func TestOpeningEndsWithItsContextWhileOthersWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	openClose(t, path)
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it only held the lock
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { _ = tx.Rollback() }) // nothing was written
	t.Cleanup(end)
	why := errors.New("the session was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	var retries atomic.Int64
	log := slog.New(watching{func(message string) {
		cancel(why)
		if strings.HasPrefix(message, "Retrying") && retries.Add(1) == 2 {
			end() // it would try for ever
		}
	}})
	e, err := engine.Open(ctx, engine.Options{Path: path, Executor: "s1", Logger: log}, nil)
	if err == nil {
		err = errors.Join(errors.New("it opened"), e.Close())
	}
	if !errors.Is(err, why) {
		t.Errorf("have %v, want %v", err, why)
	}
	end()
	openClose(t, path)
}

// M-16: work that was carried on before its engine's opening was given up is interrupted, not
// cancelled. The library cancels what it runs for good where its context ends for another reason.
func TestWorkGoesOnThatAnInterruptedOpeningBegan(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	interrupt(t, path, "s1", "w")
	running, interrupted := make(chan struct{}), make(chan struct{})
	why := errors.New("the session was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	log := slog.New(watching{func(message string) {
		if message == "Queue runner started" { // Launch waits for this line
			<-running
			cancel(why)
			<-interrupted
		}
	}})
	_, err := engine.Open(ctx, engine.Options{Path: path, Executor: "s1", Logger: log}, one(
		func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			return w.Step("who", func(ctx context.Context) (json.RawMessage, error) {
				close(running)
				<-ctx.Done()
				close(interrupted)
				return nil, ctx.Err()
			})
		}))
	if !errors.Is(err, why) {
		t.Fatalf("have %v, want %v", err, why)
	}
	e := open(t, path, "s1", one(func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(ok), step(w, "who", ok)
	}))
	if have, err := e.Wait(t.Context(), "w"); err != nil || string(have) != ok {
		t.Errorf("have %s, %v", have, err)
	}
}
