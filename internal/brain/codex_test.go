package brain_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// codexHere returns the adapter for the real program, or skips the test.
func codexHere(t *testing.T) brain.Codex {
	t.Helper()
	c := brain.NewCodex(brain.Options{CodexPath: os.Getenv("NACRE_CODEX"), Path: os.Getenv("PATH"), ResponsesFrom: "the test"})
	if status := c.Detect(t.Context()); !status.Ready() {
		testpeer.Missing(t, "codex", "Codex: "+status.Why)
	}
	return c
}

// codexWire is the adapter without the program.
func codexWire() braintest.Subject {
	item := func(kind string, item map[string]any) string {
		return string(input(map[string]any{"type": kind, "item": item}))
	}
	return braintest.Subject{
		Brain: brain.NewCodex(brain.Options{}),
		Turn:  func(*testing.T, []brain.Choice) (brain.Turn, []string) { return claudeTurn("do it"), nil },
		Shell: func(id, command string) brain.Choice {
			return brain.Choice{ID: id, Tool: "exec_command", Input: input(map[string]string{"cmd": command})}
		},
		Malformed: brain.Choice{ID: "bad", Tool: "exec_command", Input: json.RawMessage(`{"cmd": `)},
		Silent:    true,
		Wire: braintest.Wire{
			Text: func(text string) string {
				return item("item.completed", map[string]any{"id": "m", "type": "agent_message", "text": text})
			},
			Call: func(id string) string {
				return item("item.started", map[string]any{"id": id, "type": "command_execution", "command": "/bin/bash -c 'true'", "status": "in_progress"})
			},
			Result: func(id string) string {
				return item("item.completed", map[string]any{"id": id, "type": "command_execution", "aggregated_output": "ok", "exit_code": 0, "status": "completed"})
			},
			End: func(string) string {
				return `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":5}}`
			},
		},
	}
}

// M-02: the contract, where the program is acted.
func TestTheCodexAdapterIsABrain(t *testing.T) { braintest.Acted(t, codexWire()) }

func TestCodexsEventsBecomeOurs(t *testing.T) {
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		a.Listening()
		a.Say(`{"type":"thread.started","thread_id":"0f0e0d0c-0b0a-0908-0706-050403020100"}`, `{"type":"turn.started"}`,
			`{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found"}}`,
			`{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -c 'echo '\"'\"'a'\"'\"'; exit 3'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`,
			`{"type":"error","message":"Reconnecting... 1/4 (unexpected status 529 <unknown status code>: scripted fault)"}`,
			`{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"x","aggregated_output":"hi\n","exit_code":3,"status":"failed"}}`,
			`{"type":"item.started","item":{"id":"item_2","type":"file_change","changes":[{"path":"/workspace/a","kind":"add"}],"status":"in_progress"}}`,
			`{"type":"item.completed","item":{"id":"item_2","type":"file_change","changes":[{"path":"/workspace/a","kind":"add"}],"status":"completed"}}`,
			`{"type":"item.started","item":{"id":"item_3","type":"command_execution","command":"rm -rf /","status":"in_progress"}}`,
			`{"type":"item.completed","item":{"id":"item_3","type":"command_execution","command":"rm -rf /","status":"declined"}}`,
			codexWire().Wire.Text("bye"), codexWire().Wire.End(""))
		return 0
	})
	turn, _ := codexWire().Turn(t, nil)
	h := braintest.Listen(t.Context(), t, codexWire().Brain, a, turn)
	h.Ends(t, brain.Done, "")
	calls, results := h.Of(brain.ToolCall), h.Of(brain.ToolResult)
	if len(calls) != 3 || len(results) != 3 {
		t.Fatalf("calls %+v, results %+v", calls, results)
	}
	if calls[0].Name != "shell" || string(calls[0].Input) != `{"command":"echo 'a'; exit 3"}` || *results[0].ExitCode != 3 || !results[0].IsError {
		t.Errorf("have %+v %s, %+v", calls[0], calls[0].Input, results[0])
	}
	if calls[1].Name != "apply_patch" || results[1].IsError || !results[2].Denied || string(calls[2].Input) != `{"command":"rm -rf /"}` {
		t.Errorf("have %+v and %+v", calls[1:], results[1:])
	}
	if retries := h.Of(brain.Retry); len(retries) != 1 || retries[0].Class != brain.ClassOverload {
		t.Errorf("retries %+v", retries)
	}
	if cost := h.Of(brain.Cost); len(cost) != 1 || *cost[0].Usage != (brain.Usage{In: 6, Out: 5, CacheRead: 4}) {
		t.Errorf("cost %+v", cost)
	}
	if last := h.Last(); last.Session != "0f0e0d0c-0b0a-0908-0706-050403020100" || last.Text != "bye" {
		t.Errorf("end %+v", last)
	}
}

// What Codex says when a turn fails, as it was heard.
func TestCodexsFailuresAreSorted(t *testing.T) {
	for said, want := range map[string]brain.Class{
		"exceeded retry limit, last status: 429 Too Many Requests":                                       brain.ClassRate,
		"unexpected status 529 <unknown status code>: scripted fault, url: http://127.0.0.1:3129/v1":     brain.ClassOverload,
		"unexpected status 401 Unauthorized: scripted fault, url: http://127.0.0.1:3129/v1/responses":    brain.ClassAuth,
		"unexpected status 402 Payment Required: budget exhausted":                                       brain.ClassBudget,
		"stream disconnected before completion: Transport error: network error":                          brain.ClassNetwork,
		"Codex ran out of room in the model's context window. Start a new thread":                        brain.ClassContext,
		"Incomplete response returned, reason: max_output_tokens":                                        brain.ClassProtocol,
		`{"error":{"code":null,"message":"scripted fault","param":null,"type":"invalid_request_error"}}`: brain.ClassProtocol,
	} {
		a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
			a.Listening()
			a.Say(`{"type":"error","message":`+string(input(said))+`}`, `{"type":"turn.failed","error":{"message":`+string(input(said))+`}}`)
			return 1
		})
		turn, _ := codexWire().Turn(t, nil)
		h := braintest.Listen(t.Context(), t, codexWire().Brain, a, turn)
		h.Ends(t, brain.Error, want)
		if !strings.HasPrefix(h.Last().Text, said) {
			t.Errorf("have %q", h.Last().Text)
		}
	}
}

func TestCodexStopsAtTheLimitOfCalls(t *testing.T) {
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		a.Listening()
		w := codexWire().Wire
		for i := 0; a.Say(w.Call(fmt.Sprint(i)), w.Result(fmt.Sprint(i))); i++ {
			select {
			case <-a.Killed:
				return 1
			default:
			}
		}
		return 1
	})
	turn, _ := codexWire().Turn(t, nil)
	turn.MaxTurns = 3
	h := braintest.Listen(t.Context(), t, codexWire().Brain, a, turn)
	h.Ends(t, brain.Error, brain.ClassTurns)
	if n := len(h.Of(brain.ToolCall)); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

func TestCodexIsLaunchedWithWhatNothingInsideCanChange(t *testing.T) {
	program := filepath.Join(t.TempDir(), "codex")
	write(t, program, "\x7fELF")
	b := brain.NewCodex(brain.Options{CodexPath: program})
	turn := claudeTurn("x")
	turn.System, turn.Model, turn.Context = "notes \"\"\" of\nthe host", "some-model", 32_000
	turn.Skills = []brain.Skill{{Name: "ipc", Markdown: "---\ndescription: 'calls the host'\n---\nhow"}}
	l, err := b.Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	if have := strings.Join(l.Argv, " "); have != "/opt/codex/bin/codex exec --json --skip-git-repo-check --strict-config -" {
		t.Errorf("argv %q", have)
	}
	var managed string
	for _, f := range l.Files {
		if f.Mode&0o222 != 0 || strings.HasPrefix(f.Path, "/workspace") || strings.HasPrefix(f.Path, "/home") {
			t.Errorf("%s with mode %o can be changed from inside", f.Path, f.Mode)
		}
		if strings.Contains(string(f.Data), token) {
			t.Errorf("%s holds the token", f.Path)
		}
		if f.Path == "/etc/codex/managed_config.toml" {
			managed = string(f.Data)
		}
	}
	for _, want := range []string{"calls the host", "/opt/nacre/role/skills/ipc/SKILL.md", `model = "some-model"`, "model_context_window = 32000", "project_doc_max_bytes = 0", ":3129/v1"} {
		if !strings.Contains(managed, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, managed)
		}
	}
	if !slices.Contains(l.Env, "NACRE_MODEL_TOKEN="+token) {
		t.Errorf("environment %q", l.Env)
	}
	turn.Resume = "0f0e0d0c-0b0a-0908-0706-050403020100"
	if l, err = b.Launch(turn); err != nil || !slices.Contains(l.Argv, "resume") || !slices.Contains(l.Argv, turn.Resume) {
		t.Errorf("argv %q, %v", l.Argv, err)
	}
	for name, change := range map[string]func(*brain.Turn){
		"a session that is a flag": func(turn *brain.Turn) { turn.Resume = "--last" },
		"a model that is a flag":   func(turn *brain.Turn) { turn.Model = "-x" },
		"no task":                  func(turn *brain.Turn) { turn.Task = "" },
	} {
		turn := claudeTurn("x")
		change(&turn)
		if _, err := b.Launch(turn); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// codexSealed is the real program where it is meant to run.
func codexSealed(t *testing.T, b brain.Codex, serve func(choices []brain.Choice) http.Handler) braintest.Subject {
	native := sealer(t)
	s := codexWire()
	s.Brain = b
	sockets := map[string]string{}
	s.Turn = func(t *testing.T, choices []brain.Choice) (brain.Turn, []string) {
		sockets[t.Name()] = behindSocket(t, serve(choices))
		return claudeTurn("do it"), nil
	}
	s.Start = func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process {
		return startSealed(t, native, l, env, dir, sockets[t.Name()])
	}
	return s
}

// M-03, M-04: the contract, held by the real program inside the sandbox.
func TestCodexIsABrainInsideTheSandbox(t *testing.T) {
	braintest.Real(t, codexSealed(t, codexHere(t), choosing))
}
