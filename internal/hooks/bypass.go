package hooks

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/gate"
)

// Bypassed tells whether the orchestrator's own environment lifts a gate (S-02). The value is
// exactly 1, and this is no sandbox. No settings file of an agent, which a repository or the agent
// may have written, names the variable.
func Bypassed(getenv func(string) string, name string, w gate.World) bool {
	if name == "" || getenv(name) != "1" {
		return false
	}
	if _, err := os.Lstat(nacre.SocketDir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	dirs := []string{w.Home}
	for _, dir := range []string{w.Project, w.Dir} {
		for ; dir != "" && filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	for _, dir := range dirs {
		for _, file := range []string{".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json", ".claude.json"} {
			if mentions(filepath.Join(dir, file), name) {
				return false
			}
		}
	}
	return true
}

// mentions tells whether a file names a variable. One that cannot be read may.
func mentions(file, name string) bool {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false
	}
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, gate.MaxHook+1))
	return err != nil || len(data) > gate.MaxHook || bytes.Contains(data, []byte(name)) || bytes.Contains(data, []byte(`\u`))
}

// Bypassed is as the function of that name, and looks into the folders of agents too that
// the environment names: Codex takes variables from a file there.
func (h Home) Bypassed(getenv func(string) string, variable string, w gate.World) bool {
	if getenv(variable) != "1" {
		return false
	}
	for _, file := range []string{
		filepath.Join(h.Claude, "settings.json"), filepath.Join(h.Claude, "settings.local.json"), filepath.Join(h.Claude, ".claude.json"),
		filepath.Join(h.Codex, "config.toml"), filepath.Join(h.Codex, "hooks.json"), filepath.Join(h.Codex, ".env"),
		filepath.Join(w.Home, ".codex", ".env"),
	} {
		if mentions(file, variable) {
			return false
		}
	}
	return Bypassed(getenv, variable, w)
}
