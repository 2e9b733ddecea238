package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// The outcomes of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Options of a conformance run. What is marked required has no default.
type Options struct {
	// Dir is the plugin's folder; required. Its name is the plugin's.
	Dir string
	// Launch starts handlers as a session does; required.
	Launch func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error)
	// Witness says that what Launch starts has /bin/sh, and processes and a
	// temporary folder of its own: then what the handler leaves there is found.
	Witness bool
	// Scratch is an empty folder for the plugin's data; required.
	Scratch string
	// Version is nacre's own, which app_compat is held against; required.
	Version string
	// Now is the clock; required.
	Now func() time.Time
	// Config is the plugin's configuration, as in [plugins.NAME].
	Config json.RawMessage
	// All calls the tools that destroy or ask a person, too.
	All bool
	// Patience is how long an answer may take that needs no work; 5 s.
	Patience time.Duration
	Limits   pluginhost.Limits
}

// Report is what a conformance run found.
type Report struct {
	Plugin  string  `json:"plugin"`
	Version string  `json:"version"`
	Passed  bool    `json:"passed"`
	Checks  []Check `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// Text says what was found, Fix what to do about it.
	Text string `json:"text,omitempty"`
	Fix  string `json:"fix,omitempty"`
}

func passed(format string, values ...any) Check {
	return Check{Status: Passed, Text: fmt.Sprintf(format, values...)}
}

func failed(fix, format string, values ...any) Check {
	return Check{Status: Failed, Text: fmt.Sprintf(format, values...), Fix: fix}
}

func skipped(format string, values ...any) Check {
	return Check{Status: Skipped, Text: fmt.Sprintf(format, values...)}
}

// errDone ends a run that cannot go on; the report says why.
var errDone = errors.New("the handler did not start")

// Run holds a plugin against the real host (D-22). The error is for a run that
// could not be made; what is wrong with the plugin is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Dir == "" || o.Launch == nil || o.Scratch == "" || o.Version == "" || o.Now == nil {
		return Report{}, errors.New("conformance run: Dir, Launch, Scratch, Version and Now are required")
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return Report{}, err
	}
	found := pluginhost.Inspect(dir)
	r := &run{subject: newSubject(o, found), report: Report{Plugin: string(found.Name), Version: found.Manifest.Version}}
	if found.Err != nil {
		r.add("folder", failed("run nacre plugin validate "+o.Dir, "%v", found.Err))
		return r.report, nil //nolint:nilerr // the report has it
	}
	if err := r.all(ctx); err != nil && !errors.Is(err, errDone) {
		return r.report, err
	}
	r.report.Passed = true
	for _, c := range r.report.Checks {
		r.report.Passed = r.report.Passed && c.Status != Failed
	}
	return r.report, ctx.Err()
}

// run is one conformance run.
type run struct {
	*subject
	report Report
	tools  []target
}

// target is a tool with what it is called with.
type target struct {
	nacre.Tool
	samples []sample
	// unsafe says why it is not called, if it is not.
	unsafe string
	// probes are calls that gave the same result twice.
	probes []probe
}

// probe is a call whose result is known.
type probe struct {
	target target
	sample sample
	want   string
}

func (r *run) add(name string, c Check) {
	c.Name = name
	r.report.Checks = append(r.report.Checks, c)
}

func (r *run) all(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	for i := range r.tools {
		t := &r.tools[i]
		r.add("tool "+string(t.Capability.Tool), r.callTool(ctx, t))
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) Check
	}{
		{"unknown tools", r.unknownTool}, {"unknown methods", r.unknownMethod}, {"long lines", r.longLine},
		{"events", r.event}, {"groups", r.groups}, {"parallel", r.parallel}, {"cancel", r.cancel}, {"verify", r.verify},
		{"two sessions", r.second},
	} {
		if ctx.Err() == nil {
			r.add(step.name, step.do(ctx))
		}
	}
	r.add("shutdown", r.shutdown(ctx))
	r.add("standard output", r.output())
	r.add("one answer each", r.once())
	r.add("rights", r.rights())
	r.add("stays up", r.crashes())
	r.add("leaves nothing", r.left())
	return nil
}

func (r *run) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.o.Scratch, "data"), 0o700); err != nil {
		return err
	}
	began := r.o.Now()
	if err := r.open(ctx); err != nil {
		return err
	}
	if failures := r.host.Health().Failed; len(failures) > 0 {
		why := r.records.why("plugin.failed")
		if t := r.tap(); t != nil && t.wrong.noise.n > 0 {
			why += "; and standard output has what is no message: " + t.wrong.noise.first[0]
		}
		r.add("start", failed(startFix(failures[0].Category, why), "%s", why))
		if err := r.host.Close(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		return errDone
	}
	r.add("start", passed("initialized in %d ms", r.o.Now().Sub(began).Milliseconds()))
	for _, tool := range r.host.Tools() {
		t := target{Tool: tool}
		for _, spec := range r.found.Manifest.Provides.Tools {
			if spec.Name == tool.Capability.Tool {
				t.samples = samples(spec)
			}
		}
		if !r.o.All && (tool.Capability.Safety == nacre.Destructive || tool.Capability.HighRisk) {
			t.unsafe = "it destroys, or a person is asked every time: --all calls it"
		}
		r.tools = append(r.tools, t)
	}
	return nil
}

func startFix(category, why string) string {
	switch {
	case strings.Contains(why, "ERR_UNKNOWN_FILE_EXTENSION"):
		return fmt.Sprintf("node runs TypeScript as it is from %d.%d on: install that", oldestNodeMajor, oldestNodeMinor)
	case category == "CONFIG_ERROR":
		return "look at handler in the manifest, whether its program is installed, and --config"
	case category == "AUTH_ERROR" || category == "NETWORK_ERROR":
		return "initialize without reaching out: a plugin that waits for its service cannot start without it"
	}
	return `answer initialize within 10 s with {"jsonrpc":"2.0","id":…,"result":{}} on one line`
}
