package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// maxDepth is how deep a request may nest: tool schemas and inputs are in it.
	maxDepth = 128
	// bytesPerToken is the estimate of what a token takes, on the low side for prose and code.
	bytesPerToken = 3
	// imageTokens is the most that one image costs, whatever its bytes.
	imageTokens = 5_000
	// maxModel is the longest model id in bytes.
	maxModel = 128
	// maxOutput is the largest max_tokens that is believed.
	maxOutput = 10_000_000
)

// request is a checked call. members are what will be sent, in order.
type request struct {
	members  []wire.Member
	model    string
	stream   bool
	thinking int64
	// maxTokens is 0 where the call sets none.
	maxTokens int64
	bytes     int
	images    int
	// imageBytes are the bytes of images, which cost tokens by the image.
	imageBytes int
	tools      int
	messages   int
}

// inputTokens estimates what the call will be charged for reading.
func (r *request) inputTokens() int64 {
	return int64((r.bytes-r.imageBytes)/bytesPerToken + r.images*imageTokens + 1)
}

// parseRequest reads a body strictly and refuses what is not on the list.
func parseRequest(body []byte, limit int) (*request, *refusal) {
	members, err := wire.Object(body, wire.Limits{Message: limit, Depth: maxDepth, String: limit, CaseSensitive: true})
	if err != nil {
		return nil, refuse(ReasonMalformed, "the request is refused: %v", err)
	}
	r := &request{members: members, bytes: len(body)}
	for _, m := range members {
		if err := r.field(m.Key, m.Value); err != nil {
			var no *refusal
			if errors.As(err, &no) {
				return nil, no
			}
			return nil, refuse(ReasonMalformed, "%s: %v", m.Key, err)
		}
	}
	if r.model == "" || r.messages == 0 {
		return nil, refuse(ReasonMalformed, "model and messages are required")
	}
	return r, nil
}

// field checks one top-level field: what is not named here is refused.
func (r *request) field(key string, value json.RawMessage) error {
	switch key {
	case "model":
		return r.setModel(value)
	case "max_tokens":
		return r.setMaxTokens(value)
	case "stream":
		return json.Unmarshal(value, &r.stream)
	case "messages":
		return r.checkMessages(value)
	case "system":
		return r.checkContent(value, 0)
	case "tools":
		return r.checkTools(value)
	case "thinking":
		return r.checkThinking(value)
	case "context_management":
		return checkEdits(value)
	case "output_config":
		return checkFields(value, "output_config", "effort", "format")
	case "metadata":
		return checkFields(value, "metadata", "user_id")
	case "service_tier":
		return oneOf(value, "auto", "standard_only")
	case "tool_choice", "stop_sequences", "temperature", "top_k", "top_p", "cache_control", "output_format":
		return nil
	case "mcp_servers", "container":
		return refuse(ReasonVendorTool, "%s is refused: what runs at the vendor is outside the sandbox", key)
	}
	return refuse(ReasonField, "%.64s: not on the gateway's list of fields", key)
}

func (r *request) setModel(value json.RawMessage) error {
	if err := json.Unmarshal(value, &r.model); err != nil {
		return errors.New("want a string")
	}
	for _, c := range []byte(r.model) {
		if c <= ' ' || c > '~' {
			return errors.New("want visible ASCII")
		}
	}
	if len(r.model) > maxModel {
		return fmt.Errorf("longer than %d bytes", maxModel)
	}
	return nil
}

func (r *request) setMaxTokens(value json.RawMessage) error {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 1 || n > maxOutput {
		return fmt.Errorf("want a whole number from 1 to %d", maxOutput)
	}
	r.maxTokens = n
	return nil
}

// setOutput makes max_tokens what was reserved.
func (r *request) setOutput(n int64) {
	value := json.RawMessage(strconv.FormatInt(n, 10))
	r.maxTokens = n
	for i := range r.members {
		if r.members[i].Key == "max_tokens" {
			r.members[i].Value = value
			return
		}
	}
	r.members = append(r.members, wire.Member{Key: "max_tokens", Value: value})
}

// encode writes the members that were checked, and nothing else.
func (r *request) encode() []byte {
	b := make([]byte, 0, r.bytes+64)
	for i, m := range r.members {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		b = wire.AppendText(append(b, sep), m.Key)
		b = append(append(b, ':'), m.Value...)
	}
	return append(b, '}')
}

func (r *request) checkThinking(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	if budget, ok := fields["budget_tokens"]; ok {
		if r.thinking, err = strconv.ParseInt(string(budget), 10, 64); err != nil || r.thinking < 0 {
			return errors.New("budget_tokens is a whole number")
		}
	}
	return nil
}

// checkEdits lets through the edits that only drop old content. Compaction is
// refused: it is a second model call, outside what was reserved.
func checkEdits(value json.RawMessage) error {
	if err := checkFields(value, "context_management", "edits"); err != nil {
		return err
	}
	fields, err := object(value)
	if err != nil {
		return err
	}
	edits, err := array(fields["edits"])
	if err != nil {
		return err
	}
	for _, e := range edits {
		edit, err := object(e)
		if err != nil {
			return err
		}
		if err := oneOf(edit["type"], "clear_thinking_20251015", "clear_tool_uses_20250919"); err != nil {
			return err
		}
	}
	return nil
}

func oneOf(value json.RawMessage, allowed ...string) error {
	if s, ok := text(value); ok && slices.Contains(allowed, s) {
		return nil
	}
	return refuse(ReasonField, "%.64s: not on the gateway's list %v", value, allowed)
}

func checkFields(value json.RawMessage, name string, allowed ...string) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	for key := range fields {
		if !slices.Contains(allowed, key) {
			return refuse(ReasonField, "%s.%.64s: not on the gateway's list of fields", name, key)
		}
	}
	return nil
}
