// Package telemetry promises the counters of a kernel in Prometheus' format and its calls as
// OpenTelemetry spans and metrics (K-23). The names are those of the GenAI conventions of the
// version pinned in [SchemaURL].
//
// It captures no content: no argument, no result and no word of a model leaves through it, and
// there is no option that would change that. It is a package of its own so that who embeds a kernel
// alone does not carry these libraries. What a Prometheus registry collects is in
// telemetry/prometheus for the same reason.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// SchemaURL names the version of the conventions that attributes follow.
const SchemaURL = semconv.SchemaURL

// scope is the name under which spans and metrics are reported.
const scope = "github.com/nacre-dev/nacre/telemetry"

// executeTool is the conventions' name of what a kernel does.
const executeTool = "execute_tool"

// counter is one of a kernel's counters under its name in metrics.
type counter struct {
	name, help string
	of         func(kernel.Stats) int64
}

func counterList() []counter {
	return []counter{
		{"nacre_grants_total", "Grants that were made.", func(s kernel.Stats) int64 { return s.Grants }},
		{"nacre_invocations_total", "Calls that reached a driver.", func(s kernel.Stats) int64 { return s.Invocations }},
		{"nacre_invocation_failures_total", "Calls whose drivers failed.", func(s kernel.Stats) int64 { return s.InvocationFailures }},
		{"nacre_fallback_activations_total", "Further drivers that were tried.", func(s kernel.Stats) int64 { return s.Fallbacks }},
		{"nacre_redaction_events_total", "Results in which something was redacted.", func(s kernel.Stats) int64 { return s.Redactions }},
		{"nacre_budget_downgrades_total", "Results shown in a narrower mode than asked for.", func(s kernel.Stats) int64 { return s.BudgetDowngrades }},
		{"nacre_handle_stores_total", "Results kept behind a handle.", func(s kernel.Stats) int64 { return s.HandleStores }},
		{"nacre_expansions_total", "Pages of handles that were shown.", func(s kernel.Stats) int64 { return s.Expansions }},
	}
}

const (
	denialsName = "nacre_denials_total"
	denialsHelp = "Requests that were denied, by reason code."
	reasonLabel = "reason_code"
)

// Counter is one of a kernel's counters. Where it has a label, it is one value
// of several under its name.
type Counter struct {
	Name, Help        string
	Label, LabelValue string
	Value             int64
}

// Counters lists the nine counters by name, and the denials once for each reason
// that there was.
func Counters(s kernel.Stats) []Counter {
	counters := counterList()
	list := make([]Counter, 0, len(counters)+len(s.Denials))
	for _, c := range counters {
		list = append(list, Counter{Name: c.name, Help: c.help, Value: c.of(s)})
	}
	for reason, n := range s.Denials {
		list = append(list, Counter{denialsName, denialsHelp, reasonLabel, string(reason), n})
	}
	slices.SortFunc(list, func(a, b Counter) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.LabelValue, b.LabelValue))
	})
	return list
}

// Write writes counters in Prometheus' text format, as its library writes those
// of a registry. It is not the library that writes them: it and what it stands on
// would take a millisecond of every start of a program that links it.
func Write(w io.Writer, s kernel.Stats) error {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var text []byte
	family := ""
	for _, c := range Counters(s) {
		if c.Name != family {
			family = c.Name
			text = fmt.Appendf(text, "# HELP %s %s\n# TYPE %[1]s counter\n", c.Name, c.Help)
		}
		text = append(text, c.Name...)
		if c.Label != "" {
			text = fmt.Appendf(text, `{%s="%s"}`, c.Label, escape.Replace(c.LabelValue))
		}
		text = append(strconv.AppendFloat(append(text, ' '), float64(c.Value), 'g', -1, 64), '\n')
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Observe reports the nine counters to an OpenTelemetry meter until stop is called.
func Observe(provider metric.MeterProvider, stats func() kernel.Stats) (stop func() error, err error) {
	meter := provider.Meter(scope, metric.WithSchemaURL(SchemaURL))
	counters := counterList()
	gauges := make([]metric.Int64ObservableCounter, len(counters))
	observables := make([]metric.Observable, 0, len(counters)+1)
	for i, m := range counters {
		gauges[i], err = meter.Int64ObservableCounter(m.name, metric.WithDescription(m.help))
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", m.name, err)
		}
		observables = append(observables, gauges[i])
	}
	denials, err := meter.Int64ObservableCounter(denialsName, metric.WithDescription(denialsHelp))
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", denialsName, err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := stats()
		for i, m := range counters {
			o.ObserveInt64(gauges[i], m.of(s))
		}
		for code, n := range s.Denials {
			o.ObserveInt64(denials, n, metric.WithAttributes(attribute.String(reasonLabel, string(code))))
		}
		return nil
	}, append(observables, denials)...)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return registration.Unregister, nil
}

// Caller carries out calls, as a *kernel.Kernel does.
type Caller interface {
	Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error)
}

// Traced is a Caller whose calls are spans, and whose durations are a metric.
type Traced struct {
	caller   Caller
	tracer   trace.Tracer
	duration metric.Float64Histogram
	now      func() time.Time
}

// Trace wraps a caller. now is the clock for durations, such as time.Now.
func Trace(caller Caller, spans trace.TracerProvider, meters metric.MeterProvider, now func() time.Time) (*Traced, error) {
	if caller == nil || spans == nil || meters == nil || now == nil {
		return nil, errors.New("telemetry: a caller, providers of spans and metrics, and a clock are needed")
	}
	duration, err := meters.Meter(scope, metric.WithSchemaURL(SchemaURL)).Float64Histogram("gen_ai.client.operation.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of tool calls."))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return &Traced{caller: caller, tracer: spans.Tracer(scope, trace.WithSchemaURL(SchemaURL)), duration: duration, now: now}, nil
}

// Call is the wrapped call inside of a span. A refusal is the span's error by
// its code, never by its text.
func (t *Traced) Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error) {
	tool := t.toolName(c.Tool)
	attributes := []attribute.KeyValue{semconv.GenAIOperationNameKey.String(executeTool), semconv.GenAIToolName(tool)}
	ctx, span := t.tracer.Start(ctx, executeTool+" "+tool, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(append(attributes,
		semconv.GenAIToolType("function"), semconv.GenAIToolCallID(c.ID), semconv.GenAIConversationID(string(c.Principal.Session)))...))
	defer span.End()
	started := t.now()
	outcome, err := t.caller.Call(ctx, c)
	if err != nil {
		kind := semconv.ErrorTypeKey.String(errorType(err))
		attributes = append(attributes, kind)
		span.SetAttributes(kind)
		span.SetStatus(codes.Error, "")
	}
	t.duration.Record(ctx, t.now().Sub(started).Seconds(), metric.WithAttributes(attributes...))
	return outcome, err
}

// registry is a Caller that knows which tools there are, as a kernel does.
type registry interface{ Has(nacre.ToolName) bool }

// toolName keeps what an agent made up out of the names of spans and series,
// however well-formed: each would be one more.
func (t *Traced) toolName(name nacre.ToolName) string {
	known, ok := t.caller.(registry)
	if _, err := nacre.ParseToolName(string(name)); err != nil || ok && !known.Has(name) {
		return "_OTHER"
	}
	return string(name)
}

func errorType(err error) string {
	var refusal *nacre.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason != "":
		return string(refusal.Reason)
	case errors.As(err, &refusal):
		return string(refusal.Code)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "_OTHER"
}
