package plugintest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// second starts the plugin again beside itself, over the same data, as the
// next session does.
func (r *run) second(ctx context.Context) Check {
	if r.tap() == nil {
		return skipped("the handler is a server elsewhere")
	}
	first := r.tap()
	other := newSubject(r.o, r.found)
	if err := other.open(ctx); err != nil {
		return failed("", "%v", err)
	}
	host := other.host
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
			_, err := other.call(ctx, target{Tool: tool}, t.samples[0], groupOne)
			if _, problem = other.outcome(err); problem != "" {
				problem = fmt.Sprintf("%s: %s", tool.Capability.Tool, problem)
			}
		}
	}
	err := host.Close(ctx)
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

func (s *subject) shutdown(ctx context.Context) Check {
	began := s.o.Now()
	if err := s.host.Close(ctx); err != nil {
		return failed("answer shutdown and end, within 10 s; end at the end of standard input too", "%v", err)
	}
	return passed("ended in %d ms", s.o.Now().Sub(began).Milliseconds())
}

func (s *subject) output() Check {
	for _, t := range s.taken() {
		if t.wrong.noise.n > 0 {
			return failed("standard output belongs to the protocol: print for people to standard error", "%d lines that are no answer and no request: %s", t.wrong.noise.n, strings.Join(t.wrong.noise.first, " | "))
		}
	}
	return passed("nothing but the protocol")
}

func (s *subject) once() Check {
	for _, t := range s.taken() {
		switch {
		case t.wrong.twice.n > 0:
			return failed("answer each request once", "answered twice: %s", strings.Join(t.wrong.twice.first, ", "))
		case t.wrong.unasked.n > 0:
			return failed("answer with the id of the request, as it was sent", "answers to what nobody asked: %s", strings.Join(t.wrong.unasked.first, " | "))
		}
	}
	return passed("to what was asked")
}

// rights looks at what the handler asked of the host, and told it.
func (s *subject) rights() Check {
	for _, t := range s.taken() {
		if t.wrong.refused.n > 0 {
			return failed("quote the ticket of the request in progress, and ask for what the manifest lists", "the host refused what it asked for: %s", strings.Join(t.wrong.refused.first, ", "))
		}
		if t.wrong.leaked.n > 0 {
			return failed("never put a credential into an answer", "a credential is in what it answered")
		}
	}
	return passed("asked for what it may have")
}

func (s *subject) crashes() Check {
	if crashed, _ := s.records.of("plugin.crashed"); len(crashed) > 0 {
		return failed(fixCrash, "it ended %d times: %s", len(crashed), shown(s.records.why("plugin.crashed")))
	}
	return passed("one process from start to end")
}

// left looks at what is there after the end that was not before.
func (s *subject) left() Check {
	if now := pluginhost.Inspect(s.found.Dir); now.Hash != "" && filepath.Base(s.found.Dir) == string(s.found.Name) && now.Hash != s.found.Hash {
		return failed("write to data_dir only: the plugin's folder is read-only in a session", "its own folder is not what it was")
	}
	if !s.o.Witness || len(s.taken()) == 0 {
		return skipped("processes and files are seen in the native sandbox only")
	}
	for _, t := range s.taken() {
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
