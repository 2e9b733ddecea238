package brain_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/acp-go-sdk"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// taskGates are those of a task that may write under src alone and not use git.
func taskGates(t *testing.T) []byte {
	t.Helper()
	set := guard.Set{Role: "worker", Project: "/workspace", Gates: []guard.Gate{
		{Capability: "git::no-git-ops", Rules: []gate.Rule{{Kind: gate.NoGitOps}}},
		{Capability: "scope::files-whitelist", Rules: []gate.Rule{{Kind: gate.FilesWhitelist, Whitelist: []string{"src/**"}}}},
	}}
	data, err := set.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// gatedCodex is the real program, sealed, with a model that plays the script.
func gatedCodex(t *testing.T) *stage {
	t.Helper()
	s := codexWire()
	s.Brain = codexHere(t)
	return &stage{Subject: s, c: contender{name: "codex", env: []string{actAs + "=1"}}, native: sealer(t), dir: t.TempDir()}
}

func addFile(path string) []scriptedmodel.Tool {
	return []scriptedmodel.Tool{{Name: "apply_patch", Raw: "*** Begin Patch\n*** Add File: " + path + "\n+hi\n*** End Patch\n"}}
}

// told is what the model was told of its calls, in order.
func told(t *testing.T, s *scriptedmodel.Server) []string {
	t.Helper()
	requests := s.Requests()
	var last struct {
		Input []struct {
			Output json.RawMessage `json:"output"`
		} `json:"input"`
	}
	if err := json.Unmarshal(requests[len(requests)-1].Body, &last); err != nil {
		t.Fatal(err)
	}
	var outputs []string
	for _, item := range last.Input {
		if len(item.Output) > 0 {
			outputs = append(outputs, string(item.Output)) // a text, or parts that are
		}
	}
	return outputs
}

// S-05, S-07: Codex itself asks the gates, and the model is told why not.
func TestCodexAsksTheGatesBeforeEveryCall(t *testing.T) {
	s := gatedCodex(t)
	gates := taskGates(t)
	h := s.play(t, []scriptedmodel.Turn{
		{Tools: s.shell("touch src/x; git push origin main")}, {Tools: addFile("other/a.txt")}, {Tools: addFile("src/a.txt")},
		{Tools: s.shell("cat src/a.txt")}, {Text: "end"},
	}, func(turn *brain.Turn) { turn.Gates = gates }, nil)
	h.Ends(t, brain.Done, "")
	results := told(t, s.server)
	if len(results) != 4 {
		t.Fatalf("the model was told %q", results)
	}
	for i, want := range []string{guard.Prefix + "git::no-git-ops", guard.Prefix + "scope::files-whitelist", "src/a.txt", "hi"} {
		if !strings.Contains(results[i], want) {
			t.Errorf("call %d: the model was told %q, want %q", i, results[i], want)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "other")); err == nil {
		t.Error("the refused patch was made")
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "src/a.txt")); err != nil || string(data) != "hi\n" {
		t.Errorf("the allowed patch: %q, %v", data, err)
	}
	denied := 0
	for _, e := range h.Of(brain.ToolResult) {
		if e.Denied && strings.HasPrefix(e.Text, guard.Prefix) {
			denied++
		}
	}
	if calls := h.Of(brain.ToolCall); len(calls) != 4 || denied != 2 {
		t.Errorf("calls %+v, %d of them denied, want 2 that were and 2 that were not", calls, denied)
	}
}

// S-05, S-07, M-03: the newer models call tools from a script of theirs, and
// each of those calls is asked about as well.
func TestCodexAsksTheGatesBeforeTheCallsOfAScript(t *testing.T) {
	s := gatedCodex(t)
	gates := taskGates(t)
	script := func(source string) []scriptedmodel.Tool { return []scriptedmodel.Tool{{Name: "exec", Raw: source}} }
	h := s.play(t, []scriptedmodel.Turn{
		{Expect: &scriptedmodel.Expect{Tools: []string{"exec"}, NoTools: []string{"spawn_agent", "web_search"}},
			Tools: script(`text(await tools.exec_command({cmd: "touch src/x; git push origin main"}))`)},
		{Tools: script(`text(await tools.apply_patch("*** Begin Patch\n*** Add File: other/a.txt\n+hi\n*** End Patch\n"))`)},
		{Tools: script(`text(await tools.exec_command({cmd: "echo beans-$((6*7))"}))`)}, {Text: "end"},
	}, func(turn *brain.Turn) { turn.Gates, turn.Model = gates, "gpt-6-sol" }, nil)
	h.Ends(t, brain.Done, "")
	if failures := s.server.Failures(); len(failures) > 0 {
		t.Error(failures)
	}
	results := told(t, s.server)
	if len(results) != 3 {
		t.Fatalf("the model was told %q", results)
	}
	for i, want := range []string{guard.Prefix + "git::no-git-ops", guard.Prefix + "scope::files-whitelist", "beans-42"} {
		if !strings.Contains(results[i], want) {
			t.Errorf("call %d: the model was told %q, want %q", i, results[i], want)
		}
	}
	for _, path := range []string{"other", "src/x"} {
		if _, err := os.Stat(filepath.Join(s.dir, path)); err == nil {
			t.Errorf("%s: the refused call was made", path)
		}
	}
}

// Codex asks no hook of what is typed into a command: none stays open for it.
func TestCodexTypesIntoNoCommandWhereThereAreGates(t *testing.T) {
	s := gatedCodex(t)
	gates := taskGates(t)
	run := func(raw string) []scriptedmodel.Tool { return []scriptedmodel.Tool{{Name: "exec_command", Raw: raw}} }
	h := s.play(t, []scriptedmodel.Turn{
		{Tools: run(`{"cmd":"cat","tty":true}`)}, {Tools: run(`{"cmd":"cat; echo its input has ended","yield_time_ms":20000}`)}, {Text: "end"},
	}, func(turn *brain.Turn) { turn.Gates = gates }, nil)
	h.Ends(t, brain.Done, "")
	results := told(t, s.server)
	if len(results) != 2 || !strings.Contains(results[0], "disabled") || !strings.Contains(results[1], "its input has ended") {
		t.Errorf("the model was told %q", results)
	}
}

// S-07: gates that cannot be read refuse every call.
func TestCodexIsRefusedAllWhereTheGatesAreBroken(t *testing.T) {
	s := gatedCodex(t)
	h := s.play(t, []scriptedmodel.Turn{{Tools: s.shell("touch made")}, {Tools: addFile("made")}, {Text: "end"}},
		func(turn *brain.Turn) { turn.Gates = []byte("{") }, nil)
	h.Ends(t, brain.Done, "")
	for _, e := range h.Of(brain.ToolResult) {
		if !e.Denied {
			t.Errorf("a call was made: %+v", e)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err == nil {
		t.Error("a call was made")
	}
}

// Without gates no hook runs; with them the one hook is theirs, for Codex and
// for the agents that wrap it.
func TestTheOneHookOfCodexIsTheGates(t *testing.T) {
	program := filepath.Join(t.TempDir(), "codex")
	write(t, program, "\x7fELF")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, b := range []brain.Brain{
		brain.NewCodex(brain.Options{CodexPath: program}), brain.NewACP(brain.Options{ACP: brain.ACP{Command: []string{program}}}),
	} {
		for _, gated := range []bool{false, true} {
			turn := claudeTurn("x")
			if gated {
				turn.Gates = taskGates(t)
			}
			l, err := b.Launch(turn)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range l.Files {
				if _, twice := files[f.Path]; twice {
					t.Errorf("%s: %s is there twice", b.Name(), f.Path)
				}
				files[f.Path] = string(f.Data)
			}
			required := files["/etc/codex/requirements.toml"]
			if !strings.Contains(required, "allow_managed_hooks_only = true") || strings.Contains(required, "PreToolUse") != gated ||
				strings.Contains(required, "hooks = false") == gated || (files[brain.GatesFile] != "") != gated {
				t.Errorf("%s with gates %t: %s", b.Name(), gated, required)
			}
		}
	}
}

// An agent of the protocol is held where it asks; that this is all is told first.
func TestAnAgentsQuestionsGoThroughTheGates(t *testing.T) {
	for name, c := range map[string]struct {
		kind  acp.ToolKind
		input map[string]any
		want  string
	}{
		"a command that may be run":        {acp.ToolKindExecute, map[string]any{"command": "go test ./..."}, "yes"},
		"git":                              {acp.ToolKindExecute, map[string]any{"command": "git push"}, "no"},
		"git, in words":                    {acp.ToolKindExecute, map[string]any{"command": []string{"bash", "-lc", "git push"}}, "no"},
		"git, called reading":              {acp.ToolKindRead, map[string]any{"command": []string{"git", "push"}}, "no"},
		"a file of the task":               {acp.ToolKindEdit, map[string]any{"file_path": "/workspace/src/a", "content": "x"}, "yes"},
		"a file outside of it":             {acp.ToolKindEdit, map[string]any{"file_path": "/workspace/other/a", "content": "x"}, "no"},
		"a patch of the task":              {acp.ToolKindEdit, map[string]any{"changes": map[string]any{"/workspace/src/a": map[string]any{}}}, "yes"},
		"a patch that leaves it":           {acp.ToolKindEdit, map[string]any{"changes": map[string]any{"/workspace/src/a": 1, "/workspace/b": 1}}, "no"},
		"an edit of nobody knows what":     {acp.ToolKindEdit, map[string]any{}, "no"},
		"a command of nobody knows what":   {acp.ToolKindExecute, nil, "no"},
		"a file named from another folder": {acp.ToolKindExecute, map[string]any{"command": "touch src/a", "cwd": "/workspace/other"}, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			have := ""
			f := &fakeAgent{modes: modesOf("default"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
				r, err := f.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
					SessionId: "s", ToolCall: acp.ToolCallUpdate{ToolCallId: "one", Kind: &c.kind, RawInput: c.input},
					Options: []acp.PermissionOption{{OptionId: "yes", Kind: acp.PermissionOptionKindAllowOnce}, {OptionId: "no", Kind: acp.PermissionOptionKindRejectOnce}},
				})
				if r.Outcome.Selected != nil {
					have = string(r.Outcome.Selected.OptionId)
				}
				return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, err
			}}
			h := talk(t, f, brain.ACP{}, func(turn *brain.Turn) { turn.Gates = taskGates(t) })
			h.Ends(t, brain.Done, "")
			if have != c.want {
				t.Errorf("answered %q, want %q", have, c.want)
			}
			var notes []string
			for _, e := range h.Of(brain.Raw) {
				if e.Name == "gates" || e.Name == "refused" {
					notes = append(notes, e.Name)
				}
			}
			if want := map[string]string{"yes": "gates", "no": "gates refused"}[c.want]; strings.Join(notes, " ") != want {
				t.Errorf("told of %q, want %q", notes, want)
			}
		})
	}
}

// Gates that cannot be read refuse all that an agent asks for.
func TestAnAgentIsRefusedAllWhereTheGatesAreBroken(t *testing.T) {
	have := ""
	kind := acp.ToolKindExecute
	f := &fakeAgent{modes: modesOf("default"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		r, err := f.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
			SessionId: "s", ToolCall: acp.ToolCallUpdate{ToolCallId: "one", Kind: &kind, RawInput: map[string]string{"command": "ls"}},
			Options: []acp.PermissionOption{{OptionId: "yes", Kind: acp.PermissionOptionKindAllowOnce}, {OptionId: "no", Kind: acp.PermissionOptionKindRejectOnce}},
		})
		if r.Outcome.Selected != nil {
			have = string(r.Outcome.Selected.OptionId)
		}
		return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, err
	}}
	talk(t, f, brain.ACP{}, func(turn *brain.Turn) { turn.Gates = []byte("{") }).Ends(t, brain.Done, "")
	if have != "no" {
		t.Errorf("answered %q", have)
	}
}

// What Codex logs of refused calls is told, counted, and bounded.
func TestCodexsLogTellsOfRefusedCalls(t *testing.T) {
	const blocked = "2026-01-01T00:00:00Z ERROR codex_core::tools::router: error=Command blocked by PreToolUse hook: nacre gate: no. Command: git push"
	play := func(lines ...string) *braintest.Actor {
		return braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
			a.Listening()
			for _, line := range lines {
				_, _ = a.Err.Write([]byte(line)) // the host may have had enough
			}
			a.Say(codexWire().Wire.End(""))
			return 0
		})
	}
	turn, _ := codexWire().Turn(t, nil)
	h := braintest.Listen(t.Context(), t, codexWire().Brain, play("noise\n", blocked[:40], blocked[40:]+"\nmore of it\n", strings.Repeat("x", 1<<20)+"\n", blocked), turn)
	h.Ends(t, brain.Done, "")
	if r := h.Of(brain.ToolResult); len(r) != 1 || !r[0].Denied || r[0].Text != "nacre gate: no. Command: git push" {
		t.Errorf("results %+v", r)
	}
	turn.MaxTurns = 2
	h = braintest.Listen(t.Context(), t, codexWire().Brain, play(strings.Repeat(blocked+"\n", 3)), turn)
	h.Ends(t, brain.Error, brain.ClassTurns)
}
