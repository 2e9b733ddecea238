package model

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// apiVersion is the one version of Anthropic's API whose requests are understood here.
const apiVersion = "2023-06-01"

// anthropicImage is the most tokens that one image costs, whatever its bytes.
const anthropicImage = 5_000

// anthropic speaks Messages.
type anthropic struct{}

// messagesCall is a call of Messages while it is checked.
type messagesCall struct{ *request }

// field checks one top-level field: what is not named here is refused.
func (anthropic) field(r *request, key string, value json.RawMessage) error {
	c := messagesCall{r}
	switch key {
	case "model":
		return r.setModel(value)
	case "max_tokens":
		return r.setMaxTokens(key, value)
	case "stream":
		return json.Unmarshal(value, &r.stream)
	case "messages":
		return c.checkMessages(value)
	case "system":
		return c.checkContent(value, 0)
	case "tools":
		return c.checkTools(value)
	case "thinking":
		return c.checkThinking(value)
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
	return unknownField(key)
}

func (anthropic) finish(r *request, _ *Upstream) {
	r.set("max_tokens", json.RawMessage(strconv.FormatInt(r.maxTokens, 10)))
}

func (anthropic) header(out, in http.Header, key nacre.Secret, may allowed) dropped {
	out.Set("Anthropic-Version", apiVersion)
	if !key.Empty() {
		out.Set("X-Api-Key", key.Reveal())
	}
	return may.addBetas(out, in)
}

func (c messagesCall) checkThinking(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	if budget, ok := fields["budget_tokens"]; ok {
		if c.thinking, err = strconv.ParseInt(string(budget), 10, 64); err != nil || c.thinking < 0 {
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

// anthropicEvent is the part of a stream's event, or of a whole message, that is metered.
type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage *anthropicUsage `json:"usage"`
	} `json:"message"`
	Usage *anthropicUsage `json:"usage"`
	Block anthropicUse    `json:"content_block"`
	Delta struct {
		Text    said `json:"text"`
		Partial said `json:"partial_json"`
	} `json:"delta"`
	Content []struct {
		anthropicUse
		Text  said            `json:"text"`
		Input json.RawMessage `json:"input"`
	} `json:"content"`
}

// anthropicUse is what tells that a block is a use of the vendor's search.
type anthropicUse struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

func (u anthropicUse) search() bool { return u.Type == "server_tool_use" && u.Name == webSearch }

func (anthropic) read(data []byte, m *meter) {
	var e anthropicEvent
	if json.Unmarshal(data, &e) != nil {
		m.unread = true
		return
	}
	switch e.Type {
	case "message_start":
		e.Message.Usage.into(m)
	case "content_block_start":
		m.sawSearch(e.Block.search())
	case "content_block_delta":
		m.text += int(e.Delta.Text + e.Delta.Partial)
	case "message_delta":
		e.Usage.into(m)
	case "message_stop":
		m.ended = true
	case "error":
		m.wrong = true
	case "message", "":
		e.Usage.into(m)
		for _, c := range e.Content {
			m.text += int(c.Text) + len(c.Input)
			m.sawSearch(c.search())
		}
	}
}

// anthropicUsage is the vendor's account of a call, in tokens; each report holds totals so far.
type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Creation   struct {
		Long int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Server struct {
		Searches int64 `json:"web_search_requests"`
	} `json:"server_tool_use"`
}

func (u *anthropicUsage) into(m *meter) {
	if u == nil {
		return
	}
	m.searches = max(m.searches, min(u.Server.Searches, maxSearches))
	long := min(max(u.Creation.Long, 0), max(u.CacheWrite, 0))
	m.report(budget.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWriteLong: long, CacheWrite: u.CacheWrite - long,
	})
}
