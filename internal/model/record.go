package model

import (
	"context"
	"encoding/json"

	"github.com/nacre-dev/nacre"
)

// The outcomes of a model.end record.
const (
	OutcomeCompleted = "completed"
	OutcomeFailed    = "failed"
	OutcomeCut       = "cut"
)

// detail is what a model record adds: names, counts and digests, never content.
type detail struct {
	requestDetail
	answerDetail
}

// requestDetail is what was asked.
type requestDetail struct {
	Path     string `json:"path,omitempty"`
	Dialect  string `json:"dialect,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Model    string `json:"model,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Stream   bool   `json:"stream,omitempty"`
	Bytes    int    `json:"request_bytes,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Tools    int    `json:"tools,omitempty"`
	Dropped  int    `json:"betas_dropped,omitempty"`
	// Betas are the names of those that were dropped, where they are names.
	Betas    []string `json:"betas,omitempty"`
	Max      int64    `json:"max_tokens,omitempty"`
	Reserved int64    `json:"reserved_micro_usd,omitempty"`
}

// answerDetail is what came of it.
type answerDetail struct {
	Status  int    `json:"status,omitempty"`
	In      *int64 `json:"input_tokens,omitempty"`
	Out     *int64 `json:"output_tokens,omitempty"`
	Cached  *int64 `json:"cache_read_tokens,omitempty"`
	Thought int64  `json:"reasoning_tokens,omitempty"`
	// Short says that the upstream claimed less than was counted here, and was charged the count.
	Short bool `json:"usage_short,omitempty"`
	// Over says that it claimed far more than passed here, and was paid that.
	Over bool `json:"usage_over,omitempty"`
	// Searches are those that the vendor did.
	Searches int64 `json:"vendor_searches,omitempty"`
	// Why is what went wrong on the host.
	Why  string `json:"why,omitempty"`
	Cost *int64 `json:"micro_usd,omitempty"`
}

func (g *Gateway) record(kind nacre.Kind, outcome string, reason Reason, c *call, d detail) nacre.Record {
	text, err := json.Marshal(d)
	if err != nil {
		text = nil // strings and numbers always marshal
	}
	return nacre.Record{
		Kind: kind, Time: g.opts.Now(), Group: g.opts.Group, Session: g.opts.Session, Source: "model",
		Correlation: c.id, Outcome: outcome, Reason: string(reason), Detail: text,
	}
}

func (c *call) detail() detail {
	d := detail{requestDetail: requestDetail{Path: c.route.path, Digest: c.digest, Dropped: c.dropped.count, Betas: c.dropped.names, Reserved: c.reserved}}
	if c.route.path != "" {
		d.Dialect = string(c.route.dialect)
	}
	if c.upstream.Upstream != nil {
		d.Upstream = c.upstream.URL.Host
	}
	if c.req != nil {
		d.Model, d.Stream, d.Bytes, d.Max = c.req.model, c.req.stream, c.req.bytes, c.req.maxTokens
		d.Messages, d.Tools = c.req.messages, c.req.tools
	}
	return d
}

// recordBegin makes the call durable before it is made.
func (g *Gateway) recordBegin(ctx context.Context, c *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return g.opts.Record.Commit(ctx, g.record(nacre.KindModelBegin, nacre.OutcomeAllowed, "", c, c.detail()))
}

func (g *Gateway) recordDenied(ctx context.Context, no *refusal, c *call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	d := c.detail()
	if no.cause != nil {
		d.Why = no.cause.Error()
	}
	_ = g.opts.Record.Append(ctx, g.record(nacre.KindModelBegin, nacre.OutcomeDenied, no.reason, c, d)) // a log that fails also refuses what is allowed
}

func (g *Gateway) recordEnd(ctx context.Context, c *call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	outcome := OutcomeFailed
	switch c.reason {
	case ReasonDone:
		outcome = OutcomeCompleted
	case ReasonCut, ReasonRevoked:
		outcome = OutcomeCut
	}
	d := detail{
		requestDetail{Path: c.route.path, Dialect: string(c.route.dialect), Upstream: c.upstream.URL.Host, Model: c.req.model, Digest: c.digest},
		answerDetail{Status: c.status, Thought: c.meter.reasoning, Short: c.short, Over: c.over, Searches: c.meter.searches},
	}
	in, out, cost := c.meter.usage.In(), c.meter.usage.Output, c.reserved
	d.In, d.Out, d.Cached, d.Cost = &in, &out, &c.meter.usage.CacheRead, &cost
	_ = g.opts.Record.Append(ctx, g.record(nacre.KindModelEnd, outcome, c.reason, c, d)) // a log that fails also refuses the next call
}
