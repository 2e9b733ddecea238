package brain

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/hostpath"
)

// maxClimb is how many directories above npm's shim the program is looked for.
const maxClimb = 6

const (
	// maxShims is how many shims lead to each other at most, and maxTargets how many
	// files one of them may name.
	maxShims   = 4
	maxTargets = 16
	// maxScript is how much of a script is read, in bytes.
	maxScript = 64 << 10
)

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
// over: it would find the project's own program. So is one that an agent could have
// written: nacre asks it for its version on the host (U-01).
func onPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !hostpath.Filled(os.Getenv, candidate) {
			return candidate
		}
	}
	return ""
}

// native resolves a shim to the program that it starts: a native one runs inside without Node. npm's shim has
// it under one of the names below a directory above. That of pnpm, or one that a person wrote, names what it
// starts, and version managers keep it beside their shims (U-01).
func native(name string, below []string) (string, error) {
	return shims{command: filepath.Base(name), below: below}.follow(name)
}

// shims are followed from one to the next, up to the native program.
type shims struct {
	command string   // by which the first of them was called
	below   []string // where a package's native program may be, below a directory above a shim
	passed  []string // files that led here
}

func (s shims) follow(name string) (string, error) {
	if err := there(name); err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return "", err
	}
	if slices.Contains(s.passed, resolved) {
		return "", fmt.Errorf("%s is a shim that leads back to itself", resolved)
	}
	if len(s.passed) > 0 && hostpath.Filled(os.Getenv, resolved) {
		return "", fmt.Errorf("%s lies in a folder that was an agent's project, and is not started: let the shim that names it name another one", resolved)
	}
	if len(s.passed) > maxShims {
		return "", fmt.Errorf("%s is behind more than %d shims", resolved, maxShims)
	}
	targets := managed(name, s.command)
	switch manager := filepath.Base(resolved); {
	case isELF(resolved) && !slices.Contains(managers(), manager):
		return resolved, runsHere(resolved)
	case !isELF(resolved):
		if program := beside(filepath.Dir(resolved), s.below); program != "" {
			return program, runsHere(program)
		}
		targets = append(named(resolved, s.command), targets...)
	}
	s.passed = append(slices.Clip(s.passed), resolved)
	refused := fmt.Errorf("%s is a script or a shim, and the native program is not beside it", resolved)
	for n, target := range targets {
		program, err := s.follow(target)
		if err == nil {
			return program, nil
		}
		if n == 0 { // what a shim names first is what it is for
			refused = err
		}
	}
	return "", refused
}

// beside looks for a package's program in the directories above.
func beside(dir string, below []string) string {
	for range maxClimb {
		for _, sub := range below {
			if program := filepath.Join(dir, sub); isELF(program) {
				return program
			}
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// managers are programs that act as the one by whose name they are called.
func managers() []string { return []string{"mise", "rtx", "asdf", "volta-shim"} }

// managed are where version managers keep what their shims start, seen from the shim. Of several versions the
// newest comes first: which of them a manager takes for a project is not known here.
func managed(shim, command string) []string {
	var found []string
	dir := filepath.Dir(shim)
	for _, place := range []string{"../installs/*/latest/bin/", "../installs/*/*/bin/", "../installs/*/latest/", "../versions/*/bin/", "../tools/image/packages/*/bin/", "../tools/image/packages/*/*/bin/"} {
		matches, _ := filepath.Glob(filepath.Join(dir, place, command)) // a folder whose name is a pattern has none
		slices.SortStableFunc(matches, func(a, b string) int { return byNumbers(b, a) })
		found = append(found, matches...)
	}
	return found[:min(len(found), maxTargets)]
}

// byNumbers compares two texts, in which numbers count as such: 24.1 comes after 9.10.
func byNumbers(a, b string) int {
	number := func(s string) (digits int) {
		for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
			digits++
		}
		return digits
	}
	for a != "" && b != "" {
		x, y := number(a), number(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		left, right := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if order := cmp.Or(cmp.Compare(len(left), len(right)), cmp.Compare(left, right)); order != 0 {
			return order
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// named are the files that a script names by a path with the command's name in it.
func named(script, command string) []string {
	f, err := os.Open(script)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil || !strings.HasPrefix(string(text), "#!") {
		return nil
	}
	here := strings.NewReplacer(`$(dirname "$0")`, filepath.Dir(script), "${basedir}", filepath.Dir(script), "$basedir", filepath.Dir(script), "${0%/*}", filepath.Dir(script))
	var found []string
	for word := range strings.FieldsFuncSeq(here.Replace(string(text)), func(r rune) bool { return strings.ContainsRune(" \t\n\"';=()", r) }) {
		if filepath.IsAbs(word) && strings.Contains(word, command) && len(found) < maxTargets {
			if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
				found = append(found, word)
			}
		}
	}
	return found
}

// there refuses what is no program on any machine.
func there(program string) error {
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there", program)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s is a link that leads back to itself", program)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder, not a program", program)
	case info.Mode().IsRegular() && info.Size() == 0:
		return fmt.Errorf("%s is empty", program)
	}
	return nil
}

// runsHere refuses a program for other machines than this one.
func runsHere(program string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	const machineAt, amd64, arm64 = 18, 62, 183
	head := make([]byte, machineAt+2)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil //nolint:nilerr // it is too short to be started, which says so itself
	}
	built := map[uint16]string{amd64: "amd64", arm64: "arm64"}[binary.LittleEndian.Uint16(head[machineAt:])]
	if built != "" && built != runtime.GOARCH {
		return fmt.Errorf("%s is built for %s, and this machine is %s", program, built, runtime.GOARCH)
	}
	return nil
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
