package schedule

import (
	"context"
	_ "embed" // the skill
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
)

// Plugin is the first part of the tools' capability ids.
const Plugin = "schedule"

//go:embed skill.md
var skill string

// Skill is the markdown that teaches an agent to use the tools.
func Skill() string { return skill }

// Access is what the tools need of the host.
type Access struct {
	// Open opens the schedules for one call.
	Open func(ctx context.Context) (*Store, error)
	// Label is the trust of what a session says now.
	Label func(nacre.SessionID) nacre.Label
	// Zone is the time zone of schedules that name none.
	Zone string
}

const (
	addSchema = `{"type":"object","required":["prompt"],"additionalProperties":false,"properties":{
		"prompt":{"type":"string","minLength":1,"maxLength":8192,"description":"what is to be done then, in full: whoever does it knows nothing of this conversation"},
		"cron":{"type":"string","maxLength":256,"description":"minute hour day month weekday, such as 0 6 * * mon-fri"},
		"every":{"type":"string","maxLength":32,"description":"an interval of a minute or more, such as 15m or 24h"},
		"at":{"type":"string","maxLength":64,"description":"once: 2026-11-22T17:00:00+01:00, or 17:00 for the next time it is five"},
		"zone":{"type":"string","maxLength":64,"description":"the time zone, such as Europe/Berlin; the host's if not said"},
		"missed":{"enum":["run-once","skip"],"description":"what becomes of runs that were missed; run-once if not said"},
		"session":{"enum":["fresh","resume"],"description":"resume goes on from the run before; fresh if not said"}}}`
	listSchema   = `{"type":"object","additionalProperties":false,"properties":{}}`
	removeSchema = `{"type":"object","required":["id"],"additionalProperties":false,"properties":{"id":{"type":"string","maxLength":64}}}`
)

// Tools let agents make schedules for their own group, list and remove them
// (D-34). What they make wakes an agent later without anybody there, so a person
// is asked unless the operator says otherwise.
func Tools(a Access) []nacre.Tool {
	tool := func(name, description, schema string, safety nacre.SafetyClass, d driver) nacre.Tool {
		d.access = a
		return nacre.Tool{Driver: d, Capability: nacre.Capability{
			ID: nacre.CapabilityID(Plugin + "." + name), Tool: nacre.ToolName(name), Name: name, Description: description, Schema: json.RawMessage(schema),
			Safety: safety, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Handling: nacre.Handling{HighRisk: safety != nacre.Read},
		}}
	}
	add := tool("schedule_add", "Have a task done later, once or again and again: by an agent that is woken for it", addSchema, nacre.Write, driver{do: doAdd})
	add.Capability.Behavioural, add.Capability.Sinks = true, []string{"prompt"}
	return []nacre.Tool{
		add,
		tool("schedule_list", "List this group's schedules, when each is due next and what came of it last", listSchema, nacre.Read, driver{do: doList}),
		tool("schedule_remove", "Remove one of this group's schedules", removeSchema, nacre.Write, driver{do: doRemove}),
	}
}

// driver carries out one tool. What it tells of a schedule that an untrusted
// session made is untrusted (K-25).
type driver struct {
	access Access
	do     func(ctx context.Context, c toolCall) (any, nacre.Label, error)
}

// toolCall is what a tool works with.
type toolCall struct {
	Access
	store     *Store
	group     nacre.Group
	session   nacre.SessionID
	arguments json.RawMessage
}

// Do implements nacre.Driver.
func (d driver) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	result, _, err := d.DoLabelled(ctx, in)
	return result, err
}

// DoLabelled implements nacre.LabelledDriver. It takes group and session from the
// principal and from nowhere else.
func (d driver) DoLabelled(ctx context.Context, in nacre.Invocation) (raw json.RawMessage, label nacre.Label, err error) {
	if in.Principal.Group == "" || in.Principal.Session == "" {
		return nil, nacre.Untrusted, errors.New("schedules asked for by nobody's session")
	}
	store, err := d.access.Open(ctx)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	result, label, err := d.do(ctx, toolCall{d.access, store, in.Principal.Group, in.Principal.Session, in.Arguments})
	if err != nil {
		return nil, nacre.Untrusted, refusal(err)
	}
	raw, err = json.Marshal(result)
	return raw, label, err
}

// refusal puts what the agent can act on into its words; the rest stays an error.
func refusal(err error) error {
	for known, code := range map[error]string{ErrInvalid: "INVALID_SCHEDULE", ErrLimit: "SCHEDULE_LIMIT", ErrNotFound: "NOT_FOUND"} {
		if errors.Is(err, known) {
			return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: err.Error(), Original: code}
		}
	}
	return err
}

// When picks the one way that was named to say when: a cron expression, an
// interval or a moment.
func When(cron, every, at string) (kind calendar.Kind, value string, err error) {
	for _, way := range []struct {
		kind  calendar.Kind
		value string
	}{{calendar.Cron, cron}, {calendar.Interval, every}, {calendar.Once, at}} {
		if way.value == "" {
			continue
		}
		if value != "" {
			return "", "", invalid("say when in one way: cron, every or at")
		}
		kind, value = way.kind, way.value
	}
	if value == "" {
		return "", "", invalid(`say when: cron such as "0 6 * * *", every such as 15m, or at such as 17:00`)
	}
	return kind, value, nil
}

func doAdd(ctx context.Context, c toolCall) (any, nacre.Label, error) {
	var args struct{ Prompt, Cron, Every, At, Zone, Missed, Session string }
	if err := json.Unmarshal(c.arguments, &args); err != nil {
		return nil, nacre.Untrusted, err
	}
	kind, value, err := When(args.Cron, args.Every, args.At)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	if args.Zone == "" {
		args.Zone = c.Zone
	}
	label := c.Label(c.session)
	made, err := c.store.Add(ctx, Draft{
		Group: c.group, Kind: kind, Value: value, Zone: args.Zone, Prompt: args.Prompt, Missed: calendar.Policy(args.Missed),
		Session: SessionPolicy(args.Session), By: string(c.session), Label: label,
	})
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	return told(Entry{Schedule: made, Next: made.next()}), label, nil
}

// toldSchedule is what an agent is told of a schedule.
type toldSchedule struct {
	ID      string        `json:"id"`
	Kind    calendar.Kind `json:"kind"`
	Value   string        `json:"value"`
	Zone    string        `json:"zone"`
	Prompt  string        `json:"prompt"`
	Missed  string        `json:"missed"`
	Session SessionPolicy `json:"session"`
	Paused  bool          `json:"paused,omitempty"`
	By      string        `json:"created_by"`
	Label   nacre.Label   `json:"trust"`
	Next    string        `json:"next,omitempty"`
	Last    *toldTick     `json:"last,omitempty"`
}

type toldTick struct {
	At    string `json:"at"`
	State State  `json:"state"`
}

func told(e Entry) toldSchedule {
	const form = "2006-01-02T15:04:05Z07:00"
	t := toldSchedule{
		ID: e.ID, Kind: e.Kind, Value: e.Value, Zone: e.Zone, Prompt: e.Prompt, Missed: string(e.Missed), Session: e.Session,
		Paused: !e.Enabled, By: e.CreatedBy, Label: e.Label,
	}
	if e.Next != nil {
		t.Next = e.Next.Format(form)
	}
	if e.Last != nil {
		t.Last = &toldTick{e.in(e.Last.At.Unix()).Format(form), e.Last.State}
	}
	return t
}

// doList leaves outcomes out: they are another session's words.
func doList(ctx context.Context, c toolCall) (any, nacre.Label, error) {
	list, err := c.store.List(ctx, c.group)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	label, tells := nacre.Trusted, []toldSchedule{}
	for _, e := range list {
		label, tells = label.And(e.Label), append(tells, told(e))
	}
	return map[string]any{"schedules": tells, "count": len(tells)}, label, nil
}

func doRemove(ctx context.Context, c toolCall) (any, nacre.Label, error) {
	var args struct{ ID string }
	if err := json.Unmarshal(c.arguments, &args); err != nil {
		return nil, nacre.Untrusted, err
	}
	if err := c.store.Remove(ctx, args.ID, c.group); err != nil {
		return nil, nacre.Untrusted, fmt.Errorf("remove: %w", err)
	}
	return map[string]string{"id": args.ID, "status": "removed"}, nacre.Trusted, nil
}
