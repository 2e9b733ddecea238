package model

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// openaiImage is the most tokens that one image costs, whatever its bytes: the
// largest detail of the models in the price table.
const openaiImage = 12_000

// openaiSwitches are headers that would choose an account, a project or a
// feature: none is sent on.
var openaiSwitches = []string{"Openai-Beta", "Openai-Organization", "Openai-Project", "X-Codex-Beta-Features"}

// openaiHeader authenticates as the operator.
func openaiHeader(out, in http.Header, key nacre.Secret) (left dropped) {
	for _, name := range openaiSwitches {
		for range in.Values(name) {
			left.add(strings.ToLower(name))
		}
	}
	if !key.Empty() {
		out.Set("Authorization", "Bearer "+key.Reveal())
	}
	return left
}

// openaiField checks the fields that Responses and Chat have in common;
// known is false where the dialect has to look itself.
func (r *request) openaiField(key string, value json.RawMessage) (known bool, err error) {
	switch key {
	case "model":
		return true, r.setModel(value)
	case "stream":
		return true, json.Unmarshal(value, &r.stream)
	case "store":
		return true, mustBeFalse(key, value)
	case "service_tier":
		if isNull(value) {
			return true, nil
		}
		return true, oneOf(value, "auto", "default", "flex")
	case "metadata", "client_metadata":
		return true, checkStrings(value)
	case "temperature", "top_p", "top_k", "top_logprobs", "parallel_tool_calls", "user", "safety_identifier", "prompt_cache_key":
		return true, checkScalar(value)
	case "prompt_cache_retention":
		if isNull(value) {
			return true, nil
		}
		return true, oneOf(value, "in_memory", "in-memory")
	case "plugins":
		return true, refuse(ReasonVendorTool, "%s is refused: what runs at the vendor is outside the sandbox", key)
	}
	return false, nil
}

// mustBeFalse refuses a switch that is on: what it turns on stays at the vendor.
func mustBeFalse(key string, value json.RawMessage) error {
	if isNull(value) || string(value) == "false" {
		return nil
	}
	return refuse(ReasonStored, "%s is refused: nothing is kept at the vendor", key)
}

// mustBeNull refuses a reference to what the vendor holds.
func mustBeNull(key string, value json.RawMessage) error {
	if isNull(value) {
		return nil
	}
	return refuse(ReasonStored, "%s is refused: send the conversation itself", key)
}

// checkScalar refuses what could hold a structure that nobody has looked at.
func checkScalar(value json.RawMessage) error {
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') {
		return errors.New("want a plain value")
	}
	return nil
}

// checkStrings accepts an object of plain values, or null.
func checkStrings(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	for _, v := range fields {
		if err := checkScalar(v); err != nil {
			return err
		}
	}
	return nil
}

// checkTexts accepts fields that are texts or null, where they are there.
func checkTexts(fields map[string]json.RawMessage, keys ...string) error {
	for _, key := range keys {
		if value, ok := fields[key]; ok && !isText(value) && !isNull(value) {
			return errors.New(key + " is a text")
		}
	}
	return nil
}

// isText knows a text without decoding it.
func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// imageURL accepts an image that is in the request, as a data URL. Any other
// address is the vendor's to fetch.
func (r *request) imageURL(value json.RawMessage) error {
	s, ok := text(value)
	if !ok {
		return errors.New("image_url is a text")
	}
	if len(s) < 11 || !strings.EqualFold(s[:11], "data:image/") {
		return refuse(ReasonRemoteSource, "an image by address is refused: send the image itself as a data URL")
	}
	if len(s) >= 14 && strings.EqualFold(s[11:14], "svg") {
		return refuse(ReasonRemoteSource, "an image in SVG is refused: it can name others by address")
	}
	r.image(value, openaiImage)
	return nil
}

// checkToolName refuses a tool that cannot be called by a client.
func checkToolName(fields map[string]json.RawMessage) error {
	if name, ok := text(fields["name"]); !ok || name == "" {
		return errors.New("a tool has a name")
	}
	return checkTexts(fields, "description")
}

// checkFormat accepts the grammar of a freeform tool.
func checkFormat(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	if grammar, ok := fields["grammar"]; ok {
		if err := checkFields(grammar, "grammar", "syntax", "definition"); err != nil {
			return err
		}
	}
	return onlyFields(fields, "format", "type", "syntax", "definition", "grammar")
}

// choices are the words of tool_choice.
var choices = []string{"auto", "none", "required"}

// clientTools are the types of tools that a client runs.
var clientTools = []string{"function", "custom", "local_shell", "shell", "apply_patch", "allowed_tools"}

// checkChoice accepts a word, or the name of a client's tool.
func (r *request) checkChoice(value json.RawMessage) error {
	if s, ok := text(value); ok && slices.Contains(choices, s) || isNull(value) {
		return nil
	}
	fields, err := object(value)
	if err != nil {
		return err
	}
	kind, _ := text(fields["type"])
	if r.granted(webSearch) && slices.Contains(openaiSearchTools, kind) {
		return onlyFields(fields, "tool_choice", "type")
	}
	if !slices.Contains(clientTools, kind) {
		return refuse(ReasonVendorTool, "the tool choice %.64q is refused: only the client's own tools may be used", kind)
	}
	if err := onlyFields(fields, "tool_choice", "type", "name", "mode", "tools", "function", "custom", "allowed_tools"); err != nil {
		return err
	}
	if inner, ok := fields["allowed_tools"]; ok { // Chat's form has one object more
		if fields, err = object(inner); err != nil {
			return err
		}
		if err := onlyFields(fields, "allowed_tools", "mode", "tools"); err != nil {
			return err
		}
	}
	allowed, err := array(fields["tools"])
	if err != nil {
		return err
	}
	for _, t := range allowed {
		if err := r.checkAllowed(t); err != nil {
			return err
		}
	}
	return nil
}

// checkAllowed accepts one of the tools that tool_choice allows.
func (r *request) checkAllowed(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	kind, _ := text(fields["type"])
	search := r.granted(webSearch) && slices.Contains(openaiSearchTools, kind)
	if !search && !slices.Contains(clientTools[:5], kind) {
		return refuse(ReasonVendorTool, "the tool choice %.64q is refused: only the client's own tools may be used", kind)
	}
	return onlyFields(fields, "tool_choice", "type", "name", "function", "custom")
}

// openaiUsage is the vendor's account, in the words of Responses and of Chat.
// What was read from the cache is part of the input, what was thought part of the output.
type openaiUsage struct {
	Input         int64         `json:"input_tokens"`
	Output        int64         `json:"output_tokens"`
	InputDetails  openaiDetails `json:"input_tokens_details"`
	OutputDetails openaiDetails `json:"output_tokens_details"`

	Prompt            int64         `json:"prompt_tokens"`
	Completion        int64         `json:"completion_tokens"`
	PromptDetails     openaiDetails `json:"prompt_tokens_details"`
	CompletionDetails openaiDetails `json:"completion_tokens_details"`

	Total int64 `json:"total_tokens"`
}

type openaiDetails struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// into reports the larger of what the account says twice. Some upstreams leave
// what was thought out of the output; then the total tells.
func (u *openaiUsage) into(m *meter) {
	if u == nil {
		return
	}
	in, out := max(u.Input, u.Prompt, 0), max(u.Output, u.Completion, 0)
	if u.Total > in {
		out = max(out, u.Total-in)
	}
	cached := min(max(u.InputDetails.Cached, u.PromptDetails.Cached, 0), in)
	written := min(max(u.InputDetails.CacheWrite, u.PromptDetails.CacheWrite, 0), in-cached)
	m.reasoning = larger(m.reasoning, max(u.OutputDetails.Reasoning, u.CompletionDetails.Reasoning))
	m.report(budget.Usage{Input: in - cached - written, Output: out, CacheRead: cached, CacheWrite: written})
}
