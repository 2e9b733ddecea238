package idle_test

import (
	"os"
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
