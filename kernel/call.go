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
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/provenance"
	"github.com/nacre-dev/nacre/internal/reference"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
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
	received
	listening
	permission
	delivery
}

// received is what a call is.
type received struct {
	call    nacre.Call
	tool    *tool
	session *session
	now     time.Time
	// at is when the last thing of it happened that a trace tells: it came, a
	// person was asked, they answered.
	at      time.Time
	subject token.Subject
	policy  string
	// payer is whose rate it is counted against: a token that was handed down is
	// charged to the principal that it was granted to (K-11).
	payer string
	// admin is set where the principal may see a result raw (K-14).
	admin bool
	// arguments are canonical, after defaults, and digested. resolved is the call's own with values
	// in the place of words, without any where it has none (K-27).
	arguments json.RawMessage
	resolved  reference.Resolved
	digest    token.Digest
	// files are copies of what the arguments name.
	files []nacre.FilePin
	mode  nacre.Mode
	// handle is what a page was asked of, as a record keeps it.
	handle string
}

// listening says whom the session has listened to, and where the risky values
// of a call come from (K-26).
type listening struct {
	tainted   bool
	untrusted bool
	// told is both in one.
	told    nacre.Label
	origins []nacre.Origin
	// declared is what was looked for; text is what a person who is asked can vouch for.
	declared provenance.Declared
	text     provenance.Text
}

// permission is why a call may be carried out, and how far.
type permission struct {
	// rules are those that decide on it; their version stands in what was received.
	rules    *rules
	decision nacre.Decision
	approval approval
	// grant is the id of the token it runs under, constraints what that allows.
	grant       string
	constraints nacre.Constraints
}

// delivery is what became of a call.
type delivery struct {
	// limit says how much of a result is shown; nil means the default. narrowed is set
	// where what may not be seen was taken out before.
	limit    func(nacre.Group, nacre.ToolName) nacre.ResultLimits
	narrowed bool
	// inside is set for a page that a call asks for: what that call shows of it is paid by it.
	inside bool
	// driver answered, after attempts failed; label is how far to trust it, measure
	// writes of the result what a record keeps.
	driver   string
	attempts []Attempt
	label    nacre.Label
	measure  func(o *wire.Summary, name string) []byte
	// warnings are the kernel's own words on what is shown.
	warnings []string
}

// Call carries out one call, or says why not. A refusal is an error that is or wraps a
// *nacre.Refusal, which is what the agent may see of it. Any other error means that ctx ended.
func (k *Kernel) Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error) {
	r, err := k.begin(c)
	if err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.know(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.understand(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.listen(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.authorize(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if c.Hints.DryRun {
		return k.rehearse(ctx, r)
	}
	if err := r.afford(); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.charge(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.pin(ctx, r); err != nil {
		return k.reject(ctx, r, err)
	}
	defer k.unpin(r)
	if done, was := r.doneBefore(); was {
		return k.tellDone(ctx, r, done)
	}
	if err := k.confirm(ctx, r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.unchanged(r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.authorizeOnce(ctx, r); err != nil {
		return k.reject(ctx, r, err)
	}
	if err := k.recordBegin(ctx, r); err != nil { // no record, no effect (K-21)
		return nacre.Outcome{}, err
	}
	raw, failure := k.act(ctx, r)
	shown, failure := k.show(r, raw, failure, forward)
	if err := k.recordEnd(ctx, r, raw, shown, failure); err != nil {
		return nacre.Outcome{}, err
	}
	return r.explain(shown.outcome()), failure.err()
}

// begin takes copies of all that decides, so that nobody can change it while
// the call is decided, and names the call where the host has not.
func (k *Kernel) begin(c nacre.Call) (r *run, err error) {
	p := &c.Principal
	p.Roles, p.Attributes, p.Scope = slices.Clone(p.Roles), maps.Clone(p.Attributes), maps.Clone(p.Scope)
	if c.Correlation != "" {
		c.Correlation, _ = nacre.ParseCorrelation(string(c.Correlation))
	}
	if c.ID == "" {
		c.ID, err = k.randomID()
	}
	now, held := k.now(), k.governed.now.Load()
	return &run{received: received{
		call: c, now: now, at: now, subject: token.SubjectOf(c.Principal), policy: held.version(),
		payer: p.ID, admin: slices.Contains(p.Roles, roleAdmin),
	}, permission: permission{rules: held}, delivery: delivery{limit: k.limit}}, err
}

func (k *Kernel) know(r *run) error {
	r.tool = k.tool(r.call.Tool)
	if r.tool == nil {
		return unknown(string(r.call.Tool))
	}
	return nil
}

func unknown(name string) *nacre.Refusal {
	return &nacre.Refusal{
		Code: nacre.CodeUnknownTool, Stage: stageTopic, Reason: nacre.ReasonUnknownTool,
		Message: fmt.Sprintf("there is no tool %.80q; list_tools names those there are", name),
	}
}

// validate holds the arguments against their schema, and the hints against what
// can be hinted at.
func (r *run) validate() error {
	if mode := r.call.Hints.Mode; mode != "" && r.mode.UnmarshalText([]byte(mode)) != nil {
		refusal := malformed(fmt.Sprintf("mode %.40q: use summary, table, handle_only or raw", mode))
		refusal.Field = "mode"
		return refusal
	}
	raw := r.call.Arguments
	if r.resolved.Arguments != nil {
		raw = r.resolved.Arguments
	}
	arguments, refusal := r.tool.schema.Arguments(raw)
	if refusal != nil {
		refusal.Stage, refusal.Code, refusal.Reason = stagePayload, nacre.CodeValidationFailed, nacre.ReasonInvalidArguments
		return refusal
	}
	r.arguments, r.digest = arguments, token.ArgumentsDigest(arguments)
	return nil
}

func malformed(message string) *nacre.Refusal {
	return &nacre.Refusal{
		Code: nacre.CodeValidationFailed, Stage: stagePayload, Reason: nacre.ReasonInvalidArguments, Message: message,
	}
}

// listen finds out whom the session has listened to so far, and where the
// values come from in which a wrong one does harm (K-26).
func (k *Kernel) listen(r *run) error {
	if err := k.enter(r); err != nil {
		return err
	}
	r.tainted, r.untrusted = r.session.listened()
	r.told = toldLabel(r.tainted, r.untrusted)
	if (r.tool.risky() || len(r.resolved.Places) > 0 && !r.tool.annotated()) && r.arguments != nil {
		r.declared = r.tool.declared()
		r.declared.Without, r.declared.Now = k.without, r.now
		if !r.tool.annotated() {
			r.declared.Sinks = slices.Concat(r.declared.Sinks, r.resolved.Places) // what a word was written for is a value that matters
		}
		r.origins = r.session.answering(r.call.Tool, r.arguments, r.session.origins(r.arguments, r.declared))
	}
	return nil
}

// toldLabel is the trust of what a session has been told.
func toldLabel(tainted, untrusted bool) nacre.Label {
	switch {
	case tainted:
		return nacre.Untrusted
	case untrusted:
		return nacre.Unvouched
	}
	return nacre.Trusted
}

// enter finds the session's state.
func (k *Kernel) enter(r *run) error {
	var err error
	r.session, err = k.session(r.call.Principal.SessionKey())
	switch {
	case errors.Is(err, errNoSession):
		return fmt.Errorf("%w: %w", sessionless(), err)
	case err != nil:
		return fmt.Errorf("%w: %w", unavailable("too many sessions are open"), err)
	}
	return nil
}

// sessionless refuses a call that belongs to no session (K-24).
func sessionless() *nacre.Refusal {
	return &nacre.Refusal{
		Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonNoSession,
		Message: "the call belongs to no session: its principal needs a group and a session",
	}
}

func unavailable(message string) *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodePluginUnavailable, Stage: stageAuthorize, Retriable: true, Message: message}
}

// authorize asks whether the call is permitted, and the rate; it counts nothing.
func (k *judge) authorize(r *run) error {
	if err := k.permit(r); err != nil {
		return err
	}
	return k.unhurried(r)
}

// permit asks the revocations, the group's list and the policy.
func (k *judge) permit(r *run) error {
	if err := named(r); err != nil {
		return err
	}
	if err := k.unrevoked(r); err != nil {
		return err
	}
	if err := k.listed(r); err != nil {
		return err
	}
	k.rule(r)
	if r.decision.Verdict == nacre.Deny {
		return unauthorized(r.decision)
	}
	if r.tool.capability.HighRisk && r.decision.Verdict == nacre.Allow {
		r.decision.Verdict, r.decision.Code = nacre.Ask, nacre.ReasonHighRisk
		r.decision.Message = "the tool is marked as high risk"
	}
	return r.constrain()
}

// named refuses a call that comes from nobody.
func named(r *run) error {
	if r.call.Principal.ID == "" {
		return unauthorized(nacre.Decision{Code: nacre.ReasonGroupNotAllowed, Message: "the call comes from nobody: its principal has no id"})
	}
	return nil
}

// unrevoked refuses a principal that was revoked, or of which nobody can tell.
func (k *judge) unrevoked(r *run) error {
	if gone, err := k.revocations.Revoked("", r.call.Principal.ID, r.now); gone || err != nil {
		return refuseGrant(errors.Join(token.ErrRevoked, err))
	}
	return nil
}

// listed refuses what the list of the group does not name.
func (k *judge) listed(r *run) error {
	capability, group, written := &r.tool.capability, r.call.Principal.Group, r.call.Arguments
	if r.resolved.Arguments != nil {
		written = nil // a word in them stands for another value
	}
	if r.rules.groups.AllowsCall(group, *capability, written) {
		return nil
	}
	message := "group %s may not use %s; its list of tools must name it"
	if r.rules.groups.Allows(group, *capability) {
		message = "group %s may use %s with the arguments alone that a person approved, and these are others"
	}
	return unauthorized(nacre.Decision{Code: nacre.ReasonGroupNotAllowed, Message: fmt.Sprintf(message, group, capability.Tool)})
}

// rule asks the policy; where a value was seen in memory alone, also as if nothing had
// been recalled, and the stricter of both counts: memory only narrows (D-44).
func (k *judge) rule(r *run) {
	r.decision = r.rules.decide(r.request())
	if len(r.origins) == 0 || r.decision.Verdict == nacre.Deny {
		return
	}
	recalled := r.origins
	if r.origins = r.session.forgotten(recalled); r.origins == nil {
		r.origins = recalled
		return
	}
	without := r.rules.decide(r.request())
	if without.Verdict < r.decision.Verdict {
		r.decision = without
		return
	}
	r.origins = recalled
	if without.Verdict > r.decision.Verdict {
		return
	}
	both, err := constraint.Narrow(r.decision.Constraints, without.Constraints)
	if err != nil {
		r.decision = nacre.Decision{Code: nacre.ReasonInvalidConstraint, Message: err.Error()}
		return
	}
	r.decision.Constraints = both
}

// version is nothing where an embedder's engine panics; then it decides nothing either.
func (k *rules) version() (v string) {
	defer func() { _ = recover() }()
	return k.engine.Version()
}

// request is what policy decides on.
func (r *run) request() policy.Request {
	return policy.Request{
		Principal: r.call.Principal, Capability: r.tool.capability, Arguments: r.arguments, Constraints: r.constraints,
		Tainted: r.tainted, ReadUntrusted: r.untrusted, Origins: r.origins,
	}
}

// constrain holds the call against what policy narrowed it to.
func (r *run) constrain() error {
	narrowed, err := constraint.Narrow(r.constraints, r.decision.Constraints)
	if err != nil {
		return unauthorized(nacre.Decision{Code: nacre.ReasonInvalidConstraint, Message: err.Error()})
	}
	r.constraints = narrowed
	if r.arguments == nil {
		return nil // of a grant: held against each use
	}
	if err := constraint.CheckArguments(narrowed.Arguments, r.arguments); err != nil {
		return unauthorized(nacre.Decision{Code: nacre.ReasonArgumentConstraint, Message: err.Error()})
	}
	return nil
}

// decide denies where an embedder's engine panics or answers nonsense.
func (k *rules) decide(request policy.Request) (d nacre.Decision) {
	defer func() {
		if recover() != nil {
			d = nacre.Decision{Code: nacre.ReasonNoMatchingRule, Message: "the policy failed; nothing is allowed"}
		}
	}()
	d = k.engine.Decide(request)
	if d.Verdict != nacre.Allow && d.Verdict != nacre.Ask {
		d.Verdict = nacre.Deny
	}
	return d
}

func unauthorized(d nacre.Decision) error {
	return &nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: d.Code, Message: d.Message}
}

// authorizeOnce mints a grant for exactly this call, and verifies it. What comes between a decision
// and its effect, such as minutes of waiting for a person, cannot have changed who, what and with
// which arguments. Who was revoked meanwhile gets nothing. The grant never leaves, so it is spent
// here.
func (k *grants) authorizeOnce(ctx context.Context, r *run) error {
	if err := wanted(ctx, r); err != nil {
		return err
	}
	now := k.clock()
	id, err := k.ids.randomID()
	if err != nil {
		return refuseGrant(err)
	}
	grant, err := k.keys.Mint(nacre.Token{
		ID: id, Principal: r.call.Principal.ID, Capability: r.tool.capability.ID, Authority: r.subject.Authority(),
		Arguments: r.digest, Constraints: r.constraints, Issued: now, Expires: now.Add(r.tool.deadline), Uses: &once,
	})
	if err != nil {
		return refuseGrant(err)
	}
	_, err = k.keys.Verify(grant, token.Presentation{
		Caller: r.call.Principal.ID, Subject: token.SubjectOf(r.call.Principal), Capability: r.tool.capability.ID,
		Arguments: r.arguments, Now: now, Revoked: k.revoked,
	})
	if err != nil {
		return refuseGrant(err)
	}
	r.grant = grant.ID
	return nil
}

// wanted fails where nobody waits any more: then nothing is done.
func wanted(ctx context.Context, r *run) error {
	if ctx.Err() != nil {
		return fmt.Errorf("call %s: %w", r.call.Tool, context.Cause(ctx))
	}
	return nil
}

var once = 1

func refuseGrant(err error) error {
	reason, message := nacre.ReasonInternal, "no grant could be made for this call"
	switch {
	case errors.Is(err, token.ErrRevoked):
		reason, message = nacre.ReasonTokenRevoked, "the operator has revoked what this session may do"
	case errors.Is(err, token.ErrExpired): // it was minted just now
		message = "the host's clock went back; nothing is done until it has caught up"
	}
	return refused(&nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: reason, Message: message}, err)
}

// randomID is 16 random bytes in hex.
func (k *entropy) randomID() (string, error) {
	var b [16]byte
	if err := k.draw(&b); err != nil {
		return "", err
	}
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:]), nil
}

// draw fills b with random bytes, of which many are read at once; none is used twice.
func (k *entropy) draw(b *[16]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.undrawn) < len(b) {
		n, err := io.ReadAtLeast(k.random, k.drawn[:], len(b))
		if err != nil {
			return fmt.Errorf("randomness: %w", err)
		}
		k.undrawn = k.drawn[:n]
	}
	copy(b[:], k.undrawn)
	clear(k.undrawn[:len(b)])
	k.undrawn = k.undrawn[len(b):]
	return nil
}

// rehearse answers a dry run of a call: every check was made, nothing was
// asked, counted or done (K-18).
func (k *Kernel) rehearse(ctx context.Context, r *run) (nacre.Outcome, error) {
	result, err := json.Marshal(k.plan(r))
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
	return r.explain(nacre.Outcome{Result: result, Shape: nacre.ShapePlan, Label: nacre.Trusted, Redacted: paths}), nil
}

// Plan is what a dry run tells.
type Plan struct {
	DryRun     bool               `json:"dry_run"`
	Capability nacre.CapabilityID `json:"capability"`
	// Drivers are those that would be tried, in order; they all do the one
	// operation that the capability is bound to.
	Drivers     []string          `json:"drivers"`
	Operation   string            `json:"operation"`
	Safety      nacre.SafetyClass `json:"safety_class"`
	Constraints nacre.Constraints `json:"constraints"`
	// Mode is the most that would be shown.
	Mode nacre.Mode `json:"response_mode"`
	// Cost is low, medium or high, by what the capability can do.
	Cost string `json:"estimated_cost"`
	// Verdict is allow, or ask where a person would be asked.
	Verdict   nacre.Verdict   `json:"verdict"`
	Rule      string          `json:"rule,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
}

func (k *Kernel) plan(r *run) Plan {
	c := r.tool.capability
	p := Plan{
		DryRun: true, Capability: c.ID, Operation: string(c.Tool), Safety: c.Safety, Constraints: r.constraints,
		Mode: firewall.Suggest(r.mode, r.session.budget.Remaining(), k.budget), Verdict: r.decision.Verdict,
		Rule: r.decision.Rule, Arguments: r.written(),
	}
	p.Mode = firewall.Permitted(p.Mode, slices.Contains(r.call.Principal.Roles, roleAdmin))
	for _, route := range r.tool.routes {
		p.Drivers = append(p.Drivers, route.id)
	}
	p.Cost = map[nacre.SafetyClass]string{nacre.Read: "low", nacre.Write: "medium"}[c.Safety]
	if p.Cost == "" {
		p.Cost = "high"
	}
	return p
}
