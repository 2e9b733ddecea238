// Package testpeer names the outside programs that a test talks to. A test
// whose peer is missing is skipped by name, or fails where NACRE_REQUIRE=all
// says that everything must be here.
package testpeer

import (
	"os"
	"os/exec"
	"testing"
)

// zeromqFolder names the folder in whose node_modules npm put zeromq.
const zeromqFolder = "NACRE_ZEROMQ_NODE"

// Need returns the path of the program, or ends the test. "zeromq" is no
// program but npm's package: its path is the folder that holds node_modules.
func Need(t testing.TB, program string) string {
	t.Helper()
	if program == "zeromq" {
		folder := os.Getenv(zeromqFolder)
		if folder == "" {
			Missing(t, zeromqFolder+" does not name a folder with npm's zeromq")
		}
		return folder
	}
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(t, program+" is not installed")
	}
	return path
}

// Missing ends the test because something it needs is not here: a skip, or a
// failure under NACRE_REQUIRE=all.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("NACRE_REQUIRE") == "all" {
		t.Fatalf("NACRE_REQUIRE=all, but %s", what)
	}
	t.Skip(what)
}
