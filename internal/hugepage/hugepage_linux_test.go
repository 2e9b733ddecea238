package hugepage_test

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	_ "github.com/nacre-dev/nacre/internal/hugepage"
)

// P-01: what a program allocates first lies in huge pages.
func TestTheHeapBeginsInHugePages(t *testing.T) {
	lent, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || bytes.Contains(lent, []byte("[never]")) {
		t.Skip("this kernel lends no huge pages")
	}
	first := make([]byte, 4<<20)
	for page := 0; page < len(first); page += 4096 {
		first[page] = 1
	}
	if kb := huge(t); kb == 0 {
		t.Error("no page of the process is a huge one")
	}
	runtime.KeepAlive(first)
}

// huge is how much of this process lies in huge pages, in kB, as the kernel has counted.
func huge(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); fields[0] == "AnonHugePages:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("the kernel counts no huge pages")
	return 0
}
