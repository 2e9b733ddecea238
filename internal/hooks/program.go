package hooks

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/nacre-dev/nacre/internal/gate"
)

// programName is the small program that answers hooks and does nothing else.
const programName = "nacre-hook"

// ProgramFor is what a hook's line starts: the small program beside nacre, or nacre
// itself where there is none.
func ProgramFor(nacre string) string {
	small := filepath.Join(filepath.Dir(nacre), programName)
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return small
	}
	return nacre
}

// Main is the small program. It takes the arguments that a hook's line has, and
// refuses the call where it gets others.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string, now func() time.Time) int {
	var pin string
	if len(args) == 3 && args[0] == "hook" && args[1] == "--set" {
		pin = args[2]
	}
	return Answer(pin, stdin, stdout, stderr, getenv, now)
}

// Answer answers one hook by a pin's file, and gives the exit code. It opens nothing
// but the pin: it is called before every tool call.
func Answer(pin string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string, now func() time.Time) int {
	home := HomeFor(getenv)
	h := Hook{
		Pin: pin, Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: getenv,
		Bypassed: func(variable string, w gate.World) bool { return home.Bypassed(getenv, variable, w) },
		Log:      home.LogFile(), Now: now, Deadline: Deadline,
	}
	if term.IsTerminal(int(stdin.Fd())) {
		h.Stdin = bytes.NewReader(nil)
	}
	return h.Answer()
}

// HomeFor are the folders that an environment names, none of which is made.
func HomeFor(getenv func(string) string) Home {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(getenv("HOME"), ".local", "state")
	}
	return HomeOf(getenv, filepath.Join(state, "nacre"))
}
