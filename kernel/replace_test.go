package kernel_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// says is a tool of a plugin, of one version, that answers with its text.
func says(id nacre.CapabilityID, tool nacre.ToolName, version, text string) nacre.Tool {
	c := note(nil)
	c.ID, c.Tool, c.Name, c.ContentHash = id, tool, string(tool), "sha256:"+version
	return nacre.Tool{Capability: c, Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		return json.RawMessage(`{"said":"` + text + `"}`), nil
	})}
}

// D-27: tools take the place of others, all or none, and no other tool notices.
func TestToolsTakeThePlaceOfOthers(t *testing.T) {
	h := open(t, nil)
	for _, tool := range []nacre.Tool{says("p.one", "one", "v1", "old"), says("p.two", "two", "v1", "old"), says("q.three", "three", "v1", "other")} {
		if err := h.Register(tool); err != nil {
			t.Fatal(err)
		}
	}
	said := func(tool nacre.ToolName) string {
		c := call(`{"text":"milk"}`)
		c.Tool, c.ID = tool, ""
		outcome, err := h.Call(t.Context(), c)
		if err != nil {
			return err.Error()
		}
		return string(outcome.Result)
	}
	old := []nacre.CapabilityID{"p.one", "p.two", "p.gone"}
	for name, fresh := range map[string][]nacre.Tool{
		"another's name":       {says("p.one", "one", "v2", "new"), says("p.three", "three", "v2", "new")},
		"another's capability": {says("q.three", "four", "v2", "new")},
		"one name twice":       {says("p.one", "one", "v2", "new"), says("p.four", "one", "v2", "new")},
		"one capability twice": {says("p.one", "one", "v2", "new"), says("p.one", "four", "v2", "new")},
		"what is malformed":    {says("p.one", "one", "v2", "new"), {}},
	} {
		if err := h.Replace(old, fresh); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if have := said("one") + said("two") + said("three"); strings.Contains(have, "new") || strings.Count(have, "said") != 3 {
			t.Errorf("%s: have %s, want it as it was", name, have)
		}
	}
	if err := h.Replace(old, []nacre.Tool{says("p.one", "two", "v2", "new"), says("p.four", "four", "v2", "new")}); err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[nacre.ToolName]string{"one": "there is no tool", "two": "new", "three": "other", "four": "new"} {
		if have := said(tool); !strings.Contains(have, want) {
			t.Errorf("%s: have %s, want %s", tool, have, want)
		}
	}
}

// D-13, D-27: what a person agreed to for some content is asked again for other, a
// ruling that stands for a while and a grant included.
func TestWhatWasAgreedToIsAskedAgainForOtherContent(t *testing.T) {
	asked := 0
	h := open(t, func(c *kernel.Config) {
		c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
			asked++
			ruling, err := yes(ctx, q)
			ruling.Scope, ruling.For = nacre.ScopeTool, time.Minute
			return ruling, err
		})
	})
	risky := func(version string) nacre.Tool {
		tool := says("p.one", "one", version, version)
		tool.Capability.HighRisk, tool.Capability.Returns = true, nacre.Trusted
		return tool
	}
	if err := h.Register(risky("v1")); err != nil {
		t.Fatal(err)
	}
	spend := func(want string) {
		t.Helper()
		c := call(`{"text":"milk"}`)
		c.Tool, c.ID = "one", ""
		if outcome, err := h.Call(t.Context(), c); err != nil || !strings.Contains(string(outcome.Result), want) {
			t.Errorf("have %s, %v, want %s", outcome.Result, err, want)
		}
	}
	spend("v1")
	spend("v1")
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "p.one", Arguments: json.RawMessage(`{"text":"milk"}`)}, writer, "")
	if err != nil || asked != 1 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	if err := h.Replace([]nacre.CapabilityID{"p.one"}, []nacre.Tool{risky("v2")}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: json.RawMessage(`{"text":"milk"}`)}); err != nil || asked != 2 {
		t.Errorf("asked %d times for a grant of other content: %v", asked, err)
	}
	spend("v2")
	if asked != 2 {
		t.Errorf("asked %d times, want once for each content", asked)
	}
}
