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
	if c.options.ClaudePath != "" {
		return claudeNative(c.options.ClaudePath)
	}
	for _, dir := range filepath.SplitList(c.options.Path) {
		if !filepath.IsAbs(dir) {
			continue // a relative entry would find the project's own program
		}
		candidate := filepath.Join(dir, "claude")
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return claudeNative(candidate)
		}
	}
	return "", errors.New("claude is not installed")
}

// claudeNative resolves npm's shim to the program that it starts: a native
// one runs inside without Node.
func claudeNative(name string) (string, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", fmt.Errorf("claude: %w", err)
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return "", fmt.Errorf("claude: %w", err)
	}
	if isELF(resolved) {
		return resolved, nil
	}
	dir := filepath.Dir(resolved)
	for range maxClimb {
		for _, sub := range claudePackages() {
			if native := filepath.Join(dir, sub, "claude"); isELF(native) {
				return native, nil
			}
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("%s is a script, and the native program is not beside it", resolved)
}

// claudePackages are where npm puts the native program, seen from a directory above.
func claudePackages() []string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	name := "claude-code-" + runtime.GOOS + "-" + arch
	return []string{
		name,
		filepath.Join("@anthropic-ai", name),
		filepath.Join("node_modules", "@anthropic-ai", name),
		filepath.Join("node_modules", "@anthropic-ai", "claude-code", "node_modules", "@anthropic-ai", name),
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
