package pluginhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// everything is a manifest with every key that may stand beside the others.
const everything = `{
  "description": "Notes", "version": "1.2.0", "app_compat": ">=0.1.0 <2",
  "author": {"name": "A", "url": "https://example.com"},
  "handler": ["self", "sdk"], "hosts": ["api.example.com", "*.example.org:8443", "*"],
  "project": "read", "listen": true, "verify": true, "subscribes": ["message.inbound", "task."],
  "config_schema": {"type": "object"},
  "install": {"credentials": [{"key": "API_KEY", "description": "d", "required": true, "obtain_url": "https://example.com/k", "format_hint": "sk-"}]},
  "provides": {"channels": ["post"], "hooks": ["memory_brief"], "tools": [{
    "name": "add", "description": "Add a note", "safety_class": "READ", "sensitivity": "PII", "risk_level": "low",
    "rate_limit": {"calls": 3, "seconds": 60}, "returns": "trusted", "sinks": ["to"], "files": ["file"],
    "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {"to": {"type": "string"}, "file": {"type": "string"}}}
  }]}
}`

// remote is a manifest of an MCP server at a URL.
const remote = `{
  "description": "Remote", "version": "1.0.0", "hosts": ["mcp.example.com"], "verify": true,
  "mcp": {"url": "https://mcp.example.com/mcp", "credential": "TOKEN"},
  "install": {"credentials": [{"key": "TOKEN"}]},
  "provides": {"tools": [{"name": "add", "description": "Add", "arguments_schema": {"type": "object", "additionalProperties": false}}]}
}`

func inspect(t *testing.T, text string) pluginhost.Found {
	t.Helper()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "p", "manifest.json"), text, 0o644)
	return pluginhost.Inspect(filepath.Join(root, "p"))
}

// D-20: the three manifests of the seed load unchanged.
func TestSeedManifests(t *testing.T) {
	for _, name := range []string{"reminders", "telegram", "memory"} {
		data, err := os.ReadFile(filepath.Join("../../plugin/testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		writeFile(t, filepath.Join(root, name, "manifest.json"), string(data), 0o644)
		writeFile(t, filepath.Join(root, name, "handler"), "#!/bin/sh\n", 0o755)
		if f := pluginhost.Inspect(filepath.Join(root, name)); f.Err != nil || len(f.Manifest.Provides.Tools) < 2 || string(f.Name) != name {
			t.Errorf("%s: have %d tools, %v", name, len(f.Manifest.Provides.Tools), f.Err)
		}
	}
	for name, text := range map[string]string{"everything": everything, "remote": remote} {
		if f := inspect(t, text); f.Err != nil {
			t.Errorf("%s: %v", name, f.Err)
		}
	}
}

// D-20: a manifest that is wrong is refused by its file and key, with what to write.
func TestWrongManifests(t *testing.T) {
	type change struct{ from, to, want string }
	for name, c := range map[string]change{
		"no version":                       {`"version": "1.2.0", `, ``, "version is missing: use one such as 1.0.0"},
		"a version that is none":           {`"1.2.0"`, `"new"`, `version: "new": use a version such as 1.0.0`},
		"a version that is a number":       {`"1.2.0"`, `1.2`, `version: not a string`},
		"no description":                   {`"description": "Notes", `, ``, "description is missing: say"},
		"a description that is null":       {`"Notes"`, `null`, "description: not a string"},
		"a description too long":           {`"Notes"`, `"` + strings.Repeat("x", 3000) + `"`, "description: 3000 bytes, at most 2000"},
		"an unknown key":                   {`"author"`, `"license": "MIT", "author"`, `unknown key "license": known here are app_compat, author`},
		"a key in capitals":                {`"author"`, `"Author"`, `unknown key "Author"`},
		"a key twice":                      {`"author"`, `"version": "2.0.0", "author"`, `key "version" comes twice`},
		"a key twice in another case":      {`"author"`, `"VERSION": "2.0.0", "author"`, `comes twice`},
		"an author of text":                {`{"name": "A", "url": "https://example.com"}`, `"A"`, "author: not an object"},
		"an author with more keys":         {`"name": "A"`, `"name": "A", "email": "a@b"`, `unknown key "author.email"`},
		"a range that is none":             {`">=0.1.0 <2"`, `"soon"`, `app_compat: version range "soon": use one such as >=0.1.0`},
		"a handler that is text":           {`["self", "sdk"]`, `"./handler"`, "handler: not an array"},
		"a handler of nothing":             {`["self", "sdk"]`, `[]`, `handler: needs a program and its arguments, such as`},
		"a handler with an empty word":     {`["self", "sdk"]`, `["self", ""]`, `handler: needs a program`},
		"a host with a scheme":             {`"api.example.com"`, `"https://api.example.com"`, `hosts[0]: "https://api.example.com": use a lower-case host name`},
		"a host in capitals":               {`"api.example.com"`, `"API.example.com"`, `hosts[0]`},
		"a host with a star in the middle": {`"api.example.com"`, `"api.*.com"`, `hosts[0]`},
		"a host with a port of letters":    {`"api.example.com"`, `"api.example.com:http"`, `hosts[0]`},
		"hosts that are text":              {`["api.example.com", "*.example.org:8443", "*"]`, `"*"`, `hosts: not an array`},
		"a project to own":                 {`"project": "read"`, `"project": "own"`, `project: "own" is neither read nor write: leave the key out`},
		"a project that is true":           {`"project": "read"`, `"project": true`, `project: not a string`},
		"listen that is text":              {`"listen": true`, `"listen": "yes"`, `listen: not true or false`},
		"once beside listen":               {`"listen": true`, `"listen": true, "once": true`, `once: is for a plugin that serves a channel and takes no connections`},
		"once that is text":                {`"listen": true`, `"once": "yes"`, `once: not true or false`},
		"listen that is a port":            {`"listen": true`, `"listen": 8080`, `listen: not true or false`},
		"listen without a channel":         {`"channels": ["post"], `, ``, `listen: is for a plugin that serves a channel: name it in provides.channels`},
		"verify that is null":              {`"verify": true`, `"verify": null`, `verify: not true or false`},
		"a topic in capitals":              {`"message.inbound"`, `"Message"`, `subscribes[0]: "Message": use an event topic`},
		"a topic with a star":              {`"message.inbound"`, `"message.*"`, `subscribes[0]`},
		"a config schema that is true": {`{"type": "object"},
  "install"`, `true, "install"`, `config_schema: not an object`},
		"what to install as a list":      {`"install": {`, `"install": [], "x": {`, `install: not an object`},
		"a credential without a key":     {`"key": "API_KEY", `, ``, `install.credentials[0].key: "": use 1–64 letters`},
		"a credential with its value":    {`"required": true`, `"value": "s3cret"`, `unknown key "install.credentials[0].value"`},
		"required in words":              {`"required": true`, `"required": "yes"`, `install.credentials[0].required: not true or false`},
		"an address without TLS":         {`"https://example.com/k"`, `"http://example.com/k"`, `install.credentials[0].obtain_url: use an https address`},
		"a channel in capitals":          {`["post"]`, `["Post"]`, `provides.channels[0]: "Post": use 1–64 lower-case letters`},
		"a hook that is none":            {`"memory_brief"`, `"on_start"`, `provides.hooks[0]: unknown hook "on_start": the only one is memory_brief`},
		"a tool without a name":          {`"name": "add", `, ``, `provides.tools[0].name`},
		"a tool named with a dash":       {`"name": "add"`, `"name": "add-note"`, `provides.tools[0].name`},
		"a tool without a description":   {`"description": "Add a note", `, ``, `provides.tools[0].description is missing`},
		"a tool without a schema":        {`"arguments_schema"`, `"schema"`, `unknown key "provides.tools[0].schema": known here are arguments_schema`},
		"a schema that is text":          {`{"type": "object", "additionalProperties": false, "properties": {"to": {"type": "string"}, "file": {"type": "string"}}}`, `"object"`, `provides.tools[0].arguments_schema: not an object`},
		"a class that is none":           {`"READ"`, `"ADMIN"`, `provides.tools[0].safety_class`},
		"a sensitivity that is none":     {`"PII"`, `"HIGH"`, `provides.tools[0].sensitivity`},
		"a risk that is none":            {`"low"`, `"medium"`, `provides.tools[0].risk_level: "medium" is neither low nor high`},
		"a label that is none":           {`"trusted"`, `"yes"`, `provides.tools[0].returns`},
		"a rate without seconds":         {`, "seconds": 60`, ``, `provides.tools[0].rate_limit: needs both keys, such as`},
		"a rate of no calls":             {`"calls": 3`, `"calls": 0`, `rate_limit: needs both keys`},
		"a rate of half a call":          {`"calls": 3`, `"calls": 0.5`, `rate_limit.calls: not a whole number`},
		"a sink that is misspelt":        {`["to"]`, `["too"]`, `provides.tools[0].sinks[0]: "too" is not a property of arguments_schema`},
		"a file that is misspelt":        {`["file"]`, `["flie"]`, `provides.tools[0].files[0]: "flie" is not a property`},
		"an MCP server beside a handler": {`"listen"`, `"mcp": {"command": ["x"]}, "listen"`, `handler and mcp are both there`},
		"an MCP server with hooks":       {`"handler": ["self", "sdk"]`, `"mcp": {"command": ["x"]}`, `mcp: an MCP server has tools only: leave out provides.channels`},
		"no JSON": {`{
  "description"`, `description`, `not JSON`},
		"half of it":             {"\n  }]}\n}", ``, `not JSON`},
		"something after it":     {"\n  }]}\n}", "\n  }]}\n}{}", `something follows the JSON value`},
		"bytes that are no text": {`Notes`, "\xff\xfe", `not valid UTF-8`},
	} {
		t.Run(name, func(t *testing.T) { refusedFor(t, everything, c.from, c.to, c.want) })
	}
	for name, c := range map[string]change{
		"an MCP server of both kinds":        {`"url"`, `"command": ["x"], "url"`, `mcp: needs exactly one of the keys command, such as`},
		"an MCP server of no kind":           {`{"url": "https://mcp.example.com/mcp", "credential": "TOKEN"}`, `{}`, `mcp: needs exactly one of the keys command`},
		"an MCP server that is text":         {`{"url": "https://mcp.example.com/mcp", "credential": "TOKEN"}`, `"https://mcp.example.com"`, `mcp: not an object`},
		"an MCP server with arguments":       {`"url"`, `"args": [], "url"`, `unknown key "mcp.args": known here are command, credential, env, url`},
		"a credential that is not listed":    {`"key": "TOKEN"`, `"key": "OTHER"`, `mcp.credential: "TOKEN" is not a key of install.credentials: list it there`},
		"an address in the clear":            {`https://mcp.example.com/mcp`, `http://mcp.example.com/mcp`, `mcp.url: begins with https://`},
		"an address of a file":               {`https://mcp.example.com/mcp`, `file:///etc/passwd`, `mcp.url: is no address: use one such as https://`},
		"an address with a password":         {`https://mcp.example.com/mcp`, `https://a:b@mcp.example.com/mcp`, `mcp.url: has a user, a password or a fragment: use the key credential`},
		"an address nobody is asked about":   {`["mcp.example.com"]`, `["example.com"]`, `mcp.url: its host is not among hosts: add "mcp.example.com:443" there`},
		"an address on another port":         {`https://mcp.example.com/mcp`, `https://mcp.example.com:8443/mcp`, `add "mcp.example.com:8443" there`},
		"a command with the URL's key":       {`"url": "https://mcp.example.com/mcp"`, `"command": ["x"]`, `mcp.credential: is for a server with url: use env, such as`},
		"a project for a server elsewhere":   {`"verify": true`, `"project": "read"`, `project: a server with mcp.url sees no folder`},
		"a configuration for an MCP server":  {`"verify": true`, `"config_schema": {}`, `config_schema: an MCP server takes no configuration`},
		"files for an MCP server":            {`{"type": "object", "additionalProperties": false}`, `{"type": "object", "additionalProperties": false, "properties": {"a": {}}}, "files": ["a"]`, `files: an MCP server is given no files with a call`},
		"a channel of an MCP server":         {`"tools"`, `"channels": ["post"], "tools"`, `mcp: an MCP server has tools only`},
		"an MCP server with no tools at all": {`[{"name": "add", "description": "Add", "arguments_schema": {"type": "object", "additionalProperties": false}}]`, `[]`, `mcp: provides.tools is empty: list the tools of the server that are used`},
	} {
		t.Run(name, func(t *testing.T) { refusedFor(t, remote, c.from, c.to, c.want) })
	}
	for name, c := range map[string]change{
		"a variable of a credential not listed": {`"API_KEY": "TOKEN"`, `"API_KEY": "OTHER"`, `mcp.env.API_KEY: "OTHER" is not a key of install.credentials: list it there`},
		"a variable in small letters":           {`"API_KEY"`, `"api_key"`, `mcp.env: "api_key" is no name for a credential: use capital letters`},
		"a variable that finds programs":        {`"API_KEY"`, `"PATH"`, `mcp.env: "PATH" is no name for a credential`},
		"a variable that loads code":            {`"API_KEY"`, `"LD_PRELOAD"`, `mcp.env: "LD_PRELOAD" is no name`},
		"a variable that leads elsewhere":       {`"API_KEY"`, `"ALL_PROXY"`, `mcp.env: "ALL_PROXY" is no name`},
		"a variable of the host's":              {`"API_KEY"`, `"NACRE_PLUGIN"`, `mcp.env: "NACRE_PLUGIN" is no name`},
		"no variables":                          {`{"API_KEY": "TOKEN"}`, `{}`, `mcp.env: is empty: name variables with keys of install.credentials`},
		"a value in place of a key":             {`"API_KEY": "TOKEN"`, `"API_KEY": {"value": "x"}`, `mcp.env.API_KEY: not a string`},
		"a credential in a header":              {`"env"`, `"credential": "TOKEN", "env"`, `mcp.credential: is for a server with url: use env, such as {"API_KEY": "TOKEN"}`},
		"variables for a server elsewhere":      {`"command": ["./server", "/project"]`, `"url": "https://mcp.example.com"`, `mcp.env: is for a server with command: use credential`},
	} {
		t.Run(name, func(t *testing.T) { refusedFor(t, local, c.from, c.to, c.want) })
	}
}

// refusedFor changes a good manifest and looks at what is said of it.
func refusedFor(t *testing.T, good, from, to, want string) {
	t.Helper()
	text := strings.Replace(good, from, to, 1)
	if text == good {
		t.Fatal("the case changes nothing")
	}
	f := inspect(t, text)
	if f.Err == nil || !strings.Contains(f.Err.Error(), want) || !strings.Contains(f.Err.Error(), filepath.Join("p", "manifest.json")) {
		t.Errorf("have %v\nwant its file and %q", f.Err, want)
	}
}

// A folder is refused with what is missing in it.
func TestWrongFolders(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"no manifest": {func(t *testing.T, dir string) { writeFile(t, dir+"/handler", "x", 0o755) }, "manifest.json"},
		"no handler":  {func(t *testing.T, dir string) { writePlugin(t, filepath.Dir(dir), "p", "") }, "handler is missing: put an executable there, or name one"},
		"a handler folder": {func(t *testing.T, dir string) {
			writePlugin(t, filepath.Dir(dir), "p", "")
			writeFile(t, dir+"/handler/x", "x", 0o755)
		}, "handler is not an executable file"},
		"a manifest folder": {func(t *testing.T, dir string) { writeFile(t, dir+"/manifest.json/x", "x", 0o644) }, "manifest.json"},
		"a manifest that is too large": {func(t *testing.T, dir string) {
			writeFile(t, dir+"/manifest.json", strings.Repeat(" ", 2<<20), 0o644)
		}, "manifest.json: 2097152 bytes, at most"},
		"a manifest that is a link": {func(t *testing.T, dir string) {
			writeFile(t, dir+"/handler", "x", 0o755)
			if err := os.Symlink("/etc/passwd", dir+"/manifest.json"); err != nil {
				t.Fatal(err)
			}
		}, "manifest.json is a link or a special file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "p")
			c.make(t, dir)
			if f := pluginhost.Inspect(dir); f.Err == nil || !strings.Contains(f.Err.Error(), c.want) {
				t.Errorf("have %v, want %q", f.Err, c.want)
			}
		})
	}
}
