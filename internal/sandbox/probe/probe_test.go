package probe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case sandbox.Init:
		os.Exit(sandbox.Main(os.Args))
	case probe.Name, probe.DecoyName:
		os.Exit(probe.Main(os.Args))
	}
	os.Exit(m.Run())
}

// helper is the binary that probes, decoys and PID 1 run as. It is this one, or the same without C
// where this one has C: that cannot be PID 1 and takes a second to start under the race detector.
func helper(t *testing.T) string {
	t.Helper()
	if !linkedWithC {
		self, err := os.Executable()
		must(t, err)
		return self
	}
	path := filepath.Join(t.TempDir(), "helper")
	cmd := exec.Command(testpeer.Need(t, "go"), "test", "-c", "-o", path, ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the helper: %v: %s", err, out)
	}
	return path
}

// must fails the test where there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryProbeHasItsClass keeps the suite as wide as it is (M-13).
func TestEveryProbeHasItsClass(t *testing.T) {
	least := map[string]int{
		"fs": 25, "late": 40, "net": 25, "namespaces": 10, "privileges": 15, "processes": 25, "proxy": 30, "resources": 15, "secrets": 20, "syscalls": 40,
	}
	seen := map[string]bool{}
	count := map[string]int{}
	for _, p := range probe.All() {
		if seen[p.Name] || strings.TrimSpace(p.Name) != p.Name || p.Run == nil {
			t.Errorf("probe %q is there twice, or is none", p.Name)
		}
		seen[p.Name] = true
		count[p.Class]++
	}
	for class, n := range least {
		if count[class] < n {
			t.Errorf("%s: %d probes, want %d", class, count[class], n)
		}
	}
	t.Logf("%d probes: %v", len(seen), count)
}
