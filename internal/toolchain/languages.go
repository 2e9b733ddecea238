package toolchain

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/posture"
)

// probe asks a language's own program, in / and without any variable that it
// does not need, where it lives, or remembers what it answered. The last
// result says that it answered with absolute folders, which are there.
func probe(ctx context.Context, m *Memo, keep []string, argv ...string) ([]string, bool) {
	lines, ok := recallOrAsk(ctx, m, keep, argv)
	return lines, ok && len(lines) > 0 && absolute(lines)
}

func absolute(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !filepath.IsAbs(line) })
}

// recallOrAsk gives what a program answered, now or before.
func recallOrAsk(ctx context.Context, m *Memo, keep, argv []string) ([]string, bool) {
	key := m.key(keep, argv)
	lines, ok := m.recall(key)
	if !ok {
		if lines, ok = Ask(ctx, m.getenv, keep, argv); ok {
			m.keep(key, lines)
		}
	}
	return lines, ok
}

// Ask gives no lines for a program that says by itself that it has no answer,
// such as rustup's where no compiler was installed. One that was cut short, or
// could not be started, has not answered.
func Ask(ctx context.Context, getenv func(string) string, keep, argv []string) ([]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	program, err := hostpath.LookPath(argv[0])
	if err != nil {
		return nil, false
	}
	command := exec.CommandContext(ctx, program, argv[1:]...)
	command.Dir = "/"
	command.Env = []string{"HOME=" + getenv("HOME"), "PATH=" + getenv("PATH")}
	for _, name := range keep {
		if value := getenv(name); value != "" {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), true
}

// outside finds a program that the system folders do not bring along already.
func (m *Memo) outside(name string) (string, bool) {
	program, err := hostpath.LookPath(name)
	if err != nil {
		return "", false
	}
	real, err := filepath.EvalSymlinks(program)
	return program, err == nil && !m.inSystem(real)
}

// inSystem says that a path is one of the system folders, below or above one.
func (m *Memo) inSystem(path string) bool {
	for _, mount := range m.system() {
		if path == mount.Target || strings.HasPrefix(path, mount.Target+"/") || strings.HasPrefix(mount.Target, strings.TrimSuffix(path, "/")+"/") {
			return true
		}
	}
	return false
}

// alone says that a folder holds a toolchain and not somebody's files: nothing
// that lies around a home, and none of the folders that programs share there.
func (m *Memo) alone(folder string) bool {
	folder, home := filepath.Clean(folder), filepath.Clean(m.getenv("HOME"))
	if folder == "/" || !filepath.IsAbs(folder) || m.inSystem(folder) {
		return false
	}
	shared := []string{home, filepath.Join(home, ".local"), filepath.Join(home, ".config"), filepath.Join(home, ".cache"), filepath.Join(home, "bin")}
	for _, one := range shared {
		if folder == one || strings.HasPrefix(one, folder+"/") {
			return false
		}
	}
	return true
}

// rustToolchain finds the compiler behind rustup, and binds it without rustup:
// a project's own choice of a toolchain is not followed inside. Of cargo's
// folder, which also holds credentials, only what was fetched is bound.
func rustToolchain(ctx context.Context, m *Memo) (posture.Toolchain, bool) {
	rustc, ok := m.outside("rustc")
	if !ok {
		return posture.Toolchain{}, false
	}
	root, ok := probe(ctx, m, []string{"RUSTUP_HOME", "CARGO_HOME"}, rustc, "--print", "sysroot")
	if !ok || len(root) != 1 || !IsDir(root[0]) || !m.alone(root[0]) {
		return posture.Toolchain{}, false
	}
	home := m.getenv("CARGO_HOME")
	if home == "" {
		home = filepath.Join(m.getenv("HOME"), ".cargo")
	}
	inside := posture.Home + "/.cargo"
	t := posture.Toolchain{
		Name: "rust", Path: []string{filepath.Join(root[0], "bin")}, Mounts: []nacre.Mount{{Source: root[0], Target: root[0]}},
		Env:      []string{"CARGO_HOME=" + inside},
		Fetching: posture.Fetching{From: crateIndex(m.getenv), Closed: []string{"CARGO_NET_OFFLINE=true"}},
	}
	for _, fetched := range []string{"registry", "git"} {
		if source := filepath.Join(home, fetched); IsDir(source) {
			t.Fetching.Caches = append(t.Fetching.Caches, nacre.Mount{Source: source, Target: inside + "/" + fetched})
		}
	}
	return t, true
}

// pythonToolchain finds an interpreter such as pyenv's, and the virtual
// environment around it where that is the one in use.
func pythonToolchain(ctx context.Context, m *Memo) (posture.Toolchain, bool) {
	python, ok := m.outside("python3")
	if !ok {
		return posture.Toolchain{}, false
	}
	prefixes, ok := probe(ctx, m, []string{"PYENV_ROOT", "PYENV_VERSION"}, python, "-I", "-S", "-c", "import sys; print(sys.prefix); print(sys.base_prefix)")
	if !ok || len(prefixes) != 2 || !IsDir(prefixes[0]) || !IsDir(prefixes[1]) {
		return posture.Toolchain{}, false
	}
	t := posture.Toolchain{Name: "python"}
	for i, prefix := range prefixes {
		if i == 1 && prefix == prefixes[0] {
			break
		}
		if m.inSystem(prefix) {
			continue
		}
		if !m.alone(prefix) {
			return posture.Toolchain{}, false
		}
		t.Mounts = append(t.Mounts, nacre.Mount{Source: prefix, Target: prefix})
		t.Path = append(t.Path, filepath.Join(prefix, "bin"))
	}
	return t, len(t.Mounts) > 0
}

// nodeToolchain finds a node such as nvm's.
func nodeToolchain(ctx context.Context, m *Memo) (posture.Toolchain, bool) {
	node, ok := m.outside("node")
	if !ok {
		return posture.Toolchain{}, false
	}
	prefix, ok := probe(ctx, m, []string{"NVM_DIR", "VOLTA_HOME", "FNM_DIR"}, node, "-p", "path.dirname(path.dirname(process.execPath))")
	if !ok || len(prefix) != 1 || !IsDir(prefix[0]) || !m.alone(prefix[0]) {
		return posture.Toolchain{}, false
	}
	return posture.Toolchain{
		Name: "node", Path: []string{filepath.Join(prefix[0], "bin")}, Mounts: []nacre.Mount{{Source: prefix[0], Target: prefix[0]}},
	}, true
}
