package ledger_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/ledger"
)

// asked is a run of a session that is asked a body, with a prompt of its own.
func asked(id, session, body string, n byte) ledger.Start {
	s := start(id, "", n)
	task := atom.Task{Parameters: atom.Parameters{Role: "edit-local", AgentID: "a-task", Whitelist: []string{"a/**"}}, Body: body}
	s.Session, s.Task, s.SpecSHA, s.Prompt = session, task.Canonical(), task.SpecSHA(), "You MUST "+body
	s.DNA = dna.Compose(task, nil, [4]byte{n}).String()
	return s
}

func inFile(t *testing.T, path, word string) bool {
	t.Helper()
	if server != "" {
		return inStore(t, path, word)
	}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(word)) {
			return true
		}
	}
	return false
}

// M-57: the texts of a session's rows go, from the file's bytes too; its rows, and what others were asked, stay.
func TestTextsAreForgotten(t *testing.T) {
	path := file(t)
	l := open(t, path)
	for _, s := range []ledger.Start{asked("a", "bad", "find the quokka", 1), asked("b", "good", "find the wombat", 2), asked("c", "bad", "find the wombat", 3), asked("d", "bad", "find the numbat", 4)} {
		if err := l.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s.ID == "d" {
			continue // it runs still
		}
		done := end(ledger.Done)
		done.Summary = s.ID + " saw a quoll"
		if err := l.Finish(t.Context(), s.ID, done); err != nil {
			t.Fatal(err)
		}
		if err := l.Reject(t.Context(), s.ID, ledger.Landing{Reason: s.ID + " brought a bilby", Anchor: anchor(101)}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := l.Written(t.Context(), []string{"bad", ""}); err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "c" {
		t.Fatalf("have %v, %v", list, err)
	}
	if list, err := l.Of(t.Context(), []string{"bad", ""}); err != nil || len(list) != 3 || list[2].ID != "d" {
		t.Fatalf("have %v, %v", list, err)
	}
	if err := l.Forget(t.Context(), []string{"bad", ""}); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{"quokka": false, "a saw a quoll": false, "c brought a bilby": false, "wombat": true, "b saw a quoll": true, "b brought a bilby": true, "numbat": true} {
		if have := inFile(t, path, word); have != want {
			t.Errorf("%q: have %v, want %v", word, have, want)
		}
	}
	if list, err := l.Written(t.Context(), []string{"bad"}); err != nil || len(list) != 0 {
		t.Errorf("have %v, %v", list, err)
	}
	e, err := l.Show(t.Context(), "a")
	if err != nil || !e.Forgotten || e.Task != "" || e.Prompt != "" || e.Status != ledger.Rejected || len(e.Changes) != 3 || e.Changes[2].Anchor != anchor(101) {
		t.Errorf("have %+v, %v", e, err)
	}
	if e, err := l.Show(t.Context(), "c"); err != nil || e.Forgotten || e.Task == "" {
		t.Errorf("have %+v, %v", e, err)
	}
	// Who is asked the same anew has its row whole.
	if err := l.Begin(t.Context(), asked("e", "new", "find the quokka", 5)); err != nil {
		t.Fatal(err)
	}
	if e, err := l.Show(t.Context(), "e"); err != nil || e.Forgotten || e.Prompt == "" {
		t.Errorf("have %+v, %v", e, err)
	}
}
