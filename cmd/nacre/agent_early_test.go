package main_test

import (
	"os"
	"strings"
	"testing"
)

// U-26, U-03, M-52: an agent begins before memory and plugins are open where they were found quiet and
// tell it nothing. What is in its home, and what it shows its model, counts in its calls as it does in
// those of an agent that began after. Where memory has something to tell, it is told.
func TestAnAgentThatBeginsEarlyIsJudgedLikeAnother(t *testing.T) {
	t.Parallel()
	const (
		call = `ipc get_diagnostics '{}' >/dev/null; `
		ask  = `curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN$ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" ` +
			`-H "content-type: application/json" -d '{"model":"claude-sonnet-5-5","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'; `
		told = `for f in "$@"; do case $f in */system.md) cat "$f";; esac; done; `
		kept = "home/.local/state/nacre/quiet.json"
	)
	i := played(t)
	i.write("home/.config/nacre/config.toml", i.read("home/.config/nacre/config.toml")+"[groups.main]\ntools = [\"memory_store\"]\n")
	// settle opens sessions until one finds all quiet, and so keeps nothing anew.
	settle := func() {
		t.Helper()
		eventually(t, "a session that finds all quiet", func() bool {
			before, _ := os.Stat(i.work + "/" + kept) // is not there at first
			i.opens("true", "--fresh").want(t, 0)
			after, err := os.Stat(i.work + "/" + kept)
			return err == nil && before != nil && before.ModTime().Equal(after.ModTime()) && strings.Contains(i.read(kept), `"silent":true`)
		})
	}
	has := func(session, word string, want bool) {
		t.Helper()
		records := i.records(session)
		if !strings.Contains(records, `"kind":"call.begin"`) || strings.Contains(records, word) != want {
			t.Errorf("%s: %s is %t, or no call is recorded:\n%s", session, word, !want, records)
		}
	}
	settle()
	i.opens(call, "--fresh", "--session", "alone").want(t, 0)
	has("alone", `"read_untrusted":true`, false)
	settle()
	i.opens(ask+call, "--fresh", "--session", "asks").want(t, 0, "An answer.")
	has("asks", `"read_untrusted":true`, true)
	i.opens("echo said > $HOME/.claude/projects/talk").want(t, 0)
	settle()
	i.opens(call, "--session", "home").want(t, 0)
	has("home", `"tainted":true`, true)
	i.opens(`ipc memory_store '{"type":"fact","content":"the walrus is written"}'`, "--fresh").want(t, 0)
	i.nacre("memory", "trust", i.reviewed("main")[0].ID).want(t, 0)
	eventually(t, "a command that finds all quiet and a memory that tells something", func() bool {
		i.nacre("exec", "-q", "--", "true").want(t, 0)
		return !strings.Contains(i.read(kept), `"silent"`)
	})
	i.opens(told, "--fresh").want(t, 0, "the walrus is written")
}
