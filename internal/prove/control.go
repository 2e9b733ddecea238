//go:build linux

package prove

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// Controls shows that each probe can fail: without a sandbox, or else as the
// root of a namespace that holds nothing. The decoy processes end with it.
func (g *Ground) Controls(ctx context.Context) (map[string]probe.Finding, error) {
	target := g.target
	var err error
	if target.Proxy, err = g.permissive(ctx); err != nil {
		return nil, err
	}
	g.options.begins("the same where nothing holds them")
	found, err := each(ctx, runtime.NumCPU(), g.options.names(func(p probe.Probe) bool { return p.Class == late }), func(name string) (probe.Finding, error) {
		return g.loose(ctx, target, name)
	})
	if err != nil {
		return nil, err
	}
	if target, err = g.fresh(target, false); err != nil {
		return nil, err
	}
	weak, err := g.Control(ctx, target, true, g.options.names(Together)...)
	if err != nil {
		return nil, err
	}
	rest := g.options.names(func(p probe.Probe) bool { return p.Class != late && p.Name != endsInit })
	strong, err := g.Control(ctx, target, false, append(rest, g.options.names(func(p probe.Probe) bool { return p.Name == endsInit })...)...) // with which the decoy ends
	for name, f := range strong {
		if f.Verdict != probe.Escaped && weak[name].Verdict == probe.Escaped {
			f = weak[name]
		}
		found[name] = f
	}
	return found, err
}

// loose plays a probe of what the host runs later, and lets the host run it.
func (g *Ground) loose(ctx context.Context, target probe.Target, name string) (probe.Finding, error) {
	target, err := g.fresh(target, probe.Unborn(name))
	if err != nil {
		return probe.Finding{}, err
	}
	found, err := g.Control(ctx, target, false, name)
	if later := probe.Later(ctx, name, target); later != nil {
		return *later, err
	}
	return found[name], err
}

// Control runs probes without a sandbox: as this user, or, where weak, as the root
// of a user namespace, which is a sandbox that holds nothing. A machine that makes
// no namespaces finds nothing in one.
func (g *Ground) Control(ctx context.Context, target probe.Target, weak bool, names ...string) (map[string]probe.Finding, error) {
	input, err := json.Marshal(target)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, g.options.Program)
	cmd.Args, cmd.Dir = append([]string{probe.Name}, names...), target.Scratch
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	cmd.Env = append(os.Environ(), probe.TokenVariable+"="+token)
	if weak {
		id := func(host int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: host, Size: 1}} }
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
			UidMappings: id(os.Geteuid()), GidMappings: id(os.Getegid()),
		}
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if weak && err != nil && !errors.As(err, &exit) {
		return map[string]probe.Finding{}, nil
	}
	if err != nil {
		return nil, err
	}
	return findings(bytes.NewReader(out))
}
