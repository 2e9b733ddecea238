package routing

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// The limits of a task.triggered payload.
const (
	// MaxPrompt is the longest prompt of a task, in characters.
	MaxPrompt = 32 << 10
	// MaxTaskID is the longest id of a task, in bytes.
	MaxTaskID = 128
	// MaxTask is the largest payload as written, in bytes.
	MaxTask = 12*MaxPrompt + 64<<10
)

// Action is what becomes of an event. The zero value drops it.
type Action uint8

// The actions.
const (
	// Drop leaves the event, and records why.
	Drop Action = iota
	// Log records that the event was there; no agent is needed.
	Log
	// Start starts an agent.
	Start
)

var actionNames = [...]string{"drop", "log", "start"}

func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return actionNames[Drop]
}

// Task is the payload of task.triggered: the words are those of whoever made
// the schedule.
type Task struct {
	ID     string
	Prompt string
	// Schedule is {"type", "value"} as written.
	Schedule json.RawMessage
	// Payload is all of it, for what else the scheduler put in.
	Payload json.RawMessage
}

// Decision is what becomes of one event. For Start, Match says where and exactly one of Message and
// Task what the agent is told. Both are data and not instructions of the installation.
type Decision struct {
	Action Action
	Match
	Message *Inbound
	Task    *Task
	// Reason is why an event was dropped or only logged; empty for Start.
	Reason Reason
	// Detail says it in words, without what a sender wrote; may be empty.
	Detail string
}

// Decide is the seed's event-to-agent decision. A message that a route matches and a task that
// fires start an agent, a message without a route is dropped, and anything else is logged. The
// envelope is one that the core built. Where a message's envelope has a group already, it must be
// the one its route names.
func Decide(e plugin.Envelope, t *Table) Decision {
	switch e.Topic {
	case events.TopicInbound:
		return decideInbound(e, t)
	case events.TopicTaskTriggered:
		return decideTask(e)
	}
	return Decision{Action: Log, Reason: ReasonTopic}
}

func decideInbound(e plugin.Envelope, t *Table) Decision {
	m, err := ParseInbound(e.Payload)
	if err != nil {
		return Decision{Reason: ReasonMalformed, Detail: err.Error()}
	}
	match, reason := t.Route(m)
	switch {
	case reason == ReasonAmbiguous:
		return Decision{Reason: reason, Detail: "the routes of its sender and of its chat name different groups: change one of them"}
	case reason != "":
		return Decision{Reason: reason, Detail: "no [[route]] is for this sender or chat of channel " + m.Channel}
	case e.Group != "" && e.Group != match.Group:
		return Decision{Reason: ReasonGroup, Detail: "it came for group " + string(e.Group) + ", and its route names " + string(match.Group)}
	}
	return Decision{Action: Start, Match: match, Message: &m}
}

// decideTask takes a task from the core alone: a plugin that could trigger one
// would write the prompt of another group's agent.
func decideTask(e plugin.Envelope) Decision {
	if e.Source != message.SourceCore {
		return Decision{Reason: ReasonSource, Detail: "task.triggered is the core's own to publish"}
	}
	if _, err := nacre.ParseGroup(string(e.Group)); err != nil {
		return Decision{Reason: ReasonGroup, Detail: "the task has no group"}
	}
	task, problem := parseTask(e.Payload)
	if problem != "" {
		return Decision{Reason: ReasonMalformed, Detail: "task.triggered: " + problem}
	}
	return Decision{Action: Start, Match: Match{Group: e.Group}, Task: &task}
}

// parseTask reads {task_id, prompt, schedule}. Other keys are the scheduler's
// own: the core builds this payload, nobody else can.
func parseTask(payload json.RawMessage) (task Task, problem string) {
	members, err := wire.Object(payload, wire.Limits{Message: MaxTask, String: MaxTask})
	if err != nil {
		return Task{}, err.Error()
	}
	task.Payload = payload
	for _, m := range members {
		ok := true
		switch m.Key {
		case "task_id":
			task.ID, ok = wire.Text(m.Value)
		case "prompt":
			task.Prompt, ok = wire.Text(m.Value)
		case "schedule":
			task.Schedule, ok = m.Value, m.Value[0] == '{'
		}
		if !ok {
			return Task{}, m.Key + " has the wrong type"
		}
	}
	switch {
	case task.ID == "" || len(task.ID) > MaxTaskID:
		return Task{}, "task_id is missing or too long"
	case task.Prompt == "":
		return Task{}, "prompt is missing"
	case utf8.RuneCountInString(task.Prompt) > MaxPrompt:
		return Task{}, "prompt is too long"
	case task.Schedule == nil:
		return Task{}, "schedule is missing"
	}
	return task, ""
}
