package gate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/gate"
)

type fields map[string]any

// S-06, S-02: tools of all agents, honest and not.
func TestTools(t *testing.T) {
	scope := gate.Rule{Kind: gate.FilesWhitelist, Whitelist: []string{"src/**"}, Denylist: []string{"src/keys", "src/*.pem"}}
	deps, git := gate.Rule{Kind: gate.NoDepBump}, gate.Rule{Kind: gate.NoGitOps}
	reader, rulesGate := gate.Rule{Kind: gate.DenyTools}, gate.Rule{Kind: gate.NoRuleEdits}
	patch := func(lines string) fields { return fields{"command": "*** Begin Patch\n" + lines + "\n*** End Patch"} }
	for name, c := range map[string]struct {
		rule  gate.Rule
		tool  string
		input any
		want  string
	}{
		"an edit within":                    {scope, "Edit", fields{"file_path": "src/a"}, "allow"},
		"an edit of a denied folder's file": {scope, "Edit", fields{"file_path": "src/keys/id"}, "deny"},
		"an edit of a denied glob":          {scope, "Edit", fields{"file_path": "src/a.pem"}, "deny"},
		"edits that name other files":       {scope, "MultiEdit", fields{"file_path": "src/a", "edits": []fields{{"file_path": "x", "old_string": "a"}}}, "deny"},
		"edits of one file":                 {scope, "MultiEdit", fields{"file_path": "src/a", "edits": []fields{{"old_string": "a", "new_string": "b"}}}, "allow"},
		"two paths, one of them outside":    {scope, "Write", fields{"file_path": "src/a", "path": "x"}, "deny"},
		"a path that is null":               {scope, "Write", fields{"file_path": nil}, "deny"},
		"a path with a hidden character":    {scope, "Write", fields{"file_path": "src/a\u200bb"}, "deny"},
		"a path in a home":                  {scope, "Write", fields{"file_path": "~/x"}, "deny"},
		"an MCP writer within":              {scope, "mcp__fs__write_file", fields{"path": "/w/repo/src/a"}, "allow"},
		"an MCP move out of it":             {scope, "mcp__fs__move_file", fields{"source": "src/a", "destination": "x"}, "deny"},
		"an unknown MCP tool":               {scope, "mcp__x__frobnicate", fields{"path": "src/a"}, "deny"},
		"a tool nobody knows":               {scope, "Frobnicate", fields{"file_path": "src/a"}, "deny"},
		"an MCP reader":                     {scope, "mcp__fs__read_file", fields{"path": "x"}, "allow"},
		"an MCP reader that writes":         {scope, "mcp__fs__read_file", fields{"path": "x", "content": "y"}, "deny"},
		"a reader that runs":                {git, "Read", fields{"file_path": "x", "command": "ls"}, "deny"},
		"an edit that runs":                 {git, "Edit", fields{"file_path": "x", "command": "ls"}, "deny"},
		"a shell that edits":                {git, "Bash", fields{"command": "ls", "content": "y"}, "deny"},
		"a shell without a command":         {git, "Bash", fields{}, "deny"},
		"a shell with a number":             {git, "Bash", fields{"command": 7}, "deny"},
		"a shell with no list":              {git, "shell", fields{"command": []string{}}, "deny"},
		"a shell with two commands":         {git, "Bash", fields{"command": "ls", "cmd": "git push"}, "deny"},
		"Codex's argv":                      {git, "shell", fields{"command": []string{"git", "push"}}, "deny"},
		"Codex's argv with a shell":         {git, "shell", fields{"command": []string{"bash", "-lc", "cd x && git push"}}, "deny"},
		"Codex's argv, text only":           {git, "shell", fields{"command": []string{"echo", "git push"}}, "allow"},
		"Codex's cmd":                       {git, "exec_command", fields{"cmd": "git push"}, "deny"},
		"Codex typing into a shell":         {git, "write_stdin", fields{"session_id": 1, "chars": "git push\n"}, "deny"},
		"ACP's terminal":                    {git, "terminal/create", fields{"command": "git", "args": []string{"push"}}, "deny"},
		"ACP's terminal, text only":         {git, "terminal/create", fields{"command": "echo", "args": []string{"git"}}, "allow"},
		"ACP's writer":                      {scope, "fs/write_text_file", fields{"path": "/w/repo/x"}, "deny"},
		"an unknown tool with a command":    {git, "mcp__x__go", fields{"command": "git push"}, "deny"},
		"a server of git":                   {git, "mcp__github__push_files", fields{}, "deny"},
		"a tool that is git":                {git, "mcp__x__git_commit", fields{}, "deny"},
		"a server of weather":               {git, "mcp__weather__get", fields{"city": "x"}, "allow"},
		"an edit of git's folder":           {git, "Edit", fields{"file_path": ".git/config"}, "deny"},
		"an edit of a git file":             {git, "Edit", fields{"file_path": ".gitignore"}, "allow"},
		"a patch within":                    {scope, "apply_patch", patch("*** Update File: src/a\n+x"), "allow"},
		"a patch that moves out":            {scope, "apply_patch", patch("*** Update File: src/a\n*** Move to: x"), "deny"},
		"a patch by a command of a shell":   {scope, "exec_command", fields{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: x\n+x\n*** End Patch\nEOF"}, "deny"},
		"a patch of nothing":                {scope, "apply_patch", fields{"command": "x"}, "deny"},
		"a patch of a lock":                 {deps, "apply_patch", patch("*** Delete File: a/go.sum"), "deny"},
		"a lock of node":                    {deps, "Write", fields{"file_path": "web/package-lock.json"}, "deny"},
		"a read of a lock":                  {deps, "Read", fields{"file_path": "go.sum"}, "allow"},
		"rules of agents":                   {rulesGate, "Write", fields{"file_path": "/home/u/.claude/rules/x.md"}, "deny"},
		"rules of agents by a shell":        {rulesGate, "Bash", fields{"command": "echo x >> ~/.claude/rules/x.md"}, "deny"},
		"rules in a folder":                 {rulesGate, "Edit", fields{"file_path": "a/AGENTS.md"}, "deny"},
		"no rules":                          {rulesGate, "Edit", fields{"file_path": "a/b.md"}, "allow"},
		"a shell's write within":            {scope, "Bash", fields{"command": "echo x > src/a"}, "allow"},
		"a shell's write outside":           {scope, "Bash", fields{"command": "echo x > a"}, "deny"},
		"a shell's write to the unknown":    {scope, "Bash", fields{"command": "echo x > $f"}, "deny"},
		"a shell's write elsewhere":         {scope, "Bash", fields{"command": "cd x && touch src/a"}, "deny"},
		"a shell's scratch":                 {scope, "Bash", fields{"command": "cargo test > /tmp/out 2>&1"}, "allow"},
		"a shell's copy onto a key":         {scope, "Bash", fields{"command": "cp /tmp/x.pem src/"}, "deny"},
		"an unknown tool, only reading":     {reader, "Frobnicate", fields{}, "deny"},
		"a search of the web":               {reader, "WebSearch", fields{"query": "x"}, "allow"},
		"a patch, only reading":             {reader, "apply_patch", patch("*** Add File: a"), "deny"},
		"a listed tool":                     {gate.Rule{Kind: gate.Patterns, Tools: []string{"Read", "Bash"}}, "shell", fields{"command": "ls"}, "allow"},
		"a tool that is not listed":         {gate.Rule{Kind: gate.Patterns, Tools: []string{"Read", "Bash"}}, "apply_patch", patch("*** Add File: a"), "deny"},
		"an edit where only writes are":     {gate.Rule{Kind: gate.Patterns, Tools: []string{"Write"}}, "Edit", fields{"file_path": "a"}, "deny"},
		"a server's tool for Bash":          {gate.Rule{Kind: gate.Patterns, Tools: []string{"Bash"}}, "mcp__x__bash", fields{"command": "ls"}, "deny"},
		"a rule of no kind":                 {gate.Rule{}, "Read", fields{"file_path": "a"}, "deny"},
		"input that is a list":              {git, "Bash", []string{"git"}, "deny"},
	} {
		d := decide(t, c.rule, world(), hook(t, c.tool, c.input))
		if have := verdict(d); have != c.want {
			t.Errorf("%s: %s, want %s: %s", name, have, c.want, d.Reason)
		}
	}
}

// S-07: what is not one hook message is refused.
func TestBadHooks(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "white space": " \n", "half": `{"tool_name":"Bash","tool_input":{"comm`, "no JSON": "x", "a list": "[]", "null": "null",
		"no tool":                       `{"tool_input":{}}`,
		"no input":                      `{"tool_name":"Bash"}`,
		"a null tool":                   `{"tool_name":null,"tool_input":{}}`,
		"a null input":                  `{"tool_name":"Bash","tool_input":null}`,
		"two tools":                     `{"tool_name":"Read","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"two tools by case":             `{"tool_name":"Read","Tool_Name":"Bash","tool_input":{"command":"ls"}}`,
		"two commands":                  `{"tool_name":"Bash","tool_input":{"command":"ls","command":"git push"}}`,
		"two commands by case, escaped": `{"tool_name":"Bash","tool_input":{"command":"ls","\u0043ommand":"git push"}}`,
		"two messages":                  `{"tool_name":"Read","tool_input":{}}{"tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"after the call":                `{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{}}`,
		"a long name":                   `{"tool_name":"` + strings.Repeat("a", 300) + `","tool_input":{}}`,
		"a deep input":                  `{"tool_name":"Read","tool_input":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 201),
		"bytes that are no text":        "{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"\xff\"}}",
	} {
		if _, err := gate.ParseHook([]byte(data)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// S-06: links are followed as the kernel follows them, and case as the file system takes it.
func TestPathAttacks(t *testing.T) {
	links := map[string]string{
		"/w/repo/src/up": "..", "/w/repo/src/loop": "loop", "/w/repo/src/abs": "/etc", "/w/repo/src/in": "/w/repo/src/b",
		"/w/repo/src/far": "deep/er", "/w/alias": "/w/repo", "/w/repo/src/two": "up/secret",
	}
	w := world()
	w.Readlink = func(path string) (string, bool, error) {
		if path == "/w/repo/src/broken" {
			return "", false, errors.New("permission denied")
		}
		target, ok := links[path]
		return target, ok, nil
	}
	rule := gate.Rule{Kind: gate.FilesWhitelist, Whitelist: []string{"src/**"}, Denylist: []string{"src/secret/**"}}
	for path, want := range map[string]string{
		"src/a": "allow", "src/up/a": "deny", "src/up/src/a": "allow", "src/loop/a": "deny", "src/abs/passwd": "deny", "src/in/a": "allow",
		"src/far/../../x": "deny", "src/broken/a": "deny", "/w/alias/src/a": "deny", "src/two/a": "deny", "src/in/../secret/a": "deny",
		"src/./a": "allow", "/w/repo/../repo/src/a": "allow", "/w/repo": "deny", ".": "deny", "src/SECRET/a": "allow",
		"src/a/": "allow", "src/..": "deny", "/w/repository/src/a": "deny", "src/ａ": "allow",
	} {
		if d := decide(t, rule, w, hook(t, "Write", fields{"file_path": path})); verdict(d) != want {
			t.Errorf("%q: %s, want %s: %s", path, verdict(d), want, d.Reason)
		}
	}
	w.FoldCase = true
	for path, want := range map[string]string{"SRC/a": "allow", "src/SECRET/a": "deny", "src/\u017fecret/a": "deny", "/W/REPO/src/a": "allow"} {
		if d := decide(t, rule, w, hook(t, "Write", fields{"file_path": path})); verdict(d) != want {
			t.Errorf("%q, case folded: %s, want %s: %s", path, verdict(d), want, d.Reason)
		}
	}
	for _, pattern := range []string{"", "/", "../x/**", "/etc/**", "src/{a,b}", "!src/a", `src\a`, "."} {
		rule := gate.Rule{Kind: gate.FilesDenylist, Denylist: []string{pattern}}
		if decide(t, rule, w, hook(t, "Write", fields{"file_path": "src/a"})).Allowed {
			t.Errorf("the pattern %q denies nothing, silently", pattern)
		}
	}
}

// S-04: how many files go is known beforehand, or nothing goes.
func TestMassDelete(t *testing.T) {
	files := map[string]int{"/w/repo/big": 11, "/w/repo/small": 3, "/w/repo/a": 1, "/w/repo/b": 1}
	w := world()
	w.Count = func(path string, _ int) (int, error) { return files[path], nil }
	rule := gate.Rule{Kind: gate.NoMassDelete}
	for command, want := range map[string]string{
		"rm -rf big": "deny", "rm -rf small": "allow", "rm a b": "allow", "rm -rf small small small small": "deny", "rm *": "deny", "rm $x": "deny",
		"ls | xargs rm": "deny", "ls | parallel rm": "deny", "parallel rm :::: names": "deny", "ls | parallel rm {}": "deny", "parallel rm {} ::: a b small big": "deny", "find . -delete": "deny", "find . -exec rm {} +": "deny", "for f in *; do rm $f; done": "deny", "cd x && rm a": "deny",
		"bash -c 'rm -rf big'": "deny", "sudo rm -rf big": "deny", "rm -rf ./x/../big": "deny", "git clean -fd": "deny", "rsync -a --delete a/ b/": "deny",
		"python3 -c 'import shutil; shutil.rmtree(\"big\")'": "deny", "tar cf x.tar --remove-files big": "deny",
		"zip -rm x.zip big": "deny", "7z a -sdel x big": "deny", "gio trash big": "deny", "tar cf x.tar big": "allow", "zip -r x.zip my-module": "allow", "gio open trash": "allow", "rm -- -a": "allow", "echo rm -rf big": "allow", "ls": "allow",
	} {
		if d := decide(t, rule, w, hook(t, "Bash", fields{"command": command})); verdict(d) != want {
			t.Errorf("%q: %s, want %s: %s", command, verdict(d), want, d.Reason)
		}
	}
	if bash(t, rule, "rm a").Allowed {
		t.Error("deleted without a count")
	}
	rule.MaxDeletes = 2
	if decide(t, rule, w, hook(t, "Bash", fields{"command": "rm -r small"})).Allowed {
		t.Error("three files go where two may")
	}
}

// A hook that is not ours to read does not decide: the zero call is refused.
func TestZeroValuesRefuse(t *testing.T) {
	for _, rule := range append(rules(), gate.Rule{}) {
		if rule.Check(gate.Call{}, world()).Allowed {
			t.Errorf("%s allows a call that was not read", rule.Kind)
		}
	}
	var d gate.Decision
	if d.Allowed {
		t.Error("the zero decision allows")
	}
	if data, err := json.Marshal(fields{"tool_name": "Edit", "tool_input": fields{"file_path": "a"}}); err != nil || decide(t, gate.Rule{Kind: gate.FilesWhitelist, Whitelist: []string{"**"}}, gate.World{}, data).Allowed {
		t.Error("a path is placed in a project that is not known")
	}
}
