package selfhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
)

// without takes variables out of the environment.
func (h *house) without(names ...string) {
	h.env = slices.DeleteFunc(h.env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

func (h *house) notReady(t *testing.T, wants ...string) {
	t.Helper()
	for _, brain := range [][]string{nil, {"--brain", "claude"}} {
		s := h.run(t, append([]string{"run", work, "--project", h.project}, brain...)...)
		if s.code != 3 {
			t.Errorf("%v: exit %d, want 3: %s", brain, s.code, s.stderr)
		}
		for _, want := range wants {
			if !strings.Contains(s.stderr, want) {
				t.Errorf("%v: have %q, want %q in it", brain, s.stderr, want)
			}
		}
	}
}

// M-01: a brain that is not installed ends the run with 3 and the next command.
func TestARunWithoutABrainSaysHowToGetOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(git, filepath.Join(bin, "git")); err != nil {
		t.Fatal(err)
	}
	h.without("PATH")
	h.env = append(h.env, "PATH="+bin)
	s := h.run(t, "run", work, "--project", h.project)
	if s.code != 3 || !strings.Contains(s.stderr, "no brain is ready") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
	h.env = append(h.env, "ANTHROPIC_API_KEY=sk-ant-decoy")
	s = h.run(t, "run", work, "--project", h.project, "--brain", "claude")
	if s.code != 3 || !strings.Contains(s.stderr, "claude is not installed") || !strings.Contains(s.stderr, "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
}

// M-01, M-03: what helps against a missing key depends on where it should be.
func TestARunWithoutAKeySaysWhereItIsMissing(t *testing.T) {
	t.Parallel()
	o := newOffice(t, script(t))
	o.without("ANTHROPIC_API_KEY")
	o.config(t, "")
	o.notReady(t, "claude found", "export ANTHROPIC_API_KEY=")
	o.config(t, "[model]\nkey_env = \"WORK_KEY\"\n")
	o.notReady(t, "export WORK_KEY=")
	file := filepath.Join(o.home, "key")
	o.config(t, "[model]\nkey_file = \""+file+"\"\n")
	o.notReady(t, "write the key to "+file)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.notReady(t, "write the key to "+file)
	if n := len(o.upstream.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	o.untouched(t, o.base)
}

// docs/running-claude.md: its config works, with every line of it in force.
func TestTheDocumentedConfigWorks(t *testing.T) {
	t.Parallel()
	o := newOffice(t, script(t))
	o.without("ANTHROPIC_API_KEY")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(o.key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "running-claude.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(page), "```toml\n")
	config, _, found := strings.Cut(config, "```")
	if !found {
		t.Fatal("the page has no config")
	}
	o.config(t, strings.NewReplacer("# name", "name", "# key_file", "key_file", "# base_url", "base_url",
		"/home/me/.secrets/anthropic", file, "http://127.0.0.1:8080", o.url).Replace(config))
	done := o.work(t, "--check", check)
	r := o.landed(t, done, o.base)
	o.asExpected(t)
	o.keyless(t, done)
	for _, e := range o.records(t, r.Session, nacre.KindModelBegin) {
		if !strings.Contains(string(e.Detail), `"model":"claude-sonnet-5"`) {
			t.Errorf("the model of the config was not asked: %s", e.Detail)
		}
	}
}
