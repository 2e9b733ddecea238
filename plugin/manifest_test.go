package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
)

func parseFile(t *testing.T, name string) plugin.Manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := plugin.ParseManifest(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// D-20: the seed's three manifests load unchanged.
func TestSeedManifestsLoad(t *testing.T) {
	for name, tools := range map[string]int{"reminders.json": 4, "telegram.json": 2, "memory.json": 4} {
		if have := len(parseFile(t, name).Provides.Tools); have != tools {
			t.Errorf("%s: have %d tools, want %d", name, have, tools)
		}
	}
	m := parseFile(t, "telegram.json")
	if have := strings.Join(m.Provides.Channels, " ") + "|" + strings.Join(m.Subscribes, " "); have != "telegram|message.inbound task.triggered" {
		t.Errorf("channels and subscriptions: have %s", have)
	}
	if have := parseFile(t, "memory.json").Provides.Hooks; len(have) != 1 || have[0] != plugin.HookMemoryBrief {
		t.Errorf("hooks: have %v", have)
	}
}

// D-20: what a manifest leaves out takes the stricter reading.
func TestCapabilityOfTool(t *testing.T) {
	tools := parseFile(t, "reminders.json").Provides.Tools
	create := tools[0].Capability("reminders", "sha256:00")
	if create.ID != "reminders.create_reminder" || create.Safety != nacre.Write || create.HighRisk ||
		create.Returns != nacre.Untrusted || create.Sensitivity != nacre.SensitiveNone {
		t.Errorf("create_reminder: have %+v", create)
	}
	if !tools[3].Capability("reminders", "").HighRisk {
		t.Error("delete_reminder: risk_level high must ask")
	}
}

const full = `{
  "description": "Notes", "version": "1.2.0", "app_compat": ">=0.1.0 <2",
  "author": {"name": "A", "url": "https://example.com"},
  "handler": ["python3", "handler.py"], "hosts": ["api.example.com", "*.example.org:8443"],
  "install": {"credentials": [{"key": "API_KEY", "description": "d", "required": true, "obtain_url": "https://example.com/k", "format_hint": "sk-"}]},
  "provides": {"tools": [{
    "name": "add", "description": "Add a note", "safety_class": "READ", "sensitivity": "PII",
    "rate_limit": {"calls": 3, "seconds": 60}, "deadline_seconds": 3600, "returns": "trusted", "sinks": ["to", "body.url"], "files": ["body.file"],
    "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {"to": {"type": "string"}, "body": {"type": "object"}}}
  }]}
}`

func TestEveryOptionalKey(t *testing.T) {
	m, err := plugin.ParseManifest([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	tool := m.Provides.Tools[0]
	if tool.Safety != nacre.Read || tool.Sensitivity != nacre.SensitivePII || tool.Returns != nacre.Trusted ||
		tool.Rate != (nacre.RateLimit{Calls: 3, Window: time.Minute}) || tool.Deadline != time.Hour || len(tool.Sinks) != 2 ||
		!slices.Equal(tool.Capability("notes", "sha256:1").Files, []string{"body.file"}) {
		t.Errorf("tool: have %+v", tool)
	}
	if len(m.Handler) != 2 || len(m.Hosts) != 2 || !m.Install.Credentials[0].Required {
		t.Errorf("manifest: have %+v", m)
	}
}

// D-20: anything unknown, twice or of the wrong type is an error that names it.
func TestManifestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"an unknown key":                    {`"version"`, `"homepage": "x", "version"`, `"homepage"`},
		"a known key in another case":       {`"hosts"`, `"Hosts"`, `unknown key "Hosts"`},
		"an unknown key in a tool":          {`"safety_class"`, `"danger": 1, "safety_class"`, `"provides.tools[0].danger"`},
		"an unknown key in a credential":    {`"obtain_url"`, `"value": "s", "obtain_url"`, `install.credentials[0].value`},
		"a key twice":                       {`"version"`, `"description": "x", "version"`, `"description" comes twice`},
		"a key twice in a schema":           {`"type": "object", "add`, `"type": "array", "TYPE": "object", "add`, `comes twice`},
		"a number for a string":             {`"version": "1.2.0"`, `"version": 1`, `version: not a string`},
		"null for a string":                 {`"version": "1.2.0"`, `"version": null`, `version: not a string`},
		"a version that is none":            {`"1.2.0"`, `"one"`, `version: "one"`},
		"a range that is none":              {`">=0.1.0 <2"`, `">=soon"`, `app_compat: version range`},
		"an unknown safety class":           {`"READ"`, `"read"`, `safety_class: unknown`},
		"an unknown risk level":             {`"safety_class": "READ"`, `"risk_level": "medium"`, `risk_level: "medium"`},
		"an unknown hook":                   {`{"tools"`, `{"hooks": ["on_boot"], "tools"`, `unknown hook "on_boot"`},
		"a tool name with a dash":           {`"name": "add"`, `"name": "add-it"`, `provides.tools[0].name`},
		"a sink that is no argument":        {`"sinks": ["to"`, `"sinks": ["too"`, `sinks[0]: "too"`},
		"a file that is no argument":        {`["body.file"]`, `["bodies.file"]`, `files[0]: "bodies.file"`},
		"files that are no list":            {`["body.file"]`, `"body.file"`, `files: not`},
		"a rate without a window":           {`"calls": 3, "seconds": 60`, `"calls": 3`, `rate_limit: needs both`},
		"no time for a call":                {`"deadline_seconds": 3600`, `"deadline_seconds": 0`, `deadline_seconds: write a whole number of seconds from 1 to 3600`},
		"more than an hour for a call":      {`"deadline_seconds": 3600`, `"deadline_seconds": 3601`, `deadline_seconds`},
		"a time for a call in words":        {`"deadline_seconds": 3600`, `"deadline_seconds": "30"`, `deadline_seconds`},
		"half a second for a call":          {`"deadline_seconds": 3600`, `"deadline_seconds": 0.5`, `deadline_seconds`},
		"a negative rate":                   {`"calls": 3`, `"calls": -3`, `rate_limit.calls`},
		"an empty handler":                  {`["python3", "handler.py"]`, `[]`, `handler: needs a program`},
		"a host with a path":                {`"api.example.com"`, `"api.example.com/x"`, `hosts[0]`},
		"a host in capitals":                {`"api.example.com"`, `"API.example.com"`, `hosts[0]`},
		"a credential obtained without TLS": {`"https://example.com/k"`, `"http://example.com/k"`, `obtain_url`},
		"a schema that is no object":        {`"arguments_schema": {"type"`, `"arguments_schema": true, "x": {"type"`, `arguments_schema: not an object`},
		"no description":                    {`"description": "Notes", `, ``, `description is missing`},
		"something after the manifest":      {"\n  }]}\n}", "\n  }]}\n} {}", `follows`},
		"half a manifest":                   {"\n  }]}\n}", "", `not JSON`},
		"bad UTF-8":                         {`Notes`, "\xff", `UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(full, c.from, c.to, 1)
			if text == full {
				t.Fatal("the case changes nothing")
			}
			if _, err := plugin.ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want an error with %s", err, c.want)
			}
		})
	}
}

func TestManifestLimits(t *testing.T) {
	deep := `{"config_schema":` + strings.Repeat(`{"a":`, 80) + `1` + strings.Repeat(`}`, 80) + `}`
	for name, text := range map[string]string{
		"nested too deep": deep, "too large": strings.Repeat(" ", plugin.MaxManifest+1), "empty": "", "an array": "[]", "null": "null",
	} {
		if _, err := plugin.ParseManifest([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestToolDeclaredTwice(t *testing.T) {
	text := `{"description":"d","version":"1.0.0","provides":{"tools":[{"name":"a","description":"d","arguments_schema":{}},{"name":"a","description":"d","arguments_schema":{}}]}}`
	if _, err := plugin.ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), "declared twice") {
		t.Errorf("have %v", err)
	}
}

// D-25: app_compat is a semver range.
func TestCompatible(t *testing.T) {
	for _, c := range []struct {
		rang, version string
		want          bool
	}{
		{">=0.1.0", "0.1.0", true}, {">=0.1.0", "0.0.9", false}, {">=0.1.0 <1", "1.0.0", false}, {"", "9.9.9", true},
		{"*", "0.0.1", true}, {"^1.2.3", "1.9.0", true}, {"^1.2.3", "2.0.0", false}, {"^0.2.3", "0.3.0", false},
		{"~1.2", "1.2.9", true}, {"~1.2", "1.3.0", false}, {"1.2", "1.2.7", true}, {"=1.2.3", "1.2.4", false},
		{"<1 || >=2", "2.1.0", true}, {">=1.0.0", "v1.0.0-rc1", true},
	} {
		if have, err := plugin.Compatible(c.rang, c.version); err != nil || have != c.want {
			t.Errorf("%s in %q: have %v, %v", c.version, c.rang, have, err)
		}
	}
	if _, err := plugin.Compatible(">=1", "dev"); err == nil {
		t.Error("a version that is none: accepted")
	}
}

// D-21: only data with all three members typed is a ToolError.
func TestParseToolError(t *testing.T) {
	if e, ok := plugin.ParseToolError([]byte(`{"code":"NOT_FOUND","message":"m","retriable":false}`)); !ok || e.Code != "NOT_FOUND" {
		t.Errorf("have %v %v", e, ok)
	}
	for _, data := range []string{``, `null`, `[]`, `{}`, `{"code":"A","message":"m"}`, `{"code":1,"message":"m","retriable":true}`,
		`{"code":"A","message":"m","retriable":"true"}`, `{"code":"","message":"m","retriable":true}`, `{"code":"A","message":null,"retriable":true}`} {
		if _, ok := plugin.ParseToolError(json.RawMessage(data)); ok {
			t.Errorf("%s: taken for a ToolError", data)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	corpus.Add(f, []byte(full))
	for _, name := range []string{"reminders.json", "telegram.json", "memory.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		corpus.Add(f, data)
	}
	corpus.Add(f, []byte(`{"provides":{"tools":[null]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := plugin.ParseManifest(data)
		if err != nil {
			return
		}
		for _, tool := range m.Provides.Tools {
			if _, err := nacre.ParseToolName(string(tool.Name)); err != nil || tool.ArgumentsSchema == nil {
				t.Errorf("accepted %+v", tool)
			}
		}
	})
}
