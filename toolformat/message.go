package toolformat

import (
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre"
)

// The words before an error's message, by which models learn what went wrong.
const (
	prefixDenied   = "Policy denied: "
	prefixUnknown  = "Capability not found: "
	prefixDriver   = "Driver error: "
	prefixKernel   = "Kernel error: "
	prefixInvalid  = "Argument validation failed: "
	prefixAborted  = "Aborted by pre-invocation hook: "
	prefixRaised   = "Pre-invocation hook raised: "
	messageFailure = "the call could not be carried out"
)

// ticket is a handle as models see it.
type ticket struct {
	ID   string `json:"handle_id"`
	Rows int    `json:"total_rows"`
}

func ticketOf(h *nacre.Handle) *ticket {
	if h == nil {
		return nil
	}
	return &ticket{h.ID, h.Rows}
}

// Outcome is the message that answers a call with what the kernel let be seen.
func (f *Format) Outcome(c Call, o nacre.Outcome) (json.RawMessage, error) {
	result := o.Result
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	payload := map[string]any{"capability_id": c.Capability, "handle": ticketOf(o.Handle), "label": o.Label.String(), "result": result}
	if len(o.Redacted) > 0 {
		payload["redacted"] = o.Redacted
	}
	return f.message(c, payload, false)
}

// Frame is the message that answers a call with a frame; actionID names the
// kernel's record of it.
func (f *Format) Frame(c Call, actionID string, frame nacre.Frame) (json.RawMessage, error) {
	return f.message(c, map[string]any{
		"action_id": actionID, "capability_id": c.Capability, "facts": list(frame.Facts), "handle": ticketOf(frame.Handle),
		"response_mode": frame.Mode.String(), "table_preview": list(frame.Rows), "warnings": list(frame.Warnings),
	}, false)
}

func list[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

// Error is the message that tells a model why its call was not carried out. A
// *nacre.Refusal speaks for itself; of any other error the model learns nothing.
func (f *Format) Error(c Call, err error) (json.RawMessage, error) {
	return f.failure(c, describeError(err))
}

func (f *Format) failure(c Call, text string) (json.RawMessage, error) {
	return f.message(c, map[string]any{"error": true, "capability_id": c.Capability, "message": text}, true)
}

func describeError(err error) string {
	var refusal *nacre.Refusal
	if !errors.As(err, &refusal) || refusal == nil {
		return prefixKernel + messageFailure
	}
	switch refusal.Code {
	case nacre.CodeUnauthorized, nacre.CodeRateLimited, nacre.CodeConfirmationDenied, nacre.CodeConfirmationTimeout:
		return prefixDenied + refusal.Message
	case nacre.CodeUnknownTool:
		return prefixUnknown + refusal.Message
	case nacre.CodeValidationFailed:
		return prefixInvalid + refusal.Message
	case nacre.CodePluginTimeout, nacre.CodePluginUnavailable, nacre.CodePluginError, nacre.CodeHandlerError:
		return prefixDriver + refusal.Message
	}
	return prefixKernel + refusal.Message
}

// message wraps a payload in the provider's shape.
func (f *Format) message(c Call, payload map[string]any, failed bool) (json.RawMessage, error) {
	if c.ID == "" {
		return nil, errors.New("a call without an id cannot be answered")
	}
	body, err := encode(payload)
	if err != nil {
		return nil, err
	}
	text := []map[string]any{{"type": "text", "text": string(body)}}
	switch f.provider {
	case OpenAIResponses:
		return encode(map[string]any{"type": "function_call_output", "call_id": c.ID, "output": string(body)})
	case OpenAIChat:
		return encode(map[string]any{"role": "tool", "tool_call_id": c.ID, "content": string(body)})
	case Anthropic:
		block := map[string]any{"type": "tool_result", "tool_use_id": c.ID, "content": text}
		if failed {
			block["is_error"] = true
		}
		return encode(block)
	default:
		result := map[string]any{"content": text}
		if failed {
			result["isError"] = true
		}
		return encode(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(c.ID), "result": result})
	}
}
