// Package engine promises durable work (M-16, M-55). A workflow that was started is carried on after any
// crash, its finished steps are not run again, and what it returned is kept. Each session is its own
// executor on one shared file and recovers only its own workflows.
//
// It does not promise that a step runs once: a step that was interrupted runs
// again, so its side effects must be keyed by [Run.Key]. It does not keep
// secrets: inputs, results and signals are stored in clear. It does not lock
// the session: whoever opens an engine holds that lock already and has ended
// what an earlier process left running.
package engine

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// Limits of the engine.
const (
	// MaxPayload is the largest input, step result, workflow result or signal, in bytes.
	MaxPayload = 8 << 20
	// MaxSteps is how many steps one workflow may have.
	MaxSteps = 10_000
	// DefaultAttempts is how often a workflow is begun, the first time included,
	// before it is given up as poison.
	DefaultAttempts = 8
	// MaxWait is the longest that a workflow may wait for a signal.
	MaxWait = 30 * 24 * time.Hour
	// closeTimeout bounds each stage of Close.
	closeTimeout = 10 * time.Second
	// appVersion is fixed: the library's default is a hash of the binary, which
	// would strand running work at every upgrade. Raise it only where workflows
	// recorded by older binaries cannot be carried on.
	appVersion = "1"
	// workflowName is what the library records for every workflow; ours is the
	// name of the configured instance.
	workflowName = "nacre"
)

var (
	executorForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`) })
	idForm       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}$`) })
	nameForm     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`) })
)

// Workflow is durable work. It is run again from the top after a crash, and must reach its steps in the
// same order. What it decides on comes from its input and its steps' results, never from a clock, a file
// or the network outside a step.
type Workflow func(w *Run, input json.RawMessage) (json.RawMessage, error)

// Options of an engine. Executor is required.
type Options struct {
	// Path of the SQLite file, made with mode 0600 where it is missing.
	Path string
	// Executor is the session's id: only this executor's workflows are recovered.
	Executor string
	// Attempts bounds how often a workflow is begun; zero means DefaultAttempts.
	Attempts int
	// Logger gets the library's own log; nil drops it.
	Logger *slog.Logger
}

// Engine runs this executor's workflows, and can do all a Client can.
type Engine struct {
	*Client
	executor  string
	workflows map[string]*bound
}

// Open starts the engine and carries on what this executor left unfinished.
// The workflows' names must stay the same from one release to the next. ctx
// bounds opening only: its end later cancels nothing.
func Open(ctx context.Context, o Options, workflows map[string]Workflow) (*Engine, error) {
	if err := o.check(workflows); err != nil {
		return nil, err
	}
	unlock, err := lockStore(ctx, o.Path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	db, err := openStore(ctx, o.Path)
	if err != nil {
		return nil, err
	}
	lasting, opened := opening(ctx)
	e := &Engine{executor: o.Executor, workflows: make(map[string]*bound, len(workflows))}
	e.Client, err = newRuntime(lasting, o, db)
	if err != nil {
		return nil, errors.Join(opened(err), db.Close())
	}
	e.known = func(name string) bool { return e.workflows[name] != nil }
	for name, fn := range workflows {
		b := &bound{name: name, fn: fn, client: e.Client}
		e.workflows[name] = b
		dbos.RegisterWorkflow(e.lib, b.run, dbos.WithWorkflowName(workflowName),
			dbos.WithInstance(b), dbos.WithMaxRecoveryAttempts(o.attempts()-1))
	}
	if err := dbos.Launch(e.lib); err != nil {
		return nil, errors.Join(opened(unusable(o.Path, err)), db.Close())
	}
	if err := opened(nil); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// opening gives a context for the library, which ends with ctx until opened is called and lasts from
// then on. Without it, the library tries for ever while others write to the file. opened gives the error
// of the opening, or why ctx has ended before, if it has. To the library that is a deadline: of any
// other reason it would cancel for good what it has begun to carry on.
func opening(ctx context.Context) (lasting context.Context, opened func(error) error) {
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.DeadlineExceeded) })
	return lasting, func(err error) error {
		if stop() {
			return err
		}
		return fmt.Errorf("the durable engine was not opened: %w", context.Cause(ctx))
	}
}

func (o Options) check(workflows map[string]Workflow) error {
	if !executorForm().MatchString(o.Executor) {
		return fmt.Errorf("executor %.80q: use a session id of lower-case letters, digits and dashes", o.Executor)
	}
	if o.Attempts < 0 || o.Attempts == 1 {
		return fmt.Errorf("attempts %d: use 2 or more, or 0 for %d", o.Attempts, DefaultAttempts)
	}
	for name, fn := range workflows {
		if !nameForm().MatchString(name) || fn == nil {
			return fmt.Errorf("workflow %.80q: use a function, and a name of lower-case letters, digits, _, . and -", name)
		}
	}
	return checkEnvironment(os.Environ())
}

func (o Options) attempts() int {
	if o.Attempts == 0 {
		return DefaultAttempts
	}
	return o.Attempts
}

// checkEnvironment refuses the variables through which the library would take
// another executor id or version, or dial out, without being told to.
func checkEnvironment(environ []string) error {
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "DBOS__") {
			return fmt.Errorf("durable engine: unset %s, which changes whose work is recovered", name)
		}
	}
	return nil
}

// newRuntime makes the library's context, which lasts as long as ctx. Each executor is an application of
// its own: recovered workflows pass through one queue that all executors of an
// application would take from.
func newRuntime(ctx context.Context, o Options, db *sql.DB) (*Client, error) {
	lib, err := dbos.NewContext(ctx, dbos.Config{
		AppName:            applicationName(o.Executor),
		SQLiteSystemDB:     db,
		Logger:             logger(o.Logger),
		ApplicationVersion: appVersion,
		ExecutorID:         o.Executor,
	})
	if err != nil {
		return nil, unusable(o.Path, err)
	}
	return newClient(lib, db, o.Logger), nil
}

func applicationName(executor string) string { return "nacre-" + executor }

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// Start begins a workflow, or attaches to the one that has this id already:
// starting twice runs it once. An id that belongs to another workflow or
// executor is refused.
func (e *Engine) Start(ctx context.Context, id, name string, input json.RawMessage) error {
	b := e.workflows[name]
	if b == nil {
		return fmt.Errorf("workflow %.80q: %w", name, ErrUnknownWorkflow)
	}
	if err := errors.Join(checkID(id), checkPayload("input of "+name, input)); err != nil {
		return err
	}
	have, err := e.Get(ctx, id)
	if err == nil {
		return e.attach(have, name)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err = dbos.RunWorkflow(e.lib, b.run, string(input), dbos.WithWorkflowID(id), dbos.WithRunInstance(b))
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", id, err)
	}
	return nil
}

func (e *Engine) attach(have Status, name string) error {
	if have.Name != name || have.Executor != e.executor {
		return fmt.Errorf("workflow %s is %s of session %s: use another id", have.ID, have.Name, have.Executor)
	}
	return nil
}

func checkID(id string) error {
	if !idForm().MatchString(id) {
		return fmt.Errorf("workflow id %.80q: use 1–128 letters, digits and ._:/-", id)
	}
	return nil
}

func checkPayload(what string, payload json.RawMessage) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%s of %d bytes: at most %d", what, len(payload), MaxPayload)
	}
	if !json.Valid(payload) || !utf8.Valid(payload) {
		return fmt.Errorf("%s is not JSON in UTF-8", what)
	}
	return nil
}
