//go:build linux

package prove

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

const (
	// brokenTime is how long the program has in one of them.
	brokenTime = 30 * time.Second
	// configPath is where an installation's configuration lies, below its home.
	configPath = ".config/nacre/config.toml"
)

// breakage is a way to break an installation.
type breakage struct {
	name string
	// do breaks it. Nothing has run in it yet, unless used.
	do   func(home) error
	used bool
	// args are what must fail then; nil means a sealed command, which must not run.
	args []string
}

// breakages are parts of an installation without which nothing may go on as if they
// were there. whole is the config.toml of one that works.
func breakages(whole string) []breakage {
	write := func(path, text string) func(home) error {
		return func(h home) error { return put(filepath.Join(h.dir, path), text) }
	}
	return []breakage{
		{name: "a config.toml with an unknown key", do: write(configPath, "egres = \"all\"\n"+whole)},
		{name: "a config.toml that was cut off", do: write(configPath, whole+"[egress\n")},
		{name: "a config.toml that all may write", do: func(h home) error { return os.Chmod(filepath.Join(h.dir, configPath), 0o666) }},
		{name: "a policy.toml that was cut off", do: write(".config/nacre/policy.toml", "[[rules\n")},
		{name: "a container engine that is away", do: write(configPath, "[sandbox]\nbackend = \"docker\"\nimage = \"sha256:"+strings.Repeat("0", 64)+"\"\nsocket = \"/nowhere/docker.sock\"\n")},
		{name: "no room for state and audit", do: write(".local/state/nacre", "a file\n")},
		{name: "an audit record that was changed", do: home.forge, used: true, args: []string{"audit", "verify"}},
	}
}

// ofBreakages are the rows of all of them.
func ofBreakages() []probe.Probe {
	var probes []probe.Probe
	for _, b := range breakages("") {
		probes = append(probes, probe.Probe{Class: failOpen, Name: b.name})
	}
	return probes
}

// Broken runs the program as a person would, with the person's sandboxes, each time in a
// home of its own in which one part of the installation is broken. It must refuse to work
// there, and works where nothing is broken.
func Broken(ctx context.Context, program string, sandboxes config.Sandbox) (rows []Row, err error) {
	var whole strings.Builder
	if err := toml.NewEncoder(&whole).Encode(map[string]config.Sandbox{"sandbox": sandboxes}); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for i, b := range breakages(whole.String()) {
		row, err := b.try(ctx, program, whole.String(), filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return rows, fmt.Errorf("%s: %w", b.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (b breakage) try(ctx context.Context, program, text, dir string) (Row, error) {
	row := Row{Class: failOpen, Probe: b.name, Outcome: Blocked, Control: "escaped: it works where nothing is broken"}
	whole, broken := home{program, filepath.Join(dir, "whole")}, home{program, filepath.Join(dir, "broken")}
	for _, h := range []home{whole, broken} {
		if err := put(filepath.Join(h.dir, configPath), text); err != nil {
			return row, err
		}
	}
	if said, done := whole.works(ctx, b.args); !done {
		row.Outcome, row.Control, row.Reason = Unproven, "blocked: "+said, "it does not work where nothing is broken"
		return row, nil
	}
	if b.used {
		broken = whole
	}
	if err := b.do(broken); err != nil {
		return row, err
	}
	said, done := broken.works(ctx, b.args)
	row.Reason = said
	if done {
		row.Outcome, row.Reason = GotThrough, "it went on as if nothing was broken"
	}
	return row, nil
}

// home is an installation of its own.
type home struct{ program, dir string }

// works reports whether the program does what it is asked, and the line that it said
// last. Without arguments it is asked to run a sealed command, which leaves a file.
func (h home) works(ctx context.Context, args []string) (said string, done bool) {
	ran := filepath.Join(h.dir, "project", "ran")
	if err := os.MkdirAll(filepath.Dir(ran), 0o755); err != nil {
		return err.Error(), false
	}
	command := []string{"exec", "--project", filepath.Dir(ran), "--", "/bin/sh", "-c", "echo ran > ran"}
	said, ok := h.run(ctx, command)
	_, err := os.Stat(ran)
	if args == nil {
		return said, ok || err == nil // what ran although nacre failed got through
	}
	if !ok && err != nil {
		return said, false
	}
	return h.run(ctx, args)
}

func (h home) run(ctx context.Context, args []string) (said string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, brokenTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Dir, cmd.WaitDelay = h.dir, time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_RUNTIME_DIR=" + h.dir,
		"KUBECONFIG=" + cmp.Or(os.Getenv("KUBECONFIG"), filepath.Join(os.Getenv("HOME"), ".kube", "config")), // where pods are claimed
	}
	out, err := cmd.CombinedOutput()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return plain(string(lines[len(lines)-1])), err == nil
}

// forge changes a letter of the first record of every chain.
func (h home) forge() error {
	state, err := os.OpenRoot(filepath.Join(h.dir, ".local/state/nacre"))
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	forged := 0
	err = fs.WalkDir(state.FS(), "audit", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		text, err := state.ReadFile(path)
		if err != nil {
			return err
		}
		changed := bytes.Replace(text, []byte("exec"), []byte("exeC"), 1)
		if bytes.Equal(text, changed) {
			return nil
		}
		forged++
		return state.WriteFile(path, changed, 0o600)
	})
	if err == nil && forged == 0 {
		err = errors.New("no audit record was found")
	}
	return err
}
