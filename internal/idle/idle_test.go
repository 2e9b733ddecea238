package idle_test

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/idle"
)

// P-07: what was touched of the program's file is given back, and the program goes on.
func TestTheProgramsFileIsGivenBack(t *testing.T) {
	before := resident(t)
	if err := idle.GiveBack(); err != nil {
		t.Fatal(err)
	}
	if after := resident(t); after >= before {
		t.Errorf("%d kB of files are in memory, and %d before", after, before)
	}
}

// P-07: what is free is given back, and the kernel puts no huge page where it was.
func TestFreeMemoryIsGivenBack(t *testing.T) {
	const size = 64 << 20
	before := func() int {
		work := bytes.Repeat([]byte("work"), size/4)
		defer runtime.KeepAlive(work)
		return counted(t, "Anonymous:")
	}()
	if err := idle.GiveBack(); err != nil {
		t.Fatal(err)
	}
	if after := counted(t, "Anonymous:"); after > before-(size>>10)/4 { // the detector keeps traces of it
		t.Errorf("%d kB are in memory, and %d before", after, before)
	}
}

// counted is what the kernel counts of all memory of this process, in kB.
func counted(t *testing.T, what string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); fields[0] == what {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatalf("the kernel counts no %s", what)
	return 0
}

// resident is what of files this process has in memory, in kB, as the kernel has counted.
func resident(t *testing.T) (kb int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			ours = strings.HasSuffix(fields[len(fields)-1], ".test") && strings.HasPrefix(fields[1], "r-")
		case ours && fields[0] == "Rss:":
			n := 0
			for _, digit := range fields[1] {
				n = n*10 + int(digit-'0')
			}
			kb += n
		}
	}
	return kb
}
