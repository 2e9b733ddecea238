package selfhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	h.env = append(h.env, "PATH="+bin, "ANTHROPIC_API_KEY=sk-ant-decoy")
	h.notReady(t, "claude is not installed", "npm install -g @anthropic-ai/claude-code")
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

// A key in a file does as well as one in the environment.
func TestAKeyInAFileIsUsed(t *testing.T) {
	t.Parallel()
	o := newOffice(t, script(t))
	o.without("ANTHROPIC_API_KEY")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(o.key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.config(t, "[groups.main]\ntools = [\"memory_store\"]\n[model]\nkey_file = \""+file+"\"\nbase_url = \""+o.url+"\"\n")
	done := o.work(t, "--check", check)
	o.landed(t, done, o.base)
	o.asExpected(t)
	o.keyless(t, done)
}
