//go:build linux

package prove

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// Options say what is proved with.
type Options struct {
	// Program calls [probe.Main] when it is started as [probe.Name] or [probe.DecoyName].
	// It has no threads of C.
	Program string
	// Rules are the operator's, which stand in the proxy beside those of the decoys.
	Rules []nacre.EgressRule
	// Keep chooses the probes; nil keeps all.
	Keep func(probe.Probe) bool
	// Progress is told of each stage that begins; nil means nobody is.
	Progress func(stage string)
}

func (o Options) keeps(p probe.Probe) bool { return o.Keep == nil || o.Keep(p) }

func (o Options) begins(stage string) {
	if o.Progress != nil {
		o.Progress(stage)
	}
}

// Backend plays the probes in a backend's sandboxes and judges them. The rows are in
// the order of [probe.All]. An error says that nothing could be proved.
func Backend(ctx context.Context, b sandbox.Backend, o Options) (rows []Row, err error) {
	g, err := Lay(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("lay the decoys: %w", err)
	}
	defer g.Lift()
	inside, err := g.Sealed(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("play the probes sealed: %w", err)
	}
	outside, err := g.Controls(ctx) // last: it kills a decoy
	if err != nil {
		return nil, fmt.Errorf("play the probes where nothing holds them: %w", err)
	}
	return g.Judge(b, inside, outside), nil
}

// Judge says what became of each probe that is kept.
func (g *Ground) Judge(b sandbox.Backend, inside, outside map[string]probe.Finding) []Row {
	missing := b.NotEnforced()
	var rows []Row
	for _, p := range probe.All() {
		if g.options.keeps(p) {
			rows = append(rows, judge(p, inside[p.Name], outside[p.Name], trial{missing, g.root}))
		}
	}
	return rows
}

// trial is where a probe was played.
type trial struct {
	missing []string // what the backend does not enforce
	root    bool
}

func judge(p probe.Probe, in, out probe.Finding, at trial) Row {
	row := Row{Class: p.Class, Probe: p.Name, Reason: plain(in.Reason), Control: strings.ToLower(string(out.Verdict)) + ": " + plain(out.Reason)}
	mustEscape := p.Control == probe.Always && out.Verdict != probe.Untestable || p.Control == probe.AsRoot && at.root
	switch {
	case in.Verdict == probe.Escaped:
		row.Outcome = GotThrough
		if why := at.explains(p.Name); why != "" {
			row.Outcome, row.Reason = NotEnforced, why
		}
	case in.Verdict == "":
		row.Outcome, row.Reason = Unproven, "the sandbox gave no answer"
	case out.Verdict != probe.Escaped && mustEscape:
		row.Outcome = Unproven
	case out.Verdict != probe.Escaped:
		row.Outcome, row.Reason = NotTestable, plain(out.Reason)+", without a sandbox too"
	case in.Verdict == probe.Untestable:
		row.Outcome = NotTestable
	case in.Verdict == reported:
		row.Outcome = Reported
	default:
		row.Outcome = Blocked
	}
	return row
}

// explains is the line in which the backend says that it does not enforce what the
// probe tries.
func (at trial) explains(name string) string {
	word := limitOf(name)
	i := slices.IndexFunc(at.missing, func(line string) bool { return word != "" && strings.HasPrefix(line, word) })
	if i < 0 {
		return ""
	}
	return at.missing[i]
}

// limitOf is the word that a line of NotEnforced begins with, for a probe that it explains.
func limitOf(name string) string {
	return map[string]string{
		"res-project-disk": "disk:", "res-project-inodes": "disk:", "res-shared-memory": "memory:", "res-memfd": "memory:",
		"res-memory": "memory:", "res-sysv-memory": "memory:", "res-lock-memory": "memory:", "res-forks": "processes:",
		"res-inodes": "files:", "res-many-files": "files:", "res-inotify": "watches:",
		"sec-parent-environ": "token:", "proc-init-priority": "init:", "proc-init-affinity": "init:",
		endsInit: "ending:", "proc-init-descriptors": "ending:", "proc-init-namespace": "kernel:", "net-low-port": "ports:",
		"priv-uid-map": "kernel:", "sec-sys": "kernel:", "fs-lock": "locks:", "proc-host-in-flight": "user:",
	}[name]
}

// maxReason is how much of a reason is kept, in bytes.
const maxReason = 80

// plain takes out of a reason what differs from run to run.
func plain(reason string) string {
	reason = strings.TrimSpace(regexp.MustCompile(`/[^ :]*/|\.nacre-probe-\d+ ?`).ReplaceAllString(reason, ""))
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
