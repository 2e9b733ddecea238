package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	groupOne   = nacre.Group("conformance-one")
	groupTwo   = nacre.Group("conformance-two")
	longEvent  = 900 << 10 // bytes
	atOnce     = 8
	secretMade = "made-up-credential-" //nolint:gosec // opens nothing; the key follows
)

const (
	fixError   = "answer with an error: a ToolError where the agent should read why, else any other"
	fixCrash   = "catch what goes wrong in one request, answer it with an error, and go on reading"
	fixUnknown = `answer a method you do not know with {"error": {"code": -32601, "message": "unknown method"}}`
)

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// callTool calls one tool with each sample, twice.
func (r *run) callTool(ctx context.Context, t *target) Check {
	switch {
	case t.unsafe != "":
		return skipped("not called: %s", t.unsafe)
	case len(t.samples) == 0:
		return Check{Status: Skipped, Text: "no arguments that fit its schema could be made up", Fix: `give some in the schema: "examples": [{…}]`}
	}
	var codes []string
	results := 0
	for _, s := range t.samples {
		first, err := r.call(ctx, *t, s, groupOne)
		code, problem := r.outcome(err)
		if problem != "" {
			return failed(fixError, "%s arguments %s: %s", s.kind, shown(string(s.arguments)), problem)
		}
		if code != "" {
			codes = append(codes, code)
			continue
		}
		results++
		if again, err := r.call(ctx, *t, s, groupOne); err == nil && again == first {
			t.probes = append(t.probes, probe{sample: s})
		}
	}
	text := fmt.Sprintf("%d results", results)
	if len(codes) > 0 {
		slices.Sort(codes)
		text += "; refused with " + strings.Join(slices.Compact(codes), ", ")
	}
	if results == 0 {
		text += `: "examples" in its schema would show more`
	}
	return passed("%s", text)
}

// own runs a check that asks the process itself.
func (r *run) own(ctx context.Context, do func(context.Context, *tap) Check) Check {
	t := r.tap()
	if t == nil {
		return skipped("the handler is a server elsewhere")
	}
	if t.mcp {
		return skipped("an MCP server speaks another protocol")
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Patience)
	defer cancel()
	return do(ctx, t)
}

func (r *run) unknownTool(ctx context.Context) Check {
	return r.own(ctx, func(ctx context.Context, t *tap) Check {
		m, err := t.ask(ctx, plugin.MethodHandleRequest, plugin.RequestParams{
			Ticket: "conformance", TimeoutMS: r.o.Patience.Milliseconds(),
			Envelope: plugin.Envelope{ID: "conformance", Version: plugin.ProtocolVersion, Type: "request", Topic: "tool.invoke.no_such_tool_here",
				Source: "conformance", Timestamp: r.o.Now(), Group: groupOne, Payload: json.RawMessage(`{"arguments":{}}`)},
		})
		switch {
		case err != nil:
			return failed(fixError, "a request for a tool that it does not have was not answered")
		case m.Error == nil:
			return failed(fixError, "a request for a tool that it does not have was answered with a result: %s", shown(string(m.Result)))
		}
		if c := t.alive(ctx, "an error"); c != nil {
			return *c
		}
		return passed("answered with an error, and went on")
	})
}

func (r *run) unknownMethod(ctx context.Context) Check {
	return r.own(ctx, func(ctx context.Context, t *tap) Check {
		m, err := t.ask(ctx, "conformance/unknown", struct{}{})
		switch {
		case err != nil:
			return failed(fixUnknown, "a method that it does not know was not answered")
		case m.Error == nil:
			return failed(fixUnknown, "a method that it does not know was answered with a result")
		}
		if err := t.tell("conformance/notice", struct{}{}); err != nil {
			return failed(fixCrash, "it reads no more: %v", err)
		}
		if c := t.alive(ctx, "a notification that it does not know"); c != nil {
			return *c
		}
		return passed("answered with error %d", m.Error.Code)
	})
}

func eventOf(topic string, payload any, now plugin.Envelope) plugin.EventParams {
	raw, err := json.Marshal(payload)
	if err != nil {
		raw = json.RawMessage("{}")
	}
	now.ID, now.Version, now.Type, now.Topic, now.Source, now.Payload = "conformance", plugin.ProtocolVersion, "event", topic, "core", raw
	now.Group = groupOne
	return plugin.EventParams{Envelope: now}
}

func (r *run) longLine(ctx context.Context) Check {
	return r.own(ctx, func(ctx context.Context, t *tap) Check {
		payload := map[string]string{"text": strings.Repeat("x", longEvent)}
		if err := t.tell(plugin.MethodHandleEvent, eventOf("conformance.long", payload, plugin.Envelope{Timestamp: r.o.Now()})); err != nil {
			return failed("read lines of any length: requests may hold 1 MiB of arguments and 1 MiB of files", "it reads no more: %v", err)
		}
		if c := t.alive(ctx, fmt.Sprintf("a line of %d KiB", longEvent>>10)); c != nil {
			c.Fix = "read lines of any length: requests may hold 1 MiB of arguments and 1 MiB of files"
			return *c
		}
		return passed("read %d KiB", longEvent>>10)
	})
}

func (r *run) event(ctx context.Context) Check {
	return r.own(ctx, func(ctx context.Context, t *tap) Check {
		topics := append([]string{"conformance.event"}, r.found.Manifest.Subscribes...)
		for _, topic := range topics {
			for _, payload := range []any{map[string]string{}, nil, []int{1}, map[string]string{"text": awkward}} {
				if err := t.tell(plugin.MethodHandleEvent, eventOf(strings.TrimSuffix(topic, "."), payload, plugin.Envelope{Timestamp: r.o.Now()})); err != nil {
					return failed(fixCrash, "it reads no more: %v", err)
				}
			}
		}
		if c := t.alive(ctx, "events"); c != nil {
			return *c
		}
		return passed("%d events of %d topics", 4*len(topics), len(topics))
	})
}

// cancel takes a call back once it was sent, and one that never was.
func (r *run) cancel(ctx context.Context) Check {
	return r.own(ctx, func(ctx context.Context, t *tap) Check {
		if at := r.callable(); at >= 0 {
			calling, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			before := t.requests()
			go func() {
				defer close(done)
				_, _ = r.call(calling, r.tools[at], r.tools[at].samples[0], groupOne) // how it ends is its own affair
			}()
			t.awaitRequests(ctx, before, done)
			stop()
			<-done
		}
		if err := t.tell(plugin.MethodCancel, plugin.CancelParams{ID: json.RawMessage("123456789")}); err != nil {
			return failed(fixCrash, "it reads no more: %v", err)
		}
		if c := t.alive(ctx, "a cancelled request"); c != nil {
			return *c
		}
		return passed("goes on")
	})
}

// callable is a tool that may be called, one that only reads if there is any; or -1.
func (r *run) callable() int {
	at := slices.IndexFunc(r.tools, func(t target) bool { return t.unsafe == "" && len(t.samples) > 0 && t.reads() })
	if at < 0 {
		at = slices.IndexFunc(r.tools, func(t target) bool { return t.unsafe == "" && len(t.samples) > 0 })
	}
	return at
}

func (t target) reads() bool { return t.Capability.Safety == nacre.Read }

// known are calls whose results are known now: of tools that only read, where
// they are enough to tell answers apart.
func (r *run) known(ctx context.Context) (probes []probe) {
	fresh := func(all bool) map[string]bool {
		probes = nil
		distinct := map[string]bool{}
		for _, t := range r.tools {
			for _, p := range t.probes {
				if all || t.reads() {
					if want, err := r.call(ctx, t, p.sample, groupOne); err == nil {
						probes = append(probes, probe{t, p.sample, want})
						distinct[want] = true
					}
				}
			}
		}
		return distinct
	}
	if len(fresh(false)) < 2 {
		fresh(true)
	}
	return probes
}

// parallel has many calls in flight, and looks whether each gets its own answer.
func (r *run) parallel(ctx context.Context) Check {
	var calls []func() string
	wanted := map[string]string{}
	for _, p := range r.known(ctx) {
		wanted[p.want] = string(p.target.Capability.Tool) + " " + shown(string(p.sample.arguments))
		calls = append(calls, func() string { return r.callProbe(ctx, p, wanted) })
	}
	if at := r.callable(); len(calls) == 0 && at >= 0 {
		t := r.tools[at]
		calls = append(calls, func() string {
			_, err := r.call(ctx, t, t.samples[0], groupOne)
			_, problem := r.outcome(err)
			return problem
		})
	}
	if len(calls) == 0 {
		return skipped("no tool may be called")
	}
	for _, problem := range together(calls) {
		if problem != "" {
			return failed("answer with the id of the request, whatever order you answer in", "%s", problem)
		}
	}
	return passed("%d calls, %d at once", max(2*atOnce, len(calls)), atOnce)
}

// together does each, some more than once, a few at a time.
func together(calls []func() string) []string {
	var all sync.WaitGroup
	problems := make([]string, max(2*atOnce, len(calls)))
	turns := make(chan struct{}, atOnce)
	for i := range problems {
		turns <- struct{}{}
		all.Go(func() {
			problems[i] = calls[i%len(calls)]()
			<-turns
		})
	}
	all.Wait()
	return problems
}

// callProbe says what is wrong with an answer that another call should have got.
func (r *run) callProbe(ctx context.Context, p probe, wanted map[string]string) string {
	t := p.target
	have, err := r.call(ctx, t, p.sample, groupOne)
	if _, problem := r.outcome(err); problem != "" {
		return fmt.Sprintf("%s among others: %s", t.Capability.Tool, problem)
	}
	if other := wanted[have]; err == nil && have != p.want && other != "" {
		return fmt.Sprintf("%s %s got the answer of %s", t.Capability.Tool, shown(string(p.sample.arguments)), other)
	}
	return ""
}

// groups looks whether a group sees what another one said.
func (r *run) groups(ctx context.Context) Check {
	asked := 0
	order := slices.Clone(r.tools) // what reads comes first: a second group's own words must not cover the first one's
	slices.SortStableFunc(order, func(a, b target) int { return cmp.Compare(a.order(), b.order()) })
	for _, t := range order {
		if t.unsafe != "" || len(t.samples) == 0 || strings.Contains(string(t.samples[0].arguments), marker) {
			continue
		}
		result, err := r.call(ctx, t, t.samples[0], groupTwo)
		if err != nil {
			continue // how a tool fails was looked at before
		}
		asked++
		if strings.Contains(result, marker) {
			return failed("keep one file a group: envelope.group says whose data may be touched", "%s told group %s what group %s had said", t.Capability.Tool, groupTwo, groupOne)
		}
	}
	if asked == 0 {
		return skipped("no tool gave a second group a result")
	}
	return passed("what one group said no other was told")
}

func (t target) order() int {
	if t.reads() {
		return 0
	}
	return 1
}

func (r *run) verify(ctx context.Context) Check {
	if !r.found.Manifest.Verify {
		if len(r.found.Manifest.Install.Credentials) > 0 {
			return Check{Status: Skipped, Text: `the manifest does not say "verify"`, Fix: `"verify": true lets nacre doctor --live try the credentials`}
		}
		return skipped(`the manifest does not say "verify"`)
	}
	const fix = "answer verify within 10 s with null, or a ToolError whose code is NETWORK_ERROR, AUTH_ERROR or CONFIG_ERROR"
	err := r.host.Verify(ctx, r.found.Name)
	var problem *pluginhost.Problem
	switch {
	case err == nil && r.badAnswer(plugin.MethodVerify):
		return failed(fix, "the answer is %s", r.tap().answerTo(plugin.MethodVerify))
	case err == nil:
		return passed("says that all is well")
	case errors.As(err, &problem) && problem.Category != plugin.CategoryInternal:
		return passed("says %s, with made-up credentials and no network", problem.Category)
	}
	return failed(fix, "%v", err)
}
