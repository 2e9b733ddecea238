// Package message promises one shape of what crosses the door (D-02, D-05). The request of an agent
// and the envelope of the core are each read strictly and written in one way. It does not decide
// what a request may do, and it performs no effect.
package message

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// Version of the envelope; any other is dropped (D-05).
const Version = 1

// The types of an envelope.
const (
	TypeRequest  = "request"
	TypeResponse = "response"
	TypeEvent    = "event"
)

// SourceCore is the source of what the core itself says.
const SourceCore = "core"

// TopicPending is the topic of the event that tells a client that a person is being asked. Its
// payload is {"expires": time, "seconds": whole seconds until then}.
const TopicPending = "confirmation.pending"

// EventsProperty set to "1" among the properties of a client's ZeroMQ READY,
// asks for events between request and response. A plain ZeroMQ client gets
// exactly one answer to each request, and nothing else.
const EventsProperty = "X-Nacre-Events"

// WaitProperty among those of the door's READY is how many seconds a call may take, as
// a whole number: the client waits for so long (D-07).
const WaitProperty = "X-Nacre-Wait"

// MaxEnvelope is the largest envelope in bytes: a payload of wire.MaxMessage and its frame.
const MaxEnvelope = wire.MaxMessage + 4<<10

// envelopeLimits admit a result that is at every limit itself, two objects deeper.
func envelopeLimits() wire.Limits {
	return wire.Limits{Message: MaxEnvelope, Depth: wire.MaxDepth + 2, String: MaxEnvelope, CaseSensitive: true}
}

// envelopeFields is how many fields an envelope has.
const envelopeFields = 9

// timeForm is RFC 3339 with milliseconds, always in UTC.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// Envelope is what the core sends, to agents, plugins and subscribers alike.
// The core alone builds it (D-05).
type Envelope struct {
	ID      string
	Version int
	Type    string
	Topic   string
	// Source is the core, a plugin's directory name or a session's id.
	Source string
	// Correlation is null on the wire where it is empty.
	Correlation nacre.Correlation
	Timestamp   time.Time
	Group       nacre.Group
	// Payload is a JSON object.
	Payload json.RawMessage
}

// Append appends the envelope as JSON. Payload must be valid JSON.
func (e Envelope) Append(dst []byte) []byte {
	dst = wire.AppendText(append(dst, `{"id":`...), e.ID)
	dst = strconv.AppendInt(append(dst, `,"version":`...), int64(e.Version), 10)
	dst = wire.AppendText(append(dst, `,"type":`...), e.Type)
	dst = wire.AppendText(append(dst, `,"topic":`...), e.Topic)
	dst = wire.AppendText(append(dst, `,"source":`...), e.Source)
	dst = append(dst, `,"correlation":`...)
	if e.Correlation == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendText(dst, string(e.Correlation))
	}
	dst = append(dst, `,"timestamp":"`...)
	dst = e.Timestamp.UTC().AppendFormat(dst, timeForm)
	dst = wire.AppendText(append(dst, `","group":`...), string(e.Group))
	dst = append(append(dst, `,"payload":`...), e.Payload...)
	return append(dst, '}')
}

// ParseEnvelope reads an envelope. A missing, unknown or mistyped field and
// every version but 1 are errors; a payload may hold keys that differ in case only.
func ParseEnvelope(data []byte) (Envelope, error) {
	members, err := wire.Object(data, envelopeLimits())
	if err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	var e Envelope
	for _, m := range members {
		if !e.set(m) {
			return Envelope{}, fmt.Errorf("envelope: unknown or malformed field %s", wire.QuoteName([]byte(m.Key)))
		}
	}
	// Every key is known and none is there twice, so as many are all of them.
	if len(members) != envelopeFields {
		return Envelope{}, fmt.Errorf("envelope: %d fields of %d", len(members), envelopeFields)
	}
	return e, nil
}

func (e *Envelope) set(m wire.Member) bool {
	text, ok := wire.Text(m.Value)
	switch m.Key {
	case "id":
		e.ID = text
	case "version":
		e.Version, ok = Version, string(m.Value) == strconv.Itoa(Version)
	case "type":
		e.Type, ok = text, text == TypeRequest || text == TypeResponse || text == TypeEvent
	case "topic":
		e.Topic = text
	case "source":
		e.Source = text
	case "correlation":
		e.Correlation = nacre.Correlation(text)
		ok = ok || string(m.Value) == "null"
	case "timestamp":
		var err error
		e.Timestamp, err = time.Parse(time.RFC3339, text)
		ok = err == nil
	case "group":
		e.Group = nacre.Group(text)
	case "payload":
		e.Payload, ok = m.Value, m.Value[0] == '{'
	default:
		ok = false
	}
	return ok
}

// AppendResult appends the payload of a success; result must be valid JSON.
func AppendResult(dst []byte, result json.RawMessage) []byte {
	dst = append(append(dst, `{"result":`...), result...)
	return append(dst, `,"error":null}`...)
}

// AppendError appends the payload of a refusal.
func AppendError(dst []byte, r *nacre.Refusal) []byte {
	dst = append(dst, `{"result":null,"error":`...)
	return append(AppendRefusal(dst, r), '}')
}

// AppendRefusal appends the error object of the seed: code, message and
// retriable always, stage, field and retry_after where they apply (D-06).
func AppendRefusal(dst []byte, r *nacre.Refusal) []byte {
	dst = wire.AppendText(append(dst, `{"code":`...), string(r.Code))
	dst = wire.AppendText(append(dst, `,"message":`...), r.Message)
	dst = strconv.AppendBool(append(dst, `,"retriable":`...), r.Retriable)
	if r.Stage != 0 {
		dst = strconv.AppendInt(append(dst, `,"stage":`...), int64(r.Stage), 10)
	}
	if r.Field != "" {
		dst = wire.AppendText(append(dst, `,"field":`...), r.Field)
	}
	if r.RetryAfter != 0 {
		dst = strconv.AppendInt(append(dst, `,"retry_after":`...), int64(r.RetryAfter), 10)
	}
	return append(dst, '}')
}

// Payload splits the payload of a response: failure is the error object, nil on success.
func Payload(payload []byte) (result, failure json.RawMessage, err error) {
	members, err := wire.Object(payload, envelopeLimits())
	if err != nil {
		return nil, nil, fmt.Errorf("payload: %w", err)
	}
	for _, m := range members {
		switch m.Key {
		case "result":
			result = m.Value
		case "error":
			failure = m.Value
		}
	}
	if len(members) != 2 || result == nil || failure == nil {
		return nil, nil, fmt.Errorf("payload: want result and error alone")
	}
	if string(failure) == "null" {
		return result, nil, nil
	}
	return nil, failure, nil
}
