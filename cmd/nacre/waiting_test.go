package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// M-42, M-46: whatever waits for a person waits in one list, and that is the same on the command line, on
// the web page and in a chat, each with its kind and with how it is seen whole.
func TestEverythingWaitsAtEachFace(t *testing.T) {
	t.Parallel()
	i, fake, service := chatting(t, "telegram", scriptedmodel.Turn{Text: "Done."})
	with := strings.NewReplacer(`tools = [`, `tools = ["memory_*", `, "stop = true\n", "stop = true\nconfig = true\n").Replace(i.configured()) + "[egress]\npropose = false\n"
	i.config(with)
	i.project()
	rec := i.writes(map[string]string{".envrc": "touch owned\n"})
	i.nacre("run", "greet", "--recording", rec, "--project", "p", "--session", "work", "--check", "true").want(t, 1, "it waits for a person")
	i.nacre("exec", "-q", "--", "sh", "-c", `ipc create_reminder '{"title":"pay","list":"Work"}'; ipc memory_store '{"type":"fact","content":"a fact"}'; curl -s https://registry.example.com/; true`).want(t, 0, "R-1")
	held := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	question := i.question()
	i.config(with + "[[credential]]\nname = \"forge\"\nhost = \"forge.example\"\nmethods = [\"GET\"]\npaths = [\"/\"]\nstanding_secret = true\ngroups = [\"main\"]\nvalue_oauth = \"" + filepath.Join(i.work, "forge.oauth") + "\"\n")
	i.nacre("operators", "pair", "bob").want(t, 0)
	people := roster.Roster{Config: filepath.Join(i.work, "home/.config/nacre"), State: i.state(), Now: time.Now}
	if _, err := people.Ask(t.Context(), "discord:7"); err != nil {
		t.Fatal(err)
	}
	i.serve()
	send, _ := i.web()
	faces := map[string]func() string{
		"the command line": func() string { return i.nacre("approvals", "waiting").stdout },
		"the web page":     func() string { return send("", nil) },
		"a chat":           func() string { fake.writes(service.users.ada, "!waiting"); return fake.heard() },
	}
	waits := map[string]string{
		"tool": question.ID, "landing": "nacre sessions diff work", "learn": "nacre learn", "memory": "memories to review: 1",
		"pairing": "discord:7 wants to be bob", "credential": "needs sign-in",
	}
	for face, shows := range faces {
		for kind, what := range waits {
			until(t, kind+" at "+face, func() bool { said := shows(); return strings.Contains(said, what) && strings.Contains(said, kind) })
		}
	}
	i.nacre("approvals", "deny", question.ID).want(t, 0)
	finish(t, held)
}
