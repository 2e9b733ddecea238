package brain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxClimb is how many directories above npm's shim the program is looked for.
const maxClimb = 6

// program finds the native Claude Code program: the one named by the
// operator, or the one behind the `claude` on the path.
func (c Claude) program() (string, error) {
	name := c.options.ClaudePath
	if name == "" {
		name = onPath(c.options.Path, claudeName)
	}
	if name == "" {
		return "", errors.New("claude is not installed")
	}
	return native(name, claudePackages())
}

// onPath finds a program in a list of directories. A relative entry is passed
// over: it would find the project's own program.
func onPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}

// native resolves npm's shim to the program that it starts, which is under one
// of the names below a directory above: a native one runs inside without Node.
func native(name string, below []string) (string, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return "", err
	}
	if isELF(resolved) {
		return resolved, nil
	}
	dir := filepath.Dir(resolved)
	for range maxClimb {
		for _, sub := range below {
			if program := filepath.Join(dir, sub); isELF(program) {
				return program, nil
			}
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("%s is a script, and the native program is not beside it", resolved)
}

// claudePackages are where npm puts the native program, seen from a directory above.
func claudePackages() []string {
	return besideShim("@anthropic-ai", "claude-code", "claude")
}

// besideShim are the places of a package's native part, which npm installs
// beside the package, below it or above it.
func besideShim(scope, pack, program string) []string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	name := filepath.Join(pack+"-"+runtime.GOOS+"-"+arch, program)
	return []string{
		name,
		filepath.Join(scope, name),
		filepath.Join("node_modules", scope, name),
		filepath.Join("node_modules", scope, pack, "node_modules", scope, name),
	}
}

func isELF(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false // a pipe or device would hold the reader
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	return err == nil && strings.HasPrefix(string(magic), "\x7fELF")
}
