// Package selfhost_test lets nacre work on its own repository, by its face. It has the built
// binaries, a clone of HEAD, a brain inside and, for Claude Code, a scripted model on loopback. It
// imports nothing of what it drives.
package selfhost_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// built is where the binaries of this test lie.
var built string

func TestMain(m *testing.M) {
	os.Exit(testpeer.Main(func() int {
		// What runs sealed fetches nothing: the modules that tests need come first.
		if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go mod download: %v\n%s", err, out)
			return 1
		}
		built = testpeer.Built()
		return m.Run()
	}))
}

// root is the module's folder, seen from this package.
const root = "../.."
