package telemetry_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
	"github.com/nacre-dev/nacre/telemetry"
)

// secret must not leave through telemetry, wherever it stands.
const secret = "pa55-of-the-moon"

var agent = nacre.Principal{ID: "family/s1", Group: "family", Session: "s1"}

func newKernel(t *testing.T) *kernel.Kernel {
	t.Helper()
	k, err := kernel.New(kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"family": {Tools: []string{"note_*"}}}, Recorder: audit.Memory(100),
		Now: time.Now, Random: rand.Reader, Keys: kernel.Keys{Current: kernel.Key{Secret: make([]byte, 32)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = k.Register(nacre.Tool{
		Capability: nacre.Capability{
			ID: "notes.note_read", Tool: "note_read", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
			Schema: json.RawMessage(`{"type":"object","required":["id"],"additionalProperties":false,"properties":{"id":{"type":"string"}}}`),
		},
		Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`{"text":"` + secret + `"}`), nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func calls(t *testing.T, c telemetry.Caller) {
	t.Helper()
	for _, arguments := range []string{`{"id":"` + secret + `"}`, `{}`} {
		_, _ = c.Call(t.Context(), nacre.Call{ID: "e-1", Principal: agent, Tool: "note_read", Arguments: json.RawMessage(arguments)})
	}
	for _, madeUp := range []nacre.ToolName{"no such " + secret, "note_pa55"} {
		_, _ = c.Call(t.Context(), nacre.Call{ID: "e-2", Principal: agent, Tool: madeUp})
	}
}

// K-23: the nine counters in Prometheus' text format.
func TestTheCountersAreWrittenForPrometheus(t *testing.T) {
	k := newKernel(t)
	calls(t, k)
	var b strings.Builder
	if err := telemetry.Write(&b, k.Stats()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"nacre_invocations_total 1\n", "nacre_grants_total 0\n", "nacre_invocation_failures_total 0\n", "nacre_fallback_activations_total 0\n",
		"nacre_redaction_events_total 0\n", "nacre_budget_downgrades_total 0\n", "nacre_handle_stores_total 0\n", "nacre_expansions_total 0\n",
		`nacre_denials_total{reason_code="invalid_arguments"} 1`, `nacre_denials_total{reason_code="unknown_tool"} 2`, "# TYPE nacre_grants_total counter\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("have no %q in\n%s", want, b.String())
		}
	}
}

// K-23: spans and metrics follow the conventions, and hold no content.
func TestCallsAreSpansWithoutContent(t *testing.T) {
	k := newKernel(t)
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	traced, err := telemetry.Trace(k, sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), meters, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := telemetry.Observe(meters, k.Stats)
	if err != nil {
		t.Fatal(err)
	}
	calls(t, traced)
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	have := spans.GetSpans()
	if len(have) != 4 || have[0].Name != "execute_tool note_read" || have[2].Name != "execute_tool _OTHER" || have[3].Name != "execute_tool _OTHER" {
		t.Fatalf("have %+v", have)
	}
	for key, want := range map[attribute.Key]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "note_read", "gen_ai.tool.type": "function",
		"gen_ai.tool.call.id": "e-1", "gen_ai.conversation.id": "s1", "error.type": "invalid_arguments",
	} {
		if !hasAttribute(have[1].Attributes, key, want) {
			t.Errorf("%s: want %q in %v", key, want, have[1].Attributes)
		}
	}
	names := metricNames(collected)
	for _, want := range []string{"gen_ai.client.operation.duration", "nacre_invocations_total", "nacre_denials_total"} {
		if !strings.Contains(names, want) {
			t.Errorf("have no %s in %s", want, names)
		}
	}
	everything, err := json.Marshal([]any{have.Snapshots(), collected})
	if err != nil || strings.Contains(string(everything), secret) || strings.Contains(strings.ToLower(names), secret) {
		t.Errorf("content left: %v %s", err, everything)
	}
}

func hasAttribute(list []attribute.KeyValue, key attribute.Key, want string) bool {
	for _, a := range list {
		if a.Key == key {
			return a.Value.AsString() == want
		}
	}
	return false
}

func metricNames(collected metricdata.ResourceMetrics) string {
	var names []string
	for _, scope := range collected.ScopeMetrics {
		if scope.Scope.SchemaURL != telemetry.SchemaURL {
			names = append(names, "WITHOUT SCHEMA")
		}
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " ")
}

// K-24: what is missing is an error.
func TestTracingWithoutItsPartsIsRefused(t *testing.T) {
	if _, err := telemetry.Trace(nil, nil, nil, nil); err == nil {
		t.Error("accepted")
	}
}
