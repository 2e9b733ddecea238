package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

// The stages of the door's own refusals (D-10); stageRoute is the kernel's last.
const (
	stageEnvelope = 1
	stageTopic    = 2
	stageRate     = 4
	stageRoute    = 6
)

// maxUnsent is how much of the session's answers may wait for clients to take them, in bytes. More
// keep the places of their requests.
const maxUnsent = 32 << 20

// maxFrame is what payload and envelope add to a result, for buffers, in bytes.
const maxFrame = 512

// maxWrapping is what a payload may add to a result at its limit, in bytes.
const maxWrapping = 1 << 10

// request is one message of a client on its way through the door.
type request struct {
	message.Request
	conn *conn
	// delimited is whether it came behind an empty part.
	delimited bool
	// admitted is whether it has a place among those in flight.
	admitted bool
	// answered, under conn.writing, ends what may be sent about it.
	answered bool
}

// receive is stage 1 of the walk: the message becomes a request, with a place
// among those in flight, or is answered at once. The connection's reader runs
// it, so a client that does not take its answers is not read from either.
func (c *conn) receive(ctx context.Context, parts [][]byte, tooLarge error) {
	q := &request{conn: c}
	refusal := q.parse(parts, tooLarge)
	if refusal == nil {
		refusal = c.door.flights.enter(q.Correlation)
	}
	if refusal != nil {
		c.door.answer(ctx, q, refusal)
		return
	}
	q.admitted = true
	c.unanswered <- struct{}{} // given back when the client took the answer, or is gone
	select {
	case c.more <- q:
	default:
		c.calls.Go(func() { c.answer(ctx, q) })
	}
}

// answer is the walk of one request after the other: the stack of a call is deep, and
// worth keeping for the next one.
func (c *conn) answer(ctx context.Context, q *request) {
	for {
		c.door.answer(ctx, q, nil)
		<-c.unanswered
		select {
		case q = <-c.more:
		case <-c.none:
			return
		}
	}
}

func (q *request) parse(parts [][]byte, tooLarge error) *nacre.Refusal {
	if len(parts) > 0 && len(parts[0]) == 0 && (len(parts) > 1 || tooLarge != nil) {
		q.delimited, parts = true, parts[1:]
	}
	if tooLarge != nil {
		return message.Malformed("", fmt.Sprintf("the message is over the limit of %d bytes, or has too many parts", wire.MaxMessage))
	}
	if len(parts) != 1 {
		return message.Malformed("", `the message must be one part of JSON, or an empty part and one of JSON`)
	}
	var err error
	q.Request, err = message.ParseRequest(parts[0])
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) || err == nil {
		return refusal
	}
	return message.Malformed("", "the message is not acceptable")
}

// answer is the walk of one request, from its topic to its response. It sends
// exactly one, whatever happens on the way.
func (d *door) answer(ctx context.Context, q *request, refusal *nacre.Refusal) {
	defer func() {
		if p := recover(); p != nil {
			d.recordPanic(ctx, q.Topic, q.Correlation, p)
			d.forward(q, message.SourceCore, message.AppendError(nil, pluginError()))
		}
	}()
	// Stage 2: the topic names a tool.
	var tool nacre.ToolName
	if refusal == nil {
		tool, refusal = d.topic(q.Topic)
	}
	if refusal == nil && d.isClosed() {
		refusal = unavailable()
	}
	if refusal != nil {
		d.reject(ctx, q, refusal)
		return
	}
	// Stages 3 to 6: the kernel decides, records and acts.
	outcome, err := d.call(ctx, q, tool)
	if err == nil {
		refusal = d.checkResult(ctx, q, outcome.Result)
	} else {
		refusal = d.refusal(ctx, err)
	}
	r := response{source: message.SourceCore}
	if refusal == nil && !q.Hints.DryRun || refusal != nil && refusal.Code == nacre.CodeHandlerError {
		r.source = d.source(tool)
	}
	if refusal == nil {
		r.payload = message.AppendResult(make([]byte, 0, len(outcome.Result)+maxFrame), outcome.Result)
	} else {
		r.payload, r.undone = message.AppendError(nil, refusal), 0 < refusal.Stage && refusal.Stage < stageRoute
	}
	d.respond(ctx, q, r)
}

// response is an answer on its way back.
type response struct {
	source  string
	payload []byte
	// undone is whether it refuses a call of which nothing was carried out.
	undone bool
}

// topic is stage 2.
func (d *door) topic(topic string) (nacre.ToolName, *nacre.Refusal) {
	name, ok := strings.CutPrefix(topic, message.TopicPrefix)
	if ok {
		if tool, err := nacre.ParseToolName(name); err == nil && d.kernel.Has(tool) {
			return tool, nil
		}
	}
	return "", &nacre.Refusal{
		Code: nacre.CodeUnknownTool, Message: "no tool has the topic " + strconv.QuoteToASCII(topic) + "; list_tools names those there are",
		Stage: stageTopic, Reason: nacre.ReasonUnknownTool,
	}
}

func (d *door) call(ctx context.Context, q *request, tool nacre.ToolName) (nacre.Outcome, error) {
	return d.kernel.Call(ctx, nacre.Call{
		ID:          d.deps.NewID(),
		Principal:   d.session.Principal,
		Tool:        tool,
		Arguments:   q.Arguments,
		Correlation: q.Correlation,
		Hints:       q.Hints,
		OnAsk:       func(expires time.Time) { d.tellPending(q, expires) },
	})
}

// refusal is what the agent sees of an error. Only a refusal with a code of
// the seed has words of its own.
func (d *door) refusal(ctx context.Context, err error) *nacre.Refusal {
	var refusal *nacre.Refusal
	switch {
	case errors.As(err, &refusal) && refusal != nil && known(refusal.Code):
		return refusal
	case ctx.Err() != nil:
		return unavailable()
	}
	return pluginError()
}

func unavailable() *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodePluginUnavailable, Message: "the session is closing", Retriable: true, Stage: stageRoute, Reason: reasonClosing}
}

func pluginError() *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodePluginError, Message: "Internal plugin error"}
}

func known(code nacre.Code) bool {
	switch code {
	case nacre.CodeUnknownTool, nacre.CodeValidationFailed, nacre.CodeUnauthorized, nacre.CodeRateLimited,
		nacre.CodeConfirmationTimeout, nacre.CodeConfirmationDenied, nacre.CodePluginTimeout,
		nacre.CodePluginUnavailable, nacre.CodePluginError, nacre.CodeHandlerError:
		return true
	}
	return false
}

// source is the plugin behind a tool; of one that is gone since, the core answers.
func (d *door) source(tool nacre.ToolName) string {
	if source := d.kernel.Source(tool); source != "" {
		return source
	}
	return message.SourceCore
}

// checkResult is the limit on responses (D-14). The kernel has its own; where
// it let something through, that is on the record.
func (d *door) checkResult(ctx context.Context, q *request, result json.RawMessage) *nacre.Refusal {
	if len(result) > wire.MaxMessage {
		d.recordFailure(ctx, q.Topic, q.Correlation, failure{reason: "result_too_large"})
		return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: fmt.Sprintf("the result of %d bytes is over the limit of %d", len(result), wire.MaxMessage)}
	}
	if err := wire.Check(result, resultLimits()); err != nil {
		d.recordFailure(ctx, q.Topic, q.Correlation, failure{reason: "result_not_json", what: err.Error()})
		return pluginError()
	}
	return nil
}

func resultLimits() wire.Limits { return wire.Limits{String: wire.MaxMessage, CaseSensitive: true} }

// reject is the way back of what the door itself refuses: one record for both
// the rejection and what was sanitized of it, so that both are aggregated.
func (d *door) reject(ctx context.Context, q *request, refusal *nacre.Refusal) {
	clean, fields := d.deps.Redact(message.AppendError(nil, refusal))
	d.recordRejection(ctx, nacre.Record{
		Topic: q.Topic, Correlation: q.Correlation, Stage: refusal.Stage, Reason: string(refusal.Reason),
	}, rejection{string(refusal.Code), refusal.Message, len(fields)})
	d.forward(q, message.SourceCore, sound(clean))
}

// sound replaces a payload that redaction broke.
func sound(payload []byte) []byte {
	if _, _, err := message.Payload(payload); err != nil || len(payload) > wire.MaxMessage+maxWrapping {
		return message.AppendError(nil, pluginError())
	}
	return payload
}

// respond is the way back: sanitize, log, forward. What cannot be logged is not forwarded.
func (d *door) respond(ctx context.Context, q *request, r response) {
	clean, fields := d.deps.Sanitize(r.payload)
	if len(fields) == 0 && bytes.Equal(clean, r.payload) { // as it is nearly always, and checked before
		d.forward(q, r.source, r.payload)
		return
	}
	whole := sound(clean)
	if !bytes.Equal(whole, clean) {
		d.recordFailure(ctx, q.Topic, q.Correlation, failure{reason: "redaction_broke_payload"})
		r.source = message.SourceCore
	}
	if err := d.recordSanitized(ctx, q, r, fields); err != nil {
		r.source, whole = message.SourceCore, message.AppendError(nil, pluginError())
	}
	d.forward(q, r.source, whole)
}

// forward sends the one answer. The request gives up its place before its client can read the
// answer, so that the client's next one finds it free. It does so before it waits for a slow
// client, too, so that another's finds it free as long as what waits is within bounds.
func (d *door) forward(q *request, source string, payload []byte) {
	size := int64(len(payload))
	defer d.unsent.Add(-size)
	if d.unsent.Add(size) <= maxUnsent {
		d.leave(q)
	}
	q.conn.writing.Lock()
	defer q.conn.writing.Unlock()
	d.leave(q)
	if q.answered {
		return
	}
	q.answered = true
	_ = q.conn.send(q.delimited, d.envelope(q, message.TypeResponse, q.Topic, source, payload)) // the client is gone
}

// leave gives up the request's place, once.
func (d *door) leave(q *request) {
	if q.admitted {
		q.admitted = false
		d.flights.leave(q.Correlation)
	}
}

// tellPending says to a client that asked for events that a person is being
// asked, so that it waits as long as that may take (D-07).
func (d *door) tellPending(q *request, expires time.Time) {
	if !q.conn.events {
		return
	}
	left := max(expires.Sub(d.deps.Now()), 0)
	payload := append([]byte(`{"expires":"`), expires.UTC().Format(time.RFC3339)...)
	payload = strconv.AppendInt(append(payload, `","seconds":`...), int64((left+time.Second-1)/time.Second), 10)
	q.conn.writing.Lock()
	defer q.conn.writing.Unlock()
	if !q.answered {
		_ = q.conn.send(q.delimited, d.envelope(q, message.TypeEvent, message.TopicPending, message.SourceCore, append(payload, '}'))) // the client is gone
	}
}

// envelope is built of the session's own state; of the request it holds
// nothing but topic and correlation (D-05).
func (d *door) envelope(q *request, kind, topic, source string, payload []byte) message.Envelope {
	return message.Envelope{
		ID: d.deps.NewID(), Version: message.Version, Type: kind, Topic: topic, Source: source,
		Correlation: q.Correlation, Timestamp: d.deps.Now(), Group: d.session.Group, Payload: payload,
	}
}
