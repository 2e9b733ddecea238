package idle_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
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
		return anonymous(t)
	}()
	if err := idle.GiveBack(); err != nil {
		t.Fatal(err)
	}
	if after := anonymous(t); after > before-(size>>10)/4 { // the detector keeps traces of it
		t.Errorf("%d kB are in memory, and %d before", after, before)
	}
}

// anonymous is what this process has in memory that is of no file, in kB, as the kernel has counted.
func anonymous(t *testing.T) int {
	t.Helper()
	counts, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(counts), "\nAnonymous:")
	kb := 0
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatalf("%v: %s", err, counts)
	}
	return kb
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
