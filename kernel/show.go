package kernel

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/firewall"
)

// roleAdmin may see a result raw (K-14).
const roleAdmin = "admin"

// rolePersonal sees all fields of personal and card data that policy lets it see (K-04).
const rolePersonal = "pii_reader"

// intrinsicChars is how much the core's own tools may show: the catalogue that
// tools are called from is whole, or of no use.
const intrinsicChars = 256 << 10

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
	return nacre.Outcome{Result: s.encoded, Label: s.label, Redacted: s.redacted, Handle: s.frame.Handle}
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
func (k *Kernel) afford(r *run) error {
	if r.session.affords(leastShown) {
		return nil
	}
	return exhausted("this session has been shown all that it may be; the operator can begin another one")
}

func exhausted(message string) *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodeRateLimited, Stage: stageAuthorize, Reason: nacre.ReasonBudgetExhausted, Message: message}
}

func (r *run) limits() firewall.Limits {
	limits := firewall.DefaultLimits()
	if r.tool != nil && r.tool.capability.Intrinsic {
		limits = firewall.Limits{Rows: math.MaxInt, Fields: math.MaxInt, Chars: intrinsicChars, Depth: math.MaxInt}
	}
	return limits
}

// show is what the agent may see of a result, or of a handler's words: redacted
// and within budget. What it has seen counts from now on in the session.
func (k *Kernel) show(r *run, raw json.RawMessage, f *failure, how view) (shown, *failure) {
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
	reserved.Settle(utf8.RuneCount(said))
	return s, f
}

func (k *Kernel) within(r *run, reserved *firewall.Reservation, raw json.RawMessage, f *failure, how view) (shown, *failure) {
	if f != nil {
		words := *f
		refusal := *f.refusal
		refusal.Message = firewall.ShowError(cut(refusal.Message, maxMessage), k.redactor)
		words.refusal = &refusal
		return shown{}, &words
	}
	if reserved.Mode != r.mode {
		k.counters.count(func(s *Stats) { s.BudgetDowngrades++ })
		r.mode, r.warnings = reserved.Mode, append(r.warnings, firewall.WarnBudget)
	}
	s, err := k.view(r, raw, reserved.Chars, how)
	if err != nil {
		return shown{}, crashed(fmt.Errorf("result of %d bytes: %w", len(raw), err))
	}
	// What memory says taints as much as it has to and vouches for nothing: a value
	// that was seen in a trusted memory only is one that nobody has given (D-44).
	remembered := r.tool.capability.Sensitivity == nacre.SensitiveMemory && s.label == nacre.Trusted
	r.session.hear(r, s, k.risky.Load() && !remembered)
	return s, nil
}

func (k *Kernel) view(r *run, raw json.RawMessage, chars int, how view) (s shown, err error) {
	defer func() { // what was done has an end, whatever its result does to who reads it
		if p := recover(); p != nil {
			s, err = shown{}, fmt.Errorf("reader %w: %v", errPanicked, p)
		}
	}()
	constraints, err := constraint.Narrow(r.constraints, nacre.Constraints{AllowedFields: r.fields()})
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
	}, k.redactor)
	k.rooms.Put(room) // not where anything panics: nobody knows what is in it then
	if err != nil {
		return shown{}, err
	}
	s = shown{encoded: v.Result, framed: v.Framed, redacted: v.Redacted, label: v.Label}
	if v.Frame != nil {
		s.frame = *v.Frame
	}
	if kept != nil {
		k.handles.Return(kept.ID, firewall.FrameRows-len(s.frame.Rows))
	}
	return s, nil
}

// fields are those of a result that the capability lets anybody see; nil means
// all, as of personal data to who has the role for it. What policy takes away
// stays away.
func (r *run) fields() []string {
	c := &r.tool.capability
	personal := c.Sensitivity == nacre.SensitivePII || c.Sensitivity == nacre.SensitivePCI
	if personal && slices.Contains(r.call.Principal.Roles, rolePersonal) {
		return nil
	}
	return c.AllowedFields
}

// forward passes a result on as it is where all of it fits: how many fields it
// has and how deep it is only matters for what has to be cut.
func forward(result *firewall.Result, q firewall.Request, redactor firewall.Redactor) (firewall.View, error) {
	whole := q
	whole.Limits.Fields, whole.Limits.Depth = math.MaxInt, math.MaxInt
	if result.Whole(whole.Limits) {
		return result.Forward(whole, redactor)
	}
	return result.Frame(q, redactor)
}
