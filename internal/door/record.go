package door

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// KindCallSanitize records that the door itself took secrets out of a
// response: which fields, never what (D-15).
const KindCallSanitize nacre.Kind = "call.sanitize"

const (
	// rejectWindow is the time in which at most rejectsPerWindow rejections get a
	// record each. The others are counted, so that an agent cannot fill its
	// audit with refusals (D-16).
	rejectWindow     = time.Minute
	rejectsPerWindow = 120
	// maxFields is how many redacted fields a record names.
	maxFields = 64
)

// rejects counts what was rejected in the current window.
type rejects struct {
	mu      sync.Mutex
	since   time.Time
	in      int
	omitted int
	failed  error
}

// next reports whether a rejection gets a record of its own, and how many
// before it did not.
func (r *rejects) next(now time.Time) (record bool, omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if elapsed := now.Sub(r.since); elapsed >= rejectWindow || elapsed < 0 {
		r.since, r.in = now, 0
	}
	if r.in++; r.in > rejectsPerWindow {
		r.omitted++
		return false, 0
	}
	omitted, r.omitted = r.omitted, 0
	return true, omitted
}

// rejection is what the record of one says beside stage and reason.
type rejection struct {
	code, message string
	// redacted is how many fields of the answer were.
	redacted int
}

// rejectConnection records a client that was sent away or broke the protocol.
func (d *door) rejectConnection(ctx context.Context, why string) {
	d.recordRejection(ctx, nacre.Record{Stage: 1, Reason: string(nacre.ReasonMalformed)}, rejection{code: "CONNECTION", message: why})
}

// recordRejection completes and appends a rejection, or counts it. Nothing was
// carried out, so a record that fails stops no answer: Serve returns its
// error, and the kernel refuses every call from then on.
func (d *door) recordRejection(ctx context.Context, r nacre.Record, of rejection) {
	now := d.deps.Now()
	record, omitted := d.rejects.next(now)
	if !record {
		return
	}
	detail := wire.AppendText([]byte(`{"code":`), of.code)
	detail = wire.AppendText(append(detail, `,"message":`...), of.message)
	if of.redacted > 0 {
		detail = strconv.AppendInt(append(detail, `,"redacted":`...), int64(of.redacted), 10)
	}
	if omitted > 0 {
		detail = strconv.AppendInt(append(detail, `,"omitted_before":`...), int64(omitted), 10)
	}
	r.Kind, r.Outcome, r.Time = nacre.KindCallReject, nacre.OutcomeRejected, now
	r.Detail, _ = d.deps.Redact(append(detail, '}'))
	_ = d.append(ctx, r) // kept for Serve
}

// append writes a record of this session on a context of its own: that a
// client went away must not keep its records from being written.
func (d *door) append(ctx context.Context, r nacre.Record) error {
	r.Group, r.Session = d.session.Group, d.session.ID
	if r.Source == "" {
		r.Source = string(d.session.ID)
	}
	err := d.deps.Recorder.Append(context.WithoutCancel(ctx), r)
	if err != nil {
		d.rejects.mu.Lock()
		defer d.rejects.mu.Unlock()
		if d.rejects.failed == nil {
			d.rejects.failed = fmt.Errorf("door: record: %w", err)
		}
	}
	return err
}

// closeRejects records how many rejections had no record since the last that
// had one, and returns the first error of the recorder.
func (d *door) closeRejects() error {
	d.rejects.mu.Lock()
	omitted := d.rejects.omitted
	d.rejects.mu.Unlock()
	if omitted > 0 {
		_ = d.append(context.Background(), nacre.Record{ // kept below
			Kind: nacre.KindCallReject, Time: d.deps.Now(), Outcome: nacre.OutcomeRejected, Stage: 1, Reason: string(nacre.ReasonMalformed),
			Detail: append(strconv.AppendInt([]byte(`{"omitted_before":`), int64(omitted), 10), '}'),
		})
	}
	d.rejects.mu.Lock()
	defer d.rejects.mu.Unlock()
	return d.rejects.failed
}

func (d *door) recordSanitized(ctx context.Context, q *request, source string, fields []string) error {
	detail := strconv.AppendInt([]byte(`{"count":`), int64(len(fields)), 10)
	detail = append(detail, `,"fields":[`...)
	for i, field := range fields[:min(len(fields), maxFields)] {
		if i > 0 {
			detail = append(detail, ',')
		}
		detail = wire.AppendText(detail, field)
	}
	clean, _ := d.deps.Redact(append(detail, `]}`...)) // a path is made of keys, and keys can be secrets
	return d.append(ctx, nacre.Record{
		Kind: KindCallSanitize, Time: d.deps.Now(), Source: source, Topic: q.Topic, Correlation: q.Correlation,
		Outcome: nacre.OutcomeSanitized, Detail: clean,
	})
}

// recordPanic records that a call failed in the host's own code, by the type
// of what was thrown: its text may hold values.
func (d *door) recordPanic(ctx context.Context, q *request, thrown any) {
	_ = d.append(ctx, nacre.Record{ // kept for Serve
		Kind: nacre.KindCallReject, Time: d.deps.Now(), Topic: q.Topic, Correlation: q.Correlation,
		Outcome: nacre.OutcomeError, Reason: "panic", Detail: append(wire.AppendText([]byte(`{"type":`), fmt.Sprintf("%T", thrown)), '}'),
	})
}
