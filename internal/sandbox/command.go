package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

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
	Network *loopback.Network
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

var controlCharacters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\x00-\x1f\x7f]+`) })

// printable keeps what a sandbox says on one line.
func printable(s string) string { return controlCharacters().ReplaceAllString(s, " ") }

// maxMounts of a posture.
const maxMounts = 512

// Init is argv[0] of a process that must run [Main].
const Init = inside.Name

// Options of Open. The zero value re-executes this program, keeps no records
// of what runs, and refuses kernels without Landlock.
type Options struct {
	// Init is the path of the sandbox-init binary; empty re-executes this
	// program with argv[0] "sandbox-init", upon which it must call Main.
	Init string
	// StateDir holds a record per running sandbox, for EndOrphans. Empty keeps none.
	StateDir string
	// WithoutLandlock accepts a kernel that has none.
	WithoutLandlock bool
	// Ahead says that a sandbox will be started soon: Open begins with what does
	// not depend on its command, beside whatever the caller does meanwhile.
	Ahead bool
}
