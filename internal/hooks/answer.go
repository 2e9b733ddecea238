package hooks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
)

// maxReason is how much of a reason an agent is told, in bytes: more than fits
// into a pipe would wait for a reader.
const maxReason = 8 << 10

// Hook is one call of the hook, and the world that it is made in.
type Hook struct {
	// Pin is the file of the pinned set.
	Pin            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Bypassed tells whether a variable lifts a gate in a world (S-02).
	Bypassed func(variable string, w gate.World) bool
	// Log is where refusals are kept; a path that is not absolute keeps none.
	Log string
	Now func() time.Time
	// Deadline is how long the answer may take.
	Deadline time.Duration
}

// ruling is what a hook says of a call. The zero value lets nothing through.
type ruling struct {
	allowed  bool
	role     string
	tool     string
	dir      string
	reason   string
	warnings string
}

// Answer decides, and gives the exit code: 0 with JSON where the call may go
// on, else [guard.ExitDenied] with the reason. It answers by the deadline
// whatever the decision waits for; what waits then ends with the process.
func (h Hook) Answer() int {
	decided := make(chan ruling, 1)
	go func() {
		var r ruling
		defer func() {
			if p := recover(); p != nil { // a gate that fails must not let the call through
				r.allowed, r.reason = false, fmt.Sprintf("it failed: %v", p)
			}
			decided <- r
		}()
		r = h.decide()
	}()
	late := time.NewTimer(h.Deadline)
	defer late.Stop()
	var r ruling
	select {
	case r = <-decided:
	case <-late.C:
		r.reason = fmt.Sprintf("no decision within %v", h.Deadline)
	}
	return h.say(r)
}

func (h Hook) say(r ruling) int {
	if r.allowed {
		answer, err := guard.Answer(r.warnings)
		if err == nil {
			_, err = fmt.Fprintf(h.Stdout, "%s\n", answer)
		}
		if err == nil {
			return 0
		}
		r.reason = err.Error()
	}
	r.reason = clip(r.reason, maxReason)
	_, _ = fmt.Fprintln(h.Stderr, guard.Prefix+r.reason) // the exit code alone refuses too
	if filepath.IsAbs(h.Log) {
		_ = record(h.Log, Refusal{Time: h.Now().UTC(), Role: r.role, Tool: r.tool, Dir: r.dir, Reason: r.reason}) // the call is refused all the same
	}
	return guard.ExitDenied
}

func (h Hook) decide() ruling {
	pin, err := LoadPin(h.Pin)
	if err != nil {
		return ruling{reason: err.Error()}
	}
	r := ruling{role: pin.Role}
	call, err := guard.ReadHook(h.Stdin)
	if err != nil {
		r.reason = err.Error()
		return r
	}
	r.tool, r.dir = call.Tool, call.Dir
	set := pin.Set
	if set.Project, err = h.project(pin, call.Dir); err != nil {
		r.reason = err.Error()
		return r
	}
	w := guard.World(set.Project, call.Dir)
	set.Gates = slices.DeleteFunc(slices.Clone(set.Gates), func(g guard.Gate) bool {
		variable := pin.Bypass[g.Capability]
		return variable != "" && g.Missing == "" && h.Bypassed(variable, w)
	})
	v := set.Decide(call)
	r.warnings = v.Warnings
	if r.allowed = v.Refusal == ""; !r.allowed {
		r.reason = v.Refusal[min(len(guard.Prefix), len(v.Refusal)):]
	}
	return r
}

// project is the folder that a call's paths are held against. The folder that
// the agent says it works in must be one.
func (h Hook) project(pin Pin, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("the hook's cwd is not an absolute path")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("the hook's cwd %q is not a folder", dir)
	}
	if pin.Project != "" {
		return pin.Project, nil
	}
	from := dir
	if session := h.Getenv("CLAUDE_PROJECT_DIR"); filepath.IsAbs(session) {
		from = session // Claude Code's own word: the model cannot leave it by cd
	}
	return repository(from)
}

// repository is the repository around a folder, or the folder itself.
func repository(from string) (string, error) {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return "", err
	}
	for dir := from; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return from, nil
		}
	}
}
