package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/task"
)

// NewPinner is the pinner of a session that works on a folder.
func NewPinner(workspace, dir string) *pinner {
	return &pinner{workspace: workspace, dir: dir, kept: map[string]int64{}}
}

// MaxPinned is how much its copies hold at most.
const MaxPinned = maxPinned

// Toolchains finds the language tools outside of the system folders, and
// remembers what they answered in a file.
func Toolchains(ctx context.Context, getenv func(string) string, file string) []posture.Toolchain {
	return toolchains(ctx, openMemo(getenv, file, sandbox.SystemMounts))
}

// Shared are plugins that several sessions use, started on a session of their own.
type Shared struct {
	*sharedPlugins
	held *session.Session
}

// StartShared starts them as a long-lived process does. told gets what they publish.
func (r *Runtime) StartShared(ctx context.Context, told func(group nacre.Group, topic string)) (*Shared, error) {
	held, err := r.holder(ctx, "serve", "test", nil)
	if err != nil {
		return nil, err
	}
	shared, err := r.startShared(ctx, held, nil, func(_ context.Context, s pluginhost.Scope, topic string, _ json.RawMessage) error {
		told(s.Group, topic)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, held.Close(ctx, "failed", true))
	}
	return &Shared{shared, held}, nil
}

// End ends them and their session.
func (s *Shared) End(ctx context.Context) error {
	return errors.Join(s.Close(ctx), s.held.Close(ctx, "done", true))
}

// With opens a session that uses the plugins, and lets it call tools.
func (s *Shared) With(ctx context.Context, id nacre.SessionID, group nacre.Group, work func(call func(tool nacre.ToolName, arguments string) string)) error {
	r := s.stage.runtime
	opened, err := r.seal(ctx, request{id: id, group: group, kind: "exec", title: "test", shared: s.sharedPlugins})
	if err != nil {
		return err
	}
	work(func(tool nacre.ToolName, arguments string) string {
		out, err := opened.kernel.Call(ctx, nacre.Call{
			ID: randomHex(), Principal: r.principal(group, id, ""), Tool: tool, Arguments: json.RawMessage(arguments), Correlation: "c",
		})
		if err != nil {
			return err.Error()
		}
		return string(out.Result)
	})
	return opened.finish(ctx, "done", "", "")
}

// GoesOnFrom takes turns of one conversation, kept in a folder, each as it ended, and
// gives what the brain's next one goes on from.
func GoesOnFrom(dir string, turns ...task.Visit) (string, error) {
	resume := ""
	for n, turn := range turns {
		c, err := readConversation(dir, "key")
		c.dir, c.state = dir, filepath.Join(dir, brainFolder)
		id := nacre.SessionID("k" + strconv.Itoa(n))
		if err := errors.Join(err, c.begin(id), c.keep(visit{id: id, key: "key"}, turn, false, time.Unix(1_800_000_000, 0))); err != nil {
			return "", err
		}
		resume = c.Resume
	}
	return resume, nil
}

// Holds tells whether one of the texts is found in a file.
func Holds(file io.Reader, texts ...string) (bool, error) { return newPhrases(texts).in(file) }

// Command is an open session as a command has it.
type Command struct{ s *sealed }

// OpenCommand opens one in which nothing runs yet.
func (r *Runtime) OpenCommand(ctx context.Context, id nacre.SessionID, group nacre.Group) (*Command, error) {
	s, err := r.seal(ctx, request{id: id, group: group, kind: "exec", title: "test"})
	return &Command{s}, err
}

// SettleAtOnce holds files to be the same by their times however young they are.
func (r *Runtime) SettleAtOnce() { r.settled = 0 }

// Late tells whether what calls reach is still to be opened.
func (c *Command) Late() bool { return !c.s.calls.done.Load() }

// Has asks as the door does.
func (c *Command) Has(tool nacre.ToolName) bool { return watchedKernel{c.s}.Has(tool) }

// Failure is why the session was ended.
func (c *Command) Failure() error { return c.s.Failure() }

// End closes the session.
func (c *Command) End(ctx context.Context) error { return c.s.finish(ctx, "done", "", "") }
