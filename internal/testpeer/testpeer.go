// Package testpeer names the outside programs that a test talks to, and asks the program that is
// found what it can do. A test whose peer is missing is skipped by name, or fails where
// NACRE_REQUIRE=all says that everything must be here. A test whose peer is here and cannot do what
// the test needs is always skipped by name, because which version a machine has is its owner's.
package testpeer

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// zeromqFolder names the folder in whose node_modules npm put zeromq.
const zeromqFolder = "NACRE_ZEROMQ_NODE"

// unavailable lists the peers, by the names that Missing is given, that cannot
// be obtained on this machine: they are not required there.
const unavailable = "NACRE_UNAVAILABLE"

// without lists the peers, by the same names, that count as missing though they are here, and are
// not required. CI leaves what drives them to the one run that has all of them.
const without = "NACRE_WITHOUT"

// Need returns the path of the program, or ends the test. "zeromq" is no
// program but npm's package: its path is the folder that holds node_modules.
func Need(t testing.TB, program string) string {
	t.Helper()
	if program == "zeromq" {
		folder := os.Getenv(zeromqFolder)
		if folder == "" {
			Missing(t, program, zeromqFolder+" does not name a folder with npm's zeromq")
		}
		return folder
	}
	path, err := exec.LookPath(program)
	if err != nil || leftOut(program) {
		Missing(t, program, program+" is not installed")
	}
	return path
}

func leftOut(peer string) bool { return slices.Contains(strings.Fields(os.Getenv(without)), peer) }

// Missing ends the test because a peer is not here, and why says how it was looked for. It skips
// the test, or fails it under NACRE_REQUIRE=all, unless NACRE_UNAVAILABLE says that this machine
// cannot have the peer, or NACRE_WITHOUT leaves it out.
func Missing(t testing.TB, peer, why string) {
	t.Helper()
	if leftOut(peer) {
		t.Skipf("%s leaves %s out", without, peer)
	}
	if os.Getenv("NACRE_REQUIRE") == "all" && !slices.Contains(strings.Fields(os.Getenv(unavailable)), peer) {
		t.Fatalf("NACRE_REQUIRE=all, but %s", why)
	}
	t.Skip(why)
}

// Able returns the path of the program, or ends the test where a trial of what
// the test needs fails: the program's arguments are one.
func Able(t testing.TB, program string, trial ...string) string {
	t.Helper()
	path := Need(t, program)
	if out, err := exec.CommandContext(t.Context(), path, trial...).CombinedOutput(); err != nil {
		t.Skipf("the %s that is installed cannot run %q: %v: %.200s", program, trial, err, out)
	}
	return path
}

// AtLeast returns the path of the program, or ends the test where the program
// calls itself older than a version, which is for what no trial shows.
func AtLeast(t testing.TB, program, version string) string {
	t.Helper()
	path := Need(t, program)
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	have := firstVersion(string(out))
	if err != nil || slices.Compare(have, firstVersion(version)) < 0 {
		t.Skipf("the %s that is installed is older than %s, or does not say its version: %q, %v", program, version, out, err)
	}
	return path
}

// firstVersion reads the first word of a text that begins with a digit; nil
// sorts before every version.
func firstVersion(text string) (numbers []int) {
	for word := range strings.FieldsSeq(text) {
		word = strings.TrimPrefix(word, "v")
		if word == "" || word[0] < '0' || word[0] > '9' {
			continue
		}
		for part := range strings.SplitSeq(word, ".") {
			number, err := strconv.Atoi(part)
			if err != nil {
				break
			}
			numbers = append(numbers, number)
		}
		return numbers
	}
	return nil
}
