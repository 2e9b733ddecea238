package main_test

import (
	"strings"
	"testing"
)

// M-01, F-132: nacre run takes a file of MCP servers as agents do, and starts none of them. It begins
// where each is a plugin whose tools the group may use, and otherwise names what makes it one. What
// such a file may hold of secrets is never repeated.
func TestARunWantsMCPServersThatArePlugins(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	tool := func(name string) string {
		return `"provides": {"tools": [{"name": "` + name + `", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {}}}]}}`
	}
	const begin = `{"description": "d", "version": "1.0.0", `
	i.write("home/.local/share/nacre/plugins/notes/manifest.json", begin+`"mcp": {"command": ["node", "server.js"]}, `+tool("notes_find"))
	i.write("home/.local/share/nacre/plugins/remote/manifest.json", begin+`"hosts": ["mcp.example.com"], "mcp": {"url": "https://mcp.example.com/mcp"}, `+tool("remote_say"))
	i.write("home/.local/share/nacre/plugins/hands/manifest.json", begin+`"handler": ["sh", "h.sh"], `+tool("hands_wave"))
	i.write("home/.local/share/nacre/plugins/hands/h.sh", "exit 1\n")
	i.config("[groups.main]\ntools = [\"notes_*\", \"hands_*\"]\n")
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"echo servers >greeting.txt"}}`+"\n")
	run := func(file string) result {
		return i.nacre("run", "greet", "--project", "p", "--recording", rec, "--check", "grep -q servers greeting.txt", "--mcp-config", i.write("mcp.json", file))
	}
	const secret = "quiet-harbour-token"
	servers := func(entries ...string) string { return `{"mcpServers": {` + strings.Join(entries, ", ") + `}}` }
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"a program that is no plugin": {
			servers(`"Ticket Desk": {"command": "npx", "args": ["-y", "desk", "--token", "` + secret + `"], "env": {"TOKEN": "` + secret + `"}}`),
			[]string{`"Ticket Desk" is not a plugin yet: nacre plugin new ticket_desk --mcp -- `},
		},
		"an address that is no plugin": {servers(`"far": {"type": "http", "url": "https://far.example.com/` + secret + `"}`), []string{`"far" is not a plugin yet`, "manifest"}},
		"another address":              {servers(`"remote": {"url": "https://evil.example.com/mcp", "headers": {"Authorization": "Bearer ` + secret + `"}}`), []string{"not where plugin remote is", "nacre plugin show remote"}},
		"a tool that the group lacks":  {servers(`"remote": {"url": "https://mcp.example.com/mcp"}`), []string{"group main may use none of the tools of plugin remote", "[groups.main]"}},
		"a handler":                    {servers(`"hands": {"command": "sh"}`), []string{"plugin hands is not an MCP server"}},
		"all that is wrong at once":    {servers(`"far": {"url": "https://far.example.com/"}`, `"hands": {"command": "sh"}`), []string{`"far"`, "hands is not"}},
		"neither program nor address":  {servers(`"notes": {}`), []string{"has a command or a url"}},
		"a name that none can have":    {servers(`"../x": {"command": "sh"}`), []string{"no plugin can be called that"}},
		"a server twice":               {servers(`"notes": {"command": "node"}`, `"notes": {"command": "sh"}`), []string{"mcp-config", "notes"}},
		"a file of something else":     {`{"servers": {}}`, []string{"not a file of MCP servers"}},
		"no JSON":                      {`mcpServers: {}`, []string{"--mcp-config: byte 0"}},
		"a file without an end":        {`{"mcpServers": {}` + strings.Repeat(" ", 1<<20), []string{"--mcp-config"}},
	} {
		r := run(c.file)
		r.want(t, 2, c.want...)
		if hasNo(t, r.stderr+r.stdout, secret); t.Failed() {
			t.Fatal(name)
		}
	}
	i.nacre("run", "greet", "--project", "p", "--recording", rec, "--mcp-config", "nowhere.json").want(t, 2, "--mcp-config", "nowhere.json")
	run(servers(`"Notes": {"command": "npx", "args": ["-y", "notes"]}`)).want(t, 0, "merged")
	hasNoSecret(t, i.state(), secret)
}
