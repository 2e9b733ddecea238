package gate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/gate"
)

// S-05: the classes behind the corpus, in the forms that come to an attacker's
// mind and in those that people write every day.
func TestShellClasses(t *testing.T) {
	data, err := os.ReadFile("testdata/class.txt")
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		command := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(fields[2])
		d := bash(t, gate.Rule{Kind: gate.KindOf(fields[0]), Commands: commands}, command)
		if have := verdict(d); have != fields[1] {
			t.Errorf("line %d: %s %q: %s, want %s: %s", n+1, fields[0], command, have, fields[1], d.Reason)
		}
	}
}
