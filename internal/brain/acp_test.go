package brain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/acp-go-sdk"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/braintest"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// acpWire is the adapter without the program.
func acpWire() braintest.Subject {
	update := func(u map[string]any) string {
		return string(input(map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": map[string]any{"sessionId": "s", "update": u}}))
	}
	return braintest.Subject{
		Brain: brain.NewACP(brain.Options{}),
		Turn:  func(*testing.T, []brain.Choice) (brain.Turn, []string) { return claudeTurn("do it"), nil },
		Shell: claudeWire().Shell, Malformed: claudeWire().Malformed,
		Wire: braintest.Wire{
			Text: func(text string) string {
				return update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]string{"type": "text", "text": text}})
			},
			Call: func(id string) string {
				return update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": "t", "kind": "execute", "rawInput": map[string]string{"command": "true"}})
			},
			Result: func(id string) string {
				return update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"})
			},
			End: func(string) string { return `{"jsonrpc":"2.0","id":5,"result":{"stopReason":"end_turn"}}` },
		},
	}
}

// M-02: the contract, where the program is acted.
func TestTheACPAdapterIsABrain(t *testing.T) { braintest.Acted(t, acpWire()) }

// fakeAgent is an agent that speaks the protocol through its own library.
type fakeAgent struct {
	acp.Agent // what is not below is never asked
	conn      *acp.AgentSideConnection
	connected chan struct{} // conn is set, and the library has set what it sets late
	modes     *acp.SessionModeState
	loads     bool
	setMode   func(*fakeAgent, acp.SetSessionModeRequest) error
	prompt    func(context.Context, *fakeAgent, acp.PromptRequest) (acp.PromptResponse, error)

	mu        sync.Mutex
	offered   acp.ClientCapabilities
	loaded    acp.SessionId
	asked     []acp.ContentBlock
	cancelled chan struct{}
}

func (f *fakeAgent) connect(a *braintest.Actor) {
	f.conn = acp.NewAgentSideConnection(f, a.Out, a.In) // its logger cannot be set without a race
	close(f.connected)
}

func (f *fakeAgent) Initialize(_ context.Context, p acp.InitializeRequest) (acp.InitializeResponse, error) {
	<-f.connected // the first request may be read before that
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offered = p.ClientCapabilities
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber, AgentCapabilities: acp.AgentCapabilities{LoadSession: f.loads}}, nil
}

func (f *fakeAgent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: "s", Modes: f.modes}, nil
}

func (f *fakeAgent) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	f.mu.Lock()
	f.loaded = p.SessionId
	f.mu.Unlock()
	err := f.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: acp.UpdateAgentMessageText("said long ago")})
	return acp.LoadSessionResponse{Modes: f.modes}, err
}

func (f *fakeAgent) SetSessionMode(_ context.Context, p acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	if f.setMode == nil {
		return acp.SetSessionModeResponse{}, errors.New("no modes")
	}
	return acp.SetSessionModeResponse{}, f.setMode(f, p)
}

func (f *fakeAgent) Cancel(context.Context, acp.CancelNotification) error {
	close(f.cancelled)
	return nil
}

func (f *fakeAgent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	f.mu.Lock()
	f.asked = p.Prompt
	f.mu.Unlock()
	if f.prompt == nil {
		return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, f.say(ctx, "done")
	}
	return f.prompt(ctx, f, p)
}

func (f *fakeAgent) say(ctx context.Context, text string) error {
	return f.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s", Update: acp.UpdateAgentMessageText(text)})
}

func (f *fakeAgent) update(ctx context.Context, u acp.SessionUpdate) error {
	return f.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s", Update: u})
}

// modesOf are modes of permissions, the first of which is current.
func modesOf(names ...string) *acp.SessionModeState {
	s := &acp.SessionModeState{CurrentModeId: acp.SessionModeId(names[0])}
	for _, name := range names {
		s.AvailableModes = append(s.AvailableModes, acp.SessionMode{Id: acp.SessionModeId(name), Name: name})
	}
	return s
}

// talk has the adapter talk to the agent.
func talk(t *testing.T, f *fakeAgent, config brain.ACP, change func(*brain.Turn)) braintest.Heard {
	t.Helper()
	f.cancelled, f.connected = make(chan struct{}), make(chan struct{})
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		f.connect(a)
		<-f.conn.Done()
		return 0
	})
	turn := claudeTurn("do it")
	if change != nil {
		change(&turn)
	}
	return braintest.Listen(t.Context(), t, brain.NewACP(brain.Options{ACP: config}), a, turn)
}

// M-03: the strictest mode is set and verified, or nothing is asked at all.
func TestAnAgentIsPutIntoItsStrictestModeAndMustSaySo(t *testing.T) {
	confirm := func(f *fakeAgent, p acp.SetSessionModeRequest) error {
		return f.update(context.Background(), acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{SessionUpdate: "current_mode_update", CurrentModeId: p.ModeId}})
	}
	silent := func(*fakeAgent, acp.SetSessionModeRequest) error { return nil }
	for name, c := range map[string]struct {
		modes   *acp.SessionModeState
		setMode func(*fakeAgent, acp.SetSessionModeRequest) error
		config  brain.ACP
		want    string
	}{
		"that is in it":                      {modesOf("default", "yolo"), nil, brain.ACP{}, ""},
		"that is not, and says when it is":   {modesOf("yolo", "read-only"), confirm, brain.ACP{}, ""},
		"that does not say that it is":       {modesOf("yolo", "read-only"), silent, brain.ACP{}, "says that it is in"},
		"that cannot be put there":           {modesOf("yolo", "default"), nil, brain.ACP{}, "no modes"},
		"without a mode that is known":       {modesOf("build", "plan"), confirm, brain.ACP{}, "no mode of permissions"},
		"whose mode the operator named":      {modesOf("build", "plan"), confirm, brain.ACP{Mode: "plan"}, ""},
		"without the mode that was named":    {modesOf("build"), confirm, brain.ACP{Mode: "plan"}, `no mode "plan"`},
		"without modes":                      {nil, nil, brain.ACP{}, "no mode of permissions"},
		"without modes, as the operator has": {nil, nil, brain.ACP{Mode: "none"}, ""},
		"with modes where none is wanted":    {modesOf("yolo"), confirm, brain.ACP{Mode: "none"}, `no mode "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAgent{modes: c.modes, setMode: c.setMode}
			h := talk(t, f, c.config, nil)
			if c.want == "" {
				h.Ends(t, brain.Done, "")
				return
			}
			h.Ends(t, brain.Error, brain.ClassProtocol)
			if !strings.Contains(h.Last().Text, c.want) {
				t.Errorf("have %q, want %q in it", h.Last().Text, c.want)
			}
			if len(f.asked) > 0 {
				t.Error("it was given the task all the same")
			}
		})
	}
}

func TestAnAgentThatLeavesItsModeIsEnded(t *testing.T) {
	f := &fakeAgent{modes: modesOf("default", "yolo"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		err := f.update(ctx, acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{SessionUpdate: "current_mode_update", CurrentModeId: "yolo"}})
		<-f.conn.Done()
		return acp.PromptResponse{}, err
	}}
	h := talk(t, f, brain.ACP{}, nil)
	h.Ends(t, brain.Error, brain.ClassProtocol)
	if !strings.Contains(h.Last().Text, "left its mode") {
		t.Errorf("have %q", h.Last().Text)
	}
}

// M-03: a question is answered for this once, and with no where there is doubt.
func TestAnAgentsQuestionsAreAnsweredForThisOnce(t *testing.T) {
	all := []acp.PermissionOption{
		{OptionId: "always", Kind: acp.PermissionOptionKindAllowAlways}, {OptionId: "never", Kind: acp.PermissionOptionKindRejectAlways},
		{OptionId: "yes", Kind: acp.PermissionOptionKindAllowOnce}, {OptionId: "no", Kind: acp.PermissionOptionKindRejectOnce},
	}
	kind := func(k acp.ToolKind) *acp.ToolKind { return &k }
	for name, c := range map[string]struct {
		kind    *acp.ToolKind
		earlier acp.ToolKind
		options []acp.PermissionOption
		want    string // empty: cancelled
	}{
		"to run a command":                 {kind(acp.ToolKindExecute), "", all, "yes"},
		"to edit a file":                   {kind(acp.ToolKindEdit), "", all, "yes"},
		"whose kind was told before":       {nil, acp.ToolKindExecute, all, "yes"},
		"to fetch":                         {kind(acp.ToolKindFetch), "", all, "no"},
		"to switch the mode":               {kind(acp.ToolKindSwitchMode), "", all, "no"},
		"of another kind":                  {kind(acp.ToolKindOther), "", all, "no"},
		"of a kind from the future":        {kind("teleport"), "", all, "no"},
		"without a kind":                   {nil, "", all, "no"},
		"to fetch, under another name now": {kind(acp.ToolKindRead), acp.ToolKindFetch, all, "no"},
		"with no way to allow it once":     {kind(acp.ToolKindExecute), "", slices.Concat(all[:2], all[3:]), "no"},
		"with ways for ever alone":         {kind(acp.ToolKindExecute), "", all[:2], ""},
		"with no ways":                     {kind(acp.ToolKindExecute), "", []acp.PermissionOption{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var have string
			f := &fakeAgent{modes: modesOf("default"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
				if c.earlier != "" {
					if err := f.update(ctx, acp.StartToolCall("one", "t", acp.WithStartKind(c.earlier))); err != nil {
						return acp.PromptResponse{}, err
					}
				}
				r, err := f.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
					SessionId: "s", Options: c.options, ToolCall: acp.ToolCallUpdate{ToolCallId: "one", Kind: c.kind, RawInput: map[string]string{"command": "x"}},
				})
				if r.Outcome.Selected != nil {
					have = string(r.Outcome.Selected.OptionId)
				}
				return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, err
			}}
			h := talk(t, f, brain.ACP{}, nil)
			h.Ends(t, brain.Done, "")
			if have != c.want {
				t.Errorf("answered %q, want %q", have, c.want)
			}
			if n := len(h.Of(brain.ToolCall)); n != 1 {
				t.Errorf("%d calls were told, want 1", n)
			}
		})
	}
}

// What a rejected call comes to is told as denied, and what the agent says
// comes in whole pieces.
func TestAnAgentsWorkIsToldInOrder(t *testing.T) {
	f := &fakeAgent{modes: modesOf("default"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		fetch := acp.ToolKindFetch
		_, err := f.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
			SessionId: "s", Options: []acp.PermissionOption{{OptionId: "no", Kind: acp.PermissionOptionKindRejectOnce}}, ToolCall: acp.ToolCallUpdate{ToolCallId: "one", Kind: &fetch},
		})
		return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, errors.Join(err,
			f.update(ctx, acp.UpdateToolCall("one", acp.WithUpdateStatus(acp.ToolCallStatusFailed))),
			f.say(ctx, "first "), f.say(ctx, "words"),
			f.update(ctx, acp.StartToolCall("two", "t", acp.WithStartKind(acp.ToolKindExecute), acp.WithStartRawInput(map[string]string{}))),
			f.update(ctx, acp.UpdateToolCall("two", acp.WithUpdateRawInput(map[string]string{"command": "ls"}))),
			f.update(ctx, acp.UpdateToolCall("two", acp.WithUpdateStatus(acp.ToolCallStatusFailed), acp.WithUpdateRawOutput(map[string]int{"exit_code": 7}),
				acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock("```\nseen\n```"))}))),
			f.say(ctx, "last words"))
	}}
	h := talk(t, f, brain.ACP{}, nil)
	h.Ends(t, brain.Done, "")
	var have []string
	for _, e := range h.Events {
		if e.Kind != brain.Raw {
			have = append(have, strings.TrimSpace(string(e.Kind)+" "+e.ID+" "+e.Name+" "+e.Text+string(e.Input)))
		}
	}
	want := []string{`tool_call one fetch {"title":""}`, "tool_result one", "text   first words", `tool_call two execute {"command":"ls"}`, "tool_result two  seen", "text   last words", "done   last words"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q,\nwant %q", have, want)
	}
	if r := h.Of(brain.ToolResult); !r[0].Denied || r[1].Denied || r[1].ExitCode == nil || *r[1].ExitCode != 7 {
		t.Errorf("results %+v", r)
	}
}

// The host offers nothing: an agent that asks for its files or a terminal is told so.
func TestAnAgentIsOfferedNeitherFilesNorATerminal(t *testing.T) {
	f := &fakeAgent{modes: modesOf("default"), prompt: func(ctx context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		_, read := f.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "s", Path: "/etc/passwd"})
		_, wrote := f.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: "s", Path: "/tmp/x", Content: "x"})
		_, ran := f.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s", Command: "sh"})
		if read == nil || wrote == nil || ran == nil {
			return acp.PromptResponse{}, errors.New("it was served")
		}
		return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
	}}
	talk(t, f, brain.ACP{}, nil).Ends(t, brain.Done, "")
	if f.offered.Fs.ReadTextFile || f.offered.Fs.WriteTextFile || f.offered.Terminal {
		t.Errorf("offered %+v", f.offered)
	}
}

func TestAnAgentIsToldTheBriefingBeforeTheTask(t *testing.T) {
	f := &fakeAgent{modes: modesOf("default")}
	talk(t, f, brain.ACP{}, func(turn *brain.Turn) {
		turn.Task, turn.System, turn.Skills = "/init", "the brief", []brain.Skill{{Name: "ipc", Markdown: "how"}}
	}).Ends(t, brain.Done, "")
	if len(f.asked) != 2 || !strings.HasPrefix(f.asked[0].Text.Text, "the brief") || !strings.Contains(f.asked[0].Text.Text, "/ipc/SKILL.md") || f.asked[1].Text.Text != "\n/init" {
		t.Errorf("asked %+v", f.asked)
	}
}

func TestASessionIsLoadedWhereTheAgentCan(t *testing.T) {
	resume := func(turn *brain.Turn) { turn.Resume = "s" }
	f := &fakeAgent{modes: modesOf("default"), loads: true}
	h := talk(t, f, brain.ACP{}, resume)
	h.Ends(t, brain.Done, "")
	if f.loaded != "s" || h.Last().Session != "s" || len(h.Of(brain.Text)) != 1 {
		t.Errorf("loaded %q, %+v: what was said long ago is not said again", f.loaded, h.Events)
	}
	talk(t, &fakeAgent{modes: modesOf("default")}, brain.ACP{}, resume).Ends(t, brain.Error, brain.ClassProtocol)
}

func TestHowAnAgentStoppedIsSorted(t *testing.T) {
	for stop, want := range map[acp.StopReason]brain.Class{
		acp.StopReasonEndTurn: "", acp.StopReasonMaxTurnRequests: brain.ClassTurns, acp.StopReasonRefusal: brain.ClassRefused,
		acp.StopReasonMaxTokens: brain.ClassProtocol, acp.StopReasonCancelled: brain.ClassKilled, "tired": brain.ClassProtocol,
	} {
		f := &fakeAgent{modes: modesOf("default"), prompt: func(context.Context, *fakeAgent, acp.PromptRequest) (acp.PromptResponse, error) {
			return acp.PromptResponse{StopReason: stop}, nil
		}}
		h := talk(t, f, brain.ACP{}, nil)
		if h.Last().Class != want {
			t.Errorf("%s: have %q, want %q", stop, h.Last().Class, want)
		}
	}
	f := &fakeAgent{modes: modesOf("default"), prompt: func(context.Context, *fakeAgent, acp.PromptRequest) (acp.PromptResponse, error) {
		return acp.PromptResponse{}, errors.New("API Error: 529 overloaded")
	}}
	talk(t, f, brain.ACP{}, nil).Ends(t, brain.Error, brain.ClassOverload)
}

func TestAnAgentIsCancelledByItsOwnWord(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fakeAgent{modes: modesOf("default"), cancelled: make(chan struct{}), connected: make(chan struct{})}
	f.prompt = func(_ context.Context, f *fakeAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		cancel()
		<-f.cancelled
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}
	a := braintest.Act(braintest.Traits{}, func(a *braintest.Actor) int {
		f.connect(a)
		<-f.conn.Done()
		return 0
	})
	h := braintest.Listen(ctx, t, brain.NewACP(brain.Options{}), a, claudeTurn("do it"))
	h.Ends(t, brain.Error, brain.ClassKilled)
	if !errors.Is(h.Err, context.Canceled) {
		t.Errorf("error %v", h.Err)
	}
	select {
	case <-f.cancelled:
	default:
		t.Error("it was not told to stop")
	}
}

// M-03: nothing of the operator's configuration leads past the gateway.
func TestAnAgentIsLaunchedAsTheOperatorSays(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "agent")
	write(t, program, "#!/bin/sh\n")
	if err := os.Chmod(program, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	good := brain.ACP{Command: []string{program, "acp"}, Folders: []string{"/opt/modules"}, Env: map[string]string{"X": "1"}}
	l, err := brain.NewACP(brain.Options{ACP: good}).Launch(claudeTurn("x"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Argv, good.Command) || !slices.Contains(l.Env, "X=1") || !slices.Contains(l.Env, "ANTHROPIC_BASE_URL=http://127.0.0.1:3129") || len(l.Mounts) != 2 {
		t.Errorf("launch %+v", l)
	}
	for name, change := range map[string]func(*brain.ACP){
		"no command":                  func(c *brain.ACP) { c.Command = nil },
		"a program that is not there": func(c *brain.ACP) { c.Command = []string{dir + "/none"} },
		"a relative program":          func(c *brain.ACP) { c.Command = []string{"./agent"} },
		"a program that is a folder":  func(c *brain.ACP) { c.Command = []string{dir} },
		"another gateway":             func(c *brain.ACP) { c.Env = map[string]string{"ANTHROPIC_BASE_URL": "http://evil"} },
		"another home":                func(c *brain.ACP) { c.Env = map[string]string{"HOME": "/workspace"} },
		"a variable of two lines":     func(c *brain.ACP) { c.Env = map[string]string{"A": "1\nB=2"} },
		"a name with a value in it":   func(c *brain.ACP) { c.Env = map[string]string{"A=1": "2"} },
		"all of the machine":          func(c *brain.ACP) { c.Folders = []string{"/"} },
		"a folder that walks":         func(c *brain.ACP) { c.Folders = []string{"/opt/../etc"} },
	} {
		c := good
		change(&c)
		if _, err := brain.NewACP(brain.Options{ACP: c}).Launch(claudeTurn("x")); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	status := brain.NewACP(brain.Options{ACP: good, KeyFrom: "k"}).Detect(t.Context())
	if !status.Ready() || status.Version != "gate: advisory" {
		t.Errorf("status %+v", status)
	}
}

// acpHere returns the adapter for the agent that NACRE_ACP names, as the
// words of its command, or skips the test. The folder of its modules is bound.
func acpHere(t *testing.T) brain.Agent {
	t.Helper()
	command := strings.Fields(os.Getenv("NACRE_ACP"))
	if len(command) == 0 {
		testpeer.Missing(t, "acp", "an agent of the Agent Client Protocol: name its command in NACRE_ACP")
	}
	config := brain.ACP{Command: command}
	for _, word := range command {
		if dir, _, ok := strings.Cut(word, "/node_modules/"); ok && !slices.Contains(config.Folders, dir+"/node_modules") {
			config.Folders = append(config.Folders, dir+"/node_modules")
		}
	}
	a := brain.NewACP(brain.Options{ACP: config, Path: os.Getenv("PATH"), KeyFrom: "the test"})
	if status := a.Detect(t.Context()); !status.Ready() {
		testpeer.Missing(t, "acp", "an agent of the Agent Client Protocol: "+status.Why)
	}
	return a
}
