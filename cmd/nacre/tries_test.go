package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// U-20, U-21: what will keep the work from landing is said before the model is asked, and
// nothing begins unless a person says so. An agent that may try again is told what failed,
// and works on what it left.
func TestNothingIsPaidForThatCannotLandUnasked(t *testing.T) {
	t.Parallel()
	edit := func(from, to string) scriptedmodel.Turn {
		return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "edit", Input: fmt.Appendf(nil, `{"path":"greeting.txt","old":%q,"new":%q}`, from, to)}}}
	}
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		edit("hello", "hello you"), {Text: "Done."}, // each conversation has these turns
	}})
	i := install(t)
	i.write("p/other.txt", "other\n")
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.write("p/other.txt", "mine\n")
	run := []string{"run", "greet the world", "--brain", "anthropic", "--project", "p", "--session", "work"}
	i.nacre(run...).want(t, 2, "no check was named", "uncommitted changes in other.txt", "add --yes")
	i.nacre(append(run, "--check", "true", "--model", "priceless")...).want(t, 2, "the model priceless has no price")
	if n := len(server.Requests()); n != 0 {
		t.Fatalf("the model was asked %d times", n)
	}
	i.nacre("sessions", "show", "work").want(t, 1, "no such session")
	i.nacre(append(run, "--check", "cat greeting.txt; grep -q you.you greeting.txt", "--yes", "--tries", "2")...).
		want(t, 0, "uncommitted changes in other.txt", "│ hello you", "merged")
	requests := server.Requests()
	if n := len(requests); n != 4 {
		t.Fatalf("the model was asked %d times, want 4", n)
	}
	if second := string(requests[2].Body); !strings.Contains(second, "another try") || !strings.Contains(second, "hello you") {
		t.Errorf("the agent is not told what failed: %s", second)
	}
	if strings.Contains(string(requests[0].Body), "another try") {
		t.Error("the first try is told of another")
	}
}
