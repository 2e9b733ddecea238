package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
)

// The life of a grant (K-10).
const (
	DefaultGrantTTL = 15 * time.Minute
	MaxGrantTTL     = 24 * time.Hour
)

// GrantRequest is what a holder wants to be allowed.
type GrantRequest struct {
	Capability nacre.CapabilityID
	// Constraints narrow the grant from the start; policy may narrow it further.
	Constraints nacre.Constraints
	// TTL is how long the grant lasts; zero means DefaultGrantTTL.
	TTL time.Duration
	// Uses is how often it may be spent; nil means as often as the rate allows.
	Uses *int
	// Arguments, where not nil, are the only ones it is good for.
	Arguments json.RawMessage
}

// Input is one use of a grant.
type Input struct {
	Arguments json.RawMessage
	Mode      nacre.Mode
	// Caller is who presents the token, where it was handed down to a principal under the one it
	// was granted to. Empty means that one itself.
	Caller string
	// ID and Correlation name the call in records; an empty ID gets one.
	ID          string
	Correlation nacre.Correlation
}

// Grant decides on a request as Call would, asks a person where it has to, and
// returns a token for it. The first use of the token is counted against the
// rate here, every further one by Invoke (K-04). justification is the
// operator's own words, never a model's.
func (k *Kernel) Grant(ctx context.Context, q GrantRequest, p nacre.Principal, justification string) (nacre.Token, error) {
	p.Justification = justification
	r, err := k.begin(nacre.Call{Principal: p, Arguments: q.Arguments})
	if err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.grantable(r, q); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.listen(r); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.authorize(r); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.charge(r); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.confirm(ctx, r); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.unchanged(r); err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	t, err := k.mint(ctx, r, q)
	if err != nil {
		return nacre.Token{}, k.rejected(ctx, r, err)
	}
	if err := k.recordGrant(ctx, r, t); err != nil {
		return nacre.Token{}, err
	}
	k.counters.count(func(s *Stats) { s.Grants++ })
	return t, nil
}

// grantable finds the capability and checks what is asked for.
func (k *Kernel) grantable(r *run, q GrantRequest) error {
	r.tool = k.capability(q.Capability)
	if r.tool == nil {
		return unknown(string(q.Capability))
	}
	r.call.Tool = r.tool.capability.Tool
	r.constraints = q.Constraints.Clone()
	if q.TTL < 0 || q.TTL > MaxGrantTTL || q.Uses != nil && *q.Uses < 1 {
		return malformed(fmt.Sprintf("a grant lasts up to %v and has at least one use", MaxGrantTTL))
	}
	if q.Arguments == nil {
		return nil
	}
	return k.understand(r)
}

func (k *grants) mint(ctx context.Context, r *run, q GrantRequest) (nacre.Token, error) {
	if err := wanted(ctx, r); err != nil {
		return nacre.Token{}, err
	}
	id, err := k.ids.randomID()
	if err != nil {
		return nacre.Token{}, refuseGrant(err)
	}
	ttl := q.TTL
	if ttl == 0 {
		ttl = DefaultGrantTTL
	}
	now := k.clock()
	t, err := k.keys.Mint(nacre.Token{
		ID: id, Principal: r.call.Principal.ID, Capability: r.tool.capability.ID, Authority: r.subject.Authority(),
		Constraints: r.constraints, Arguments: r.digest, Issued: now, Expires: now.Add(ttl), Uses: q.Uses,
	})
	if err != nil {
		return nacre.Token{}, refuseGrant(err)
	}
	if err := k.uses.Open(t, now); err != nil {
		return nacre.Token{}, refuseGrant(err)
	}
	k.granted.add(r, t, now)
	r.grant = t.ID
	return t, nil
}

// Invoke spends a grant. It verifies the token, checks the arguments against the schema, the
// token's constraints and, now that they are known, the policy. Then it acts, records and shows as
// Call does. A person is asked again where the session has listened to somebody else since the
// grant, or where what was granted did not say with which arguments. The justification is that of
// the grant, and p's where this kernel did not make it. The frame is in the mode that was asked
// for, or a narrower one.
func (k *Kernel) Invoke(ctx context.Context, t nacre.Token, p nacre.Principal, in Input) (nacre.Frame, error) {
	r, effective, err := k.use(t, p, in)
	if err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := wanted(ctx, r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := r.afford(); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.spend(r, effective); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.pin(ctx, r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	defer k.unpin(r)
	if err := k.consent(ctx, r, t, in); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.recordBegin(ctx, r); err != nil {
		return nacre.Frame{}, err
	}
	raw, failure := k.act(ctx, r)
	shown, failure := k.show(r, raw, failure, (*firewall.Result).Frame)
	if err := k.recordEnd(ctx, r, raw, shown, failure); err != nil {
		return nacre.Frame{}, err
	}
	return shown.frame, failure.err()
}

// DryRun says what Invoke would do with a grant: which driver, under which
// constraints, how much would be shown. It refuses what Invoke would refuse,
// and calls, counts, spends and asks nothing (K-18).
func (k *Kernel) DryRun(ctx context.Context, t nacre.Token, p nacre.Principal, in Input) (Plan, error) {
	r, _, err := k.use(t, p, in)
	if err != nil {
		return Plan{}, k.rejected(ctx, r, err)
	}
	if err := r.afford(); err != nil {
		return Plan{}, k.rejected(ctx, r, err)
	}
	if err := k.recordRehearsal(ctx, r); err != nil {
		return Plan{}, err
	}
	return k.plan(r), nil
}

// use verifies a token for one input, and changes nothing. What is wrong with
// the token is told before what is wrong with the arguments.
func (k *Kernel) use(t nacre.Token, p nacre.Principal, in Input) (*run, token.Effective, error) {
	r, err := k.begin(nacre.Call{ID: in.ID, Principal: p, Arguments: in.Arguments, Correlation: in.Correlation})
	if err != nil {
		return r, token.Effective{}, err
	}
	r.mode, r.grant = in.Mode, wire.Cut(t.ID, maxWord)
	if r.tool = k.capability(t.Capability); r.tool == nil {
		return r, token.Effective{}, unknown(string(t.Capability))
	}
	r.call.Tool = r.tool.capability.Tool
	invalid := k.understand(r)
	e, err := k.verify(r, t, in)
	if err != nil && (invalid == nil || !errors.Is(err, token.ErrArguments)) {
		return r, e, refuseToken(err)
	}
	if invalid != nil {
		return r, e, invalid
	}
	r.call.Principal.ID, r.call.Principal.Roles = e.Principal, e.Roles
	r.admin = slices.Contains(e.Roles, roleAdmin)
	r.grant, r.constraints = e.ID, e.Constraints
	if err := k.listen(r); err != nil {
		return r, e, err
	}
	return r, e, k.hold(r, e)
}

// verify returns what the token allows at this moment.
func (k *grants) verify(r *run, t nacre.Token, in Input) (token.Effective, error) {
	caller, now := in.Caller, k.clock()
	if caller == "" {
		caller = r.payer
	}
	e, err := k.keys.Verify(t, token.Presentation{
		Caller: caller, Subject: r.subject, Capability: r.tool.capability.ID, Arguments: r.arguments, Now: now,
		Revoked: k.revoked,
	})
	if err != nil {
		return e, err
	}
	return e, k.uses.Check(e, now)
}

// hold asks the policy once more: the arguments are known now, and the session
// may have read what it had not when the grant was made (M-52). What a person
// agreed to then counts where it was the same question.
func (k *Kernel) hold(r *run, e token.Effective) error {
	was, known := k.granted.find(e.RootID)
	if known {
		r.call.Principal.Justification = was.justification
	}
	if err := k.permit(r); err != nil {
		return err
	}
	if known && r.decision.Verdict == nacre.Ask && was.covers(r) {
		r.decision.Verdict, r.approval = nacre.Allow, was.approval
	}
	if r.decision.Verdict == nacre.Allow {
		r.decision.Code = nacre.ReasonTokenVerified
	}
	return nil
}

// consent asks where the grant does not answer. Then the token has to be good
// when the answer has come, too.
func (k *Kernel) consent(ctx context.Context, r *run, t nacre.Token, in Input) error {
	if r.decision.Verdict == nacre.Allow {
		return nil
	}
	if err := k.confirm(ctx, r); err != nil {
		return err
	}
	if _, err := k.verify(r, t, in); err != nil && !errors.Is(err, token.ErrSpent) { // the use is this call's own
		return refuseToken(err)
	}
	if err := k.unchanged(r); err != nil {
		return err
	}
	return wanted(ctx, r)
}

// refuseToken keeps the reason from the agent, which may be trying tokens out,
// but not whether its time or its uses are over.
func refuseToken(err error) error {
	refusal := &nacre.Refusal{
		Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonTokenRefused, Message: "the token is not good for this",
	}
	for _, told := range []struct {
		err    error
		reason nacre.ReasonCode
	}{
		{token.ErrRevoked, nacre.ReasonTokenRevoked}, {token.ErrExpired, nacre.ReasonTokenExpired},
		{token.ErrSpent, nacre.ReasonTokenSpent}, {token.ErrArguments, nacre.ReasonArgumentConstraint},
	} {
		if errors.Is(err, told.err) {
			refusal.Reason, refusal.Message = told.reason, told.err.Error()
			break
		}
	}
	return refused(refusal, err)
}

// spend takes one use from the token's root. The first was counted against the
// rate when it was granted, every further one is now: one token does not buy
// unlimited calls (K-04).
func (k *Kernel) spend(r *run, e token.Effective) error {
	if !k.granted.prepaid(e.RootID) {
		if err := k.charge(r); err != nil {
			return err
		}
	}
	if err := k.grants.uses.Spend(e, r.now); err != nil {
		return refuseToken(err)
	}
	return nil
}

// Revoke refuses a token, and all that were derived from it, from now on. An error
// says that the revocation was not taken in.
func (k *grants) Revoke(tokenID string) error {
	k.sweep()
	return k.revoked.Revoke(tokenID, "", k.clock().Add(MaxGrantTTL))
}

// RevokeAll refuses every token and every call of a principal, and of those
// under it, until then; the zero time means for good. An error says that the
// revocation was not taken in.
func (k *grants) RevokeAll(principal string, until time.Time) error {
	k.sweep()
	return k.revoked.Revoke("", principal, until)
}

// sweep lets go of what has expired before more is kept, once an hour at most (K-12).
func (k *grants) sweep() {
	now, last := k.clock().UnixNano(), k.swept.Load()
	if now-last < int64(sweepRevocations) || !k.swept.CompareAndSwap(last, now) {
		return
	}
	_ = k.revoked.Sweep(k.clock()) // what is kept for longer costs room, and refuses nobody else
}
