package kernel

import (
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/wire"
)

// redactorFor is what a call's results are seen through: secrets are taken out,
// and personal values are words that the session can use without seeing them
// (K-27). A group, and the role pii_reader, may see kinds as they are; and what
// the operator wrote need not be hidden from who was told it.
func (k *results) redactorFor(r *run) firewall.Redactor {
	inClear := r.rules.groups[r.call.Principal.Group].PII
	all := slices.Contains(r.call.Principal.Roles, rolePersonal)
	return redact.Naming{Name: func(kind, value string) (string, bool) {
		if all || slices.Contains(inClear, kind) {
			return value, true
		}
		return r.session.word(kind, value)
	}}
}

// word is what a session sees in the place of a personal value.
func (s *session) word(kind, value string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.SaidByOperator(value) {
		return value, true
	}
	return s.words.Word(kind, value)
}

// understand reads the arguments: words as the values that they stand for, and
// what that makes against the schema.
func (k *sessions) understand(r *run) error {
	k.resolve(r)
	return r.validate()
}

// resolve puts the values that the session's words stand for into the arguments.
// What the agent wrote is kept for records; all that decides looks at the values.
func (k *sessions) resolve(r *run) {
	one := k.known(r.call.Principal.SessionKey())
	if one == nil {
		return
	}
	canonical, err := wire.Canonical(r.call.Arguments)
	if err != nil {
		return // the schema says what is wrong with it
	}
	c := &r.tool.capability
	one.mu.Lock()
	defer one.mu.Unlock()
	if resolved, ok := one.words.Resolve(canonical, slices.Concat(c.Sinks, c.Text)); ok {
		r.resolved = resolved
	}
}

// known is a session that the kernel has seen, or nil.
func (k *sessions) known(id nacre.SessionKey) *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[id]
}

// written are the arguments as records keep them: with words, where the agent
// wrote words.
func (r *run) written() json.RawMessage {
	if r.resolved.Arguments != nil {
		return r.call.Arguments
	}
	return r.arguments
}
