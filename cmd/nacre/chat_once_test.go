package main_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

const chatRoute = "[serve]\nsessions = 1\n[groups.main]\ntools = [\"send_local\"]\n[[route]]\nchannel = \"local\"\nsender = \"ada\"\ngroup = \"main\"\nsession = \"resume\"\noperator = true\n"

// F-59: two questions are asked at once. Each chat ends with the answer to its own,
// and shows that alone.
func TestChatOnceWaitsForItsOwnAnswer(t *testing.T) {
	t.Parallel()
	// The agent that begins first answers with 1, the next one with 2.
	i, _ := thinks(t, chatRoute, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		holds(`ipc tool.invoke.send_local '{\"recipient\":\"ada\",\"body\":\"answer '$(wc -l < /workspace/group/log)'\"}'`), {Text: "Done."},
	}})
	i.serve()
	first := i.begin("chat", "--as", "ada", "--once", "a slow question")
	until(t, "the first agent", func() bool { return i.logged("main") == "begun\n" })
	second := i.begin("chat", "--as", "ada", "--once", "another question")
	until(t, "both to be taken", func() bool { return len(i.taken()) == 2 })
	i.release()
	for want, chat := range map[string]*running{"main     answer 1\n": first, "main     answer 2\n": second} {
		if have := finish(t, chat); have.code != 0 || have.stdout != want {
			t.Errorf("exit %d, have %q, want %q: %s", have.code, have.stdout, want, have.stderr)
		}
	}
}

// F-60: where no answer will come, chat says why and ends: no brain is ready, or the
// agent ended without one.
func TestChatOnceEndsWhereNoAnswerComes(t *testing.T) {
	t.Parallel()
	t.Run("no brain", func(t *testing.T) {
		t.Parallel()
		i := install(t)
		i.config("brain = \"anthropic\"\n" + chatRoute)
		i.serve()
		i.nacre("chat", "--as", "ada", "--once", "hello").want(t, 1, "No answer will come", "anthropic")
	})
	t.Run("an agent that says nothing", func(t *testing.T) {
		t.Parallel()
		i, _ := thinks(t, chatRoute, scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: "Done."}}})
		i.serve()
		i.nacre("chat", "--as", "ada", "--once", "hello").want(t, 1, "The agent ended without an answer.")
	})
}
