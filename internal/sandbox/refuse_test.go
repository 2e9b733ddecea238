package sandbox_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

func TestHostileMountsAreRefused(t *testing.T) { // M-12
	dir := t.TempDir()
	state := filepath.Join(dir, "private", "state")
	home := filepath.Join(dir, "people", "me")
	for _, d := range []string{state, home, filepath.Join(dir, "project"), filepath.Join(home, ".ssh"), filepath.Join(home, ".config", "gcloud", "a")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	l, err := net.Listen("unix", filepath.Join(dir, "engine.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"to-root": "/", "to-home": home, "to-proc": "/proc/self", "to-socket": filepath.Join(dir, "engine.sock")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(dir, "project", ".git")); err != nil {
		t.Fatal(err)
	}
	n, err := sandbox.Open(sandbox.Options{Init: initBinary(t), StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	for _, c := range []struct{ name, source, target, want string }{
		{"a socket of an engine", filepath.Join(dir, "engine.sock"), "/x", "socket, device, pipe"},
		{"a socket behind a link", filepath.Join(dir, "to-socket"), "/x", "socket, device, pipe"},
		{"a pipe", filepath.Join(dir, "fifo"), "/x", "socket, device, pipe"},
		{"a device", "/dev/null", "/x", "socket, device, pipe"},
		{"the root", "/", "/x", "refused"},
		{"the root behind a link", filepath.Join(dir, "to-root"), "/x", "refused"},
		{"the home", home, "/x", "home directory"},
		{"the home behind a link", filepath.Join(dir, "to-home"), "/x", "home directory"},
		{"what holds the home", filepath.Dir(home), "/x", "home directory"},
		{"root's home", "/root", "/x", ""},
		{"/proc", "/proc", "/x", "kernel's interface"},
		{"a process", "/proc/self/root", "/x", "refused"},
		{"a process behind a link", filepath.Join(dir, "to-proc"), "/x", "kernel's interface"},
		{"/sys", "/sys", "/x", "kernel's interface"},
		{"/dev", "/dev", "/x", "kernel's interface"},
		{"/run", "/run", "/x", "refused"},
		{"keys below the home", filepath.Join(home, ".ssh"), "/x", "holds keys"},
		{"keys below those", filepath.Join(home, ".config", "gcloud", "a"), "/x", "holds keys"},
		{"what holds keys", filepath.Join(home, ".config"), "/x", "holds keys"},
		{"the state directory", state, "/x", "own state"},
		{"what holds the state directory", filepath.Dir(state), "/x", "own state"},
		{"what does not exist", filepath.Join(dir, "absent"), "/x", "no such file"},
		{"a relative path", "project", "/x", "absolute"},
		{"an empty path", "", "/x", "absolute"},
		{"a target in /proc", dir, "/proc/x", "sandbox's own"},
		{"a target in /dev", dir, "/dev/x", "sandbox's own"},
		{"a target that leaves", dir, "/../proc/sys", "sandbox's own"},
		{"the root as a target", dir, "/", "below /"},
		{"a relative target", dir, "x", "below /"},
		{"a target that a bind does not have", filepath.Join(dir, "project"), "/usr/bin/none/such", "create it on the host first"},
	} {
		for _, kind := range []nacre.MountKind{nacre.BindReadOnly, nacre.BindReadWrite} {
			t.Run(c.name+" "+kind.String(), func(t *testing.T) {
				m := command("true")
				m.Posture.Mounts = append(m.Posture.Mounts, nacre.Mount{Kind: kind, Source: c.source, Target: c.target})
				_, err := n.Start(t.Context(), m)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("have %v, want %q", err, c.want)
				}
			})
		}
	}
	for _, folder := range []string{"/usr", "/usr/bin", "/bin", "/usr/lib", "/usr/local", "/etc", "/etc/ssl", "/var", "/boot"} {
		t.Run(folder+" for writing", func(t *testing.T) {
			m := command("true")
			m.Posture.Mounts = append(m.Posture.Mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: folder, Target: "/x"})
			if _, err := n.Start(t.Context(), m); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("have %v", err)
			}
		})
	}
	t.Run("a link planted in the project", func(t *testing.T) {
		m := project(command("true"), filepath.Join(dir, "project"))
		m.Posture.Mounts = append(m.Posture.Mounts, nacre.Mount{Source: filepath.Join(dir, "project", ".git"), Target: "/workspace/.git"})
		if _, err := n.Start(t.Context(), m); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("have %v", err)
		}
	})
	t.Run("a link planted at a target", func(t *testing.T) {
		m := project(command("true"), filepath.Join(dir, "project"))
		m.Posture.Mounts = append(m.Posture.Mounts, nacre.Mount{Source: "/usr", Target: "/workspace/.git"})
		if _, err := n.Start(t.Context(), m); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("have %v", err)
		}
	})
}

func TestIncompleteCommandsAreRefused(t *testing.T) {
	n := open(t)
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for name, change := range map[string]func(*sandbox.Command){
		"no command":             func(c *sandbox.Command) { c.Argv = nil },
		"an empty command":       func(c *sandbox.Command) { c.Argv = []string{""} },
		"no working directory":   func(c *sandbox.Command) { c.Posture.Dir = "" },
		"an absent directory":    func(c *sandbox.Command) { c.Posture.Dir = "/nowhere" },
		"no label":               func(c *sandbox.Command) { c.Label = "" },
		"a label that is a path": func(c *sandbox.Command) { c.Label = "../x" },
		"a negative limit":       func(c *sandbox.Command) { c.Posture.Limits.Memory = -1 },
		"a forward to nowhere":   func(c *sandbox.Command) { c.Posture.Forwards = []nacre.Forward{{Port: 1, Socket: "x"}} },
		"a forward that leaves":  func(c *sandbox.Command) { c.Posture.Forwards = []nacre.Forward{{Port: 1, Socket: "../x"}} },
		"an unknown kind": func(c *sandbox.Command) {
			c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: 9, Target: "/x"})
		},
		"a file as socket dir":    func(c *sandbox.Command) { c.SocketDir = "/etc/passwd" },
		"a public socket dir":     func(c *sandbox.Command) { c.SocketDir = "/tmp" },
		"a directory as a stream": func(c *sandbox.Command) { c.Stdin = root },
		"too many mounts":         func(c *sandbox.Command) { c.Posture.Mounts = make([]nacre.Mount, 10_000) },
		"a zero byte in argv":     func(c *sandbox.Command) { c.Argv = []string{"tr\x00ue"} },
		"a zero byte in a target": func(c *sandbox.Command) { c.Posture.Mounts = []nacre.Mount{{Kind: nacre.Tmpfs, Target: "/a\x00b"}} },
	} {
		t.Run(name, func(t *testing.T) {
			c := command("true")
			change(&c)
			if p, err := n.Start(t.Context(), c); err == nil {
				_ = p.Kill()
				t.Error("started")
			}
		})
	}
}

func TestSecretsWhoseNamesAreTakenAreRefused(t *testing.T) { // M-12
	for _, name := range []string{"", "HOME", "A=B", "A\x00"} {
		c := command("true")
		c.Posture.Env = []string{"HOME=/home/agent"}
		c.Secrets = map[string]nacre.Secret{name: nacre.NewSecret("Zq8-quiet-harbour-55")}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "its name is no variable's, or taken") || strings.Contains(err.Error(), "harbour") {
			t.Errorf("%q: have %v", name, err)
		}
	}
	c := command("true")
	c.Secrets = map[string]nacre.Secret{"B": nacre.NewSecret("two"), "A": nacre.NewSecret("one")}
	if have := strings.Join(c.Environ()[len(c.Posture.Env):], " "); have != "A=one B=two" {
		t.Errorf("have %s", have)
	}
}

// What nacre itself cannot hand over is refused, and nobody waits for PID 1, which
// waits for the rest.
func TestAPlanThatIsTooLargeIsRefused(t *testing.T) {
	n, err := sandbox.Open(sandbox.Options{Init: initBinary(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	p := nacre.Posture{Mounts: sandbox.SystemMounts(), Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "LARGE=" + strings.Repeat("x", 9<<20)}}
	_, err = n.Start(t.Context(), sandbox.Command{Posture: p, Argv: []string{"true"}, Label: "large"})
	if err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("have %v", err)
	}
}

// S-09: a folder of a project that can be read may be opened for writing. A link that another session's agent puts
// in its place meanwhile opens nothing else.
func TestALinkInThePlaceOfAFolderOpensNothingElse(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "project")
	for _, d := range []string{"other", "project/src", "project/lib/src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"src", "lib/src"} {
		for _, linked := range []bool{false, true} {
			sources := sandbox.OpenSources(filepath.Join(dir, "state"))
			if _, err := sources.Open(nacre.Mount{Kind: nacre.BindReadOnly, Source: project, Target: "/workspace"}); err != nil {
				t.Fatal(err)
			}
			if linked {
				place := filepath.Join(project, name)
				if err := os.Rename(place, place+".old"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(dir, "other"), place); err != nil {
					t.Fatal(err)
				}
			}
			_, err := sources.Open(nacre.Mount{Kind: nacre.BindReadWrite, Source: filepath.Join(project, name), Target: "/workspace/" + name})
			if refused := err != nil && strings.Contains(err.Error(), "symbolic link"); refused != linked {
				t.Errorf("%s, linked %v: have %v", name, linked, err)
			}
			sources.Close()
		}
	}
}
