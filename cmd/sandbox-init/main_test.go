package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// U-30, F-08: what a sandbox is started with is linked without C however Go is set. So go install
// makes programs that work: PID 1 cannot have threads of C's.
func TestTheProgramIsLinkedWithoutC(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(packages)) {
		if name == "runtime/cgo" || name == "net" || name == "os/user" {
			t.Errorf("it is linked with %s, which may be linked with C", name)
		}
	}
}
