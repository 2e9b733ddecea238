// Package toolformat promises to put a kernel behind a model provider's tool calls (K-22).
// Capabilities become tool definitions in the provider's shape, and the calls in a response become
// calls of the kernel. Results and refusals go back as messages that the model can react to. It
// speaks OpenAI's Responses and Chat Completions, Anthropic's Messages, and MCP.
//
// It decides nothing and trusts nothing in a response. Arguments are read strictly, and a name that
// means no capability or two fails when a Format is made. The argument "_justification" is recorded
// as the agent's own words, which count for nothing. It does not talk to a provider, and sees
// results only after the kernel has redacted them.
package toolformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Provider is whose shapes are spoken. The zero value is nobody's and refused.
type Provider uint8

// The providers.
const (
	OpenAIResponses Provider = iota + 1
	OpenAIChat
	Anthropic
	MCP
)

// The limits of a response and of names.
const (
	// MaxResponse is the largest response that is read, in bytes.
	MaxResponse = 8 << 20
	// MaxCalls is how many calls a response may hold.
	MaxCalls = 128
	// maxName is how long a tool's name may be for a model provider, maxMCPName for MCP.
	maxName    = 64
	maxMCPName = 128
	maxCallID  = 256
)

// justification is the argument in which models say why.
const justification = "_justification"

// Options shape tool definitions.
type Options struct {
	// CacheControl marks the end of the tool definitions for Anthropic's cache.
	CacheControl bool
}

// Format is a set of capabilities in a provider's shape. It never changes.
type Format struct {
	provider Provider
	options  Options
	// tools are in the order given; byName finds them by their provider's name.
	tools  []tool
	byName map[string]int
}

type tool struct {
	name       string
	capability nacre.Capability
}

// New checks that every capability has a name of its own with the provider,
// and one that leads back to it.
func New(p Provider, capabilities []nacre.Capability, o Options) (*Format, error) {
	if p < OpenAIResponses || p > MCP {
		return nil, fmt.Errorf("tool format: unknown provider %d", p)
	}
	f := &Format{provider: p, options: o, byName: make(map[string]int, len(capabilities))}
	for i, c := range capabilities {
		name, err := p.Name(c.ID)
		if err != nil {
			return nil, fmt.Errorf("tool format: %w", err)
		}
		if other, taken := f.byName[name]; taken {
			return nil, fmt.Errorf("tool format: %s and %s would both be named %s", capabilities[other].ID, c.ID, name)
		}
		if err := checkSchema(c.Schema); err != nil {
			return nil, fmt.Errorf("tool format: %s: %w", c.ID, err)
		}
		f.byName[name] = i
		f.tools = append(f.tools, tool{name, c})
	}
	return f, nil
}

func checkSchema(raw json.RawMessage) error {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return errors.New("its schema is not a JSON object")
	}
	if _, taken := schema.Properties[justification]; taken {
		return fmt.Errorf("its argument %s is where models justify themselves: name it otherwise", justification)
	}
	return nil
}

// Name is what a provider calls a capability: dots become "__" where the
// provider refuses them. A name that is too long, or does not lead back to the
// id, is an error.
func (p Provider) Name(id nacre.CapabilityID) (string, error) {
	name, limit := string(id), maxMCPName
	if p != MCP {
		name, limit = strings.ReplaceAll(name, ".", "__"), maxName
	}
	switch {
	case p < OpenAIResponses || p > MCP:
		return "", fmt.Errorf("unknown provider %d", p)
	case name == "" || strings.ContainsFunc(name, notOfName):
		return "", fmt.Errorf("capability %.80q: only letters, digits, _ - and dots can be in a tool's name", id)
	case len(name) > limit:
		return "", fmt.Errorf("capability %.80q: its tool's name would have %d characters, the limit is %d", id, len(name), limit)
	case p.capability(name) != id || strings.Contains(string(id), "__"):
		return "", fmt.Errorf("capability %.80q: its tool's name would not lead back to it; do without __ and without _ before a dot", id)
	}
	return name, nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

func notOfName(r rune) bool { return !strings.ContainsRune(nameLetters, r) }

// capability is what a name in a response means. One with dots in it, as some
// gateways let models see them, means itself.
func (p Provider) capability(name string) nacre.CapabilityID {
	if p == MCP {
		return nacre.CapabilityID(name)
	}
	return nacre.CapabilityID(strings.ReplaceAll(name, "__", "."))
}

// find returns the capability of an id that a response named.
func (f *Format) find(id nacre.CapabilityID) (nacre.Capability, bool) {
	name, err := f.provider.Name(id)
	if err != nil {
		return nacre.Capability{}, false
	}
	i, ok := f.byName[name]
	if !ok || f.tools[i].capability.ID != id {
		return nacre.Capability{}, false
	}
	return f.tools[i].capability, true
}

// Definitions are the tools for a request, a JSON array.
func (f *Format) Definitions() (json.RawMessage, error) {
	all := make([]map[string]any, 0, len(f.tools))
	for _, t := range f.tools {
		all = append(all, f.define(t))
	}
	if f.options.CacheControl && f.provider == Anthropic && len(all) > 0 {
		all[len(all)-1]["cache_control"] = map[string]any{"type": "ephemeral"} // it covers all before it
	}
	return encode(all)
}

func (f *Format) define(t tool) map[string]any {
	c := t.capability
	described := map[string]any{"name": t.name, "description": describe(c)}
	switch f.provider {
	case OpenAIChat:
		described["parameters"] = c.Schema
		return map[string]any{"type": "function", "function": described}
	case OpenAIResponses:
		described["type"], described["parameters"] = "function", c.Schema
	case Anthropic:
		described["input_schema"] = c.Schema
	case MCP:
		described["inputSchema"] = c.Schema
		described["annotations"] = map[string]any{"readOnlyHint": c.Safety == nacre.Read, "destructiveHint": c.Safety == nacre.Destructive}
	}
	return described
}

// describe tells the model what kind of capability it is.
func describe(c nacre.Capability) string {
	text := c.Description + " [safety=" + c.Safety.String() + "]"
	if c.Sensitivity != nacre.SensitiveNone {
		text += " [sensitivity=" + c.Sensitivity.String() + "]"
	}
	return strings.TrimSpace(text)
}

// encode keeps text as it is, and sorts the keys of maps.
func encode(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return slices.Clip(bytes.TrimSpace(b.Bytes())), nil
}
