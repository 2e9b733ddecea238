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

// The reasons of what the door itself refuses, beside the kernel's.
const (
	reasonPeer        nacre.ReasonCode = "peer_refused"
	reasonConnections nacre.ReasonCode = "too_many_connections"
	reasonProtocol    nacre.ReasonCode = "protocol_error"
	reasonSlow        nacre.ReasonCode = "client_too_slow"
	reasonClosing     nacre.ReasonCode = "session_closing"
)

// rejectConnection records a client that was sent away or broke the protocol.
func (d *door) rejectConnection(ctx context.Context, reason nacre.ReasonCode, why string) {
	d.recordRejection(ctx, nacre.Record{Stage: stageEnvelope, Reason: string(reason)}, rejection{code: "CONNECTION", message: why})
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
	r.Detail = d.cleanDetail(append(detail, '}'))
	_ = d.append(ctx, r) // kept for Serve
}

// cleanDetail is what a record may say; a redaction that breaks it costs the detail.
func (d *door) cleanDetail(detail []byte) []byte {
	clean, _ := d.deps.Redact(detail)
	if wire.Check(clean, resultLimits()) != nil {
		return []byte(`{"redaction":"failed"}`)
	}
	return clean
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
			Kind: nacre.KindCallReject, Time: d.deps.Now(), Outcome: nacre.OutcomeRejected, Stage: stageEnvelope, Reason: string(nacre.ReasonMalformed),
			Detail: append(strconv.AppendInt([]byte(`{"omitted_before":`), int64(omitted), 10), '}'),
		})
	}
	d.rejects.mu.Lock()
	defer d.rejects.mu.Unlock()
	return d.rejects.failed
}

// recordSanitized records what was taken out of a response. That of a call of
// which nothing was carried out counts as a rejection: an agent can have as
// many of them as it likes.
func (d *door) recordSanitized(ctx context.Context, q *request, r response, fields []string) error {
	now := d.deps.Now()
	var omitted int
	if r.undone {
		var record bool
		if record, omitted = d.rejects.next(now); !record {
			return nil
		}
	}
	detail := strconv.AppendInt([]byte(`{"count":`), int64(len(fields)), 10)
	detail = append(detail, `,"fields":[`...)
	for i, field := range fields[:min(len(fields), maxFields)] {
		if i > 0 {
			detail = append(detail, ',')
		}
		detail = wire.AppendText(detail, field)
	}
	detail = append(detail, ']')
	if omitted > 0 {
		detail = strconv.AppendInt(append(detail, `,"omitted_before":`...), int64(omitted), 10)
	}
	detail = d.cleanDetail(append(detail, '}')) // a path is made of keys, and keys can be secrets
	return d.append(ctx, nacre.Record{
		Kind: KindCallSanitize, Time: now, Source: r.source, Topic: q.Topic, Correlation: q.Correlation,
		Stage: stageRoute, Outcome: nacre.OutcomeSanitized, Reason: "credentials", Detail: detail,
	})
}

// failure is an answer that the door had to replace.
type failure struct {
	reason string
	// what says more, without values.
	what string
}

// recordFailure records that the host's own code failed a call, or a
// connection where topic and id are empty.
func (d *door) recordFailure(ctx context.Context, topic string, id nacre.Correlation, f failure) {
	_ = d.append(ctx, nacre.Record{ // kept for Serve
		Kind: nacre.KindCallReject, Time: d.deps.Now(), Topic: topic, Correlation: id, Stage: stageRoute,
		Outcome: nacre.OutcomeError, Reason: f.reason, Detail: append(wire.AppendText([]byte(`{"what":`), f.what), '}'),
	})
}

// recordPanic names what was thrown by its type: its text may hold values.
func (d *door) recordPanic(ctx context.Context, topic string, id nacre.Correlation, thrown any) {
	d.recordFailure(ctx, topic, id, failure{"panic", fmt.Sprintf("%T", thrown)})
}
