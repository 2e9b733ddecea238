package model

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// responses speaks OpenAI's Responses. Codex 0.169.0 speaks nothing else.
type responses struct{}

// responsesCall is a call of Responses while it is checked.
type responsesCall struct{ *request }

// field checks one top-level field: what is not named here is refused.
func (responses) field(r *request, key string, value json.RawMessage) error {
	c := responsesCall{r}
	if known, err := r.openaiField(key, value); known {
		return err
	}
	switch key {
	case "input":
		return c.checkInput(value)
	case "instructions":
		return checkTexts(map[string]json.RawMessage{key: value}, key)
	case "max_output_tokens":
		if isNull(value) {
			return nil
		}
		return r.setMaxTokens(key, value)
	case "tools":
		return c.checkResponseTools(value, 0)
	case "tool_choice":
		return r.checkChoice(value)
	case "reasoning":
		return checkFields(value, key, "effort", "summary", "generate_summary", "context")
	case "text":
		return checkFields(value, key, "format", "verbosity")
	case "include":
		return c.checkInclude(value)
	case "max_tool_calls":
		if isNull(value) {
			return nil
		}
		n, err := count(map[string]json.RawMessage{key: value}, key, maxVendorUses)
		r.maxCalls = n
		return err
	case "stream_options":
		return checkFields(value, key, "include_obfuscation")
	case "truncation":
		if isNull(value) {
			return nil
		}
		return oneOf(value, "auto", "disabled")
	case "web_search_options":
		return ungranted(key)
	case "background":
		return mustBeFalse(key, value)
	case "previous_response_id", "conversation", "prompt":
		return mustBeNull(key, value)
	}
	return unknownField(key)
}

// checkInclude accepts what asks the vendor for no more than the answer itself.
func (c responsesCall) checkInclude(value json.RawMessage) error {
	wanted, err := array(value)
	if err != nil {
		return err
	}
	may := []string{"reasoning.encrypted_content", "message.output_text.logprobs"}
	if c.granted(webSearch) {
		may = append(may, "web_search_call.action.sources")
	}
	for _, w := range wanted {
		if err := oneOf(w, may...); err != nil {
			return err
		}
	}
	return nil
}

func (responses) finish(r *request, u *Upstream) {
	r.drop("max_output_tokens") // the service behind a login accepts no maximum
	if u.Login == nil {
		r.set("max_output_tokens", json.RawMessage(strconv.FormatInt(r.maxTokens, 10)))
	}
	r.set("store", json.RawMessage("false")) // it is true where it is not set
	r.drop("client_metadata")                // the client's account of itself is not for the model
}

func (responses) header(out, in http.Header, key nacre.Secret, _ allowed) dropped {
	return openaiHeader(out, in, key)
}

// itemFields are the items of an input that carry what the client holds or was
// told, with their fields. What stands for work at the vendor (web_search_call,
// file_search_call, computer_call, code_interpreter_call,
// image_generation_call, mcp_*), for what it has stored (item_reference) or for
// another model's call (compaction) is not here.
var itemFields = map[string][]string{
	"message":                 {"type", "id", "role", "content", "status", "phase"},
	"reasoning":               {"type", "id", "summary", "content", "encrypted_content", "status"},
	"function_call":           {"type", "id", "call_id", "name", "namespace", "arguments", "status"},
	"function_call_output":    {"type", "id", "call_id", "output", "status"},
	"custom_tool_call":        {"type", "id", "call_id", "name", "namespace", "input", "status"},
	"custom_tool_call_output": {"type", "id", "call_id", "name", "output", "status"},
	"local_shell_call":        {"type", "id", "call_id", "action", "status"},
	"local_shell_call_output": {"type", "id", "call_id", "output", "status"},
	"shell_call":              {"type", "id", "call_id", "action", "status", "environment"},
	"shell_call_output":       {"type", "id", "call_id", "output", "status", "max_output_length"},
	"apply_patch_call":        {"type", "id", "call_id", "operation", "status"},
	"apply_patch_call_output": {"type", "id", "call_id", "output", "status"},
}

// checkInput accepts a text, or items that are on the list.
func (c responsesCall) checkInput(value json.RawMessage) error {
	if isText(value) {
		c.messages = 1
		return nil
	}
	items, err := array(value)
	if err != nil {
		return errors.New("want a text or items")
	}
	c.messages = len(items)
	for _, item := range items {
		if err := c.checkItem(item); err != nil {
			return err
		}
	}
	return nil
}

func (c responsesCall) checkItem(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	kind, _ := text(fields["type"])
	if _, typed := fields["type"]; !typed && fields["role"] != nil {
		kind = "message" // the short form
	}
	switch {
	case kind == "web_search_call" && c.granted(webSearch):
		return onlyFields(fields, kind, "type", "id", "status", "action")
	case kind == "additional_tools":
		return c.checkToolItem(fields)
	}
	allowed, ok := itemFields[kind]
	if !ok {
		return refuse(ReasonContentBlock, "item %.64q: not on the gateway's list", kind)
	}
	if err := onlyFields(fields, kind, allowed...); err != nil {
		return err
	}
	if err := checkTexts(fields, "id", "call_id", "name", "namespace", "arguments", "input", "status", "phase", "encrypted_content"); err != nil {
		return err
	}
	c.opaque += len(fields["encrypted_content"])
	switch kind {
	case "message":
		if err := oneOf(fields["role"], "user", "assistant", "system", "developer"); err != nil {
			return err
		}
	case "shell_call":
		return checkEnvironment(fields["environment"], false)
	case "reasoning":
		if err := c.checkParts(fields["summary"], "summary_text"); err != nil {
			return err
		}
		return c.checkParts(fields["content"], "reasoning_text", "text")
	case "shell_call_output":
		return checkShellOutput(fields["output"])
	case "local_shell_call", "apply_patch_call":
		return nil // what the client was told to do, and did
	}
	if err := c.checkParts(fields["content"], "input_text", "output_text", "text", "refusal", "input_image"); err != nil {
		return err
	}
	return c.checkParts(fields["output"], "input_text", "output_text", "input_image")
}

// checkToolItem accepts tools that are offered in an item of the input, as Codex
// offers them to its newer models. They are looked at as all tools are.
func (c responsesCall) checkToolItem(fields map[string]json.RawMessage) error {
	if err := onlyFields(fields, "additional_tools", "type", "id", "role", "tools"); err != nil {
		return err
	}
	if err := oneOf(fields["role"], "developer"); err != nil {
		return err
	}
	if err := checkTexts(fields, "id"); err != nil {
		return err
	}
	return c.checkResponseTools(fields["tools"], 0)
}

// partFields are the fields of the parts of a content.
var partFields = map[string][]string{
	"input_text":     {"type", "text"},
	"output_text":    {"type", "text", "annotations", "logprobs"},
	"text":           {"type", "text"},
	"summary_text":   {"type", "text"},
	"reasoning_text": {"type", "text"},
	"refusal":        {"type", "refusal"},
	"input_image":    {"type", "image_url", "detail", "file_id"},
}

// checkParts accepts a text, or parts of the kinds.
func (c responsesCall) checkParts(value json.RawMessage, kinds ...string) error {
	if isText(value) {
		return nil
	}
	parts, err := array(value)
	if err != nil {
		return errors.New("want a text or parts")
	}
	for _, p := range parts {
		fields, err := object(p)
		if err != nil {
			return err
		}
		kind, _ := text(fields["type"])
		if kind == "input_file" {
			return refuse(ReasonRemoteSource, "input_file is refused: send its text")
		}
		if !slices.Contains(kinds, kind) {
			return refuse(ReasonContentBlock, "part %.64q: not on the gateway's list", kind)
		}
		if err := c.checkPart(fields, kind); err != nil {
			return err
		}
	}
	return nil
}

func (c responsesCall) checkPart(fields map[string]json.RawMessage, kind string) error {
	for _, key := range []string{"file_id", "file_url", "file_data"} {
		if value, ok := fields[key]; ok && !isNull(value) {
			return refuse(ReasonRemoteSource, "%s is refused: send the content itself", key)
		}
	}
	if err := onlyFields(fields, kind, partFields[kind]...); err != nil {
		return err
	}
	if err := c.checkAnnotations(fields["annotations"], kind); err != nil {
		return err
	}
	if kind == "input_image" {
		return c.imageURL(fields["image_url"])
	}
	return checkTexts(fields, "text", "refusal")
}

// checkAnnotations accepts what a granted search has cited. Other notes name
// what the vendor holds.
func (r *request) checkAnnotations(value json.RawMessage, where string) error {
	notes, err := array(value)
	if err != nil {
		return err
	}
	for _, n := range notes {
		fields, err := object(n)
		if err != nil {
			return err
		}
		if kind, _ := text(fields["type"]); kind != "url_citation" || !r.granted(webSearch) {
			return refuse(ReasonField, "%s.annotations: not on the gateway's list of fields", where)
		}
		if err := onlyFields(fields, "annotations", "type", "url", "title", "start_index", "end_index", "url_citation"); err != nil {
			return err
		}
	}
	return nil
}

// checkShellOutput accepts what commands printed.
func checkShellOutput(value json.RawMessage) error {
	outputs, err := array(value)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		fields, err := object(o)
		if err != nil {
			return err
		}
		if err := onlyFields(fields, "output", "stdout", "stderr", "outcome", "created_by"); err != nil {
			return err
		}
		if err := checkTexts(fields, "stdout", "stderr"); err != nil {
			return err
		}
		if err := checkFields(fields["outcome"], "outcome", "type", "exit_code"); fields["outcome"] != nil && err != nil {
			return err
		}
	}
	return nil
}

// checkEnvironment accepts the client's own machine; any other is the vendor's.
func checkEnvironment(value json.RawMessage, required bool) error {
	if len(value) == 0 && !required || isNull(value) && !required {
		return nil
	}
	fields, err := object(value)
	if kind, _ := text(fields["type"]); err != nil || kind != "local" {
		return refuse(ReasonVendorTool, `a shell is refused unless its environment is {"type":"local"}: what runs at the vendor is outside the sandbox`)
	}
	return onlyFields(fields, "environment", "type")
}

// maxNamespaces is how deep namespaces of tools may nest.
const maxNamespaces = 2

func (c responsesCall) checkResponseTools(value json.RawMessage, depth int) error {
	tools, err := array(value)
	if err != nil {
		return err
	}
	for _, t := range tools {
		fields, err := object(t)
		if err != nil {
			return err
		}
		if err := c.checkResponseTool(fields, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkResponseTool accepts tools that the client runs.
func (c responsesCall) checkResponseTool(fields map[string]json.RawMessage, depth int) error {
	c.tools++
	switch kind, _ := text(fields["type"]); kind {
	case "function":
		if err := checkToolName(fields); err != nil {
			return err
		}
		return onlyFields(fields, "tool", "type", "name", "description", "parameters", "strict")
	case "custom":
		if err := checkToolName(fields); err != nil {
			return err
		}
		if err := checkFormat(fields["format"]); fields["format"] != nil && err != nil {
			return err
		}
		return onlyFields(fields, "tool", "type", "name", "description", "format")
	case "local_shell", "apply_patch":
		return onlyFields(fields, "tool", "type")
	case "shell":
		if err := checkEnvironment(fields["environment"], true); err != nil {
			return err
		}
		return onlyFields(fields, "tool", "type", "environment")
	case "namespace":
		if depth+1 >= maxNamespaces {
			return refuse(ReasonField, "namespaces of tools nested deeper than %d", maxNamespaces-1)
		}
		if err := checkToolName(fields); err != nil {
			return err
		}
		if err := onlyFields(fields, "tool", "type", "name", "description", "tools"); err != nil {
			return err
		}
		return c.checkResponseTools(fields["tools"], depth+1)
	default:
		return c.checkSearchTool(kind, fields)
	}
}

// responsesEvent is the part of a stream's event, or of a whole answer, that is metered.
type responsesEvent struct {
	Type     string `json:"type"`
	Object   string `json:"object"`
	Delta    said   `json:"delta"`
	Response struct {
		Usage *openaiUsage `json:"usage"`
	} `json:"response"`
	Usage *openaiUsage `json:"usage"`
	Item  struct {
		Type string `json:"type"`
	} `json:"item"`
	Output []struct {
		Type      string `json:"type"`
		Arguments said   `json:"arguments"`
		Input     said   `json:"input"`
		Content   []struct {
			Text said `json:"text"`
		} `json:"content"`
	} `json:"output"`
}

func (responses) read(data []byte, m *meter) {
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil {
		m.unread = true
		return
	}
	switch {
	case e.Type == "response.completed", e.Type == "response.incomplete":
		e.Response.Usage.into(m)
		m.ended = true
	case e.Type == "response.failed", e.Type == "error":
		m.wrong = true
	case e.Type == "response.output_item.done":
		m.sawSearch(e.Item.Type == "web_search_call")
	case strings.HasSuffix(e.Type, ".delta") && !strings.Contains(e.Type, "summary"):
		m.text += int(e.Delta)
	case e.Object == "response":
		e.Usage.into(m)
		for _, item := range e.Output {
			m.text += int(item.Arguments + item.Input)
			m.sawSearch(item.Type == "web_search_call")
			for _, c := range item.Content {
				m.text += int(c.Text)
			}
		}
	}
}
