// Package testpeer names the outside programs that a test talks to. A test
// whose peer is missing is skipped by name, or fails where NACRE_REQUIRE=all
// says that everything must be here.
package testpeer

import (
	"os"
	"os/exec"
	"testing"
)

// Need returns the path of the program, or ends the test.
func Need(t testing.TB, program string) string {
	t.Helper()
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
