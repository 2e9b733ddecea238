package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/plugin"
)

// A Draft is what a manifest says beside the server's tools.
type Draft struct {
	Description string
	Version     string // such as 1.0.0
	// Command or URL stand under "mcp", as in a manifest.
	Command []string
	URL     string
	// Credential is the key of the credential for URL; empty means none.
	Credential string
	// Env are the variables in which the server that Command starts finds
	// credentials, by name: keys of credentials.
	Env   map[string]string
	Hosts []string
	// Prefix stands before each tool's name: the plugin's name and an
	// underscore, or nothing.
	Prefix string
	// Taken, where set, are the names that need the Prefix; others go without.
	Taken map[nacre.ToolName]bool
}

// prefix is what stands before the name of one tool.
func (d Draft) prefix(tool string) string {
	if d.Taken != nil && !d.Taken[nacre.ToolName(mcptool.Name(tool))] {
		return ""
	}
	return d.Prefix
}

// ManifestFor asks a server for its tools and writes a manifest.json that pins
// them: descriptions as they are now, for a person to read before they count,
// and schemas closed. The warnings say what was narrowed and which tools were
// left out. Nothing says how far a tool can be trusted: each is WRITE and its
// results untrusted until its author's user says otherwise.
func ManifestFor(ctx context.Context, p Peer, d Draft) (manifest []byte, warnings []string, err error) {
	c, err := connect(ctx, p, func(string) {}) // what it does beside listing is not asked
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		c.close()
		<-c.gone
	}()
	offered, err := c.tools(ctx)
	if err != nil {
		return nil, nil, err
	}
	var tools []map[string]any
	taken := map[nacre.ToolName]string{}
	for _, t := range offered {
		name, entry, remarks, err := draftTool(t, d.prefix(t.Name))
		if other, twice := taken[name]; err == nil && twice {
			err = fmt.Errorf("it would have the name of %.64q", other)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("tool %.64q is left out: %v", t.Name, err))
			continue
		}
		for _, remark := range remarks {
			warnings = append(warnings, fmt.Sprintf("tool %s: %s", name, remark))
		}
		taken[name] = t.Name
		tools = append(tools, entry)
	}
	if len(tools) == 0 {
		return nil, warnings, errors.New("the server has no tool that can be pinned")
	}
	manifest, err = d.write(tools)
	return manifest, warnings, err
}

func draftTool(t *sdk.Tool, prefix string) (nacre.ToolName, map[string]any, []string, error) {
	name, err := nacre.ParseToolName(prefix + mcptool.Name(t.Name))
	if err != nil {
		return "", nil, nil, err
	}
	pinned, remarks, err := schema.Close(t.InputSchema)
	if err != nil {
		return name, nil, nil, fmt.Errorf("schema: %w", err)
	}
	description := mcptool.Clip(t.Description)
	switch {
	case strings.TrimSpace(description) == "":
		description = "Call " + t.Name
	case description != t.Description:
		remarks = append(remarks, "its description is cut, or held characters that nobody sees")
	}
	return name, map[string]any{"name": name, "description": description, "arguments_schema": pinned}, remarks, nil
}

func (d Draft) write(tools []map[string]any) ([]byte, error) {
	server := map[string]any{}
	if len(d.Command) > 0 {
		server["command"] = d.Command
	}
	if d.URL != "" {
		server["url"] = d.URL
	}
	all := map[string]any{"description": d.Description, "version": d.Version, "mcp": server, "provides": map[string]any{"tools": tools}}
	if len(d.Hosts) > 0 {
		all["hosts"] = d.Hosts
	}
	keys := slices.Collect(maps.Values(d.Env))
	if d.Credential != "" {
		server["credential"] = d.Credential
		keys = append(keys, d.Credential)
	}
	if len(d.Env) > 0 {
		server["env"] = d.Env
	}
	if len(keys) > 0 {
		all["install"] = map[string]any{"credentials": wanted(keys)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		return nil, err
	}
	_, err := plugin.ParseManifest(b.Bytes())
	return b.Bytes(), err
}

// wanted are credentials as a manifest lists them.
func wanted(keys []string) []map[string]any {
	slices.Sort(keys)
	var list []map[string]any
	for _, key := range slices.Compact(keys) {
		list = append(list, map[string]any{"key": key, "description": "Access to the MCP server", "required": true})
	}
	return list
}
