package prove_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case probe.Name, probe.DecoyName:
		os.Exit(probe.Main(os.Args))
	}
	os.Exit(m.Run())
}

// naked is a backend that holds nothing, and says so for what it is told to.
type naked struct {
	program string
	missing []string
}

func (naked) Name() string            { return "naked" }
func (naked) PeerUIDs() []int         { return nil }
func (naked) HostTools() bool         { return false }
func (naked) Holds() string           { return "nothing" }
func (n naked) NotEnforced() []string { return n.missing }
func (naked) Close() error            { return nil }

func (n naked) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	cmd := exec.CommandContext(ctx, n.program)
	cmd.Args, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Argv, c.Stdin, c.Stdout, c.Stderr
	return loose{cmd}, cmd.Start()
}

type loose struct{ cmd *exec.Cmd }

func (l loose) Pid() int                    { return l.cmd.Process.Pid }
func (l loose) Wait() (sandbox.Exit, error) { return sandbox.Exit{}, l.cmd.Wait() }
func (l loose) Kill() error                 { return l.cmd.Process.Kill() }
func (l loose) Freeze() error               { return nil }
func (l loose) Thaw() error                 { return nil }

// U-41: where nothing holds an escape it is said to get through, unless the backend
// names the limit that it does not enforce.
func TestWhatNothingHoldsGetsThrough(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		probe   string
		missing []string
		want    prove.Outcome
	}{
		"a secret in the environment":   {"sec-environment", nil, prove.GotThrough},
		"a service of the host":         {"net-host-loopback", nil, prove.GotThrough},
		"a limit that is not enforced":  {"res-inodes", []string{"files: no limit"}, prove.NotEnforced},
		"a limit that nobody speaks of": {"res-inodes", []string{"memory: no limit"}, prove.GotThrough},
	} {
		t.Run(name, func(t *testing.T) {
			keep := func(p probe.Probe) bool { return p.Name == c.probe }
			rows, err := prove.Backend(t.Context(), naked{self, c.missing}, prove.Options{Program: self, Keep: keep})
			if err != nil || len(rows) != 1 || rows[0].Outcome != c.want || rows[0].Outcome.Holds() != (c.want == prove.NotEnforced) {
				t.Errorf("have %+v, %v", rows, err)
			}
		})
	}
}

// U-41: files of the project that the host obeys are tried, by their names alone.
func TestTheProjectsOwnFilesAreTried(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	if err := os.Mkdir(filepath.Join(project, ".vscode"), 0o755); err != nil {
		t.Fatal(err)
	}
	rows, err := prove.Project(t.Context(), naked{self, nil}, prove.Options{Program: self}, project)
	if err != nil || len(rows) != 1 || rows[0].Probe != ".vscode" || rows[0].Control != "escaped: it can be written to" {
		t.Errorf("have %+v, %v", rows, err)
	}
	if rows, err = prove.Project(t.Context(), naked{self, nil}, prove.Options{Program: self}, t.TempDir()); err != nil || len(rows) != 0 {
		t.Errorf("a project without such files: have %+v, %v", rows, err)
	}
}

// U-41: a program that works although a part of its installation is broken is said to
// fail open, and one that never works proves nothing.
func TestAProgramThatFailsOpen(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "program")
		if err := testpeer.WriteProgram(path, "#!/bin/sh\n"+text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		program string
		want    prove.Outcome
	}{
		"it does what it is asked":                   {`mkdir -p "$HOME/.local/state/nacre/audit"; echo '"exec"' >"$HOME/.local/state/nacre/audit/a.jsonl"; [ "$1" = exec ] && echo ran >"$3/ran"; exit 0`, prove.GotThrough},
		"it fails, but does it all the same":         {`mkdir -p "$HOME/.local/state/nacre/audit"; echo '"exec"' >"$HOME/.local/state/nacre/audit/a.jsonl"; [ "$1" = exec ] && echo ran >"$3/ran"; exit 1`, prove.GotThrough},
		"it never works":                             {"exit 1", prove.Unproven},
		"it works with the person's sandboxes alone": {`grep -q 'backend = "[dp]o' "$HOME/.config/nacre/config.toml" || exit 1; mkdir -p "$HOME/.local/state/nacre/audit"; echo '"exec"' >"$HOME/.local/state/nacre/audit/a.jsonl"; [ "$1" = exec ] && echo ran >"$3/ran"; exit 0`, prove.GotThrough},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := prove.Broken(t.Context(), script(c.program), config.Sandbox{Backend: "podman", Image: "tools"})
			if err != nil || len(rows) < 5 {
				t.Fatalf("have %+v, %v", rows, err)
			}
			for _, row := range rows {
				if row.Outcome != c.want && !strings.Contains(row.Probe, "audit record") && !strings.Contains(row.Probe, "no room") {
					t.Errorf("%s: have %s (%s; %s), want %s", row.Probe, row.Outcome, row.Reason, row.Control, c.want)
				}
			}
		})
	}
}

// U-41: the operator's rules let their hosts through, and nothing beside them.
func TestTheOperatorsRules(t *testing.T) {
	rules := []nacre.EgressRule{
		{Host: "api.example", Port: 443, Protocol: nacre.ProtocolTLS}, {Host: "*.wild.example", Port: 443, Protocol: nacre.ProtocolTLS},
		{Host: "plain.test", Port: 8080, Protocol: nacre.ProtocolHTTP}, {Host: "raw.test", Port: 22, Protocol: nacre.ProtocolTCP},
	}
	rows, err := prove.Rules(t.Context(), rules)
	if err != nil || len(rows) != len(rules)+1 {
		t.Fatalf("have %+v, %v", rows, err)
	}
	for _, row := range rows {
		if row.Outcome != prove.Blocked {
			t.Errorf("%+v", row)
		}
	}
	many := slices.Repeat([]nacre.EgressRule{rules[0]}, 70)
	if rows, err := prove.Rules(t.Context(), many); err != nil || !slices.ContainsFunc(rows, func(r prove.Row) bool { return r.Probe == "6 more rules" && r.Outcome == prove.NotTestable }) {
		t.Errorf("those that are not tried are not told: %+v, %v", rows, err)
	}
}

// U-41: a machine without git is proved as well: a bare root is where an image of nacre begins.
func TestTheDecoysAreLaidWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g, err := prove.Lay(t.Context(), prove.Options{Program: self})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Lift()
	target, err := g.Fresh(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HEAD", "config", "objects", "refs/heads", "info/exclude"} {
		if _, err := os.Stat(filepath.Join(target.Project, ".git", name)); err != nil {
			t.Error(err)
		}
	}
}
