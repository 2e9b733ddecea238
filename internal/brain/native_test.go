package brain_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
)

// stubChat answers Chat Completions as a model that makes the choices one by one.
func stubChat(choices []brain.Choice) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct{ Role string }
		}
		if json.NewDecoder(r.Body).Decode(&in) != nil || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "not asked like this", http.StatusBadRequest)
			return
		}
		turn := 0
		for _, m := range in.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		streamChat(w, choices[min(turn, len(choices)-1)], turn == len(choices)-1)
	}
}

func streamChat(w io.Writer, c brain.Choice, last bool) {
	send := func(delta map[string]any, finish any) {
		choice := map[string]any{"index": 0, "delta": delta, "finish_reason": finish}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", input(map[string]any{"choices": []any{choice}}))
	}
	finish := "stop"
	if c.Say != "" {
		half := len(c.Say) / 2
		send(map[string]any{"role": "assistant", "content": c.Say[:half]}, nil)
		send(map[string]any{"content": c.Say[half:]}, nil)
		if !last {
			c = brain.Choice{ID: "filler", Tool: "glob", Input: input(map[string]string{"pattern": "*.none"})}
		}
	}
	if c.Tool != "" {
		finish = "tool_calls"
		call := func(id, name, arguments string) {
			f := map[string]any{"name": name, "arguments": arguments}
			send(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": id, "type": "function", "function": f}}}, nil)
		}
		half := len(c.Input) / 2
		call(c.ID, c.Tool, string(c.Input[:half]))
		call("", "", string(c.Input[half:]))
	}
	send(map[string]any{}, finish)
	_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n")
}

// nativeSubject is a loop of our own whose model is a stub behind variable.
func nativeSubject(b brain.Native, variable string, handler func(choices []brain.Choice) http.Handler) braintest.Subject {
	s := replaySubject()
	s.Brain = b
	s.Turn = func(t *testing.T, choices []brain.Choice) (brain.Turn, []string) {
		server := httptest.NewServer(handler(choices))
		t.Cleanup(server.Close)
		turn := brain.Turn{Task: "do it", Model: "some-model", SessionToken: nacre.NewSecret(token)}
		// The proxy of the sandbox leads nowhere for loopback and must not be asked.
		return turn, []string{actAs + "=1", variable + "=" + server.URL, "HTTP_PROXY=http://127.0.0.1:1", "NACRE_DOOR=/nonexistent"}
	}
	s.Malformed.Input = json.RawMessage(`{"command": `)
	return s
}

func anthropicSubject() braintest.Subject {
	return nativeSubject(brain.NewAnthropic(brain.Options{}), "ANTHROPIC_BASE_URL", func(choices []brain.Choice) http.Handler {
		return (&stubModel{}).handler(choices)
	})
}

func openaiSubject() braintest.Subject {
	return nativeSubject(brain.NewOpenAI(brain.Options{}), "OPENAI_BASE_URL", func(choices []brain.Choice) http.Handler { return stubChat(choices) })
}

// M-02, M-03: the contract of a brain, held by the loops of our own.
func TestTheAnthropicLoopIsABrain(t *testing.T) { braintest.Run(t, anthropicSubject()) }

func TestTheOpenAILoopIsABrain(t *testing.T) { braintest.Run(t, openaiSubject()) }

// M-05: why a brain ended is one line, with what it complained about said once.
func TestWhyABrainEndedIsSaidOnceInOneLine(t *testing.T) {
	const why = "the answer is not understood: a block that began twice"
	for complaint, want := range map[string]string{
		"brain: " + why + "\n":         why,
		"a bad thing\n  and another\n": why + "; it said: a bad thing and another",
		" \n":                          why,
	} {
		s := anthropicSubject()
		a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
			a.Listening()
			a.Say(`{"kind":"error","class":"protocol","text":"` + why + `"}`)
			_, _ = a.Err.Write([]byte(complaint))
			return 1
		})
		turn, _ := s.Turn(t, nil)
		h := braintest.Listen(t.Context(), t, s.Brain, a, turn)
		h.Ends(t, brain.Error, brain.ClassProtocol)
		if have := h.Last().Text; have != want {
			t.Errorf("%q: have %q, want %q", complaint, have, want)
		}
	}
}

// M-04: and where they are meant to run, inside the native sandbox.
func TestTheAnthropicLoopIsABrainInsideTheSandbox(t *testing.T) {
	native := sealer(t)
	s := anthropicSubject()
	sockets := map[string]string{}
	s.Turn = func(t *testing.T, choices []brain.Choice) (brain.Turn, []string) {
		sockets[t.Name()] = behindSocket(t, (&stubModel{}).handler(choices))
		return brain.Turn{Task: "do it", SessionToken: nacre.NewSecret(token)}, []string{actAs + "=1"}
	}
	s.Start = func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process {
		return startSealed(t, native, l, env, dir, sockets[t.Name()])
	}
	braintest.Real(t, s)
}

func TestALoopRefusesATurnThatCannotBePut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*brain.Turn)
		want   string
	}{
		"an empty task":           {func(turn *brain.Turn) { turn.Task = " " }, "task is empty"},
		"no token":                {func(turn *brain.Turn) { turn.SessionToken = nacre.Secret{} }, "no token"},
		"a token with a line end": {func(turn *brain.Turn) { turn.SessionToken = nacre.NewSecret("a\nB=c") }, "no token"},
		"a model that is a flag":  {func(turn *brain.Turn) { turn.Model = "--notes=/etc/shadow" }, "model"},
		"no model":                {func(turn *brain.Turn) { turn.Model = "" }, "--model"},
		"a session to resume":     {func(turn *brain.Turn) { turn.Resume = "x" }, "cannot be resumed"},
		"a limit below zero":      {func(turn *brain.Turn) { turn.MaxTokens = -1 }, "below 0"},
		"a skill that walks":      {func(turn *brain.Turn) { turn.Skills = []brain.Skill{{Name: "../a"}} }, "skill"},
	} {
		t.Run(name, func(t *testing.T) {
			turn := brain.Turn{Task: "x", Model: "m", SessionToken: nacre.NewSecret(token)}
			c.change(&turn)
			_, err := brain.NewOpenAI(brain.Options{OpenAIFrom: "x"}).Launch(turn)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), token) {
				t.Errorf("have %v, want an error with %q and without the token", err, c.want)
			}
		})
	}
}

func TestALoopIsLaunchedWithItsLimitsAndNoSecretInItsArguments(t *testing.T) {
	turn := brain.Turn{
		Task: "x", System: "notes", Skills: []brain.Skill{{Name: "ipc", Markdown: "how"}}, SessionToken: nacre.NewSecret(token),
		MaxTurns: 7, MaxTokens: 1000, MaxTime: 90 * time.Second, Context: 32_000,
	}
	l, err := brain.NewAnthropic(brain.Options{}).Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Join(l.Argv, " ")
	want := brain.Program + " anthropic --model claude-opus-5-5 --notes " + brain.RoleDir + "/system.md --skills " + brain.RoleDir +
		"/skills --max-turns 7 --max-tokens 1000 --max-seconds 90 --context 32000"
	if have != want {
		t.Errorf("argv %q, want %q", have, want)
	}
	if !slices.Contains(l.Env, "ANTHROPIC_BASE_URL=http://127.0.0.1:3129") || len(l.Mounts) != 0 || len(l.Files) != 2 {
		t.Errorf("launch %+v: want the gateway, no mounts and two files", l)
	}
	l, err = brain.NewOpenAI(brain.Options{Model: "qwen3", Responses: true}).Launch(brain.Turn{Task: "x", SessionToken: nacre.NewSecret(token)})
	if err != nil || !slices.Contains(l.Env, "OPENAI_BASE_URL=http://127.0.0.1:3129/v1") || !slices.Contains(l.Argv, "qwen3") || !slices.Contains(l.Argv, "--responses") {
		t.Errorf("launch %+v, %v: want the configured model and the gateway", l, err)
	}
}

// M-03: the order of detection, and what is missing.
func TestTheFirstBrainThatIsReadyIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		options brain.Options
		want    string
	}{
		"a key alone":               {brain.Options{KeyFrom: "k"}, "anthropic"},
		"both keys":                 {brain.Options{KeyFrom: "k", OpenAIFrom: "o", Model: "m"}, "anthropic"},
		"another upstream alone":    {brain.Options{OpenAIFrom: "o", Model: "m"}, "openai"},
		"an upstream without model": {brain.Options{OpenAIFrom: "o"}, ""},
		"nothing":                   {brain.Options{Model: "m"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, status, err := brain.Detect(t.Context(), c.options)
			switch {
			case c.want == "" && err == nil:
				t.Errorf("%s was chosen, want none", b.Name())
			case c.want == "" && strings.Contains(err.Error(), "--model") != (c.options.OpenAIFrom != ""):
				t.Errorf("have %v, want what is missing", err)
			case c.want != "" && (err != nil || b.Name() != c.want || status.KeyFrom == ""):
				t.Errorf("have %v, %+v, %v, want %s", b, status, err, c.want)
			}
		})
	}
	status := brain.NewOpenAI(brain.Options{OpenAIFrom: "o"}).Detect(t.Context())
	if status.Ready() || !strings.Contains(status.Next, "--model") {
		t.Errorf("%+v, want that a model must be named", status)
	}
	status = brain.NewAnthropic(brain.Options{}).Detect(t.Context())
	if status.Ready() || !strings.Contains(status.Next, "ANTHROPIC_API_KEY") {
		t.Errorf("%+v, want that a key is missing", status)
	}
}
