package kernel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

type versioned struct{ policy.Engine }

func (versioned) Version() string { return "another" }

type down struct{}

func (down) Error() string     { return "plugin is restarting at /home/ann/plugin.sock" }
func (down) Unavailable() bool { return true }

// D-06, D-14: whatever a driver does, the agent sees one of the seed's errors
// and nothing of the host.
func TestADriversFailureIsNormalised(t *testing.T) {
	tests := map[string]struct {
		do      nacre.DriverFunc
		want    nacre.Refusal
		records string
	}{
		"a handler's own error": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return nil, &nacre.Refusal{Code: "REMINDER_GONE", Message: "Reminder 7 does not exist", Retriable: true}
			},
			nacre.Refusal{Code: nacre.CodeHandlerError, Message: "Reminder 7 does not exist", Retriable: true, Original: "REMINDER_GONE"},
			"call.begin/allowed/ call.handler/error/REMINDER_GONE call.end/error/HANDLER_ERROR",
		},
		"a handler that claims a code of the core's": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return nil, fmt.Errorf("wrapped: %w", &nacre.Refusal{
					Code: nacre.CodeUnauthorized, Message: "m", Stage: 4, Field: "f", RetryAfter: 9, Reason: nacre.ReasonApproved,
				})
			},
			nacre.Refusal{Code: nacre.CodeHandlerError, Message: "m", Original: "UNAUTHORIZED"},
			"call.begin/allowed/ call.handler/error/UNAUTHORIZED call.end/error/HANDLER_ERROR",
		},
		"a handler's secret": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return nil, &nacre.Refusal{Code: "X\npassword=hunter22", Message: "no postgres://u:hunter22@db/x"}
			},
			nacre.Refusal{Code: nacre.CodeHandlerError, Message: "no postgres://u:[REDACTED]@db/x", Original: "X\npassword=hunter22"},
			"call.begin/allowed/ call.handler/error/X?password=[REDACTED] call.end/error/HANDLER_ERROR",
		},
		"any other error": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return nil, errors.New("open /home/ann/.secret: permission denied")
			},
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"a panic": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) { panic("at /home/ann/x.go") },
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"a plugin that is down": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, down{} },
			nacre.Refusal{Code: nacre.CodePluginUnavailable, Message: "notes is not running", Retriable: true, Stage: 6},
			"call.begin/allowed/ call.end/error/PLUGIN_UNAVAILABLE",
		},
		"a typed nil": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, (*nacre.Refusal)(nil) },
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"nothing": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, nil },
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"a result that is not JSON": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return json.RawMessage(`{"a":1`), nil
			},
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"a large result that is not JSON": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return json.RawMessage(`["` + strings.Repeat("a", 100_000)), nil
			},
			nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"},
			"call.begin/allowed/ call.end/error/PLUGIN_ERROR",
		},
		"a result that is too long": {
			func(context.Context, nacre.Invocation) (json.RawMessage, error) {
				return json.RawMessage(`"` + strings.Repeat("a", kernel.MaxResult-1) + `"`), nil
			},
			nacre.Refusal{Code: nacre.CodeHandlerError, Message: "Response exceeded maximum size"},
			"call.begin/allowed/ call.end/error/HANDLER_ERROR",
		},
	}
	for name, test := range tests {
		check := func(t *testing.T, do nacre.Driver) {
			h := open(t, nil)
			if err := h.Register(nacre.Tool{Capability: note(nil), Driver: do}); err != nil {
				t.Fatal(err)
			}
			outcome, err := h.Call(t.Context(), call(milk))
			if have := *refusal(t, err); have != test.want || outcome.Result != nil {
				t.Errorf("have %+v\nwant %+v", have, test.want)
			}
			if have := h.chain.told(); have != test.records {
				t.Errorf("have %s\nwant %s", have, test.records)
			}
			for _, r := range h.chain.all() {
				if bytes.Contains(r.Detail, []byte("/home/ann")) || bytes.Contains(r.Detail, []byte("hunter22")) {
					t.Errorf("%s holds a detail of the host: %s", r.Kind, r.Detail)
				}
			}
		}
		t.Run(name, func(t *testing.T) { check(t, test.do) })
		t.Run(name+", of a prompt driver", func(t *testing.T) { check(t, prompt{test.do}) })
	}
}

// prompt is a driver that promises to return as soon as its context ends.
type prompt struct{ nacre.DriverFunc }

// Prompt implements nacre.PromptDriver.
func (prompt) Prompt() bool { return true }

// P-05, D-14: a driver that is waited for without a goroutine of its own has the same
// deadline, whatever it says of why it returned.
func TestAPromptDriverHasItsDeadline(t *testing.T) {
	for name, said := range map[string]error{"it says why": context.DeadlineExceeded, "it says something else": errors.New("gone")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, func(c *kernel.Config) { c.Now = time.Now })
				driver := prompt{func(ctx context.Context, _ nacre.Invocation) (json.RawMessage, error) {
					<-ctx.Done()
					return nil, said
				}}
				if err := h.Register(nacre.Tool{Capability: note(nil), Driver: driver}); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err := h.Call(t.Context(), call(milk))
				if have := refusal(t, err); have.Code != nacre.CodePluginTimeout || time.Since(start) != kernel.DefaultDeadline {
					t.Errorf("have %+v after %v", have, time.Since(start))
				}
				if err := h.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// D-14: both sides of the limit.
func TestALargestResultStillPasses(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("a", kernel.MaxResult-2) + `"`), nil
	})
	outcome, err := h.Call(t.Context(), call(milk))
	if err != nil || len(outcome.Result) > 8000 {
		t.Errorf("have %d bytes, %v", len(outcome.Result), err)
	}
}

// K-31: a result of 64 MiB is refused before it is copied, read or shown to a hook. It costs no
// more memory than it has: a copy of it would be seen in what was allocated.
func TestAGiantResultIsRefusedUnread(t *testing.T) {
	giant := json.RawMessage(`"` + strings.Repeat("a", testpeer.Size(8<<20, 64<<20)) + `"`)
	hooked := false
	h := open(t, func(c *kernel.Config) {
		c.ResultHooks = []kernel.ResultHook{func(_ context.Context, _ nacre.Invocation, raw json.RawMessage) (json.RawMessage, error) {
			hooked = true
			return raw, nil
		}}
	})
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return giant, nil })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := h.Call(t.Context(), call(milk))
	runtime.ReadMemStats(&after)
	if have := refusal(t, err); have.Code != nacre.CodeHandlerError || have.Message != "Response exceeded maximum size" || hooked {
		t.Errorf("have %+v, shown to a hook %v", have, hooked)
	}
	if cost := after.TotalAlloc - before.TotalAlloc; cost > uint64(len(giant)/2) {
		t.Errorf("a result of %d bytes made the kernel allocate %d", len(giant), cost)
	}
}

// D-14: a driver that does not listen is left behind, and its answer dropped and recorded.
func TestALateAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		told := make(chan error, 1)
		h := open(t, func(c *kernel.Config) { c.Now = time.Now })
		h.add(t, note(nil), func(ctx context.Context, _ nacre.Invocation) (json.RawMessage, error) {
			<-ctx.Done()
			told <- context.Cause(ctx)
			<-release
			return json.RawMessage(`{"late":true}`), nil
		})
		start := time.Now()
		outcome, err := h.Call(t.Context(), call(milk))
		have := refusal(t, err)
		if have.Code != nacre.CodePluginTimeout || !have.Retriable || have.Stage != 6 || have.Message != "notes did not respond within 30s" || outcome.Result != nil {
			t.Errorf("have %+v", have)
		}
		if time.Since(start) != kernel.DefaultDeadline || <-told == nil {
			t.Errorf("after %v", time.Since(start))
		}
		if err := h.Wait(withTimeout(t, time.Second)); err == nil {
			t.Error("Wait did not wait for the driver")
		}
		close(release)
		if err := h.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		const want = "call.begin/allowed/ call.end/error/PLUGIN_TIMEOUT call.handler/error/late_answer_dropped"
		if told := h.chain.told(); told != want {
			t.Errorf("have %s\nwant %s", told, want)
		}
	})
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// K-21: the end is recorded though nobody waits for it any more.
func TestACallerThatLeavesDuringACallIsRecorded(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	h := open(t, nil)
	h.add(t, note(nil), func(ctx context.Context, _ nacre.Invocation) (json.RawMessage, error) {
		leave()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := h.Call(ctx, call(milk))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	if have, want := h.chain.told(), "call.begin/allowed/ call.end/error/PLUGIN_UNAVAILABLE"; have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if _, err := h.Call(ctx, call(milk)); !errors.Is(err, context.Canceled) || len(h.called()) != 1 {
		t.Errorf("a call of somebody who left: %v", err)
	}
}

// D-15, D-16: a secret in a result, in a value and in a key, is redacted and its path recorded.
func TestAResultIsRedactedAndItsPathsRecorded(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		return json.RawMessage(`{"rows":[{"n":1.0},{"env":"AWS_KEY AKIAIOSFODNN7EXAMPLE"}],"password":"hunter2"}`), nil
	})
	outcome, err := h.Call(t.Context(), call(milk))
	const want = `{"rows":[{"n":1.0},{"env":"AWS_KEY [REDACTED]"}],"password":"[REDACTED]"}`
	if err != nil || string(outcome.Result) != want {
		t.Errorf("have %s %v\nwant %s", outcome.Result, err, want)
	}
	if have := strings.Join(outcome.Redacted, " "); have != "rows[1].env password" {
		t.Errorf("paths %s", have)
	}
	end := h.chain.all()[1]
	if end.Outcome != nacre.OutcomeSanitized || !bytes.Contains(end.Detail, []byte(`"rows[1].env"`)) || bytes.Contains(end.Detail, []byte("AKIA")) {
		t.Errorf("recorded %s %s", end.Outcome, end.Detail)
	}
}

// Concurrent callers share nothing: 1,000 calls, each with its own answer and its own two records.
func TestAThousandCallsAtOnceKeepApart(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := open(t, nil)
	h.add(t, note(func(c *nacre.Capability) {
		c.Rate, c.Returns = nacre.RateLimit{Calls: 2000, Window: time.Minute}, nacre.Trusted
	}),
		func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
			return in.Arguments, nil
		})
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			text := fmt.Sprintf(`{"list":"l","text":"%d"}`, i)
			outcome, err := h.Call(t.Context(), call(text))
			if err != nil || string(outcome.Result) != text {
				t.Errorf("%d: have %s %v", i, outcome.Result, err)
			}
		})
	}
	all.Wait()
	begins, grants := 0, map[string]bool{}
	for _, r := range h.chain.all() {
		var detail struct{ Grant string }
		if json.Unmarshal(r.Detail, &detail) != nil || detail.Grant == "" {
			t.Fatalf("a record without its grant: %s", r.Detail)
		}
		if r.Kind == nacre.KindCallBegin {
			begins++
			grants[detail.Grant] = true
		}
	}
	if len(h.chain.all()) != 2000 || begins != 1000 || len(grants) != 1000 {
		t.Errorf("%d records, %d begins, %d grants", len(h.chain.all()), begins, len(grants))
	}
}

// A driver that keeps its result cannot change what was redacted.
func TestADriverCannotChangeItsResultAfterwards(t *testing.T) {
	result := []byte(`{"text":"harmless"}`)
	h := open(t, nil)
	h.chain.fail = func(r nacre.Record) bool {
		if r.Kind == nacre.KindCallEnd {
			copy(result, `{"text":"ghp_aaaa"`)
		}
		return false
	}
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return result, nil })
	outcome, err := h.Call(t.Context(), call(milk))
	if err != nil || string(outcome.Result) != `{"text":"harmless"}` {
		t.Errorf("have %s %v", outcome.Result, err)
	}
}

func rows(n int) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"INV-%d","amount":%d.5,"status":"unpaid","active":true,"note":"row number %d"}`, i, i, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// discard is the cheapest recorder there is.
type discard struct{}

func (discard) Append(context.Context, nacre.Record) error { return nil }
func (discard) Commit(context.Context, nacre.Record) error { return nil }

func benchCall(b *testing.B, n int) {
	k, err := kernel.New(kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"main": {Tools: []string{"*"}}}, Recorder: discard{},
		Now: time.Now, Random: rand.Reader, Keys: kernel.Keys{Current: kernel.Key{Secret: make([]byte, 32)}}, OutputBudget: 1 << 40,
	})
	if err != nil {
		b.Fatal(err)
	}
	result := rows(n)
	c := note(func(c *nacre.Capability) { // nobody is asked
		c.Safety, c.Returns, c.Rate = nacre.Read, nacre.Trusted, nacre.RateLimit{Calls: 1 << 16, Window: time.Nanosecond}
	})
	err = k.Register(nacre.Tool{Capability: c, Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		return result, nil
	})})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Call(b.Context(), call(milk)); err != nil {
			b.Fatal(err)
		}
	}
}

// K: invoke, 10 rows and 1,000 rows; the floor is parsing the result once.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("rows=%d/floor", n), func(b *testing.B) {
			result := rows(n)
			for b.Loop() {
				if !json.Valid(result) {
					b.Fatal("invalid")
				}
			}
		})
		b.Run(fmt.Sprintf("rows=%d/ours", n), func(b *testing.B) { benchCall(b, n) })
	}
}
