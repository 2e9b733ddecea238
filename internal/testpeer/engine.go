package testpeer

import (
	"os"
	"testing"
)

// Engine returns the socket of a running container engine, which a variable
// such as NACRE_DOCKER names (.ci/engines starts them), or skips the test by
// that name. Under NACRE_REQUIRE=engines it fails instead.
func Engine(t testing.TB, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	switch {
	case address != "":
	case os.Getenv("NACRE_REQUIRE") == "engines":
		t.Fatal("NACRE_REQUIRE=engines, but " + variable + " names no engine")
	default:
		t.Skip(variable + " names no engine")
	}
	return address
}
