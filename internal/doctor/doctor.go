// Package doctor finds out whether this installation can do what it promises, and
// says what to do where it cannot.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/layering"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// clockDrift is how far clocks of one machine may be apart over a restart.
const clockDrift = time.Minute

// minimumFree is how much room on disk a run wants at least.
const minimumFree = 512 << 20

// Check looks at one part of an installation.
type Check func(context.Context, *installation.Installation) []installation.Finding

// Others are what other rooms look at themselves. All are required.
type Others struct {
	// Egress tries the proxy with the rules of config.toml, and Upstreams looks at where models are asked. Plugins looks
	// at plugins without starting them, Try starts them, and Credentials looks at what they and agents are lent.
	Egress, Upstreams, Plugins, Try, Credentials Check
	// Erase ends erasures that were interrupted, and says which files still hold what was
	// erased.
	Erase func(context.Context, *installation.Installation) (files []string, err error)
}

// Examine tries each part of the installation (M-60). Without turns no brain is
// started, and no plugin.
func Examine(ctx context.Context, inst *installation.Installation, others Others, turns bool) []installation.Finding {
	findings := checkSandbox(ctx, inst)
	canary := func() []installation.Finding { return checkCanary(ctx, inst) }
	try := func() []installation.Finding { return others.Try(ctx, inst) }
	if !turns {
		nothing := func() []installation.Finding { return nil }
		canary, try = nothing, nothing
	} else if findings[0].Status == "fail" { // no brain and no plugin is at fault
		canary = func() []installation.Finding {
			return []installation.Finding{{Name: "canary", Status: "warn", Text: "no sandbox starts, so no brain and no plugin was given a turn", Fix: "put the line of sandbox right first"}}
		}
		try = func() []installation.Finding { return nil }
	}
	for _, check := range []func() []installation.Finding{
		func() []installation.Finding { return checkGit(ctx) },
		func() []installation.Finding { return checkConfig(inst) },
		func() []installation.Finding { return checkOutward(ctx, inst) },
		func() []installation.Finding { return others.Egress(ctx, inst) },
		func() []installation.Finding { return others.Upstreams(ctx, inst) },
		func() []installation.Finding { return checkBrain(ctx, inst) },
		canary,
		func() []installation.Finding { return checkMemory(ctx, inst, others) },
		func() []installation.Finding { return others.Plugins(ctx, inst) },
		try,
		func() []installation.Finding { return others.Credentials(ctx, inst) },
		func() []installation.Finding { return []installation.Finding{operator.CheckKilled(inst)} },
		func() []installation.Finding { return checkAudit(inst) },
		func() []installation.Finding { return checkDisk(ctx, inst) },
		func() []installation.Finding { return checkClock(inst) },
	} {
		findings = append(findings, check()...)
	}
	return findings
}

func checkSandbox(ctx context.Context, inst *installation.Installation) []installation.Finding {
	box, err := inst.Backend("")
	if err != nil {
		return []installation.Finding{{Name: "sandbox", Status: "fail", Text: err.Error(), Fix: "nacre starts nothing without a sandbox: put that right, or choose another backend (docs/backends.md)"}}
	}
	defer func() { _ = box.Close() }() // only tried
	started := time.Now()
	if err := layering.Starts(ctx, layering.Of(box, inst.Registry.Paths(), inst.Options.Version, inst.Options.Now), sessionLimits(inst)); err != nil {
		fix := "nacre starts nothing without a sandbox; docs/install.md says what a machine and a container need"
		if sessionLimits(inst) != (nacre.Limits{}) {
			fix += ", or raise the [limits] of config.toml"
		}
		return []installation.Finding{{Name: "sandbox", Status: "fail", Text: strings.TrimPrefix(err.Error(), "sandbox: "), Fix: fix}}
	}
	findings := []installation.Finding{{Name: "sandbox", Status: "ok", Text: fmt.Sprintf("%s: %s · %d ms to start and end", box.Name(), box.Holds(), time.Since(started).Milliseconds()), Fix: ""}}
	findings = append(findings, checkLayers(ctx, inst, box))
	for _, missing := range box.NotEnforced() {
		findings = append(findings, installation.Finding{Name: "sandbox", Status: "warn", Text: "not enforced: " + missing, Fix: ""})
	}
	return findings
}

// checkLayers says in which way runs get their files.
func checkLayers(ctx context.Context, inst *installation.Installation, box sandbox.Backend) installation.Finding {
	if err := layering.Try(ctx, layering.Of(box, inst.Registry.Paths(), inst.Options.Version, inst.Options.Now)); err != nil {
		return installation.Finding{Name: "layers", Status: "warn", Text: "each stage of a run makes a whole copy of the project: " + err.Error(), Fix: "runs are slower on large projects; nothing else changes"}
	}
	return installation.Finding{Name: "layers", Status: "ok", Text: "a run works in layers over one checkout of its commit"}
}

// sessionLimits are those that sessions have where their command names no others.
func sessionLimits(inst *installation.Installation) nacre.Limits {
	return inst.Config.Limits.Over(nacre.Limits{})
}

// checkOutward reads what config.toml names and every connection of sessions needs (F-63).
func checkOutward(ctx context.Context, inst *installation.Installation) []installation.Finding {
	if err := outward(ctx, inst); err != nil {
		return []installation.Finding{installation.Unread(err)}
	}
	return nil
}

// outward reads whom the operator trusts, and the
// password of the operator's proxy.
func outward(ctx context.Context, inst *installation.Installation) error {
	up, err := inst.Config.Egress.Upstream(inst.Options.Getenv)
	if err != nil {
		return err
	}
	if proxy := up.Through("example.com", 443, false); proxy != nil {
		_, err = proxy.Authorization(ctx)
	}
	return err
}

func checkBrain(ctx context.Context, inst *installation.Installation) []installation.Finding {
	var findings []installation.Finding
	for _, b := range brain.All(agent.Brains(inst, "")) {
		status := b.Detect(ctx)
		if status.Ready() {
			findings = append(findings, installation.Finding{Name: "brain", Status: "ok", Text: strings.TrimSpace(b.Name() + " " + status.Version + " " + keyFrom(status)), Fix: ""})
			continue
		}
		unready := installation.Finding{Name: "brain", Status: "warn", Text: b.Name() + ": " + status.Why, Fix: status.Next}
		if b.Name() == inst.Config.Brain.Name && !status.Installed {
			unready = installed(unready)
		}
		findings = append(findings, unready)
	}
	return findings
}

func keyFrom(s brain.Status) string {
	if s.KeyFrom == "" {
		return ""
	}
	return "· key from " + s.KeyFrom
}

func checkMemory(ctx context.Context, inst *installation.Installation, others Others) []installation.Finding {
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "doctor-")
	if err != nil {
		return []installation.Finding{{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	defer func() { _ = os.RemoveAll(dir) }() // a scratch store
	store, err := memory.Open(ctx, filepath.Join(dir, "try.sqlite"), memory.Options{Group: "doctor", Now: inst.Options.Now})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		return []installation.Finding{{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	findings, opened, waiting := []installation.Finding{}, 0, 0
	groups, err := installation.MemoryGroups(ctx, inst)
	if err != nil {
		return []installation.Finding{{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	findings = append(findings, notBrought(inst)...)
	for _, group := range groups {
		path := inst.Registry.Paths().Memory(group)
		memory.Recheck(path)
		store, err := inst.OpenMemory(ctx, group, nil)
		if err != nil {
			findings = append(findings, installation.Finding{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""})
			continue
		}
		opened++
		left, err := store.Traces(ctx)
		wait, _, uncounted := memory.Waiting(ctx, store, "")
		waiting += wait
		if err = errors.Join(err, uncounted, store.Close()); err != nil {
			findings = append(findings, installation.Finding{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""})
		}
		if left {
			findings = append(findings, lingering("the memory of group "+string(group)))
		}
	}
	files, err := others.Erase(ctx, inst)
	if err != nil {
		findings = append(findings, installation.Finding{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""})
	}
	for _, path := range files {
		findings = append(findings, lingering(path))
	}
	text := fmt.Sprintf("%d groups, full-text search works", opened)
	if waiting > 0 {
		text += fmt.Sprintf("; %d entries wait for your review: nacre memory review", waiting)
	}
	return append(findings, installation.Finding{Name: "memory", Status: "ok", Text: text, Fix: ""})
}

// notBrought tells of memories that are on this machine alone, though the installation has a store.
func notBrought(inst *installation.Installation) (findings []installation.Finding) {
	if inst.Registry.Store() == nil {
		return nil
	}
	groups, err := installation.MemoryFiles(inst)
	if err != nil {
		return []installation.Finding{{Name: "memory", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	for _, group := range groups {
		text := fmt.Sprintf("the memory of group %s on this machine is not in the store, and no session sees it", group)
		findings = append(findings, installation.Finding{Name: "memory", Status: "warn", Text: text, Fix: "nacre store migrate brings it"})
	}
	return findings
}

// lingering tells of a file that others keep from being scrubbed (M-57).
func lingering(path string) installation.Finding {
	return installation.Finding{Name: "memory", Status: "warn", Text: "what was erased is still in the bytes of " + path, Fix: "stop the process that uses it: the next nacre to open it removes the traces"}
}

// checkAudit verifies every chain of the installation.
func checkAudit(inst *installation.Installation) []installation.Finding {
	reports, err := VerifyAudit(inst, "")
	var records, unknown uint64
	var first string
	for _, report := range reports {
		records += report.Records
		unknown += uint64(report.OutcomeUnknown) //nolint:gosec // a count
		if first == "" && report.OutcomeUnknown > 0 {
			first = report.Chain
		}
	}
	if killed, listErr := operator.Interrupted(inst); err != nil && listErr == nil && len(killed) > 0 {
		return []installation.Finding{{Name: "audit", Status: "fail", Text: err.Error(), Fix: fmt.Sprintf("session %s was killed: the next nacre run or exec seals what it left, and so does nacre doctor --fix", killed[0])}}
	}
	if err != nil {
		return []installation.Finding{setAside(inst, installation.Finding{Name: "audit", Status: "fail", Text: err.Error(), Fix: "nacre audit verify shows which chain, and where"}, err)}
	}
	findings := []installation.Finding{{Name: "audit", Status: "ok", Text: fmt.Sprintf("%d chains, %d records, links and signed heads verified", len(reports), records), Fix: ""}}
	if unknown > 0 {
		findings = append(findings, installation.Finding{
			Name: "audit", Status: "warn", Text: fmt.Sprintf("%d calls began and have no end: what became of them is unknown; the first is in chain %s", unknown, first),
			Fix: "nacre audit verify names them; nacre audit show SESSION shows what led there",
		})
	}
	return findings
}

func checkDisk(_ context.Context, inst *installation.Installation) []installation.Finding {
	dir := inst.Registry.Paths().State
	free, err := freeAt(dir)
	if err != nil {
		return []installation.Finding{{Name: "disk", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	if free < minimumFree {
		return []installation.Finding{{Name: "disk", Status: "fail", Text: fmt.Sprintf("%d MiB left at %s", free>>20, dir), Fix: "make room: a run wants 512 MiB"}}
	}
	return []installation.Finding{{Name: "disk", Status: "ok", Text: fmt.Sprintf("%d GiB free at %s", free>>30, dir), Fix: ""}}
}

func freeAt(dir string) (int64, error) {
	var stat syscall.Statfs_t
	err := syscall.Statfs(dir, &stat)
	return int64(stat.Bavail) * int64(stat.Bsize), err //nolint:gosec // blocks of a disk are fewer than 1<<63
}

// IsShort reports that the disk of the state has less room than a run wants.
func IsShort(inst *installation.Installation) bool {
	free, err := freeAt(inst.Registry.Paths().State)
	return err == nil && free < minimumFree
}

// checkClock looks whether a session of before began after now: then the clock is behind, or was
// ahead. What is bounded in time, such as questions, grants and leases, is bounded by it.
func checkClock(inst *installation.Installation) []installation.Finding {
	latest, _, err := inst.Registry.Page(0, 1) // what cannot be read is told with the sessions
	if err == nil && len(latest) == 1 {
		if ahead := latest[0].Started.Sub(inst.Options.Now()); ahead > clockDrift {
			return []installation.Finding{synchronised(installation.Finding{
				Name: "clock", Status: "warn", Text: fmt.Sprintf("session %s began %v from now: this machine's clock is behind, or was ahead then", latest[0].ID, ahead.Round(time.Second)),
				Fix: "set the clock: approvals, grants and leases end by it",
			})}
		}
	}
	return []installation.Finding{{Name: "clock", Status: "ok", Text: "no session began later than now"}}
}

// VerifyAudit verifies one session's chains, or all that the index knows. An
// installation that had no session yet has nothing to verify.
func VerifyAudit(inst *installation.Installation, session nacre.SessionID) ([]audit.Report, error) {
	if session == "" {
		if !audit.HasBegun(inst.AuditRoot()) && isUnused(inst.Registry.Paths().Sessions()) {
			return nil, nil
		}
		all, err := audit.VerifyAll(inst.AuditRoot(), verifyOptions(inst))
		return append([]audit.Report{all.Index}, all.Chains...), err
	}
	known, err := inst.Registry.Show(session)
	if err != nil {
		return nil, err
	}
	var reports []audit.Report
	for _, chain := range known.Chains {
		report, err := audit.Verify(inst.AuditRoot(), chain, verifyOptions(inst))
		reports = append(reports, report)
		if err != nil {
			return reports, fmt.Errorf("chain %s: %w", chain, err)
		}
	}
	return reports, nil
}

func isUnused(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

func verifyOptions(inst *installation.Installation) audit.VerifyOptions {
	return audit.VerifyOptions{PublicKey: inst.Keys.Public(), MACKey: inst.Keys.MAC()}
}

// checkConfig tells of files that somebody may take for the config, and that hold nothing.
// A config that cannot be used has ended nacre before.
func checkConfig(inst *installation.Installation) []installation.Finding {
	var findings []installation.Finding
	for _, path := range installation.UnreadConfigs(inst.Registry.Paths().Config, inst.Options.Getenv) {
		findings = append(findings, installation.Finding{
			Name: "config", Status: "warn", Text: path + " is not read: nothing that it says holds",
			Fix: "write what it says into " + filepath.Join(inst.Registry.Paths().Config, "config.toml") + ", or remove it",
		})
	}
	return findings
}

// checkGit tries the git that runs need.
func checkGit(ctx context.Context) []installation.Finding {
	path, err := installation.LookPath("git")
	if err != nil {
		return []installation.Finding{{Name: "git", Status: "fail", Text: "git is not installed", Fix: "install git: runs work on repositories"}}
	}
	command := exec.CommandContext(ctx, path, "version")
	command.Env, command.Dir = []string{"LC_ALL=C"}, "/"
	out, err := command.Output()
	if err != nil {
		return []installation.Finding{{Name: "git", Status: "fail", Text: err.Error(), Fix: "reinstall git"}}
	}
	return []installation.Finding{{Name: "git", Status: "ok", Text: strings.TrimSpace(string(out)), Fix: ""}}
}
