package probe_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case sandbox.Init:
		os.Exit(sandbox.Main(os.Args))
	case probe.Name:
		os.Exit(probe.Main(os.Args))
	case decoyName:
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper is the binary that probes, decoys and PID 1 run as: this one, or
// the same without C, which cannot be PID 1 and takes a second to start under the
// race detector.
func helper(t *testing.T) string {
	t.Helper()
	if !linkedWithC {
		self, err := os.Executable()
		must(t, err)
		return self
	}
	path := filepath.Join(t.TempDir(), "helper")
	cmd := exec.Command(testpeer.Need(t, "go"), "test", "-c", "-o", path, ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the helper: %v: %s", err, out)
	}
	return path
}

// names lists the probes for which keep says so.
func names(keep func(probe.Probe) bool) []string {
	var list []string
	for _, p := range probe.All() {
		if keep(p) {
			list = append(list, p.Name)
		}
	}
	return list
}

// endsInit is the probe that ends its sandbox, where it gets through.
const endsInit = "proc-init-signals"

// together reports whether a probe shares its sandbox with others: it leaves
// nothing behind and does not end it.
func together(p probe.Probe) bool {
	return p.Class != "resources" && p.Class != "late" && p.Name != endsInit
}

// reported is a verdict that only the host can give.
const reported probe.Verdict = "REPORTED"

// fatal are the probes of memory: who takes too much is ended, and not every
// engine says that it was for that. Any other probe that ends without a finding
// has failed.
var fatal = []string{"res-memory", "res-shared-memory", "res-memfd"}

// sealed runs the probes that are kept in a backend's sandboxes.
func sealed(t *testing.T, b box, target probe.Target, keep func(probe.Probe) bool) map[string]probe.Finding {
	t.Helper()
	found, exit := b.run(t, target, names(func(p probe.Probe) bool { return keep(p) && together(p) }))
	if exit.Code != 0 {
		t.Errorf("%s: the probes ended with %+v", b.backend.Name(), exit)
	}
	for _, name := range names(func(p probe.Probe) bool { return keep(p) && !together(p) }) {
		target.Project = repository(t, probe.Unborn(name))
		start := after(t)
		before := existing(target.Project)
		one, exit := b.run(t, target, []string{name})
		switch ended := one[name].Verdict == "" && !exit.TimedOut && exit.Code != 0; {
		case ended && name == endsInit:
			one[name] = probe.Finding{Verdict: probe.Escaped, Reason: "PID 1 was ended, and the sandbox with it"}
		case ended && (exit.OOM || slices.Contains(fatal, name)):
			one[name] = probe.Finding{Verdict: probe.Blocked, Reason: "the sandbox was ended for it"}
		}
		found[name] = afterwards(t, one[name], target, name, before, start)
	}
	return found
}

// after is a time after the last change of any file: what was there before a
// probe ran shall not count as planted.
func after(t *testing.T) time.Time {
	t.Helper()
	touched := func() time.Time {
		f, err := os.CreateTemp(t.TempDir(), "now")
		must(t, err)
		info, err := f.Stat()
		must(t, err)
		must(t, f.Close())
		return info.ModTime()
	}
	first := touched()
	for {
		if now := touched(); now.After(first) {
			return now
		}
	}
}

// afterwards lets the host act on what a probe left, and looks whether
// `nacre exec` would have said so before.
func afterwards(t *testing.T, inside probe.Finding, target probe.Target, name string, before []string, start time.Time) probe.Finding {
	t.Helper()
	said, _, err := repo.Since(target.Project, start)
	must(t, err)
	later := probe.Later(name, target)
	if later == nil || later.Verdict == probe.Blocked && inside.Verdict != probe.Escaped {
		return inside
	}
	for _, there := range existing(target.Project) {
		if !slices.Contains(before, there) {
			return probe.Finding{Probe: name, Verdict: reported, Reason: there}
		}
	}
	if later.Verdict == probe.Escaped && len(said) > 0 {
		return probe.Finding{Probe: name, Verdict: reported, Reason: said[0].Path}
	}
	return *later
}

// existing are the files at the project's top that exec protects.
func existing(project string) []string {
	return slices.DeleteFunc(posture.LateExecution(), func(name string) bool {
		_, err := os.Lstat(filepath.Join(project, name))
		return err != nil
	})
}

// box runs probes in the sandboxes of a backend.
type box struct {
	backend sandbox.Backend
	binary  string
	sockets string
}

// scratchSize of each tmpfs, below what the probes try to fill.
const scratchSize = 64 << 20

// posture is what `nacre exec` gives a command, with small limits.
func (b box) posture(t *testing.T, target probe.Target) nacre.Posture {
	t.Helper()
	in := posture.Input{
		Project: target.Project, Protected: existing(target.Project), Programs: map[string]string{probe.Name: b.binary},
		Env: []string{probe.TokenVariable + "=" + token},
		Limits: nacre.Limits{
			Wall: 3 * time.Minute, Processes: target.Processes, OpenFiles: target.OpenFiles, Memory: target.Memory, FileSize: target.FileSize,
		},
		Mounts: []nacre.Mount{{Kind: nacre.Mask, Target: posture.Workspace + "/.env"}},
	}
	if b.backend.HostTools() {
		in.System = sandbox.SystemMounts()
	}
	p, err := posture.Compute(in)
	must(t, err)
	for i, m := range p.Mounts {
		if m.Kind == nacre.Tmpfs {
			p.Mounts[i].Size = scratchSize
		}
	}
	return p
}

func (b box) run(t *testing.T, target probe.Target, names []string) (map[string]probe.Finding, sandbox.Exit) {
	t.Helper()
	p := b.posture(t, target)
	target.Project, target.Scratch, target.Init, target.Proxy = posture.Workspace, posture.Home, 1, "127.0.0.1:3128"
	input, err := json.Marshal(target)
	must(t, err)
	c := sandbox.Command{
		Label: "probe", Argv: append([]string{probe.Name}, names...), Stderr: os.Stderr, SocketDir: b.sockets, Posture: p,
	}
	stdin, feed, err := os.Pipe()
	must(t, err)
	results, stdout, err := os.Pipe()
	must(t, err)
	defer func() { _ = results.Close() }()
	c.Stdin, c.Stdout = stdin, stdout
	process, err := b.backend.Start(t.Context(), c)
	_ = stdin.Close()
	_ = stdout.Close()
	must(t, err)
	_, err = feed.Write(input)
	must(t, err)
	must(t, feed.Close())
	found := findings(t, results)
	exit, err := process.Wait()
	if err != nil { // a container that its engine ended has no report
		t.Logf("%s: %.99s: %v", b.backend.Name(), names, err)
		exit.Code = max(exit.Code, 1)
	}
	return found, exit
}

func findings(t *testing.T, r io.Reader) map[string]probe.Finding {
	t.Helper()
	found := map[string]probe.Finding{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f probe.Finding
		must(t, json.Unmarshal(lines.Bytes(), &f))
		found[f.Probe] = f
	}
	return found
}

// controls shows that each probe can fail: without a sandbox, or else as the
// root of a namespace that holds nothing.
func controls(t *testing.T, binary string, target probe.Target, keep func(probe.Probe) bool) map[string]probe.Finding {
	t.Helper()
	target.Proxy = permissive(t)
	found := map[string]probe.Finding{}
	for _, name := range names(func(p probe.Probe) bool { return keep(p) && p.Class == "late" }) {
		target.Project = repository(t, probe.Unborn(name))
		found[name] = control(t, binary, target, false, name)[name]
		if later := probe.Later(name, target); later != nil {
			found[name] = *later
		}
	}
	target.Project = repository(t, false)
	weak := control(t, binary, target, true, names(func(p probe.Probe) bool { return keep(p) && together(p) })...)
	rest := names(func(p probe.Probe) bool { return keep(p) && p.Class != "late" && p.Name != endsInit })
	strong := control(t, binary, target, false, append(rest, endsInit)...) // with which the decoy ends
	for name, f := range strong {
		if f.Verdict != probe.Escaped && weak[name].Verdict == probe.Escaped {
			f = weak[name]
		}
		found[name] = f
	}
	return found
}

// TestEveryProbeHasItsClass keeps the suite as wide as it is (M-13).
func TestEveryProbeHasItsClass(t *testing.T) {
	least := map[string]int{
		"fs": 25, "late": 40, "net": 25, "namespaces": 10, "privileges": 15, "processes": 25, "proxy": 30, "resources": 15, "secrets": 20, "syscalls": 40,
	}
	seen := map[string]bool{}
	count := map[string]int{}
	for _, p := range probe.All() {
		if seen[p.Name] || strings.TrimSpace(p.Name) != p.Name || p.Run == nil {
			t.Errorf("probe %q is there twice, or is none", p.Name)
		}
		seen[p.Name] = true
		count[p.Class]++
	}
	for class, n := range least {
		if count[class] < n {
			t.Errorf("%s: %d probes, want %d", class, count[class], n)
		}
	}
	t.Logf("%d probes: %v", len(seen), count)
}
