package brain_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-01: the native program is found wherever the user installed it.
func TestTheProgramIsFoundBehindShims(t *testing.T) {
	machine := map[string]string{"amd64": "\x3e\x00", "arm64": "\xb7\x00"}
	elf := "\x7fELF" + strings.Repeat("\x00", 14) + machine[runtime.GOARCH]
	other := "\x7fELF" + strings.Repeat("\x00", 14) + map[string]string{"amd64": "\xb7\x00", "arm64": "\x3e\x00"}[runtime.GOARCH]
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	packed := "node_modules/@anthropic-ai/claude-code-linux-" + arch + "/claude"
	for name, c := range map[string]struct {
		files map[string]string // by path; "-> X" is a link
		want  string            // a path, or with a ! a part of the refusal
	}{
		"a program in a folder of one's own": {map[string]string{"bin/claude": elf}, "bin/claude"},
		"a link to a version":                {map[string]string{"bin/claude": "-> ../share/claude/versions/2.1.329", "share/claude/versions/2.1.329": elf}, "share/claude/versions/2.1.329"},
		"npm's prefix": {map[string]string{
			"bin/claude": "-> ../lib/node_modules/@anthropic-ai/claude-code/cli.js", "lib/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n", "lib/" + packed: elf,
		}, "lib/" + packed},
		"pnpm's script": {map[string]string{
			"bin/claude": "#!/bin/sh\nbasedir=$(dirname \"$0\")\nexec node  \"$basedir/global/5/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\n",
			"bin/global/5/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n", "bin/global/5/" + packed: elf,
		}, "bin/global/5/" + packed},
		"a shim of a shim": {map[string]string{
			"bin/claude": "#!/bin/sh\nexec ROOT/two/claude \"$@\"\n", "two/claude": "#!/bin/sh\nexec 'ROOT/three/claude' \"$@\"\n", "three/claude": elf,
		}, "three/claude"},
		"a shim of a shim of another name": {map[string]string{
			"bin/claude": "#!/bin/sh\nexec ROOT/two/my-claude.sh \"$@\"\n", "two/my-claude.sh": "#!/bin/sh\nexec ROOT/three/claude-2.1 \"$@\"\n", "three/claude-2.1": elf,
		}, "three/claude-2.1"},
		"a shim of asdf's": {map[string]string{
			"bin/claude": "#!/bin/sh\nexec ROOT/asdf/shims/claude \"$@\"\n", "asdf/shims/claude": "#!/usr/bin/env bash\n# asdf-plugin: nodejs 24.1.0\nexec ROOT/asdf/bin/asdf exec \"claude\" \"$@\"\n",
			"asdf/installs/nodejs/24.1.0/bin/claude": "-> ../lib/node_modules/@anthropic-ai/claude-code/cli.js", "asdf/installs/nodejs/24.1.0/lib/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n", "asdf/installs/nodejs/24.1.0/lib/" + packed: elf,
		}, "asdf/installs/nodejs/24.1.0/lib/" + packed},
		"a shim of nodenv's": {map[string]string{
			"bin/claude": "#!/usr/bin/env bash\nprogram=\"${0##*/}\"\nexec \"ROOT/libexec/nodenv\" exec \"$program\" \"$@\"\n", "versions/24.1.0/bin/claude": elf,
		}, "versions/24.1.0/bin/claude"},
		"the newest of several versions": {map[string]string{
			"shims/claude": "#!/usr/bin/env bash\nexec ROOT/bin/asdf exec \"claude\" \"$@\"\n", "installs/nodejs/9.11.2/bin/claude": elf, "installs/nodejs/24.1.0/bin/claude": elf,
			"installs/nodejs/22.23.3/bin/claude": elf, "bin/claude": "-> ../shims/claude",
		}, "installs/nodejs/24.1.0/bin/claude"},
		"mise":                      {map[string]string{"bin/claude": "-> ../mise", "mise": elf, "installs/claude/latest/bin/claude": elf}, "installs/claude/latest/bin/claude"},
		"volta":                     {map[string]string{"bin/claude": "-> volta-shim", "bin/volta-shim": elf, "tools/image/packages/@anthropic-ai/claude-code/bin/claude": elf}, "tools/image/packages/@anthropic-ai/claude-code/bin/claude"},
		"a manager that has it not": {map[string]string{"bin/claude": "-> ../mise", "mise": elf}, "!the native program is not beside it"},
		"shims in a circle":         {map[string]string{"bin/claude": "#!/bin/sh\nexec ROOT/two/claude\n", "two/claude": "#!/bin/sh\nexec ROOT/bin/claude\n"}, "!bin/claude is a shim that leads back to itself"},
		"shims without an end": {map[string]string{
			"bin/claude": "#!/bin/sh\nexec ROOT/1/claude\n", "1/claude": "#!/bin/sh\nexec ROOT/2/claude\n", "2/claude": "#!/bin/sh\nexec ROOT/3/claude\n", "3/claude": "#!/bin/sh\nexec ROOT/4/claude\n",
			"4/claude": "#!/bin/sh\nexec ROOT/5/claude\n", "5/claude": elf,
		}, "!5/claude is behind more than 4 shims"},
		"a shim of what is built for others": {map[string]string{"bin/claude": "#!/bin/sh\nexec ROOT/two/claude\n", "two/claude": other}, "!two/claude is built for "},
		"another architecture":               {map[string]string{"bin/claude": other}, "!and this machine is " + runtime.GOARCH},
		"a link that leads nowhere":          {map[string]string{"bin/claude": "-> gone"}, "!claude is not installed"},
		"nothing":                            {map[string]string{"bin/other": elf}, "!claude is not installed"},
		"a script that starts a sh":          {map[string]string{"bin/claude": "#!/bin/sh\nexec /bin/sh -c 'claude'\n"}, "!the native program is not beside it"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range c.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if to, link := strings.CutPrefix(text, "-> "); link {
					err = os.Symlink(to, path)
				} else {
					err = testpeer.WriteProgram(path, strings.ReplaceAll(text, "ROOT", root))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			opening, err := brain.NewClaude(brain.Options{Path: filepath.Join(root, "bin")}).Open(brain.Terminal{SessionToken: nacre.NewSecret("token-of-a-test-session")})
			if part, refused := strings.CutPrefix(c.want, "!"); refused {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Fatalf("have %v, want %q", err, part)
				}
				return
			}
			if err != nil || opening.Mounts[0].Source != filepath.Join(root, c.want) {
				t.Fatalf("have %+v, %v, want %s", opening.Mounts, err, c.want)
			}
		})
	}
}
