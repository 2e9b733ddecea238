package kernel

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/policy"
)

// roleAdmin may see a result raw (K-14).
const roleAdmin = "admin"

// rolePersonal sees all fields of personal and card data that policy lets it see (K-04).
const rolePersonal = "pii_reader"

// MaxShownWhole is how many characters of a result may be shown whole, and how many of the core's
// own tools are. The catalogue that tools are called from is whole, or of no use.
const MaxShownWhole = 256 << 10

// leastShown is what the smallest frame takes of a budget, in tokens.
const leastShown = (firewall.MinChars + 3) / 4

// shown is what may be seen of a result.
type shown struct {
	encoded  json.RawMessage
	frame    nacre.Frame
	framed   bool
	redacted []string
	label    nacre.Label
}

func (s shown) outcome() nacre.Outcome {
	o := nacre.Outcome{Result: s.encoded, Label: s.label, Redacted: s.redacted, Handle: s.frame.Handle}
	switch {
	case s.framed:
		o.Shape = nacre.ShapeFrame
	case s.encoded != nil:
		o.Shape = nacre.ShapeResult
	}
	return o
}

// explain adds to an outcome what was decided, and how where the host asked (K-09).
func (r *run) explain(o nacre.Outcome) nacre.Outcome {
	o.Decision = r.decision
	explainer, can := r.rules.engine.(policy.Explainer)
	if !r.call.Traced || !can || r.decision.Code == "" {
		return o
	}
	defer func() { _ = recover() }() // of an embedder's engine: then there is no trace
	t := explainer.Trace(r.request())
	o.Trace = &t
	return o
}

func (s shown) handleID() string {
	if s.frame.Handle == nil {
		return ""
	}
	return s.frame.Handle.ID
}

func (s shown) summary() *ResultSummary {
	if s.encoded == nil {
		return nil
	}
	if !s.framed {
		return &ResultSummary{Rows: 1}
	}
	return &ResultSummary{
		Facts: len(s.frame.Facts), Rows: len(s.frame.Rows), Warnings: len(s.frame.Warnings), HasHandle: s.frame.Handle != nil,
	}
}

// view makes a view of a result: [firewall.Result.Forward] or [firewall.Result.Frame].
type view func(*firewall.Result, firewall.Request, firewall.Redactor) (firewall.View, error)

// afford refuses, before anything is done, a call of a session that may be
// shown nothing more (K-16).
func (r *run) afford() error {
	if r.session.affords(leastShown) {
		return nil
	}
	return exhausted("this session has been shown all that it may be; the operator can begin another one")
}

func exhausted(message string) *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodeRateLimited, Stage: stageAuthorize, Reason: nacre.ReasonBudgetExhausted, Message: message}
}

func (r *run) limits() firewall.Limits {
	if r.tool == nil {
		return firewall.DefaultLimits()
	}
	limits := firewall.DefaultLimits()
	if r.limit != nil {
		own := r.limit(r.call.Principal.Group, r.tool.capability.Tool).Over(nacre.ResultLimits(limits))
		limits = firewall.Limits(own).Within(firewall.Limits(nacre.MaxResultLimits()))
	}
	whole := r.tool.shownWhole
	if r.tool.capability.Intrinsic {
		whole = MaxShownWhole
	}
	if whole > 0 {
		limits = firewall.Limits{Rows: math.MaxInt, Fields: math.MaxInt, Chars: max(whole, limits.Chars), Depth: math.MaxInt}
	}
	return limits
}

// show is what the agent may see of a result, or of a handler's words: redacted
// and within budget. What it has seen counts from now on in the session.
func (k *results) show(r *run, raw json.RawMessage, f *failure, how view) (shown, *failure) {
	r.measure = wire.MeasureAhead(raw)
	reserved, settled, err := r.session.reserve(r.mode, r.limits().Chars)
	defer settled()
	if err != nil {
		return shown{}, &failure{cause: err, refusal: exhausted("it was carried out, but this session has been shown all that it may be")}
	}
	s, f := k.within(r, reserved, raw, f, how)
	said := s.encoded
	if f != nil {
		said = json.RawMessage(f.refusal.Message)
	}
	if r.inside {
		said = nil
	}
	reserved.Settle(firewall.Runes(said))
	return s, f
}

func (k *results) within(r *run, reserved *firewall.Reservation, raw json.RawMessage, f *failure, how view) (shown, *failure) {
	if f != nil {
		words := *f
		refusal := *f.refusal
		refusal.Message = firewall.ShowError(wire.Cut(refusal.Message, maxMessage), k.redactorFor(r))
		words.refusal = &refusal
		// Whoever could write what is read could write these words (M-52). What changes
		// something speaks for itself: its failure must not stop the next try.
		if f.handler && r.tool.capability.Safety == nacre.Read && r.tool.capability.Returns != nacre.Trusted {
			r.session.hear(r, shown{encoded: []byte(refusal.Message), label: r.tool.capability.Returns}, k.risky.Load())
		}
		return shown{}, &words
	}
	if reserved.Mode != r.mode {
		k.log.counters.count(func(s *Stats) { s.BudgetDowngrades++ })
		r.mode, r.warnings = reserved.Mode, append(r.warnings, firewall.WarnBudget)
	}
	s, err := k.view(r, raw, reserved.Chars, how)
	if err != nil {
		return shown{}, crashed(fmt.Errorf("result of %d bytes: %w", len(raw), err))
	}
	// What memory says taints as much as it has to and vouches for nothing. A value that was seen
	// in a trusted memory only is one that nobody has given (D-44), and one that was seen in
	// another memory is untrusted.
	remembered := r.tool.capability.Sensitivity == nacre.SensitiveMemory && s.label == nacre.Trusted
	r.session.hear(r, s, k.risky.Load() && !remembered)
	return s, nil
}

func (k *results) view(r *run, raw json.RawMessage, chars int, how view) (s shown, err error) {
	defer func() { // what was done has an end, whatever its result does to who reads it
		if p := recover(); p != nil {
			s, err = shown{}, fmt.Errorf("reader %w: %v", errPanicked, p)
		}
	}()
	allowed := r.fields()
	if r.narrowed {
		allowed = nil
	}
	constraints, err := constraint.Narrow(r.constraints, nacre.Constraints{AllowedFields: allowed})
	if err != nil {
		return shown{}, err
	}
	redactor := k.redactorFor(r)
	raw, hidden, err := redactJoined(k.opened(r, raw, redactor), redactor)
	if err != nil {
		return shown{}, err
	}
	result, err := firewall.Read(raw, constraints)
	if err != nil {
		return shown{}, err
	}
	limits := r.limits()
	limits.Chars = min(limits.Chars, chars)
	room, _ := k.rooms.Get().(*firewall.Room)
	var kept *nacre.Handle
	v, err := how(result, firewall.Request{
		Mode: r.mode, Admin: r.admin, Label: r.label, Limits: limits,
		Warnings: r.warnings, Room: room,
		Keep: func() *nacre.Handle {
			kept = k.keep(r, result, constraints)
			return kept
		},
	}, redactor)
	k.rooms.Put(room) // not where anything panics: nobody knows what is in it then
	if err != nil {
		return shown{}, err
	}
	s = shown{encoded: v.Result, framed: v.Framed, redacted: append(hidden, v.Redacted...), label: v.Label}
	if v.Frame != nil {
		s.frame = *v.Frame
	}
	if kept != nil {
		k.handles.Return(kept.ID, r.limits().Rows-len(s.frame.Rows))
	}
	return s, nil
}

// redactJoined takes out what could not be told from its row alone, before a
// result is cut into rows: no page of a handle would know it (K-15).
func redactJoined(raw json.RawMessage, redactor firewall.Redactor) (json.RawMessage, []string, error) {
	if !redact.Joined(raw) {
		return raw, nil, nil
	}
	return redactor.JSON(raw)
}

// fields are those of a result that the capability lets anybody see. Nil means all, as of personal
// data to who has the role for it. What policy takes away stays away.
func (r *run) fields() []string {
	c := &r.tool.capability
	personal := c.Sensitivity == nacre.SensitivePII || c.Sensitivity == nacre.SensitivePCI
	if personal && slices.Contains(r.call.Principal.Roles, rolePersonal) {
		return nil
	}
	return c.AllowedFields
}

// forward passes a result on as it is where all of it fits. How many fields it has and how deep it
// is only matters for what has to be cut.
func forward(result *firewall.Result, q firewall.Request, redactor firewall.Redactor) (firewall.View, error) {
	whole := q
	whole.Limits.Fields, whole.Limits.Depth = math.MaxInt, math.MaxInt
	if result.Whole(whole.Limits) {
		return result.Forward(whole, redactor)
	}
	return result.Frame(q, redactor)
}
