package brain_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// record writes the choices as a recording.
func record(t *testing.T, choices []brain.Choice) []byte {
	t.Helper()
	lines := []string{`{"v":1,"name":"test"}`}
	for _, c := range choices {
		line := map[string]any{"say": c.Say}
		if c.Tool != "" {
			line = map[string]any{"tool": c.Tool, "input": c.Input, "id": c.ID}
		}
		data, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(data))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func input(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the tests' own values
	}
	return data
}

func event(e brain.Event) string { return string(input(e)) }

func replaySubject() braintest.Subject {
	return braintest.Subject{
		Brain: brain.NewReplay(),
		Turn: func(t *testing.T, choices []brain.Choice) (brain.Turn, []string) {
			return brain.Turn{Recording: record(t, choices)}, []string{actAs + "=1"}
		},
		Start: func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			return braintest.Exec(t, l, self, env, dir)
		},
		Shell: func(id, command string) brain.Choice {
			return brain.Choice{ID: id, Tool: "shell", Input: input(map[string]string{"command": command})}
		},
		Malformed: brain.Choice{ID: "bad", Tool: "shell", Input: input(map[string]int{"command": 1})},
		Wire: braintest.Wire{
			Text:   func(text string) string { return event(brain.Event{Kind: brain.Text, Text: text}) },
			Call:   func(id string) string { return event(brain.Event{Kind: brain.ToolCall, ID: id, Name: "shell"}) },
			Result: func(id string) string { return event(brain.Event{Kind: brain.ToolResult, ID: id, Text: "ok"}) },
			End:    func(text string) string { return event(brain.Event{Kind: brain.Done, Text: text}) },
		},
	}
}

// M-02: the contract of a brain, held by replay.
func TestReplayIsABrain(t *testing.T) { braintest.Run(t, replaySubject()) }

func TestReplayRefusesATurnThatCannotBePlayed(t *testing.T) {
	good := `{"v":1,"name":"n"}` + "\n"
	for name, c := range map[string]struct {
		turn brain.Turn
		want string
	}{
		"without a recording":     {brain.Turn{Task: "x"}, "no recording"},
		"that resumes":            {brain.Turn{Recording: []byte(good), Resume: "x"}, "cannot be resumed"},
		"with a negative limit":   {brain.Turn{Recording: []byte(good), MaxTurns: -1}, "turn limit"},
		"whose recording is off":  {brain.Turn{Recording: []byte(good + `{"say":"a","say":"b"}`)}, "line 2"},
		"with a task over a MiB":  {brain.Turn{Recording: []byte(good), Task: strings.Repeat("x", brain.MaxTask+1)}, "task of"},
		"with a skill twice":      {brain.Turn{Recording: []byte(good), Skills: []brain.Skill{{Name: "a"}, {Name: "a"}}}, "twice"},
		"with a skill that walks": {brain.Turn{Recording: []byte(good), Skills: []brain.Skill{{Name: "../a"}}}, "skill"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := brain.NewReplay().Launch(c.turn); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestReplayStopsAtTheTurnLimit(t *testing.T) {
	s := replaySubject()
	turn, env := s.Turn(t, []brain.Choice{s.Shell("one", "true"), s.Shell("two", "true")})
	turn.MaxTurns = 1
	launch, err := s.Brain.Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	h := braintest.Listen(t.Context(), t, s.Brain, s.Start(t, launch, env, t.TempDir()), turn)
	h.Ends(t, brain.Error, brain.ClassTurns)
	if n := len(h.Of(brain.ToolCall)); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestReplayKeepsTheClassesOfFailureClosed(t *testing.T) {
	s := replaySubject()
	for class, want := range map[brain.Class]brain.Class{brain.ClassAuth: brain.ClassAuth, "made up": brain.ClassProtocol, "": brain.ClassProtocol} {
		a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
			a.Listening()
			a.Say(event(brain.Event{Kind: brain.Error, Class: class, Text: "why"}))
			return 1
		})
		turn, _ := s.Turn(t, nil)
		braintest.Listen(t.Context(), t, s.Brain, a, turn).Ends(t, brain.Error, want)
	}
}

func TestRecordingsAreReadStrictly(t *testing.T) {
	head := `{"v":1,"name":"n","task":"t"}` + "\n"
	for name, c := range map[string]struct{ recording, want string }{
		"empty":                        {"", "is empty"},
		"only blank lines":             {"\n \n", "is empty"},
		"no header":                    {`{"say":"x"}`, "header"},
		"an unknown version":           {`{"v":2,"name":"n"}`, "version 2"},
		"a header without a name":      {`{"v":1}`, "name"},
		"an unknown key in the header": {`{"v":1,"name":"n","x":1}`, `unknown key "x"`},
		"a key in another case":        {head + `{"Say":"x"}`, "unknown key"},
		"a choice of both":             {head + `{"say":"x","tool":"shell","input":{}}`, "one of"},
		"a choice of neither":          {head + `{}`, "one of"},
		"a tool without input":         {head + `{"tool":"shell"}`, "input"},
		"a say with an id":             {head + `{"say":"x","id":"1"}`, "stands alone"},
		"say that is no text":          {head + `{"say":1}`, "say"},
		"say that is null":             {head + `{"say":null}`, "null"},
		"two values on a line":         {head + `{"say":"x"}{"say":"y"}`, "line 2"},
		"a list":                       {head + `[1]`, "line 2"},
		"an id twice":                  {head + `{"tool":"a","input":{},"id":"c2"}` + "\n" + `{"tool":"a","input":{}}`, `the id "c2"`},
		"a duplicate key deep down":    {head + `{"tool":"a","input":{"x":{"y":1,"y":2}}}`, "duplicate"},
		"JSON nested too deep":         {head + `{"tool":"a","input":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := brain.ParseRecording([]byte(c.recording))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestTheExampleRecordingsAreReadable(t *testing.T) {
	for _, name := range []string{"testdata/fix-a-bug.jsonl", "testdata/misbehave.jsonl"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := brain.ParseRecording(data)
		if err != nil || len(rec.Choices) == 0 {
			t.Errorf("%s: %d choices, %v", name, len(rec.Choices), err)
		}
	}
}

func FuzzParseRecording(f *testing.F) {
	corpus.Add(f, []byte(`{"v":1,"name":"n"}`+"\n"+`{"say":"x"}`+"\n"+`{"tool":"shell","input":{"command":"true"}}`))
	corpus.Add(f, []byte(`{"v":1,"name":"n","task":"t"}`+"\r\n\n"+`{"tool":"a","input":[],"id":"é"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := brain.ParseRecording(data)
		if err != nil {
			return
		}
		for _, c := range rec.Choices {
			if c.Tool != "" && (c.ID == "" || !json.Valid(c.Input)) {
				t.Errorf("choice %+v has no id or no JSON", c)
			}
		}
	})
}
