package model

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// maxNesting is how deep content blocks nest: a document in a tool's result has content of its own.
const maxNesting = 4

// blockTypes are the content blocks that carry what the client holds or was
// told. What stands for work at the vendor (server_tool_use and its results,
// mcp_tool_use, container_upload, compaction) is not here.
var blockTypes = []string{
	"text", "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking",
	"tool_reference", "tool_addition", "tool_removal",
}

// toolFields are the fields of a client's tool. allowed_callers is not here:
// it would let the vendor's code call the tool.
var toolFields = []string{
	"type", "name", "description", "input_schema", "cache_control", "defer_loading", "eager_input_streaming", "strict", "input_examples",
}

// messageFields are the fields of a message that Claude Code 2.1.329 sends.
var messageFields = []string{"role", "content", "output_config", "clear_at"}

func (c messagesCall) checkMessages(value json.RawMessage) error {
	messages, err := array(value)
	if err != nil {
		return err
	}
	c.messages = len(messages)
	for _, m := range messages {
		if err := checkFields(m, "message", messageFields...); err != nil {
			return err
		}
		fields, err := object(m)
		if err != nil {
			return err
		}
		if err := oneOf(fields["role"], "user", "assistant", "system"); err != nil {
			return err
		}
		if config, ok := fields["output_config"]; ok {
			if err := checkFields(config, "output_config", "effort"); err != nil {
				return err
			}
		}
		if err := c.checkContent(fields["content"], 0); err != nil {
			return err
		}
	}
	return nil
}

// checkContent accepts a text or blocks that are on the list.
func (c messagesCall) checkContent(value json.RawMessage, depth int) error {
	if isText(value) || len(value) == 0 {
		return nil
	}
	blocks, err := array(value)
	if err != nil {
		return errors.New("want a text or content blocks")
	}
	if depth > maxNesting {
		return refuse(ReasonContentBlock, "content blocks nested deeper than %d", maxNesting)
	}
	for _, b := range blocks {
		if err := c.checkBlock(b, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkBlock accepts a block by its type, and looks into the fields that could
// name something outside the request in any type of block.
func (c messagesCall) checkBlock(value json.RawMessage, depth int) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	kind, _ := text(fields["type"])
	if known, err := c.checkVendorBlock(kind, fields); known {
		return err
	}
	if !slices.Contains(blockTypes, kind) {
		return refuse(ReasonContentBlock, "content block %.64q: not on the gateway's list", kind)
	}
	for key := range fields { // some upstreams read keys in any case, and fold letters beyond ASCII into it
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return refuse(ReasonField, "%.64s in a content block: not on the gateway's list of fields", key)
		}
	}
	for _, key := range []string{"file_id", "url", "container", "container_id", "server_name", "image_url", "file_url", "file_data", "file", "input_audio", "video_url"} {
		if _, ok := fields[key]; ok {
			return refuse(ReasonRemoteSource, "%s in a content block is refused: send the content itself", key)
		}
	}
	if caller, ok := fields["caller"]; ok {
		by, err := object(caller)
		if err != nil {
			return err
		}
		if err := oneOf(by["type"], "direct"); err != nil {
			return err
		}
	}
	if source, ok := fields["source"]; ok {
		// A search result's source is a name that is shown, not fetched.
		if _, name := text(source); !name || kind != "search_result" {
			if err := c.checkSource(source, kind, depth); err != nil {
				return err
			}
		}
	}
	if kind == "tool_addition" || kind == "tool_removal" {
		return c.checkToolChange(fields["tool"])
	}
	return c.checkContent(fields["content"], depth+1)
}

// checkSource accepts content that is in the request; URLs and file ids are the vendor's to fetch.
func (c messagesCall) checkSource(value json.RawMessage, block string, depth int) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	kind, _ := text(fields["type"])
	for key := range fields {
		if !slices.Contains([]string{"type", "media_type", "data", "content"}, key) {
			return refuse(ReasonRemoteSource, "source.%.64s is refused: send the content itself", key)
		}
	}
	switch kind {
	case "base64":
		if block == "image" {
			c.image(fields["data"], anthropicImage)
		} else {
			c.opaque += len(fields["data"])
		}
		return nil
	case "text":
		return nil
	case "content":
		return c.checkContent(fields["content"], depth+1)
	}
	return refuse(ReasonRemoteSource, "a source of type %.64q is refused: send the content itself", kind)
}

// checkToolChange checks the tool that a message adds or removes: its
// definition must pass as if it were in tools.
func (c messagesCall) checkToolChange(value json.RawMessage) error {
	if err := checkFields(value, "tool", "type", "name", "definition"); err != nil {
		return err
	}
	fields, err := object(value)
	if err != nil {
		return err
	}
	definition, ok := fields["definition"]
	if !ok {
		return oneOf(fields["type"], "tool_reference")
	}
	if err := oneOf(fields["type"], "tool_definition"); err != nil {
		return err
	}
	return c.checkTool(definition)
}

func (c messagesCall) checkTools(value json.RawMessage) error {
	tools, err := array(value)
	if err != nil {
		return err
	}
	c.tools = len(tools)
	for _, t := range tools {
		if err := c.checkTool(t); err != nil {
			return err
		}
	}
	return nil
}

// typedTools are the vendor's types of tools that the client runs, with what
// it may say of each beside the name.
var typedTools = map[string][]string{
	"bash_20241022": nil, "bash_20250124": nil, "memory_20250818": nil,
	"text_editor_20241022": nil, "text_editor_20250124": nil, "text_editor_20250429": nil, "text_editor_20250728": {"max_characters"},
}

// checkTool accepts tools that the client runs, and those of the vendor that are granted.
func (c messagesCall) checkTool(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	if kind, ok := fields["type"]; ok && string(kind) != "null" {
		name, _ := text(kind)
		if more, ok := typedTools[name]; ok {
			return onlyFields(fields, name, append([]string{"type", "name", "cache_control"}, more...)...)
		}
		if name != "custom" {
			return c.checkVendorTool(name, fields)
		}
	}
	if name, ok := text(fields["name"]); !ok || name == "" {
		return errors.New("a tool has a name")
	}
	return checkFields(value, "tool", toolFields...)
}
