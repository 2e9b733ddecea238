package brain_test

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
)

const claudeEnd = `{"type":"result","subtype":"success","result":"bye","session_id":"0f0e0d0c-0b0a-0908-0706-050403020100"}`

// ask plays a Claude Code that asks its host one thing and tells the answer.
func ask(t *testing.T, question string) (answer string, h braintest.Heard) {
	t.Helper()
	answers := make(chan string, 1)
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		in := bufio.NewScanner(a.In)
		in.Scan() // initialize
		in.Scan() // the task
		a.Say(question)
		in.Scan()
		answers <- in.Text()
		a.Say(claudeEnd)
		a.Listening()
		return 0
	})
	s := claudeWire()
	turn, _ := s.Turn(t, nil)
	h = braintest.Listen(t.Context(), t, s.Brain, a, turn)
	return <-answers, h
}

func request(subtype string, fields string) string {
	return `{"type":"control_request","request_id":"q","request":{"subtype":"` + subtype + `",` + fields + `}}`
}

// Every doubt is a denial: an error answer would let the call through.
func TestClaudeIsAnsweredWithADenialInEveryDoubt(t *testing.T) {
	hook := func(callback, event, tool string) string {
		return request("hook_callback", `"callback_id":"`+callback+`","input":{"hook_event_name":"`+event+`","tool_name":"`+tool+`"}`)
	}
	for name, c := range map[string]struct{ question, want string }{
		"a tool of the turn":           {request("can_use_tool", `"tool_name":"Bash","input":{"command":"ls"}`), `"behavior":"allow"`},
		"a tool that is not":           {request("can_use_tool", `"tool_name":"WebFetch","input":{}`), `"behavior":"deny"`},
		"a tool in another case":       {request("can_use_tool", `"tool_name":"bash ","input":{}`), `"behavior":"deny"`},
		"no tool":                      {request("can_use_tool", `"input":{}`), `"behavior":"deny"`},
		"input that is no object":      {request("can_use_tool", `"tool_name":"Bash","input":"ls"`), `"behavior":"deny"`},
		"no input":                     {request("can_use_tool", `"tool_name":"Bash"`), `"behavior":"deny"`},
		"a hook for a tool":            {hook("nacre-pre", "PreToolUse", "Bash"), `"response":{}`},
		"a hook for no tool of it":     {hook("nacre-pre", "PreToolUse", "Agent"), `"permissionDecision":"deny"`},
		"a hook nobody registered":     {hook("other", "PreToolUse", "Bash"), `"permissionDecision":"deny"`},
		"a hook for another event":     {hook("nacre-pre", "Stop", "Bash"), `"permissionDecision":"deny"`},
		"a hook whose input is a list": {request("hook_callback", `"callback_id":"nacre-pre","input":[]`), `"permissionDecision":"deny"`},
		"a server":                     {request("mcp_message", `"server_name":"x","message":{}`), `"subtype":"error"`},
		"something new":                {request("give_me_everything", `"x":1`), `"subtype":"error"`},
	} {
		t.Run(name, func(t *testing.T) {
			answer, h := ask(t, c.question)
			h.Ends(t, brain.Done, "")
			if !json.Valid([]byte(answer)) || !strings.Contains(answer, c.want) || !strings.Contains(answer, `"request_id":"q"`) {
				t.Errorf("answer %s, want %s in it", answer, c.want)
			}
		})
	}
}

func TestClaudeIsEndedWhenItIsNotWhatWasLaunched(t *testing.T) {
	const good = `"tools":["Bash"],"mcp_servers":[],"permissionMode":"default","apiKeySource":"ANTHROPIC_API_KEY"`
	start := func(fields string) string { return `{"type":"system","subtype":"init",` + fields + `}` }
	for name, line := range map[string]string{
		"a tool of its own":               start(strings.Replace(good, `"Bash"`, `"Bash","Agent"`, 1)),
		"a server of the project":         start(strings.Replace(good, `"mcp_servers":[]`, `"mcp_servers":[{"name":"evil"}]`, 1)),
		"a mode that asks nobody":         start(strings.Replace(good, "default", "bypassPermissions", 1)),
		"a key from a helper":             start(strings.Replace(good, "ANTHROPIC_API_KEY", "apiKeyHelper", 1)),
		"nothing said of itself":          `{"type":"system","subtype":"init"}`,
		"a refusal of the protocol":       `{"type":"control_response","response":{"subtype":"error","request_id":"nacre-init","error":"no"}}`,
		"a response that is none":         `{"type":"control_response"}`,
		"a question without an id":        `{"type":"control_request","request":{"subtype":"can_use_tool"}}`,
		"a question that is none":         `{"type":"control_request","request_id":"q","request":[]}`,
		"a result that is none":           `{"type":"result","subtype":7}`,
		"more questions than it reads of": strings.TrimSuffix(strings.Repeat(request("can_use_tool", `"tool_name":"Bash","input":{}`)+"\n", 3000), "\n"),
		// Each < is held as six bytes: 24 MiB an answer, 192 MiB in all.
		"bigger questions than it reads of": strings.TrimSuffix(strings.Repeat(request("can_use_tool", `"tool_name":"Bash","input":{"x":"`+strings.Repeat("<", 4<<20)+`"}`)+"\n", 8), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
				in := bufio.NewScanner(a.In)
				in.Scan()
				in.Scan()
				a.Say(line)
				<-a.Killed
				return 1
			})
			s := claudeWire()
			turn, _ := s.Turn(t, nil)
			braintest.Listen(t.Context(), t, s.Brain, a, turn).Ends(t, brain.Error, brain.ClassProtocol)
		})
	}
}

func TestClaudesEndsAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		code   int
		want   brain.Class
	}{
		"turns":            {`"subtype":"error_max_turns","is_error":true`, 1, brain.ClassTurns},
		"budget":           {`"subtype":"error_max_budget_usd","is_error":true`, 1, brain.ClassBudget},
		"payment required": {`"subtype":"success","is_error":true,"api_error_status":402`, 1, brain.ClassBudget},
		"unauthorised":     {`"subtype":"success","is_error":true,"api_error_status":401`, 1, brain.ClassAuth},
		"too many":         {`"subtype":"success","is_error":true,"api_error_status":429`, 1, brain.ClassRate},
		"overloaded":       {`"subtype":"success","is_error":true,"api_error_status":529`, 1, brain.ClassOverload},
		"no answer":        {`"subtype":"success","is_error":true,"terminal_reason":"api_error"`, 1, brain.ClassNetwork},
		"aborted":          {`"subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"`, 1, brain.ClassKilled},
		"something new":    {`"subtype":"error_of_the_future","is_error":true`, 1, brain.ClassProtocol},
		"no word of error": {`"subtype":"error_during_execution"`, 0, brain.ClassProtocol},
		"no subtype":       {`"result":"x"`, 0, brain.ClassProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
				a.Listening()
				a.Say(`{"type":"result",` + c.result + `}`)
				return c.code
			})
			s := claudeWire()
			turn, _ := s.Turn(t, nil)
			h := braintest.Listen(t.Context(), t, s.Brain, a, turn)
			h.Ends(t, brain.Error, c.want)
			if h.Last().Text == "" {
				t.Error("nothing says why")
			}
		})
	}
}

func TestClaudesRetriesAndDenialsAreTold(t *testing.T) {
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		a.Listening()
		w := claudeWire().Wire
		a.Say(`{"type":"system","subtype":"api_retry","attempt":2,"error_status":529}`,
			w.Call("one"), `{"type":"system","subtype":"permission_denied","tool_use_id":"one"}`, w.Result("one"),
			w.Call("two"), `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"two","is_error":true,"content":[{"type":"text","text":"Exit code 2"},{"type":"image"}]}]}}`,
			claudeEnd)
		return 0
	})
	s := claudeWire()
	turn, _ := s.Turn(t, nil)
	h := braintest.Listen(t.Context(), t, s.Brain, a, turn)
	h.Ends(t, brain.Done, "")
	if retries := h.Of(brain.Retry); len(retries) != 1 || retries[0].Class != brain.ClassOverload {
		t.Errorf("retries %+v", retries)
	}
	results := h.Of(brain.ToolResult)
	if len(results) != 2 || !results[0].Denied || results[0].ExitCode != nil || results[1].Denied {
		t.Fatalf("results %+v, want the first denied", results)
	}
	if code := results[1].ExitCode; code == nil || *code != 2 || results[1].Text != "[image]" {
		t.Errorf("result %+v, want exit code 2", results[1])
	}
	if h.Last().Session != "0f0e0d0c-0b0a-0908-0706-050403020100" {
		t.Errorf("session %q", h.Last().Session)
	}
}

// What failed is told in its own words, without the program's marks around them.
func TestClaudesMarksAreTakenOffErrors(t *testing.T) {
	for said, want := range map[string]string{
		"<tool_use_error>String to replace not found in file.</tool_use_error>": "String to replace not found in file.",
		"<tool_use_error>cut off": "cut off",
		"plain":                   "plain",
		"":                        "",
	} {
		a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
			a.Listening()
			text, err := json.Marshal(said)
			if err != nil {
				return 1
			}
			a.Say(claudeWire().Wire.Call("one"), `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"one","is_error":true,"content":`+string(text)+`}]}}`, claudeEnd)
			return 0
		})
		s := claudeWire()
		turn, _ := s.Turn(t, nil)
		h := braintest.Listen(t.Context(), t, s.Brain, a, turn)
		if results := h.Of(brain.ToolResult); len(results) != 1 || results[0].Text != want {
			t.Errorf("%q: have %+v, want %q", said, results, want)
		}
	}
}
