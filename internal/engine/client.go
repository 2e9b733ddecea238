package engine

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

const (
	// waitFirst and waitMost bound the pause between two looks at a workflow.
	waitFirst = 10 * time.Millisecond
	waitMost  = 200 * time.Millisecond
	// storeTimeout is how long a step's result may take to be kept.
	storeTimeout = 15 * time.Second
	// beats are the parts in which that time is counted.
	beats = 15
	// MaxList is the most workflows that List returns.
	MaxList = 1000
)

// What a client can meet.
var (
	ErrNotFound        = errors.New("no such workflow")
	ErrUnknownWorkflow = errors.New("this program has no workflow of that name")
	ErrNoStore         = errors.New("no session has run here yet")
	ErrCancelled       = errors.New("workflow cancelled")
	ErrAttempts        = errors.New("workflow given up: it was interrupted too often")
	// ErrStore means that the work is interrupted, not ended: it goes on once
	// the file can be written again.
	ErrStore = errors.New("the durable engine's file cannot be written: is there space left on the disk?")
)

// Failure is the error that a workflow returned. Only its text is kept.
type Failure struct{ ID, Message string }

func (f *Failure) Error() string { return fmt.Sprintf("workflow %s: %s", f.ID, f.Message) }

// State is where a workflow stands. The zero value is unknown.
type State uint8

// The states. Every one after Running is final.
const (
	Unknown State = iota
	// Waiting has been recovered and is about to be carried on.
	Waiting
	Running
	Done
	Failed
	Cancelled
	GivenUp
)

var stateNames = [...]string{"unknown", "waiting", "running", "done", "failed", "cancelled", "given up"}

func (s State) String() string {
	if int(s) >= len(stateNames) {
		return stateNames[Unknown]
	}
	return stateNames[s]
}

// Final reports whether nothing more will happen.
func (s State) Final() bool { return s > Running }

// Status is what is known of a workflow.
type Status struct {
	ID       string
	Name     string
	Executor string
	State    State
	// Attempts is how often it has been begun.
	Attempts int
	Created  time.Time
	Updated  time.Time
}

// Client looks at workflows and sends to them from any process. It runs none.
type Client struct {
	lib dbos.Context
	db  *sql.DB
	log *slog.Logger
	// known tells an engine's workflows; nil means that all may exist.
	known func(name string) bool
	// stuck is closed once a step's result could not be kept in time.
	stuck     chan struct{}
	stuckOnce sync.Once
	// returned holds the ids of workflows that returned here long ago: the
	// library forgets an outcome that it could not store.
	returned   sync.Map
	closed     chan struct{}
	closedOnce sync.Once
}

// OpenClient opens the store of engines that other processes run. Where none
// has run yet it returns ErrNoStore.
func OpenClient(ctx context.Context, path string, log *slog.Logger) (*Client, error) {
	if err := errors.Join(checkEnvironment(os.Environ()), requireStore(path)); err != nil {
		return nil, err
	}
	unlock, err := lockStore(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := openClient(ctx, path, log)
	if err == nil || ctx.Err() != nil {
		return c, err
	}
	if err := migrate(ctx, path, log); err != nil {
		return nil, err
	}
	return openClient(ctx, path, log)
}

func openClient(ctx context.Context, path string, log *slog.Logger) (*Client, error) {
	db, err := openStore(ctx, path)
	if err != nil {
		return nil, err
	}
	lasting, opened := opening(ctx)
	client, err := dbos.NewClient(lasting, dbos.ClientConfig{SQLiteSystemDB: db, Logger: logger(log)})
	if err != nil {
		return nil, errors.Join(opened(unusable(path, err)), db.Close())
	}
	if err := opened(nil); err != nil {
		return nil, errors.Join(err, dbos.Shutdown(client, closeTimeout), db.Close())
	}
	lib, ok := client.(dbos.Context)
	if !ok {
		return nil, errors.Join(errors.New("durable engine: the library's client changed"),
			dbos.Shutdown(client, closeTimeout), db.Close())
	}
	return newClient(lib, db, log), nil
}

// migrate brings a store up to date that an older nacre left, as an engine does when it opens one. The library lets
// a client change no schema, but who looks first after an upgrade is as often a client as an engine.
func migrate(ctx context.Context, path string, log *slog.Logger) error {
	db, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	c, err := newRuntime(ctx, Options{Path: path, Executor: "client", Logger: log}, db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return c.Close()
}

func newClient(lib dbos.Context, db *sql.DB, log *slog.Logger) *Client {
	return &Client{lib: lib, db: db, log: logger(log), stuck: make(chan struct{}), closed: make(chan struct{})}
}

// watchStore begins when a step is done and ends when its result is kept. The
// library tries for ever where the disk is full; a person is told instead.
func (c *Client) watchStore() (kept func()) {
	return c.afterRunning(storeTimeout, func() { c.stuckOnce.Do(func() { close(c.stuck) }) })
}

// afterRunning calls f once this process has run for that long, unless it is told to stop or the
// client is closed. Of the time that the process was stopped for, or its machine slept, it counts one beat: nothing
// was tried meanwhile, so it says nothing of the store.
func (c *Client) afterRunning(d time.Duration, f func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		beat := time.NewTicker(d / beats)
		defer beat.Stop()
		for range beats {
			select {
			case <-beat.C:
			case <-stopped:
				return
			case <-c.closed:
				return
			}
		}
		f()
	}()
	return sync.OnceFunc(func() { close(stopped) })
}

// hasReturned notes that a workflow returned here.
func (c *Client) hasReturned(id string) {
	c.afterRunning(storeTimeout, func() { c.returned.Store(id, true) })
}

// lost reports whether a workflow returned here so long ago that its outcome
// will not be stored any more.
func (c *Client) lost(id string) bool {
	_, ok := c.returned.Load(id)
	return ok
}

// Close stops. An engine's running workflows are interrupted, not cancelled:
// the next Open carries them on. A step that ignores its context delays Close
// by at most 10 s and is then an error.
func (c *Client) Close() error {
	c.closedOnce.Do(func() { close(c.closed) })
	err := dbos.Shutdown(c.lib, closeTimeout)
	return errors.Join(err, c.db.Close())
}

// bounded is the library on ctx: its own retries end when ctx does.
func (c *Client) bounded(ctx context.Context) dbos.Context { return dbos.From(c.lib, ctx) }

// Get returns a workflow's status, or ErrNotFound.
func (c *Client) Get(ctx context.Context, id string) (Status, error) {
	raw, err := c.row(ctx, id, false)
	if err != nil {
		return Status{}, err
	}
	return statusOf(raw), nil
}

func (c *Client) row(ctx context.Context, id string, output bool) (dbos.WorkflowStatus, error) {
	if err := checkID(id); err != nil {
		return dbos.WorkflowStatus{}, err
	}
	rows, err := dbos.ListWorkflows(c.bounded(ctx), dbos.WithFilterWorkflowIDs(id),
		dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(output))
	if err != nil {
		return dbos.WorkflowStatus{}, fmt.Errorf("workflow %s: %w", id, err)
	}
	if len(rows) != 1 {
		return dbos.WorkflowStatus{}, fmt.Errorf("workflow %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// List returns the newest workflows first, at most MaxList: an engine's are
// its executor's own, a client's are everybody's.
func (c *Client) List(ctx context.Context) ([]Status, error) {
	rows, err := dbos.ListWorkflows(c.bounded(ctx), dbos.WithFilterLoadInput(false),
		dbos.WithFilterLoadOutput(false), dbos.WithFilterSortDesc(), dbos.WithFilterLimit(MaxList))
	if err != nil {
		return nil, fmt.Errorf("list workflows: %w", err)
	}
	list := make([]Status, 0, len(rows))
	for _, row := range rows {
		list = append(list, statusOf(row))
	}
	return list, nil
}

func statusOf(row dbos.WorkflowStatus) Status {
	s := Status{ID: row.ID, Executor: row.ExecutorID, Attempts: row.Attempts, Created: row.CreatedAt, Updated: row.UpdatedAt}
	if row.ConfigName != nil {
		s.Name = *row.ConfigName
	}
	switch row.Status {
	case dbos.WorkflowStatusEnqueued, dbos.WorkflowStatusDelayed:
		s.State = Waiting
	case dbos.WorkflowStatusPending:
		s.State = Running
	case dbos.WorkflowStatusSuccess:
		s.State = Done
	case dbos.WorkflowStatusError:
		s.State = Failed
	case dbos.WorkflowStatusCancelled:
		s.State = Cancelled
	case dbos.WorkflowStatusMaxRecoveryAttemptsExceeded:
		s.State = GivenUp
	}
	return s
}

// Wait returns what the workflow returned, once it has. Its errors are
// *Failure, ErrCancelled, ErrAttempts, ErrNotFound, or ctx's.
func (c *Client) Wait(ctx context.Context, id string) (json.RawMessage, error) {
	pause := waitFirst
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for workflow %s: %w", id, context.Cause(ctx))
		case <-c.stuck:
			return nil, fmt.Errorf("workflow %s: %w", id, ErrStore)
		case <-timer.C:
		}
		status, err := c.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if status.State.Final() {
			return c.result(ctx, id)
		}
		if c.known != nil && !c.known(status.Name) {
			return nil, fmt.Errorf("workflow %s is %q: %w", id, status.Name, ErrUnknownWorkflow)
		}
		if c.lost(id) {
			return nil, fmt.Errorf("workflow %s: %w", id, ErrStore)
		}
		timer.Reset(pause)
		pause = min(2*pause, waitMost)
	}
}

func (c *Client) result(ctx context.Context, id string) (json.RawMessage, error) {
	row, err := c.row(ctx, id, true)
	if err != nil {
		return nil, err
	}
	switch statusOf(row).State {
	case Done:
		return storedResult(id, row.Output)
	case Failed:
		return nil, &Failure{ID: id, Message: messageOf(row.Error)}
	case Cancelled:
		return nil, fmt.Errorf("workflow %s: %w", id, ErrCancelled)
	case GivenUp:
		return nil, fmt.Errorf("workflow %s: %w", id, ErrAttempts)
	default:
		return nil, fmt.Errorf("workflow %s: state %q is not known to this version", id, row.Status)
	}
}

// storedResult undoes the library's listing, which leaves a result as the JSON
// it was stored in: here a JSON string that holds ours.
func storedResult(id string, stored any) (json.RawMessage, error) {
	var text string
	quoted, ok := stored.(string)
	if !ok || json.Unmarshal([]byte(quoted), &text) != nil || !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("workflow %s: its stored result is damaged", id)
	}
	return json.RawMessage(text), nil
}

func messageOf(err error) string {
	if err == nil {
		return "failed without a reason"
	}
	return err.Error()
}

// Signal sends a payload to a workflow's topic, once, in order. It is kept
// until the workflow receives it; a workflow that has ended is refused.
func (c *Client) Signal(ctx context.Context, id, topic string, payload json.RawMessage) error {
	if !nameForm().MatchString(topic) {
		return fmt.Errorf("topic %.80q: use lower-case letters, digits, _, . and -", topic)
	}
	if err := checkPayload("signal "+topic, payload); err != nil {
		return err
	}
	status, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	if status.State.Final() {
		return fmt.Errorf("signal %s: workflow %s is %s", topic, id, status.State)
	}
	if err := dbos.Send(c.bounded(ctx), id, string(payload), topic); err != nil {
		return fmt.Errorf("signal %s to workflow %s: %w", topic, id, err)
	}
	return nil
}

// Cancel ends a workflow for good. A running step's context ends within a
// second, in whichever process it runs; no further step begins.
func (c *Client) Cancel(ctx context.Context, id string) error {
	status, err := c.Get(ctx, id)
	if err != nil || status.State.Final() {
		return err
	}
	if err := dbos.CancelWorkflow(c.bounded(ctx), id); err != nil {
		return fmt.Errorf("cancel workflow %s: %w", id, err)
	}
	return nil
}
