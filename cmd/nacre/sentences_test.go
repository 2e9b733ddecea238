package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-31, U-40, M-60: where nothing is there to act on, or what is needed was not said, the sentence names what to type next.
func TestARefusalNamesWhatToTypeNext(t *testing.T) {
	t.Parallel()
	i := install(t)
	for _, c := range []struct{ typed, want string }{
		{"learn --undo", "there is nothing to take back; nacre learn shows what could be approved"},
		{"learn --undo abc", `no approval has the name "abc"; nacre learn --list shows those there are`},
		{"credentials login notes", "as in nacre credentials login notes --url https://mcp.notes.example/mcp"},
		{"credentials login notes --url http://mcp.notes.example/mcp", "name the MCP server as https://HOST/PATH"},
		{"credentials login notes --device", "nacre credentials login notes --url"},
	} {
		i.nacre(strings.Fields(c.typed)...).want(t, 2, c.want)
	}
}

// U-41: who interrupts nacre doctor --prove is told that, and not of what ended with it.
func TestAProofIsInterrupted(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "git")
	i := install(t)
	i.project()
	path := i.write("said", "")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	check(t, err)
	r := &running{Cmd: i.command(i.tested(), "doctor", "--prove")}
	r.Stdout, r.Stderr = out, out
	check(t, r.Start())
	check(t, out.Close())
	until(t, "the probes", func() bool { return strings.Contains(fileText(path), "probes that share a sandbox") })
	check(t, r.Process.Signal(os.Interrupt))
	finish(t, r).want(t, 130)
	has(t, fileText(path), "nacre: interrupted")
	hasNo(t, fileText(path), "the probes ended", "Signal:")
}
