package plugintest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// second starts the plugin again beside itself, over the same data, as the
// next session does.
func (r *run) second(ctx context.Context) Check {
	if r.tap() == nil {
		return skipped("the handler is a server elsewhere")
	}
	first := r.tap()
	other := &run{o: r.o, found: r.found, records: &records{changed: make(chan struct{})}}
	host, err := pluginhost.Start(ctx, []pluginhost.Found{r.found}, other.options())
	if err != nil {
		return failed("", "%v", err)
	}
	other.host = host
	const fix = "every session runs a handler of its own over the same data folder: lock what you write, for as long as a write takes"
	if len(host.Health().Failed) > 0 {
		_ = host.Close(ctx) // nothing started
		return failed(fix, "a second one did not start: %s", other.records.why("plugin.failed"))
	}
	problem := ""
	for _, tool := range host.Tools() {
		for _, t := range r.tools {
			if t.Capability.ID != tool.Capability.ID || t.unsafe != "" || len(t.samples) == 0 || problem != "" {
				continue
			}
			_, err := other.call(ctx, host, target{Tool: tool}, t.samples[0], groupOne)
			if _, problem = other.outcome(err); problem != "" {
				problem = fmt.Sprintf("%s: %s", tool.Capability.Tool, problem)
			}
		}
	}
	err = host.Close(ctx)
	switch {
	case problem != "":
		return failed(fix, "in a second one, %s", problem)
	case err != nil:
		return failed(fix, "a second one: %v", err)
	case r.tap() != first:
		return failed(fix, "the first one was started again meanwhile")
	}
	return passed("both answered")
}

func (r *run) shutdown(ctx context.Context) Check {
	began := r.o.Now()
	if err := r.host.Close(ctx); err != nil {
		return failed("answer shutdown and end, within 10 s; end at the end of standard input too", "%v", err)
	}
	return passed("ended in %d ms", r.o.Now().Sub(began).Milliseconds())
}

// taken are all taps, when their processes have ended.
func (r *run) taken() []*tap {
	for _, t := range r.taps {
		t.reading.Wait()
	}
	return r.taps
}

func (r *run) output() Check {
	for _, t := range r.taken() {
		if t.noise.n > 0 {
			return failed("standard output belongs to the protocol: print for people to standard error", "%d lines that are no answer and no request: %s", t.noise.n, strings.Join(t.noise.first, " | "))
		}
	}
	return passed("nothing but the protocol")
}

func (r *run) once() Check {
	for _, t := range r.taken() {
		switch {
		case t.twice.n > 0:
			return failed("answer each request once", "answered twice: %s", strings.Join(t.twice.first, ", "))
		case t.unasked.n > 0:
			return failed("answer with the id of the request, as it was sent", "answers to what nobody asked: %s", strings.Join(t.unasked.first, " | "))
		}
	}
	return passed("to what was asked")
}

// rights looks at what the handler asked of the host, and told it.
func (r *run) rights() Check {
	for _, t := range r.taken() {
		if t.refused.n > 0 {
			return failed("quote the ticket of the request in progress, and ask for what the manifest lists", "the host refused what it asked for: %s", strings.Join(t.refused.first, ", "))
		}
		if t.leaked.n > 0 {
			return failed("never put a credential into an answer", "a credential is in what it answered")
		}
	}
	return passed("asked for what it may have")
}

func (r *run) crashes() Check {
	if crashed, _ := r.records.of("plugin.crashed"); len(crashed) > 0 {
		return failed(fixCrash, "it ended %d times: %s", len(crashed), shown(r.records.why("plugin.crashed")))
	}
	return passed("one process from start to end")
}

// left looks at what is there after the end that was not before.
func (r *run) left() Check {
	if now := pluginhost.Inspect(r.found.Dir); now.Hash != "" && filepath.Base(r.found.Dir) == string(r.found.Name) && now.Hash != r.found.Hash {
		return failed("write to data_dir only: the plugin's folder is read-only in a session", "its own folder is not what it was")
	}
	if !r.o.Witness || len(r.taken()) == 0 {
		return skipped("processes and files are seen in the native sandbox only")
	}
	for _, t := range r.taken() {
		for line := range strings.Lines(t.said()) {
			if what, ok := strings.CutPrefix(strings.TrimSpace(line), witnessMark); ok {
				return failed("end what you start, and write to data_dir only: all else is gone with the session", "it left %s", what)
			}
		}
	}
	return passed("no process, and no file outside of its data folder")
}

const witnessMark = "conformance-witness: "

// witness runs the handler and says, when it has ended, which processes and
// which files outside of its data folder are still there.
const witness = `
list() { for f in /tmp/* /tmp/.[!.]* "${HOME:-/tmp}"/* "${HOME:-/tmp}"/.[!.]*; do [ -e "$f" ] && printf '%s|' "$f"; done; }
before="|$(list)"
"$@"
code=$?
turn=0
while :; do
  left=
  for d in /proc/[0-9]*; do
    p=${d#/proc/}
    [ "$p" = 1 ] || [ "$p" = $$ ] && continue
    read -r stat 2>/dev/null < "$d/stat" || continue
    case $stat in *') Z '*) continue;; esac
    left="$left ${stat%%)*})"
  done
  turn=$((turn + 1))
  [ -n "$left" ] && [ $turn -lt 5 ] || break
  sleep 0.1
done
[ -z "$left" ] || echo "conformance-witness: the process$left" >&2
after=$(list)
while [ -n "$after" ]; do
  f=${after%%|*}
  after=${after#*|}
  case $before in *"|$f|"*) ;; *) echo "conformance-witness: the file $f" >&2; break;; esac
done
exit $code`

func witnessed(argv []string) []string {
	return append([]string{"/bin/sh", "-c", witness, "sh"}, argv...)
}

// services answer a handler as an installation without any history would.
func services() pluginhost.Services {
	empty := func(text string) (json.RawMessage, error) { return json.RawMessage(text), nil }
	return pluginhost.Services{
		AuditLog: func(context.Context, pluginhost.Scope, plugin.AuditFilter) (json.RawMessage, error) {
			return empty("[]")
		},
		ToolCatalog: func(context.Context, pluginhost.Scope) (json.RawMessage, error) {
			return empty("[]")
		},
		SessionInfo: func(_ context.Context, s pluginhost.Scope) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"group": s.Group, "plugins": map[string]any{"healthy": []string{string(s.Plugin)}, "failed": []string{}}})
		},
		Credential: func(_ context.Context, _ nacre.PluginName, key string) (nacre.Secret, error) {
			return nacre.NewSecret(secretMade + key), nil
		},
		Publish: func(context.Context, pluginhost.Scope, string, json.RawMessage) error { return nil },
	}
}

// pins make the files that arguments name: each has a line of text.
func (r *run) pins(paths []string, arguments json.RawMessage) ([]nacre.FilePin, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	const text = "a file of the conformance run\n"
	at := filepath.Join(r.o.Scratch, "file.txt")
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(text))
	root := decode(arguments)
	var pins []nacre.FilePin
	for _, path := range paths {
		named(root, strings.Split(path, "."), "", func(argument, name string) {
			pins = append(pins, nacre.FilePin{Argument: argument, Name: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text)), Path: at})
		})
	}
	return pins, nil
}

// named finds the strings at a dotted path, through lists.
func named(v any, path []string, at string, found func(argument, name string)) {
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			named(one, path, at+"."+strconv.Itoa(i), found)
		}
	case map[string]any:
		if len(path) > 0 {
			if inner, ok := v[path[0]]; ok {
				named(inner, path[1:], at+"."+path[0], found)
			}
		}
	case string:
		if len(path) == 0 {
			found(strings.TrimPrefix(at, "."), v)
		}
	}
}

// awaitRequests waits until the host has asked more than before, or the call ended.
func (t *tap) awaitRequests(ctx context.Context, before int, done <-chan struct{}) {
	for t.requests() <= before {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-done:
			return
		case <-ctx.Done():
			return
		}
	}
}
