package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// maxResident is the most memory that nacre itself takes for a project of 20,000 files or a result
// of 64 MiB, in KiB. It is far above what nacre needs, and far below a copy of them all.
const maxResident = 512 << 10

// S-12: a project of 20,000 files is worked on, verified and landed in bounded
// memory, each stage is told, and a result of 64 MiB is read and bounded.
func TestABigProjectAndABigResult(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	for n := range testpeer.Size(2_000, 20_000) {
		i.write(fmt.Sprintf("p/src/%03d/%05d.txt", n%200, n), fmt.Sprintf("file %d\n", n))
	}
	i.write("p/pkg/x/x.txt", "broken\n")
	i.write("p/pkg/x/much.sh", "head -c 67108864 /dev/zero | tr '\\0' x\n")
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"sh pkg/x/much.sh"}}`+"\n"+
		`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true")
	stuck := time.AfterFunc(10*time.Minute, func() { _ = r.Process.Kill() }) // a slow machine takes minutes
	defer stuck.Stop()
	peak := resident(t, r.Process.Pid)
	_ = r.Wait() // its exit code says it
	have := result{r.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()}
	have.want(t, 0, "▸ verify", "▸ check", "modified pkg/x/x.txt", "merged")
	if len(have.stdout) > 64<<10 {
		t.Errorf("it printed %d bytes", len(have.stdout))
	}
	if have := peak(); have == 0 || have > maxResident {
		t.Errorf("it took %d KiB", have)
	}
	if strings.Contains(i.records("work"), strings.Repeat("x", 4<<10)) {
		t.Error("the result is kept whole")
	}
	if left, err := os.ReadDir(filepath.Join(i.work, "home/.local/state/nacre/sessions/work")); err != nil || len(left) > 10 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// resident watches how much memory a process had at most, in KiB. What the kernel
// reports of one that has ended counts the process that started it.
func resident(t *testing.T, pid int) func() int {
	t.Helper()
	most, stop, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if found := highWater.FindStringSubmatch(fileText(fmt.Sprintf("/proc/%d/status", pid))); found != nil {
				most, _ = strconv.Atoi(found[1]) // digits
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int { close(stop); <-done; return most }
}

var highWater = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)
