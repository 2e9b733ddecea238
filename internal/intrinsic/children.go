package intrinsic

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
)

// StartChild is the tool that asks for a sub-agent. Whoever has it has the others, which
// are of no use without it.
const StartChild nacre.ToolName = "start_child"

// MaxWait is how long wait_child waits at most: a call is answered in less than 30 s.
const MaxWait = 25 * time.Second

// childCalls is how often each of the tools may be called in a minute: how many sub-agents there
// may be is bounded apart.
const childCalls = 60

// Parent begins sub-agents for the agent of a session, and tells it of them (M-69). Its zero
// value is for naming the tools.
type Parent struct {
	// Start begins one, and says its name.
	Start nacre.DriverFunc
	// Wait tells what came of one.
	Wait Labelled
	// Stop ends one.
	Stop nacre.DriverFunc
	// Memories tells what one has stored.
	Memories Labelled
}

// Labelled is a driver whose results say themselves how far they can be trusted.
type Labelled func(context.Context, nacre.Invocation) (json.RawMessage, nacre.Label, error)

// Do implements nacre.Driver.
func (d Labelled) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	result, _, err := d(ctx, in)
	return result, err
}

// DoLabelled implements nacre.LabelledDriver.
func (d Labelled) DoLabelled(ctx context.Context, in nacre.Invocation) (json.RawMessage, nacre.Label, error) {
	return d(ctx, in)
}

// ChildTools are the tools of an agent that may have sub-agents.
func ChildTools(p Parent) []nacre.Tool {
	tool := func(name nacre.ToolName, safety nacre.SafetyClass, description, schema string, do nacre.Driver) nacre.Tool {
		return nacre.Tool{Driver: do, Capability: nacre.Capability{
			ID: nacre.CapabilityID("core." + string(name)), Tool: name, Name: string(name), Description: description,
			Safety: safety, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Handling: nacre.Handling{Intrinsic: true}, Schema: json.RawMessage(schema), Rate: nacre.RateLimit{Calls: childCalls, Window: time.Minute},
		}}
	}
	return []nacre.Tool{
		tool(StartChild, nacre.Write,
			"Hand a part of your work to a sub-agent, which works beside you on its own clone of the project. What it returns is checked outside and lands by itself, in the order in which sub-agents were started. It gets no more than you have",
			`{"type":"object","required":["task"],"additionalProperties":false,"properties":{
				"task":{"type":"string","minLength":1,"maxLength":20000,"description":"all that it is told: it knows nothing of your conversation"},
				"role":{"type":"string","minLength":1,"maxLength":64,"description":"the role that holds it; yours, if not said"},
				"tools":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":64},"description":"tools of yours that it may call besides those of its memory; none, if not said"},
				"egress":{"type":"array","maxItems":50,"items":{"type":"string","maxLength":256},"description":"hosts of yours that it may reach, such as example.com:443; none, if not said"},
				"checks":{"type":"array","maxItems":10,"items":{"type":"string","minLength":1,"maxLength":1000},"description":"commands that must succeed on its result, besides the operator's"},
				"budget_usd":{"type":"string","maxLength":20,"description":"what it may spend, such as 0.50; a quarter of what you have left, if not said"},
				"minutes":{"type":"integer","minimum":1,"maximum":1440,"description":"how long it may work; as long as you may, if not said"},
				"memory":{"type":"string","maxLength":64,"description":"the working memory of an earlier sub-agent of yours, to go on with"}}}`,
			p.Start),
		tool("wait_child", nacre.Read,
			"Wait for a sub-agent, and learn what came of it: its state, its report and what it changed. Call it again while its state is running",
			`{"type":"object","required":["child"],"additionalProperties":false,"properties":{
				"child":{"type":"string","maxLength":64},
				"seconds":{"type":"integer","minimum":0,"maximum":25,"default":20,"description":"how long to wait"}}}`,
			p.Wait),
		tool("stop_child", nacre.Write, "End a sub-agent that is not needed any more. Nothing of its work lands then",
			`{"type":"object","required":["child"],"additionalProperties":false,"properties":{"child":{"type":"string","maxLength":64}}}`,
			p.Stop),
		tool("child_memories", nacre.Read, "Read what a sub-agent has stored in its working memory, the latest first",
			`{"type":"object","required":["child"],"additionalProperties":false,"properties":{
				"child":{"type":"string","maxLength":64},
				"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}}}`,
			p.Memories),
	}
}
