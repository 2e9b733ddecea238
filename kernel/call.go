package kernel

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/policy"
)

// The stages of the door that are the kernel's (D-10).
const (
	stageTopic     = 2
	stagePayload   = 3
	stageAuthorize = 4
	stageConfirm   = 5
	stageRoute     = 6
)

// run is the state of one call. What was decided on is what is carried out:
// each field is set once, from copies that no caller holds.
type run struct {
	call      nacre.Call
	tool      *tool
	now       time.Time
	authority token.Digest
	// arguments are canonical, after defaults, and digested.
	arguments json.RawMessage
	digest    token.Digest
	decision  nacre.Decision
	approval  approval
	grant     string
}

// Call carries out one call, or says why not. A refusal is an error that is or
// wraps a *nacre.Refusal, which is what the agent may see of it; any other
// error means that ctx ended.
func (k *Kernel) Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error) {
	r := k.begin(c)
	if err := k.know(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.validate(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.authorize(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if c.Hints.DryRun {
		return k.rehearse(ctx, r)
	}
	if err := k.charge(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.confirm(ctx, r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.authorizeOnce(ctx, r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.recordBegin(ctx, r); err != nil { // no record, no effect (K-21)
		return nacre.Outcome{}, err
	}
	raw, failure := k.act(ctx, r)
	outcome, failure := k.show(r, raw, failure)
	if err := k.recordEnd(ctx, r, raw, outcome, failure); err != nil {
		return nacre.Outcome{}, err
	}
	return outcome, failure.err()
}

// begin takes copies of all that decides, so that nobody can change it while
// the call is decided.
func (k *Kernel) begin(c nacre.Call) *run {
	c.Principal.Roles = slices.Clone(c.Principal.Roles)
	c.Principal.Attributes = maps.Clone(c.Principal.Attributes)
	return &run{call: c, now: k.now(), authority: token.Authority(c.Principal)}
}

func (k *Kernel) know(r *run) error {
	r.tool = k.tool(r.call.Tool)
	if r.tool == nil {
		return &nacre.Refusal{
			Code: nacre.CodeUnknownTool, Stage: stageTopic, Reason: nacre.ReasonUnknownTool,
			Message: fmt.Sprintf("there is no tool %.80q; list_tools names those there are", r.call.Tool),
		}
	}
	return nil
}

func (k *Kernel) validate(r *run) error {
	arguments, refusal := r.tool.schema.Arguments(r.call.Arguments)
	if refusal != nil {
		refusal.Stage, refusal.Code, refusal.Reason = stagePayload, nacre.CodeValidationFailed, nacre.ReasonInvalidArguments
		return refusal
	}
	r.arguments, r.digest = arguments, token.Sum("nacre.arguments.1", string(arguments))
	return nil
}

// authorize asks the group's list, the policy and the rate, and counts nothing.
func (k *Kernel) authorize(r *run) error {
	capability, principal := r.tool.capability, r.call.Principal
	if principal.ID == "" {
		return unauthorized(nacre.Decision{Code: nacre.ReasonGroupNotAllowed, Message: "the call comes from nobody: its principal has no id"})
	}
	if !k.groups.Allows(principal.Group, capability) {
		return unauthorized(nacre.Decision{
			Code:    nacre.ReasonGroupNotAllowed,
			Message: fmt.Sprintf("group %s may not use %s; its list of tools must name it", principal.Group, capability.Tool),
		})
	}
	r.decision = k.decide(policy.Request{Principal: principal, Capability: capability})
	if r.decision.Verdict == nacre.Deny {
		return unauthorized(r.decision)
	}
	if capability.HighRisk && r.decision.Verdict == nacre.Allow {
		r.decision.Verdict, r.decision.Code = nacre.Ask, nacre.ReasonHighRisk
		r.decision.Message = "the tool is marked as high risk"
	}
	return limited(r, k.limiter.Wait(r.rateKey(), policy.RateOf(capability, principal), r.now))
}

// decide denies where an embedder's engine panics or answers nonsense.
func (k *Kernel) decide(request policy.Request) (d nacre.Decision) {
	defer func() {
		if recover() != nil {
			d = nacre.Decision{Code: nacre.ReasonNoMatchingRule, Message: "the policy failed; nothing is allowed"}
		}
	}()
	request.Principal.Roles = slices.Clone(request.Principal.Roles)
	request.Principal.Attributes = maps.Clone(request.Principal.Attributes)
	d = k.policy.Decide(request)
	if d.Verdict != nacre.Allow && d.Verdict != nacre.Ask {
		d.Verdict = nacre.Deny
	}
	return d
}

func unauthorized(d nacre.Decision) error {
	return &nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: d.Code, Message: d.Message}
}

func (r *run) rateKey() policy.RateKey {
	return policy.RateKey{Principal: r.call.Principal.ID, Session: r.call.Principal.Session, Capability: r.tool.capability.ID}
}

// charge counts the call against its rate, once (K-04).
func (k *Kernel) charge(r *run) error {
	return limited(r, k.limiter.Take(r.rateKey(), policy.RateOf(r.tool.capability, r.call.Principal), r.now))
}

// limited tells the wait in whole seconds, never too few.
func limited(r *run, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	limit := policy.RateOf(r.tool.capability, r.call.Principal)
	return &nacre.Refusal{
		Code: nacre.CodeRateLimited, Stage: stageAuthorize, Reason: nacre.ReasonRateLimited, Retriable: true,
		Message:    fmt.Sprintf("Rate limit exceeded for %s (%d requests per %v)", r.call.Tool, limit.Calls, limit.Window),
		RetryAfter: int((wait + time.Second - 1) / time.Second),
	}
}

// authorizeOnce mints a grant for exactly this call, and spends it. What comes
// between a decision and its effect, such as minutes of waiting for a person,
// cannot have changed who, what and with which arguments.
func (k *Kernel) authorizeOnce(ctx context.Context, r *run) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("call %s: %w", r.call.Tool, context.Cause(ctx))
	}
	now := k.now()
	id, err := k.randomID()
	if err != nil {
		return refuseGrant(err)
	}
	grant, err := k.keys.Mint(token.Claims{
		ID: id, Principal: r.principalID(), Authority: r.authority, Capability: r.tool.capability.ID,
		Arguments: r.digest, Expires: now.Add(r.tool.deadline), Uses: 1,
	})
	if err != nil {
		return refuseGrant(err)
	}
	if err := k.uses.Open(grant, now); err != nil {
		return refuseGrant(err)
	}
	spent := k.uses.Spend(grant.ID)
	err = k.keys.Verify(grant, token.Want{
		Principal: r.principalID(), Authority: token.Authority(r.call.Principal), Capability: r.tool.capability.ID,
		Arguments: token.Sum("nacre.arguments.1", string(r.arguments)), Now: now,
	})
	if err := errors.Join(err, spent); err != nil {
		return refuseGrant(err)
	}
	r.grant = grant.ID
	return nil
}

// principalID is never empty: a grant that is bound to nobody is good for anybody.
func (r *run) principalID() string {
	p := r.call.Principal
	return fmt.Sprintf("%d:%s/%s/%s", len(p.ID), p.ID, p.Group, p.Session)
}

func refuseGrant(err error) error {
	return fmt.Errorf("%w: %w", &nacre.Refusal{
		Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonDenied, Message: "no grant could be made for this call",
	}, err)
}

// randomID is 16 random bytes in hex.
func (k *Kernel) randomID() (string, error) {
	var b [16]byte
	k.drawing.Lock()
	defer k.drawing.Unlock()
	if _, err := io.ReadFull(k.random, b[:]); err != nil {
		return "", fmt.Errorf("randomness: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// rehearse answers a dry run: every check was made, nothing was asked, counted
// or done (K-18).
func (k *Kernel) rehearse(ctx context.Context, r *run) (nacre.Outcome, error) {
	result, err := json.Marshal(rehearsal{
		DryRun: true, Capability: r.tool.capability.ID, Safety: r.tool.capability.Safety,
		Verdict: r.decision.Verdict, Rule: r.decision.Rule, Arguments: r.arguments,
	})
	if err != nil {
		return nacre.Outcome{}, fmt.Errorf("dry run: %w", err)
	}
	result, paths, err := k.redactor.JSON(result)
	if err != nil {
		return nacre.Outcome{}, fmt.Errorf("dry run: %w", err)
	}
	if err := k.recordRehearsal(ctx, r); err != nil {
		return nacre.Outcome{}, err
	}
	return nacre.Outcome{Result: result, Label: nacre.Trusted, Redacted: paths}, nil
}

// rehearsal is what a dry run tells.
type rehearsal struct {
	DryRun     bool               `json:"dry_run"`
	Capability nacre.CapabilityID `json:"capability"`
	Safety     nacre.SafetyClass  `json:"safety_class"`
	// Verdict is allow, or ask where a person would be asked.
	Verdict   nacre.Verdict   `json:"verdict"`
	Rule      string          `json:"rule,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
}
