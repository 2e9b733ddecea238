package mcpdriver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/internal/wire"
)

// Tools lists the server's tools, ready to be registered, sorted by capability.
// The warnings say what was narrowed, and which tools were left out and why.
// The drivers refuse calls once the server says something else of their tool:
// list and register again.
func (c *Client) Tools(ctx context.Context) (tools []nacre.Tool, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	listed, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	taken := map[nacre.ToolName]string{}
	for _, t := range listed {
		made, remarks, err := c.tool(t)
		if other, twice := taken[made.Capability.Tool]; err == nil && twice {
			return nil, nil, fmt.Errorf("mcp server %s: the tools %.80q and %.80q would have one name", c.server.Name, other, t.Name)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s: tool %.80q is left out: %v", c.server.Name, t.Name, err))
			continue
		}
		for _, remark := range remarks {
			warnings = append(warnings, fmt.Sprintf("%s: tool %.80q: %s", c.server.Name, t.Name, remark))
		}
		taken[made.Capability.Tool] = t.Name
		tools = append(tools, made)
	}
	slices.SortFunc(tools, func(a, b nacre.Tool) int {
		return strings.Compare(string(a.Capability.ID), string(b.Capability.ID))
	})
	return tools, warnings, nil
}

// tool makes a capability of what a server says.
func (c *Client) tool(t *mcp.Tool) (nacre.Tool, []string, error) {
	name, err := nacre.ParseToolName(mcptool.Name(c.server.Name) + "_" + mcptool.Name(t.Name))
	if err != nil {
		return nacre.Tool{}, nil, err
	}
	id, err := nacre.ParseCapabilityID(c.server.Name + "." + mcptool.Name(t.Name))
	if err != nil {
		return nacre.Tool{}, nil, err
	}
	class, remark, err := c.server.class(t)
	if err != nil {
		return nacre.Tool{}, nil, err
	}
	var warnings []string
	if remark != "" {
		warnings = append(warnings, remark)
	}
	schema, narrowed, err := schema.Close(t.InputSchema)
	if err != nil {
		return nacre.Tool{}, nil, fmt.Errorf("schema: %w", err)
	}
	description, clean := mcptool.Visible(t.Description)
	if !clean {
		warnings = append(warnings, "its description held characters that nobody sees; they are gone")
	}
	if len(description) > maxDescription {
		return nacre.Tool{}, nil, fmt.Errorf("description of %d bytes, the limit is %d", len(description), maxDescription)
	}
	hash, err := fingerprint(c.server.Name, t)
	if err != nil {
		return nacre.Tool{}, nil, err
	}
	sinks, err := c.sinks(t.Name, schema)
	if err != nil {
		return nacre.Tool{}, nil, err
	}
	title, _ := mcptool.Visible(t.Title)
	return nacre.Tool{
		Capability: nacre.Capability{
			ID: id, Tool: name, Name: title, Description: description, Safety: class, Sensitivity: c.server.Sensitivity,
			Schema: schema, Tags: []string{"mcp"}, Returns: nacre.Untrusted, Values: nacre.Values{Sinks: sinks},
			Deadline: c.server.Timeout, ContentHash: hash,
		},
		Driver: &driver{client: c, name: t.Name, hash: hash},
	}, append(warnings, narrowed...), nil
}

// sinks are the operator's; where there are none, every argument is one. Where
// schemas are composed, nobody can list the arguments, and the operator must.
func (c *Client) sinks(tool string, schema json.RawMessage) ([]string, error) {
	if own, ok := c.server.Sinks[tool]; ok {
		return slices.Clone(own), nil
	}
	var declared map[string]json.RawMessage
	if err := json.Unmarshal(schema, &declared); err != nil {
		return nil, err
	}
	for _, word := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"} {
		if names(word, declared[word]) {
			return nil, fmt.Errorf("its arguments are under %q, where they cannot be listed; say which are sinks", word)
		}
	}
	var properties map[string]json.RawMessage
	if raw := declared["properties"]; raw != nil {
		if err := json.Unmarshal(raw, &properties); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(properties)), nil
}

// names reports whether what stands under a keyword may name arguments.
func names(word string, under json.RawMessage) bool {
	if under == nil || word == "$ref" || word == "patternProperties" {
		return under != nil
	}
	return slices.ContainsFunc([]string{`"properties"`, `"patternProperties"`, `"$ref"`}, func(key string) bool {
		return bytes.Contains(under, []byte(key))
	})
}

// fingerprint pins what a server says of a tool.
func fingerprint(server string, t *mcp.Tool) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"server": server, "name": t.Name, "title": t.Title, "description": t.Description,
		"input": t.InputSchema, "output": t.OutputSchema, "annotations": t.Annotations,
	})
	if err != nil {
		return "", err
	}
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// list asks the server for its tools and notes what it says of them.
func (c *Client) list(ctx context.Context) ([]*mcp.Tool, error) {
	release, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.listLocked(ctx)
}

func (c *Client) lock(ctx context.Context) (release func(), err error) {
	select {
	case c.listing <- struct{}{}:
		return func() { <-c.listing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Client) listLocked(ctx context.Context) ([]*mcp.Tool, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	c.changed.Store(false) // before asking: what changes meanwhile is asked for again
	var all []*mcp.Tool
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		result, err := c.session.ListTools(ctx, params)
		if err != nil {
			c.changed.Store(true)
			return nil, fmt.Errorf("mcp server %s: list tools: %w", c.server.Name, plain(ctx, err))
		}
		all = append(all, result.Tools...)
		if len(all) > maxTools || page == maxPages {
			return nil, fmt.Errorf("mcp server %s: more than %d tools or %d pages of them", c.server.Name, maxTools, maxPages)
		}
		if result.NextCursor == "" {
			break
		}
		params = &mcp.ListToolsParams{Cursor: result.NextCursor}
	}
	hashes := make(map[string]string, len(all))
	for _, t := range all {
		if _, twice := hashes[t.Name]; twice {
			return nil, fmt.Errorf("mcp server %s: two tools are named %.80q", c.server.Name, t.Name)
		}
		hash, err := fingerprint(c.server.Name, t)
		if err != nil {
			hash = "" // left out when it is to be registered, and refused when it was before
		}
		hashes[t.Name] = hash
	}
	c.hashes, c.listed = hashes, c.server.Now()
	return all, nil
}

// same is an error unless the server still says of a tool what it said when the tool was
// registered. It asks the server where the list is old or was withdrawn.
func (c *Client) same(ctx context.Context, tool, hash string) error {
	release, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if age := c.server.Now().Sub(c.listed); c.changed.Load() || age >= listingAge || age < 0 {
		if _, err := c.listLocked(ctx); err != nil {
			return err
		}
	}
	switch now, known := c.hashes[tool]; {
	case !known:
		return fmt.Errorf("mcp server %s has no tool %.80q any more", c.server.Name, tool)
	case now != hash:
		return fmt.Errorf("mcp server %s changed what it says of its tool %.80q: review it and register it again", c.server.Name, tool)
	}
	return nil
}

// driver carries out calls of one tool.
type driver struct {
	client *Client
	name   string
	hash   string
}

var _ nacre.Driver = (*driver)(nil)

// Do sends one call, once.
func (d *driver) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	c := d.client
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if err := c.same(ctx, d.name, d.hash); err != nil {
		return nil, nacre.NotSent(err)
	}
	arguments := in.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := ctx.Err(); err != nil {
		return nil, nacre.NotSent(plain(ctx, err))
	}
	ctx, trip := withTrip(ctx)
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: d.name, Arguments: arguments})
	if err != nil {
		return nil, c.failed(ctx, d.name, trip, err)
	}
	raw, err := resultOf(result)
	var refusal *nacre.Refusal
	if err != nil && !errors.As(err, &refusal) {
		err = fmt.Errorf("mcp server %s: tool %.80q: %w", c.server.Name, d.name, err)
	}
	return raw, err
}
