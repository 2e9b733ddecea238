package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// startTimeout is how long building a sandbox may take.
const startTimeout = 20 * time.Second

// Command is what to run and what it may reach.
type Command struct {
	Posture nacre.Posture
	// SocketDir is the host directory bound at nacre.SocketDir; empty for none.
	SocketDir string
	// Secrets join Posture.Env by their names, for this command alone: they are in
	// no record and no argument list.
	Secrets map[string]nacre.Secret
	// Argv is looked up in the PATH of Posture.Env when it holds no slash.
	Argv []string
	// The agent's streams; nil means /dev/null. They stay the caller's to close.
	Stdin, Stdout, Stderr *os.File
	// Terminal says that Stdin is a pseudo terminal, which becomes the
	// agent's controlling one, and that the agent may make its own.
	Terminal bool
	// Network, where set, reaches the ports inside once the command runs.
	Network *Network
	// Label names the session, 1–40 characters of [a-z0-9-], for humans and EndOrphans.
	Label string
	// Drained, where set, returns when what the command printed was read, so that its
	// end is recorded after it. It returns soon after the command has ended.
	Drained func()
}

// ExecError says that the sandbox stood, but the command could not be run in it.
type ExecError struct {
	Message string
	Err     error // the errno of execve
}

func (e *ExecError) Error() string { return e.Message }

func (e *ExecError) Unwrap() error { return e.Err }

// Check refuses commands that no backend can start.
func (c Command) Check() error {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return errors.New("no command")
	case c.Posture.Dir == "":
		return errors.New("posture without a working directory")
	}
	if _, err := nacre.ParseSessionID(c.Label); err != nil {
		return fmt.Errorf("label: %w", err)
	}
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if err := checkStream(f); err != nil {
			return err
		}
	}
	if err := c.checkSecrets(); err != nil {
		return err
	}
	l := c.Posture.Limits
	if l.Wall < 0 || l.Processes < 0 || l.OpenFiles < 0 || l.Memory < 0 || l.FileSize < 0 || l.Output < 0 || l.CPU < 0 || l.Disk < 0 {
		return errors.New("posture with a limit below zero")
	}
	if len(c.Posture.Mounts) > maxMounts {
		return fmt.Errorf("posture with %d mounts: the limit is %d", len(c.Posture.Mounts), maxMounts)
	}
	return nil
}

// checkSecrets refuses a name that stands in the environment already: which of
// the two a program reads is up to it.
func (c Command) checkSecrets() error {
	for name, value := range c.Secrets {
		taken := slices.ContainsFunc(c.Posture.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if name == "" || taken || strings.ContainsAny(name, "=\x00") || strings.Contains(value.Reveal(), "\x00") {
			return fmt.Errorf("secret %q: its name is no variable's, or taken", name)
		}
	}
	return nil
}

// Environ is the whole environment inside, Secrets included: it is for a sandbox alone.
func (c Command) Environ() []string {
	env := slices.Clone(c.Posture.Env)
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		env = append(env, name+"="+c.Secrets[name].Reveal())
	}
	return env
}

// Forwards are the loopback ports inside and the sockets inside that they lead to.
func (c Command) Forwards() ([]inside.Forward, error) {
	var list []inside.Forward
	for _, f := range c.Posture.Forwards {
		if f.Port == 0 || f.Socket == "" || f.Socket != path.Base(f.Socket) || f.Socket == ".." || f.Socket == "." {
			return nil, fmt.Errorf("forward %d to %q: name a port and a socket in the socket directory", f.Port, f.Socket)
		}
		if c.SocketDir == "" {
			return nil, fmt.Errorf("forward %d: there is no socket directory", f.Port)
		}
		list = append(list, inside.Forward{Port: f.Port, Path: path.Join(nacre.SocketDir, f.Socket), Both: f.Both})
	}
	return list, nil
}

// checkStream refuses directories: through one, every path of the host is open.
func checkStream(f *os.File) error {
	if f == nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("stream %s is a directory: refused", f.Name())
	}
	return nil
}

// Start returns when the agent runs, or with the reason why it does not; an
// *ExecError when that is the command's own. Ending ctx kills the sandbox.
func (n *Native) Start(ctx context.Context, c Command) (Process, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	var err error
	if c.Posture.Mounts, err = HideSockets(c.Posture.Mounts); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	plan, err := n.newPlan(c)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	defer plan.close()
	p := &process{limits: c.Posture.Limits.WithDefaults(), done: make(chan struct{})}
	if p.first, err = n.launch(c, plan); err != nil {
		return nil, n.diagnose(err)
	}
	stop := context.AfterFunc(ctx, func() { p.end(endedByContext) })
	if err := p.release(plan.confined); err != nil {
		stop()
		err = p.failed(ctx, err)
		var own *ExecError
		if ctx.Err() != nil || errors.As(err, &own) {
			return nil, err
		}
		return nil, n.diagnose(err)
	}
	p.watch(stop)
	return p, nil
}

// diagnose looks, when a start failed, whether sandboxes can run here at all:
// a forbidden namespace says little where it fails.
func (n *Native) diagnose(err error) error {
	if problem := n.Check(); problem != nil {
		err = problem
	}
	if text := err.Error(); strings.HasPrefix(text, "sandbox: ") {
		return err
	}
	return fmt.Errorf("sandbox: %w", err)
}

// launch gives a PID 1 its plan, and puts it where limits hold while it builds
// its root: entering a group can take as long as that.
func (n *Native) launch(c Command, plan *plan) (*first, error) {
	f, err := n.take(c.Label)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		err = f.propose(plan.Plan, [3]*os.File{or(c.Stdin, null), or(c.Stdout, null), or(c.Stderr, null)}, plan.trees)
		_ = null.Close()
	}
	if settleErr := n.confine(f, c, plan); settleErr != nil {
		err = settleErr // which comes first
	}
	if err != nil {
		_ = f.process.Kill() // else it would wait for what does not come; what it has said can be read
		var report inside.Report
		if inside.Receive(f.control, &report) == nil && report.Error != "" { // it ended by itself, and this is why
			err = errors.New(printable(report.Error))
		}
		f.end()
		return nil, err
	}
	return f, nil
}

// confine waits until PID 1 has settled, and sets the limits of its groups.
func (n *Native) confine(f *first, c Command, plan *plan) error {
	<-f.settled
	if f.err != nil {
		return f.err
	}
	if err := f.name(n.options.StateDir, c.Label); err != nil {
		return err
	}
	limits := c.Posture.Limits.WithDefaults()
	if err := f.group.limit(limits); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	if !f.group.limitsMemory() {
		plan.confined.Data = uint64(limits.Memory)
	}
	return nil
}

func controlPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that deadlines work
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}

func or(f, otherwise *os.File) *os.File {
	if f != nil {
		return f
	}
	return otherwise
}

var controlCharacters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\x00-\x1f\x7f]+`) })

// printable keeps what a sandbox says on one line.
func printable(s string) string { return controlCharacters().ReplaceAllString(s, " ") }
