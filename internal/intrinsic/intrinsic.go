// Package intrinsic has the core's own tools, which every group may use (D-30). They read
// what the host already knows of a session, and touch nothing.
package intrinsic

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/kernel"
)

const (
	// maxListed is how many tools a search lists.
	maxListed = 50
	// maxListedBytes is how much of schemas and descriptions one page lists.
	maxListedBytes = 192 << 10
	// defaultDiagnosed is how many events get_diagnostics tells of unless it is
	// asked for fewer or more.
	defaultDiagnosed = 20
)

// Session is what the tools read of one session. Kernel and Plugins are asked when a
// tool is called: the session is whole by then.
type Session struct {
	Group    nacre.Group
	Started  time.Time
	Refusals *Refusals
	Kernel   func() *kernel.Kernel
	Plugins  func() any // the health of its plugins, as JSON
}

// Names are the names of all tools that nacre itself brings, those of memory, of
// schedules, of sub-agents and for folders with them: no plugin's tool can have one (D-25).
func Names() ([]nacre.ToolName, error) {
	tools, err := memory.Tools(&memory.Store{}) // to be named, not called
	var names []nacre.ToolName
	for _, tool := range slices.Concat(Session{}.Tools(), ChildTools(Parent{}), []nacre.Tool{FolderTool(nil)}, schedule.Tools(schedule.Access{}), tools) {
		names = append(names, tool.Capability.Tool)
	}
	return names, err
}

// Tools are the core's own.
func (s Session) Tools() []nacre.Tool {
	intrinsic := func(tool nacre.ToolName, description, schema string, do nacre.DriverFunc) nacre.Tool {
		return nacre.Tool{Driver: do, Capability: nacre.Capability{
			ID: nacre.CapabilityID("core." + string(tool)), Tool: tool, Name: string(tool), Description: description,
			Safety: nacre.Read, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Handling: nacre.Handling{Intrinsic: true},
			Schema: json.RawMessage(schema),
		}}
	}
	return []nacre.Tool{
		intrinsic("list_tools", "List the tools this session may use, with their argument schemas",
			`{"type":"object","additionalProperties":false,"properties":{"query":{"type":"string","maxLength":200,"description":"what you want to do: only the tools that fit, the best first"},
				"after":{"type":"string","maxLength":64,"description":"the next page: the name that came as next"}}}`,
			s.listTools),
		intrinsic("get_session_info", "Tell the group, when the session started and which plugins are up",
			`{"type":"object","additionalProperties":false,"properties":{}}`, s.info),
		intrinsic("get_diagnostics", "Tell what became of this session's calls: stages, outcomes, times and error codes",
			`{"type":"object","additionalProperties":false,"properties":{
				"correlation":{"type":"string","maxLength":128,"description":"only the events of this call"},
				"last_n":{"type":"integer","minimum":1,"maximum":100,"description":"how many events, the newest last; 20 if not said"},
				"filter_outcome":{"enum":["routed","rejected","sanitized","error"]}}}`, s.diagnose),
		{Driver: expander{s}, Capability: nacre.Capability{
			ID: "core.expand_handle", Tool: "expand_handle", Name: "expand_handle",
			Description: "Show more of a result that was too large, by the handle that came with it. That is more rows, a value inside of it by its path, or the next part of a long text",
			Safety:      nacre.Read, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Handling: nacre.Handling{Intrinsic: true},
			Schema: json.RawMessage(`{"type":"object","required":["handle"],"additionalProperties":false,"properties":{
				"handle":{"type":"string","maxLength":64},
				"query":{"type":"string","maxLength":4096,"description":"a JSON object, each of its fields optional. Rows: {\"offset\": 0, \"limit\": 50, \"fields\": [\"id\"], \"filter\": {\"status\": \"open\"}}. A value inside: {\"path\": \"data.issues[3].title\"}. A text: {\"path\": \"…\", \"from\": 0, \"unit\": \"characters\" or \"lines\"}, from where the page before said next"}}}`),
		}},
	}
}

// Listed is one tool as an agent or a plugin sees it.
type Listed struct {
	Name        nacre.ToolName  `json:"name"`
	Description string          `json:"description"`
	Arguments   json.RawMessage `json:"arguments_schema"`
	Confirmed   bool            `json:"needs_confirmation,omitempty"`
}

// List is a capability as it is listed.
func List(c nacre.Capability) Listed { return Listed{c.Tool, c.Description, c.Schema, c.HighRisk} }

func (s Session) listTools(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
	var args struct{ Query, After string }
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, err
	}
	found := s.Kernel().Catalog(in.Principal) // by name
	if args.Query != "" {
		found, args.After = s.Kernel().Search(args.Query, in.Principal, maxListed), ""
	}
	return json.Marshal(pageOf(found, args.After))
}

// listed is one page of the catalogue. It is never cut to a frame: a tool is of
// no use without its schema.
type listed struct {
	Tools []Listed `json:"tools"`
	// Next is where the next page begins; empty on the last one.
	Next string `json:"next,omitempty"`
}

// pageOf takes the tools after a name, so many that a page stays readable.
func pageOf(found []nacre.Capability, after string) listed {
	page, size := listed{Tools: []Listed{}}, 0
	for i, c := range found {
		if after != "" && string(c.Tool) <= after {
			continue
		}
		if size += len(c.Schema) + len(c.Description); size > maxListedBytes && len(page.Tools) > 0 {
			page.Next = string(found[i-1].Tool)
			return page
		}
		page.Tools = append(page.Tools, List(c))
	}
	return page
}

func (s Session) info(context.Context, nacre.Invocation) (json.RawMessage, error) {
	return json.Marshal(s.Info())
}

// Info is what get_session_info tells.
func (s Session) Info() map[string]any {
	return map[string]any{
		"group": s.Group, "session_start": s.Started.UTC().Format("2006-01-02T15:04:05Z"), "plugins": s.Plugins(),
	}
}

// diagnosed is one event of this session, with nothing of what it was about.
type diagnosed struct {
	at          time.Time
	Time        string            `json:"time"`
	Event       kernel.Event      `json:"event"`
	Tool        string            `json:"tool,omitempty"`
	Correlation nacre.Correlation `json:"correlation,omitempty"`
	Stage       int               `json:"stage,omitempty"`
	Outcome     string            `json:"outcome"`
	Code        nacre.Code        `json:"code,omitempty"`
	Original    string            `json:"original_code,omitempty"`
	Reason      nacre.ReasonCode  `json:"reason,omitempty"`
	Millis      int64             `json:"ms"`
	Plugin      string            `json:"plugin_state,omitempty"`
}

func (s Session) diagnose(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
	var args struct {
		Correlation   nacre.Correlation `json:"correlation"`
		LastN         int               `json:"last_n"`
		FilterOutcome string            `json:"filter_outcome"`
	}
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, err
	}
	if args.LastN == 0 {
		args.LastN = defaultDiagnosed
	}
	traces, err := s.Kernel().QueryTraces(kernel.TraceQuery{Session: in.Principal.Session})
	if err != nil {
		return nil, err
	}
	degraded := append([]string{}, s.Kernel().Degraded()...) // an empty list, not null
	events := []diagnosed{}
	for _, t := range traces {
		if (args.Correlation != "" && t.Correlation != args.Correlation) || !selected(args.FilterOutcome, t.Outcome) {
			continue
		}
		events = append(events, diagnosedOf(t, s.Kernel().Source(t.Tool), degraded))
	}
	for _, d := range s.Refusals.all() {
		if (args.Correlation == "" || d.Correlation == args.Correlation) && selected(args.FilterOutcome, d.Outcome) {
			events = append(events, d)
		}
	}
	slices.SortStableFunc(events, func(a, b diagnosed) int { return a.at.Compare(b.at) })
	events = events[max(0, len(events)-args.LastN):]
	return json.Marshal(map[string]any{"events": events, "plugins": map[string]any{"degraded": degraded, "health": s.Plugins()}})
}

// selected reports whether an outcome is one that was asked for. A rejection is an
// error to whoever called, and is found as such, too (F-83).
func selected(filter, outcome string) bool {
	return filter == "" || filter == outcome || filter == nacre.OutcomeError && outcome == "rejected"
}

func diagnosedOf(t kernel.Trace, source string, degraded []string) diagnosed {
	d := diagnosed{
		at: t.InvokedAt, Time: t.InvokedAt.UTC().Format(time.RFC3339), Event: t.Event, Tool: string(t.Tool), Correlation: t.Correlation, Stage: t.Stage,
		Outcome: t.Outcome, Code: t.Code, Original: t.Original, Reason: t.Reason, Millis: t.Took.Milliseconds(),
	}
	if slices.Contains(degraded, source) {
		d.Plugin = "DEGRADED"
	}
	return d
}

// expander shows pages of results that were too large. How far a page can be
// trusted is what its result was labelled with.
type expander struct{ s Session }

// Do implements nacre.Driver.
func (e expander) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	page, _, err := e.DoLabelled(ctx, in)
	return page, err
}

// DoLabelled implements nacre.LabelledDriver.
func (e expander) DoLabelled(ctx context.Context, in nacre.Invocation) (json.RawMessage, nacre.Label, error) {
	var args struct{ Handle, Query string }
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, nacre.Untrusted, err
	}
	var query nacre.Query
	if args.Query != "" {
		var err error
		if query, err = handle.ParseQuery(json.RawMessage(args.Query)); err != nil {
			return nil, nacre.Untrusted, &nacre.Refusal{
				Code: nacre.CodeValidationFailed, Stage: 3, Field: "query", Reason: nacre.ReasonInvalidArguments, Message: "query: " + err.Error(),
			}
		}
	}
	frame, err := e.s.Kernel().Expand(ctx, args.Handle, query, in.Principal)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	page, err := json.Marshal(frame)
	return page, frame.Label, err
}
