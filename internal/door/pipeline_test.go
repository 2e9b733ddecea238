package door_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/ipc"
	redaction "github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/wire"
	realkernel "github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// pipeline is the door as it ships: kernel, shipped policy, a durable chain on
// disk, and redaction; with echo among that many tools.
func pipeline(t testing.TB, tools int) served {
	t.Helper()
	all := []nacre.Tool{pipelineTool("echo", 0, func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) { return in.Arguments, nil })}
	for i := 1; i < tools; i++ {
		other := all[0]
		other.Capability.Tool = nacre.ToolName(fmt.Sprintf("other_%d", i))
		other.Capability.ID = "test." + nacre.CapabilityID(other.Capability.Tool)
		all = append(all, other)
	}
	return pipelineOf(t, nil, all...)
}

func pipelineTool(name string, deadline time.Duration, do nacre.DriverFunc) nacre.Tool {
	return nacre.Tool{Driver: do, Capability: nacre.Capability{
		ID: nacre.CapabilityID("test." + name), Tool: nacre.ToolName(name), Description: "a tool of the tests", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}`),
		Rate:   nacre.RateLimit{Calls: 1 << 30, Window: time.Minute}, Deadline: deadline,
	}}
}

// teed keeps what enters a chain.
type teed struct {
	nacre.Recorder
	kept *recorder
}

func (r teed) Append(ctx context.Context, record nacre.Record) error {
	_ = r.kept.Append(ctx, record) // never fails
	return r.Recorder.Append(ctx, record)
}

func (r teed) Commit(ctx context.Context, record nacre.Record) error {
	_ = r.kept.Append(ctx, record) // never fails
	return r.Recorder.Commit(ctx, record)
}

func pipelineOf(t testing.TB, kept *recorder, tools ...nacre.Tool) served {
	t.Helper()
	keys, err := audit.NewKeys(make([]byte, 32), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.Open(context.Background(), audit.Options{Root: filepath.Join(t.TempDir(), "audit"), Chain: "s-1.1", Keys: keys, Now: time.Now, QuotaBytes: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	recorded := nacre.Recorder(chain)
	if kept != nil {
		recorded = teed{chain, kept}
	}
	k, err := realkernel.New(realkernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"family-chat": {Tools: []string{"*"}}}, Recorder: recorded,
		Now: time.Now, Random: rand.Reader, Keys: realkernel.Keys{Current: realkernel.Key{Secret: make([]byte, 32)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if err := k.Register(tool); err != nil {
			t.Fatal(err)
		}
	}
	engine := redaction.New()
	return serve(t, k, config{records: &recorder{}, redact: func(document []byte) ([]byte, []string) {
		clean, paths, err := engine.JSON(document)
		if err != nil {
			return []byte("null"), []string{err.Error()}
		}
		return clean, paths
	}})
}

// No record, no answer: what the door said is in the chain, begin before end.
func TestTheWholePipelineAnswersAndRecords(t *testing.T) {
	c := dial(t, pipeline(t, 1))
	for i := range 100 {
		e, refusal := ask(t, c, request("echo", fmt.Sprint(i)))
		if refusal != nil || string(e.Correlation) != fmt.Sprint(i) {
			t.Fatalf("call %d: %v %v", i, e, refusal)
		}
	}
}

// D-06, D-14, D-16: what a handler does wrong, as the agent sees it and as it
// is recorded; and that a late answer is never an answer.
func TestTheWholePipelineOutlivesItsHandlers(t *testing.T) {
	release := make(chan struct{})
	kept := &recorder{}
	s := pipelineOf(t, kept,
		pipelineTool("echo", 0, func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) { return in.Arguments, nil }),
		pipelineTool("late", 50*time.Millisecond, func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			<-release
			return json.RawMessage(`"late"`), nil
		}),
		pipelineTool("panics", 0, func(context.Context, nacre.Invocation) (json.RawMessage, error) { panic("/etc/internal") }),
		pipelineTool("large", 0, func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x ", wire.MaxMessage) + `"`), nil
		}),
		pipelineTool("notjson", 0, func(context.Context, nacre.Invocation) (json.RawMessage, error) { return json.RawMessage(`{`), nil }),
		pipelineTool("denies", 0, func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return nil, &nacre.Refusal{Code: "E503", Original: "E503", Message: "service unavailable", Retriable: true, Stage: 4, RetryAfter: 9}
		}),
	)
	c := dial(t, s)
	for _, test := range []struct{ tool, code, source string }{
		{"late", "PLUGIN_TIMEOUT", "core"}, {"panics", "PLUGIN_ERROR", "core"}, {"large", "HANDLER_ERROR", "test"},
		{"notjson", "PLUGIN_ERROR", "core"}, {"denies", "HANDLER_ERROR", "test"},
	} {
		e, refusal := ask(t, c, request(test.tool, test.tool))
		if refusal == nil || string(refusal.Code) != test.code || e.Source != test.source || strings.Contains(refusal.Message, "internal/") || strings.Contains(refusal.Message, "/etc") {
			t.Errorf("%s: have %+v from %s, want %s from %s", test.tool, refusal, e.Source, test.code, test.source)
		}
	}
	close(release)
	if e, refusal := ask(t, c, request("echo", "next")); refusal != nil || e.Correlation != "next" {
		t.Errorf("have %+v, %v, want no late answer before the next", e, refusal)
	}
	own, seen := 0, 0
	for _, r := range kept.all() {
		if r.Correlation == "denies" && r.Kind == nacre.KindCallHandler {
			own++
		}
		if r.Correlation == "denies" && r.Kind == nacre.KindCallEnd && r.Outcome == nacre.OutcomeError {
			seen++
		}
	}
	if own != 1 || seen != 1 {
		t.Errorf("have %d records of the handler's error and %d of the response, want one of each", own, seen)
	}
}

// D-03: with 64 in flight all the time, each request has exactly one answer.
func TestTheWholePipelineLosesNothing(t *testing.T) {
	const sent = 3000
	c := dial(t, pipeline(t, 1))
	seen := map[nacre.Correlation]bool{}
	for i := range sent {
		if err := c.Send([]byte(request("echo", fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
		if i < 64-1 {
			continue
		}
		e, refusal := receive(t, c)
		if refusal != nil || seen[e.Correlation] {
			t.Fatalf("have %+v, %v", e, refusal)
		}
		seen[e.Correlation] = true
	}
	for range 64 - 1 {
		e, refusal := receive(t, c)
		if refusal != nil || seen[e.Correlation] {
			t.Fatalf("have %+v, %v", e, refusal)
		}
		seen[e.Correlation] = true
	}
	if len(seen) != sent {
		t.Errorf("have %d answers, want %d", len(seen), sent)
	}
}

// BenchmarkPipeline is a tool call with every stage on, against the same bytes
// over a bare socket plus what one durable write costs on this disk.
func BenchmarkPipeline(b *testing.B) {
	b.Run("floor", socketFloor)
	b.Run("fsync", func(b *testing.B) {
		file, err := os.CreateTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		line := make([]byte, 512)
		for b.Loop() {
			if _, err := file.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := file.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		_ = file.Close() // measured already
	})
	for _, tools := range []int{1, 10, 100, 1000} {
		name := fmt.Sprintf("tools=%d", tools)
		b.Run("call/"+name, func(b *testing.B) {
			c := dial(b, pipeline(b, tools))
			for b.Loop() {
				if _, err := c.Call(context.Background(), ipc.NewRequest("echo", "0123456789abcdef", []byte(`{"n":1}`))); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("64-in-flight/"+name, func(b *testing.B) {
			inFlight(b, dial(b, pipeline(b, tools)))
		})
	}
}

// inFlight keeps 64 calls under way and counts each answer.
func inFlight(b *testing.B, c *ipc.Client) {
	b.Helper()
	send := func(i int) {
		if err := c.Send([]byte(request("echo", fmt.Sprint(i)))); err != nil {
			b.Fatal(err)
		}
	}
	sent := 0
	for ; sent < min(64, b.N); sent++ {
		send(sent)
	}
	b.ResetTimer()
	for range b.N {
		if e, refusal := receive(b, c); refusal != nil {
			b.Fatal(e, refusal)
		}
		if sent < b.N {
			send(sent)
			sent++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
