package kernel

import (
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/reference"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/policy"
)

// redactorFor is what a call's results are seen through: secrets are taken out, and personal values
// are words that the session can use without seeing them (K-27). A group, in what one tool returns
// too, and the role pii_reader may see kinds as they are. What the operator wrote need not be
// hidden from who was told it.
func (k *results) redactorFor(r *run) redact.Naming {
	all := slices.Contains(r.call.Principal.Roles, rolePersonal)
	return redact.Naming{Name: func(kind, value string) (string, bool) {
		sight := r.rules.groups.Sees(r.call.Principal.Group, r.call.Tool, kind)
		if all || sight == policy.InClear {
			return value, true
		}
		return r.session.word(kind, value, sight == policy.Hinted)
	}}
}

// word is what a session sees in the place of a personal value.
func (s *session) word(kind, value string, hinted bool) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.SaidByOperator(value) {
		return value, true
	}
	return s.words.Shown(kind, value, hinted)
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
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.words.Empty() {
		return
	}
	canonical, err := wire.Canonical(r.call.Arguments)
	if err != nil {
		return // the schema says what is wrong with it
	}
	c := &r.tool.capability
	places := slices.Concat(c.Sinks, c.Text)
	if c.Sensitivity == nacre.SensitiveMemory {
		places = []string{reference.Anywhere} // it is sealed: see [sealing]
	}
	if resolved, ok := one.words.Resolve(canonical, places); ok {
		r.resolved = resolved
	}
}

// sealing keeps personal values out of memory: its tools are given seals of the group, and
// what they return is opened into words of the session that asks (K-27).
type sealing struct{ secret []byte }

// given is what a driver is called with.
func (s sealing) given(r *run) (nacre.Invocation, error) {
	in := r.invocation()
	if r.tool.capability.Sensitivity != nacre.SensitiveMemory {
		return in, nil
	}
	var err error
	in.Arguments, _, err = redact.Naming{Name: reference.NewSealer(s.secret, string(r.call.Principal.Group)).Seal}.JSON(in.Arguments)
	return in, err
}

// opened is a result with what its reader may see in the place of seals.
func (s sealing) opened(r *run, raw json.RawMessage, reader redact.Naming) json.RawMessage {
	if r.tool.capability.Sensitivity != nacre.SensitiveMemory {
		return raw
	}
	return reference.NewSealer(s.secret, string(r.call.Principal.Group)).Open(raw, json.Valid(raw), reader.Name)
}

// Recall is a text of its group's memory as a session may see it, for a host that tells the
// agent itself. An error says that the session is named in part, or that too many are known.
func (k *Kernel) Recall(p nacre.Principal, text string) (string, error) {
	s, err := k.session(p.SessionKey())
	if err != nil {
		return "", err
	}
	r := &run{received: received{call: nacre.Call{Principal: p}, session: s}, permission: permission{rules: k.governed.now.Load()}}
	return string(reference.NewSealer(k.results.secret, string(p.Group)).Open([]byte(text), false, k.redactorFor(r).Name)), nil
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
