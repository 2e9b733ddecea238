package brain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
)

func asItIs(line json.RawMessage) (json.RawMessage, error) { return line, nil }

// said has a recorder hear a program of nacre's own wire.
func said(t *testing.T, r *brain.Recorder, events ...brain.Event) {
	t.Helper()
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		a.Listening()
		for _, e := range events {
			a.Say(event(e))
		}
		a.Say(event(brain.Event{Kind: brain.Done}))
		return 0
	})
	s := replaySubject()
	turn, _ := s.Turn(t, []brain.Choice{{Say: "x"}})
	braintest.Listen(t.Context(), t, brain.Record(s.Brain, r), a, turn).Ends(t, brain.Done, "")
}

func called(id, name, in string) brain.Event {
	return brain.Event{Kind: brain.ToolCall, ID: id, Name: name, Input: json.RawMessage(in)}
}

func TestARecordingHoldsWhatWasChosenInTheWordsOfReplay(t *testing.T) {
	var r brain.Recorder
	said(t, &r,
		brain.Event{Kind: brain.Text, Text: "hello"},
		called("1", "Bash", `{"command":"ls","description":"d","timeout":5}`), called("2", "Read", `{"file_path":"/workspace/a","limit":3}`),
		called("3", "Write", `{"file_path":"b","content":"x"}`), called("4", "Edit", `{"file_path":"b","old_string":"x","new_string":"y","replace_all":true}`),
		called("5", "Skill", `{"skill":"nacre:ipc"}`), called("6", "shell", `{"command":"true"}`),
		called("7", "apply_patch", `{"changes":[]}`), called("8", "create_reminder", `{"text":"it's"}`),
		called("9", "Bash", `{"command":"forbidden"}`), brain.Event{Kind: brain.ToolResult, ID: "9", Denied: true, IsError: true},
		called("10", "Server/tool", `{}`), called("11", "Bash", `"text"`))
	data, err := r.Recording("n", "t", asItIs)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"n","task":"t","v":1}
{"say":"hello"}
{"input":{"command":"ls"},"tool":"shell"}
{"input":{"limit":3,"path":"/workspace/a"},"tool":"read"}
{"input":{"content":"x","path":"b"},"tool":"write"}
{"input":{"all":true,"new":"y","old":"x","path":"b"},"tool":"edit"}
{"input":{"command":"true"},"tool":"shell"}
{"input":{"command":"ipc create_reminder '{\"text\":\"it'\\''s\"}'"},"tool":"shell"}
`
	if string(data) != want {
		t.Errorf("have\n%s\nwant\n%s", data, want)
	}
	if left := strings.Join(r.Left(), " "); left != "apply_patch Server/tool Bash" {
		t.Errorf("left %q", left)
	}
	said(t, &r, brain.Event{Kind: brain.Text, Text: "again"})
	if data, err := r.Recording("n", "", asItIs); err != nil || !strings.HasSuffix(string(data), "\n{\"say\":\"again\"}\n") || strings.Contains(string(data), "hello") {
		t.Errorf("a conversation that began again: %s, %v", data, err)
	}
	if _, err := r.Recording("n", "", func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }); err == nil {
		t.Error("a recording that cannot be played was given")
	}
}

// What Claude Code did once is done again by its recording.
func TestASessionOfClaudeCodePlaysAgain(t *testing.T) {
	b, program := claudeHere(t)
	s := claudeSubject(b, program, &stubModel{})
	var r brain.Recorder
	s.Brain = brain.Record(b, &r)
	turn, env := s.Turn(t, []brain.Choice{s.Shell("one", "printf made > made.txt; mkdir deep"), {ID: "two", Tool: "Write", Input: input(map[string]string{"file_path": "deep/b.txt", "content": "b\n"})}, {Say: "end"}})
	launch, err := s.Brain.Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	first, second := t.TempDir(), t.TempDir()
	braintest.Listen(t.Context(), t, s.Brain, s.Start(t, launch, env, first), turn).Ends(t, brain.Done, "")
	data, err := r.Recording("claude", "", asItIs)
	if err != nil {
		t.Fatal(err)
	}
	p := replaySubject()
	turn = brain.Turn{Recording: data}
	if launch, err = p.Brain.Launch(turn); err != nil {
		t.Fatal(err)
	}
	braintest.Listen(t.Context(), t, p.Brain, p.Start(t, launch, []string{actAs + "=1"}, second), turn).Ends(t, brain.Done, "")
	for _, name := range []string{"made.txt", "deep/b.txt"} {
		have, err := os.ReadFile(filepath.Join(second, name))
		want, wantErr := os.ReadFile(filepath.Join(first, name))
		if err != nil || wantErr != nil || string(have) != string(want) {
			t.Errorf("%s: have %q, %v, want %q, %v", name, have, err, want, wantErr)
		}
	}
}
