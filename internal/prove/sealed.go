//go:build linux

package prove

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

const (
	// endsInit is the probe that ends its sandbox, where it gets through.
	endsInit = "proc-init-signals"
	// late is the class of probes that leave something for the host to run.
	late = "late"
	// reported is a verdict that only the host can give.
	reported probe.Verdict = "REPORTED"
	// scratchSize of each tmpfs, below what the probes try to fill.
	scratchSize = 64 << 20
	// wallTime of a sandbox in which probes run.
	wallTime = 3 * time.Minute
)

// fatal are the probes of memory: who takes too much is ended, and not every
// engine says that it was for that. Any other probe that ends without a finding
// has failed.
var fatal = []string{"res-memory", "res-shared-memory", "res-memfd"} //nolint:gochecknoglobals // a list that nobody writes

// Together reports whether a probe shares its sandbox with others: it leaves
// nothing behind and does not end it.
func Together(p probe.Probe) bool {
	return p.Class != "resources" && p.Class != late && p.Name != endsInit
}

// names lists the probes that are kept and for which also holds.
func (o Options) names(also func(probe.Probe) bool) []string {
	var list []string
	for _, p := range probe.All() {
		if o.keeps(p) && also(p) {
			list = append(list, p.Name)
		}
	}
	return list
}

// Sealed plays the probes in sandboxes of a backend.
func (g *Ground) Sealed(ctx context.Context, b sandbox.Backend) (map[string]probe.Finding, error) {
	g.options.begins("probes that share a sandbox")
	found, exit, err := g.run(ctx, b, g.target, g.options.names(Together))
	if err == nil && exit.Code != 0 {
		err = cmp.Or(ctx.Err(), fmt.Errorf("%s: the probes ended with the code %d before they were through, so nothing is known of them: run it again", b.Name(), exit.Code))
	}
	if err != nil {
		return nil, err
	}
	g.options.begins("probes of what the host runs later, each in a sandbox of its own")
	left, err := each(ctx, runtime.NumCPU(), g.options.names(func(p probe.Probe) bool { return p.Class == late }), func(name string) (probe.Finding, error) {
		return g.single(ctx, b, name)
	})
	if err != nil {
		return nil, err
	}
	g.options.begins("probes of limits, one after the other")
	limits, err := each(ctx, 1, g.options.names(func(p probe.Probe) bool { return p.Class != late && !Together(p) }), func(name string) (probe.Finding, error) {
		return g.single(ctx, b, name)
	})
	maps.Copy(found, left)
	maps.Copy(found, limits)
	return found, err
}

// each asks for the finding of every name, several at once.
func each(ctx context.Context, atOnce int, names []string, ask func(string) (probe.Finding, error)) (map[string]probe.Finding, error) {
	var (
		mu     sync.Mutex
		failed error
		found  = map[string]probe.Finding{}
		asking sync.WaitGroup
		free   = make(chan struct{}, atOnce)
	)
	for _, name := range names {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			f, err := ask(name)
			mu.Lock()
			defer mu.Unlock()
			found[name], failed = f, errors.Join(failed, err)
		})
	}
	asking.Wait()
	return found, errors.Join(failed, ctx.Err())
}

// single plays one probe in a sandbox of its own, on a project of its own.
func (g *Ground) single(ctx context.Context, b sandbox.Backend, name string) (probe.Finding, error) {
	target, err := g.fresh(g.target, probe.Unborn(name))
	if err != nil {
		return probe.Finding{}, err
	}
	target.Shown = probe.Shown{} // no probe that has a sandbox of its own looks for them
	start, err := after(filepath.Dir(target.Project))
	if err != nil {
		return probe.Finding{}, err
	}
	before := existing(target.Project)
	one, exit, err := g.run(ctx, b, target, []string{name})
	if err != nil {
		return probe.Finding{}, err
	}
	finding := one[name]
	switch ended := finding.Verdict == "" && !exit.TimedOut && exit.Code != 0; {
	case ended && name == endsInit:
		finding = probe.Finding{Verdict: probe.Escaped, Reason: "PID 1 was ended, and the sandbox with it"}
	case ended && (exit.OOM || slices.Contains(fatal, name)):
		finding = probe.Finding{Verdict: probe.Blocked, Reason: "the sandbox was ended for it"}
	}
	return afterwards(ctx, finding, target, name, before, start)
}

// after is a time after the last change of any file: what was there before a
// probe ran shall not count as planted.
func after(dir string) (time.Time, error) {
	first, err := touched(dir)
	for now := first; err == nil; now, err = touched(dir) {
		if now.After(first) {
			return now, nil
		}
	}
	return time.Time{}, err
}

// touched is when a file that is made now was.
func touched(dir string) (time.Time, error) {
	f, err := os.CreateTemp(dir, "now")
	if err != nil {
		return time.Time{}, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// afterwards lets the host act on what a probe left, and looks whether
// `nacre exec` would have said so before.
func afterwards(ctx context.Context, inside probe.Finding, target probe.Target, name string, before []string, start time.Time) (probe.Finding, error) {
	said, err := search.Since(ctx, target.Project, search.Options{
		Since: start, Before: planted.Top{Git: slices.Contains(before, ".git")}, Configured: repo.Configured(target.Project),
	})
	if err != nil {
		return inside, err
	}
	later := probe.Later(ctx, name, target)
	if later == nil || later.Verdict == probe.Blocked && inside.Verdict != probe.Escaped {
		return inside, nil
	}
	for _, there := range existing(target.Project) {
		if !slices.Contains(before, there) {
			return probe.Finding{Probe: name, Verdict: reported, Reason: "it was named: " + there}, nil
		}
	}
	if later.Verdict == probe.Escaped && len(said.Findings) > 0 {
		return probe.Finding{Probe: name, Verdict: reported, Reason: "it was named: " + said.Findings[0].Path}, nil
	}
	return *later, nil
}

// existing are the files at the project's top that exec protects.
func existing(project string) []string {
	return slices.DeleteFunc(posture.LateExecution(), func(name string) bool {
		_, err := os.Lstat(filepath.Join(project, name))
		return err != nil
	})
}

// postureFor is what `nacre exec` gives a command, with small limits.
func postureFor(b sandbox.Backend, target probe.Target, program string) (nacre.Posture, error) {
	in := posture.Input{
		Project: target.Project, Protected: existing(target.Project), Programs: map[string]string{probe.Name: program},
		Env: []string{probe.TokenVariable + "=" + token},
		Limits: nacre.Limits{
			Wall: wallTime, Processes: target.Processes, OpenFiles: target.OpenFiles, Memory: target.Memory, FileSize: target.FileSize,
		},
		Mounts: []nacre.Mount{{Kind: nacre.Mask, Target: posture.Workspace + "/.env"}},
	}
	if b.HostTools() {
		in.System = sandbox.SystemMounts()
	}
	p, err := posture.Compute(in)
	for i, m := range p.Mounts {
		if m.Kind == nacre.Tmpfs {
			p.Mounts[i].Size = scratchSize
		}
	}
	return p, err
}

// run plays the named probes in one sandbox and reads what they found.
func (g *Ground) run(ctx context.Context, b sandbox.Backend, target probe.Target, names []string) (map[string]probe.Finding, sandbox.Exit, error) {
	p, err := postureFor(b, target, g.options.Program)
	if err != nil {
		return nil, sandbox.Exit{}, err
	}
	target.Project, target.Scratch, target.Init, target.Proxy = posture.Workspace, posture.Home, 1, "127.0.0.1:3128"
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, sandbox.Exit{}, err
	}
	results, stdout, err := os.Pipe()
	if err != nil {
		return nil, sandbox.Exit{}, errors.Join(err, stdin.Close(), feed.Close())
	}
	defer func() { _ = results.Close() }()
	process, err := b.Start(ctx, sandbox.Command{
		Label: "probe", Argv: append([]string{probe.Name}, names...), Stdin: stdin, Stdout: stdout, Stderr: os.Stderr, SocketDir: g.sockets, Posture: p,
	})
	if err := errors.Join(err, stdin.Close(), stdout.Close()); err != nil {
		return nil, sandbox.Exit{}, errors.Join(err, feed.Close())
	}
	if target.Shown != (probe.Shown{}) {
		target.Shown = show(b, process, target.Shown)
	}
	err = errors.Join(json.NewEncoder(feed).Encode(target), feed.Close())
	found, unread := findings(results)
	exit, broken := process.Wait()
	if broken != nil { // a container that its engine ended has no report
		exit.Code = max(exit.Code, 1)
	}
	return found, exit, errors.Join(err, unread)
}

// show shows a sandbox that runs both folders, takes one of them away again, and says where they are
// inside, or why they are not.
func show(b sandbox.Backend, p sandbox.Process, on probe.Shown) probe.Shown {
	backend, opens := b.(sandbox.Shows)
	process, shows := p.(sandbox.Shown)
	if !opens || !shows {
		return probe.Shown{Unshown: "this backend brings no folder into a sandbox that runs"}
	}
	inside := map[string]string{on.Folder: "shown", on.Gone: "gone"}
	for folder, place := range inside {
		opened, err := backend.OpenFolder(folder)
		if err == nil {
			err = process.Show(opened, place)
			opened.Close()
		}
		if err != nil {
			return probe.Shown{Unshown: err.Error()}
		}
	}
	if err := process.Hide(inside[on.Gone]); err != nil {
		return probe.Shown{Unshown: err.Error()}
	}
	return probe.Shown{Folder: sandbox.FoldersDir + "/" + inside[on.Folder], Gone: sandbox.FoldersDir + "/" + inside[on.Gone]}
}

// findings reads what probes print: one JSON object a line.
func findings(r io.Reader) (map[string]probe.Finding, error) {
	found := map[string]probe.Finding{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f probe.Finding
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return found, fmt.Errorf("read what a probe found: %w", err)
		}
		found[f.Probe] = f
	}
	return found, lines.Err()
}
