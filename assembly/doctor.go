package assembly

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
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// minimumFree is how much room on disk a run wants at least.
const minimumFree = 512 << 20

// Finding is what doctor found of one part. Each part was tried, not looked up.
type Finding struct {
	Name string `json:"name"`
	// Status is "ok", "warn" (works, with less) or "fail".
	Status string `json:"status"`
	Text   string `json:"text"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
}

// Doctor tries each part of the installation (M-60). Without turns no brain is
// started.
func (r *Runtime) Doctor(ctx context.Context, turns bool) []Finding {
	var findings []Finding
	canary := r.checkCanary
	if !turns {
		canary = func(context.Context) []Finding { return nil }
	}
	for _, check := range []func(context.Context) []Finding{
		r.checkSandbox, r.checkGit, r.checkBrain, canary, r.checkMemory, r.checkPlugins, r.checkCredentials, r.checkAudit, r.checkDisk,
	} {
		findings = append(findings, check(ctx)...)
	}
	return findings
}

func (r *Runtime) checkSandbox(ctx context.Context) []Finding {
	box, err := r.backend("")
	if err != nil {
		return []Finding{{"sandbox", "fail", err.Error(), "nacre starts nothing without a sandbox"}}
	}
	defer func() { _ = box.Close() }() // only tried
	started := time.Now()
	if err := tryStart(ctx, box); err != nil {
		return []Finding{{"sandbox", "fail", err.Error(), "run nacre doctor again as the user who runs agents"}}
	}
	findings := []Finding{{"sandbox", "ok", fmt.Sprintf("%s: %s · %d ms to start and end", box.Name(), box.Holds(), time.Since(started).Milliseconds()), ""}}
	for _, missing := range box.NotEnforced() {
		findings = append(findings, Finding{"sandbox", "warn", "not enforced: " + missing, ""})
	}
	return findings
}

// systemMounts are the machine's tool folders, where the backend shows them.
func systemMounts(box sandbox.Backend) []nacre.Mount {
	if !box.HostTools() {
		return nil
	}
	return sandbox.SystemMounts()
}

// tryStart runs a program sealed.
func tryStart(ctx context.Context, box sandbox.Backend) error {
	p, err := posture.Compute(posture.Input{Offline: true, System: systemMounts(box)})
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // nothing was written
	process, err := box.Start(ctx, sandbox.Command{Posture: p, Label: "doctor", Argv: []string{"/bin/sh", "-c", "exit 7"}, Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		return err
	}
	exit, err := process.Wait()
	if err == nil && exit.Code != 7 {
		err = fmt.Errorf("a program that should end with 7 ended with %d", exit.Code)
	}
	return err
}

func (r *Runtime) checkBrain(ctx context.Context) []Finding {
	var findings []Finding
	for _, b := range brain.All(r.brains("")) {
		status := b.Detect(ctx)
		if status.Ready() {
			findings = append(findings, Finding{"brain", "ok", strings.TrimSpace(b.Name() + " " + status.Version + " " + keyFrom(status)), ""})
			continue
		}
		findings = append(findings, Finding{"brain", "warn", b.Name() + ": " + status.Why, status.Next})
	}
	return findings
}

func keyFrom(s brain.Status) string {
	if s.KeyFrom == "" {
		return ""
	}
	return "· key from " + s.KeyFrom
}

func (r *Runtime) checkMemory(ctx context.Context) []Finding {
	dir, err := os.MkdirTemp(r.registry.Paths().State, "doctor-")
	if err != nil {
		return []Finding{{"memory", "fail", err.Error(), ""}}
	}
	defer func() { _ = os.RemoveAll(dir) }() // a scratch store
	store, err := memory.Open(ctx, filepath.Join(dir, "try.sqlite"), memory.Options{Group: "doctor", Now: r.options.Now})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		return []Finding{{"memory", "fail", err.Error(), ""}}
	}
	findings := []Finding{}
	groups, _ := filepath.Glob(filepath.Join(r.registry.Paths().State, "memory", "*.sqlite")) // the pattern is ours
	for _, path := range groups {
		group := nacre.Group(strings.TrimSuffix(filepath.Base(path), ".sqlite"))
		store, err := r.openMemory(ctx, group, nil)
		if err != nil {
			findings = append(findings, Finding{"memory", "fail", err.Error(), ""})
			continue
		}
		left, err := store.Traces(ctx)
		if err = errors.Join(err, store.Close()); err != nil {
			findings = append(findings, Finding{"memory", "fail", err.Error(), ""})
		}
		if left {
			findings = append(findings, lingering(path))
		}
	}
	files, err := r.FinishErasures(ctx)
	if err != nil {
		findings = append(findings, Finding{"memory", "fail", err.Error(), ""})
	}
	for _, path := range files {
		findings = append(findings, lingering(path))
	}
	return append(findings, Finding{"memory", "ok", fmt.Sprintf("%d groups, full-text search works", len(groups)), ""})
}

// lingering tells of a file that others keep from being scrubbed (M-57).
func lingering(path string) Finding {
	return Finding{"memory", "warn", "what was erased is still in the bytes of " + path, "stop the process that uses it: the next nacre to open it removes the traces"}
}

// checkAudit verifies every chain of the installation.
func (r *Runtime) checkAudit(context.Context) []Finding {
	reports, err := r.VerifyAudit("")
	var records, unknown uint64
	var first string
	for _, report := range reports {
		records += report.Records
		unknown += uint64(report.OutcomeUnknown)
		if first == "" && report.OutcomeUnknown > 0 {
			first = report.Chain
		}
	}
	if killed, listErr := r.Interrupted(); err != nil && listErr == nil && len(killed) > 0 {
		return []Finding{{"audit", "fail", err.Error(), fmt.Sprintf("session %s was killed: the next nacre run or exec seals what it left", killed[0])}}
	}
	if err != nil {
		return []Finding{{"audit", "fail", err.Error(), "nacre audit verify shows which chain, and where"}}
	}
	findings := []Finding{{"audit", "ok", fmt.Sprintf("%d chains, %d records, links and signed heads verified", len(reports), records), ""}}
	if unknown > 0 {
		findings = append(findings, Finding{
			"audit", "warn", fmt.Sprintf("%d calls began and have no end: what became of them is unknown; the first is in chain %s", unknown, first),
			"nacre audit verify names them; nacre audit show SESSION shows what led there",
		})
	}
	return findings
}

func (r *Runtime) checkDisk(context.Context) []Finding {
	var stat syscall.Statfs_t
	dir := r.registry.Paths().State
	if err := syscall.Statfs(dir, &stat); err != nil {
		return []Finding{{"disk", "fail", err.Error(), ""}}
	}
	free := int64(stat.Bavail) * stat.Bsize
	if free < minimumFree {
		return []Finding{{"disk", "fail", fmt.Sprintf("%d MiB left at %s", free>>20, dir), "make room: a run wants 512 MiB"}}
	}
	return []Finding{{"disk", "ok", fmt.Sprintf("%d GiB free at %s", free>>30, dir), ""}}
}

// VerifyAudit verifies one session's chains, or all that the index knows. An
// installation that had no session yet has nothing to verify.
func (r *Runtime) VerifyAudit(session nacre.SessionID) ([]audit.Report, error) {
	if session == "" {
		if isUnused(r.AuditRoot()) && isUnused(r.registry.Paths().Sessions()) {
			return nil, nil
		}
		all, err := audit.VerifyAll(r.AuditRoot(), r.verifyOptions())
		return append([]audit.Report{all.Index}, all.Chains...), err
	}
	known, err := r.registry.Show(session)
	if err != nil {
		return nil, err
	}
	var reports []audit.Report
	for _, chain := range known.Chains {
		report, err := audit.Verify(r.AuditRoot(), chain, r.verifyOptions())
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

func (r *Runtime) verifyOptions() audit.VerifyOptions {
	return audit.VerifyOptions{PublicKey: r.keys.Public(), MACKey: r.keys.MAC()}
}

// checkGit tries the git that runs need.
func (r *Runtime) checkGit(ctx context.Context) []Finding {
	path, err := exec.LookPath("git")
	if err != nil {
		return []Finding{{"git", "fail", "git is not installed", "install git: runs work on repositories"}}
	}
	command := exec.CommandContext(ctx, path, "version")
	command.Env, command.Dir = []string{"LC_ALL=C"}, "/"
	out, err := command.Output()
	if err != nil {
		return []Finding{{"git", "fail", err.Error(), "reinstall git"}}
	}
	return []Finding{{"git", "ok", strings.TrimSpace(string(out)), ""}}
}
