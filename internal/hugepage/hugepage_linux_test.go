package hugepage_test

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
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
	counts, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	if kb := regexp.MustCompile(`(?m)^AnonHugePages: +([0-9]+) kB$`).FindSubmatch(counts); kb == nil || string(kb[1]) == "0" {
		t.Errorf("no page of the process is a huge one: %s", counts)
	}
	runtime.KeepAlive(first)
}
