package message

import (
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// TopicPrefix stands before a tool's name in a topic.
const TopicPrefix = "tool.invoke."

// maxTopic is the longest topic that is read, in bytes.
const maxTopic = 128

// Request is what an agent sends: three fields of its own, and hints that
// count as nothing but its words (D-02).
type Request struct {
	Topic       string
	Correlation nacre.Correlation
	// Arguments is a JSON object, as written.
	Arguments json.RawMessage
	Hints     nacre.Hints
}

// ParseRequest reads one message from an agent. Every error is a
// *nacre.Refusal: VALIDATION_FAILED at stage 1, with the key at fault as its
// field. Topic and Correlation are set even then where they could be read, so
// that the answer reaches whoever waits for it.
func ParseRequest(data []byte) (Request, error) {
	members, err := wire.Object(data, wire.Limits{})
	var r Request
	var first *nacre.Refusal
	for _, m := range members {
		if refusal := r.set(m); refusal != nil && first == nil {
			first = refusal
		}
	}
	switch {
	case err != nil:
		return r, Malformed("", "the message is not acceptable JSON: "+err.Error())
	case first != nil:
		return r, first
	case r.Topic == "":
		return r, Malformed("topic", "topic is missing: use tool.invoke.NAME")
	case r.Correlation == "":
		return r, Malformed("correlation", "correlation is missing: use an id of your own for each request")
	case r.Arguments == nil:
		return r, Malformed("arguments", "arguments are missing: use {} for none")
	}
	return r, nil
}

func (r *Request) set(m wire.Member) *nacre.Refusal {
	switch m.Key {
	case "topic":
		return r.setTopic(m.Value)
	case "correlation":
		text, _ := wire.Text(m.Value)
		id, err := nacre.ParseCorrelation(text)
		if err != nil {
			return Malformed(m.Key, fmt.Sprintf("correlation must be a string of 1–%d printable ASCII characters without spaces", nacre.MaxCorrelation))
		}
		r.Correlation = id
	case "arguments":
		if m.Value[0] != '{' {
			return Malformed(m.Key, "arguments must be an object")
		}
		r.Arguments = m.Value
	case "justification":
		return setText(m, &r.Hints.Justification)
	case "mode":
		return setText(m, &r.Hints.Mode)
	case "dry_run":
		r.Hints.DryRun = string(m.Value) == "true"
		if !r.Hints.DryRun && string(m.Value) != "false" {
			return Malformed(m.Key, "dry_run must be true or false")
		}
	default:
		return Malformed(wire.Shorten(m.Key), "unknown key "+wire.QuoteName([]byte(m.Key))+": use topic, correlation, arguments, justification, mode and dry_run")
	}
	return nil
}

func (r *Request) setTopic(value []byte) *nacre.Refusal {
	text, ok := wire.Text(value)
	if !ok || text == "" || len(text) > maxTopic || !printable(text) {
		return Malformed("topic", "topic must be a string such as tool.invoke.NAME")
	}
	r.Topic = text
	return nil
}

func setText(m wire.Member, to *string) *nacre.Refusal {
	text, ok := wire.Text(m.Value)
	if !ok {
		return Malformed(m.Key, m.Key+" must be a string")
	}
	*to = text
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Malformed is the refusal of stage 1; field is empty where no key is at fault.
func Malformed(field, message string) *nacre.Refusal {
	return &nacre.Refusal{
		Code: nacre.CodeValidationFailed, Message: message, Stage: 1, Field: field,
		Reason: nacre.ReasonMalformed,
	}
}

// Append appends the request as it goes over the wire. Arguments must be valid JSON.
func (r Request) Append(dst []byte) []byte {
	dst = wire.AppendText(append(dst, `{"topic":`...), r.Topic)
	dst = wire.AppendText(append(dst, `,"correlation":`...), string(r.Correlation))
	dst = append(append(dst, `,"arguments":`...), r.Arguments...)
	if r.Hints.Justification != "" {
		dst = wire.AppendText(append(dst, `,"justification":`...), r.Hints.Justification)
	}
	if r.Hints.Mode != "" {
		dst = wire.AppendText(append(dst, `,"mode":`...), r.Hints.Mode)
	}
	if r.Hints.DryRun {
		dst = append(dst, `,"dry_run":true`...)
	}
	return append(dst, '}')
}
