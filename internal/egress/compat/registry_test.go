package compat_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// unaided are what people type, and what it prints, with no variable of theirs. The
// document has a row for each.
func unaided() map[string]struct{ program, script, want string } {
	return map[string]struct{ program, script, want string }{
		"go mod tidy and go get":           {"go", "cp -r gomod p && cd p && mv go.mod.txt go.mod && printf 'package p\n\nimport _ \"example.test/dep\"\n' >p.go && go mod tidy && go get example.test/dep@v1.0.0 && go build ./... && go env GOPRIVATE && echo built", "private.test\nbuilt"},
		"go get -tool and go install tool": {"go", "mkdir i && cd i && go mod init i.test/i && go get -tool example.test/dep/deptool@v1.0.0 && go install tool && deptool && go tool deptool", "dep works\ndep works"},
		"npm install":                      {"npm", "mkdir q && cd q && npm init -y >/dev/null && npm install --no-fund dep && node -p 'require(\"dep\")'", "dep works"},
		"pip install":                      {"python3", "python3 -m pip install -q --target t dep && PYTHONPATH=t python3 -c 'import dep; print(dep.text)'", "dep works"},
		"cargo add and build":              {"cargo", "cp -r cargo r && cd r && rm -rf .cargo Cargo.lock && sed -i '/^dep/d' Cargo.toml && cargo add -q dep && cargo build -q && ./target/debug/p", "dep works"},
		"no secret":                        {"sh", "! env | grep n0t-inside; ! grep -rs n0t-inside /opt/nacre ~/.npmrc ~/.cargo ~/.config; echo none", "none"},
	}
}

// U-05: the document has a row for each of them.
func TestTheDocumentNamesWhatNeedsNoVariable(t *testing.T) {
	text, err := os.ReadFile(document)
	must(t, err)
	for name, c := range unaided() {
		if c.program != "sh" && !strings.Contains(string(text), "| "+name+" |") {
			t.Errorf("%s: no row for %s", document, name)
		}
	}
	if !strings.Contains(string(text), "| pnpm add |") {
		t.Errorf("%s: no row for pnpm", document)
	}
}

// U-05, U-07: with its registry allowed, each language's own commands work and no variable is set
// by hand. The registries that the user has chosen on the host hold inside, and their tokens do
// not. An authority of the operator's is trusted there.
func TestRegistriesNeedNoVariables(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs real package tools")
	}
	b := registries(t)
	for name, c := range unaided() {
		t.Run(name, func(t *testing.T) {
			b.needs(t, c.program)
			b.prints(t, c.want, "sh", "-euc", c.script)
		})
	}
	t.Run("pnpm add", func(t *testing.T) { // where its user has it, which no folder of the system's is
		pnpm := os.Getenv("NACRE_PNPM")
		if pnpm == "" {
			testpeer.Missing(t, "pnpm", "NACRE_PNPM names it")
		}
		b.env = append(b.env, "PATH="+filepath.Dir(pnpm)+":"+os.Getenv("PATH"))
		must(t, os.WriteFile(filepath.Join(b.project, "package.json"), []byte("{}"), 0o600))
		b.prints(t, "dep", "pnpm", "add", "dep")
		b.prints(t, "dep works", "node", "-p", "require('dep')")
	})
}

// U-05: an authority that a tool's own settings name on the host is trusted by that tool inside, wherever the file lies.
// Nothing else of the file is there, and a file of the project's says nothing.
func TestAnAuthorityOfAToolsOwnSettingsHoldsInside(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs real package tools")
	}
	for name, c := range map[string]struct{ file, says string }{
		"npm install":         {".npmrc", "cafile=AUTHORITY\n"},
		"pip install":         {".config/pip/pip.conf", "cert = AUTHORITY\n"},
		"cargo add and build": {".cargo/config.toml", "[http]\ncainfo = \"AUTHORITY\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			play, b := unaided()[name], registries(t)
			b.needs(t, play.program)
			home := filepath.Dir(b.project)
			config := filepath.Join(home, ".config/nacre/config.toml")
			text, err := os.ReadFile(config)
			must(t, err)
			must(t, os.WriteFile(config, []byte(strings.Replace(string(text), "ca = ", "# ", 1)), 0o600))
			authority := filepath.Join(home, "company.pem")
			settings, err := os.ReadFile(filepath.Join(home, c.file))
			must(t, err)
			settings, _, _ = bytes.Cut(settings, []byte("[search]"))
			must(t, os.WriteFile(filepath.Join(home, c.file), append(settings, strings.ReplaceAll(c.says, "AUTHORITY", authority)...), 0o600))
			pem, err := os.ReadFile(authority)
			must(t, err)
			must(t, os.WriteFile(authority, append(pem, "-----BEGIN PRIVATE KEY-----\nn0tinside\n-----END PRIVATE KEY-----\n"...), 0o600))
			b.prints(t, play.want, "sh", "-euc", play.script)
			b.prints(t, "none", "sh", "-c", "! grep -rs PRIVATE /opt/nacre; echo none")
		})
	}
}

// needs skips a test for which a program is not there, or is too old.
func (b *bench) needs(t *testing.T, program string) {
	t.Helper()
	testpeer.Need(t, program)
	if program != "cargo" {
		return
	}
	testpeer.Need(t, "gcc")
	if b.leavesOut(testCase{unless: oldCargo}) {
		t.Skip(becauseOldCargo)
	}
}

// prints runs a command sealed, and wants of what it prints a part, and no secret.
func (b *bench) prints(t *testing.T, want string, argv ...string) {
	t.Helper()
	out, err := b.exec(append([]string{"exec", "-q", "--project", b.project, "--"}, argv...)...)
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("%v: want %q in\n%s", err, want, out)
	}
	if strings.Contains(out, "n0t-inside") {
		t.Errorf("a secret of the host's is told:\n%s", out)
	}
}

// registries is a bench whose user has chosen registries and an authority.
func registries(t *testing.T) *bench {
	t.Helper()
	s := newServers(t)
	b := newBench(t, s)
	home := filepath.Dir(b.project)
	authority := filepath.Join(home, "company.pem")
	must(t, os.WriteFile(authority, s.authority, 0o600))
	for name, text := range map[string]string{
		".config/nacre/config.toml": strings.Replace(s.config(), "[egress]\n", "[egress]\nca = [\""+authority+"\"]\n", 1),
		".npmrc":                    "registry=https://user:n0t-inside@npm.compat.test/\n//npm.compat.test/:_authToken=n0t-inside\n@acme:registry=https://npm.compat.test/acme/\nscript-shell=/bin/n0t-inside\n",
		".config/pip/pip.conf":      "[global]\nindex-url = https://user:n0t-inside@pypi.compat.test/simple/\n[search]\nindex = https://n0t-inside.test/\n",
		".cargo/config.toml":        "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://crates.compat.test/index/\"\n[registries.acme]\nindex = \"sparse+https://crates.compat.test/index/\"\ntoken = \"n0t-inside\"\n[build]\nrustc-wrapper = \"n0t-inside\"\n",
		".config/go/env":            "GOPROXY=https://user:n0t-inside@goproxy.compat.test\nGOSUMDB=off\nGOPRIVATE=private.test\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	if rustup := filepath.Join(os.Getenv("HOME"), ".rustup"); os.Getenv("RUSTUP_HOME") == "" {
		b.env = append(b.env, "RUSTUP_HOME="+rustup) // the tests' home has none
	}
	return b
}
