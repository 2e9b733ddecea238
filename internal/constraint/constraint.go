// Package constraint promises one meaning of constraints to policy, which rules on them, to grants,
// which carry them, and to the kernel, which holds calls against them. It says how they are read,
// combined and enforced on arguments, and when two JSON values are one. Combining only ever takes
// away (K-05, K-10, K-11). It does not decide whether a call may happen, and it performs no effect.
package constraint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// MaxRows is the largest limit of rows.
const MaxRows = 1<<31 - 1

// ErrInvalid is constraints that cannot be held, or that exclude one another.
// Its reason code is nacre.ReasonInvalidConstraint.
var ErrInvalid = errors.New("invalid constraint")

// Narrow returns what both a and b allow, in the form of Normalize. Two that
// nothing can meet together, such as two values pinned for one argument, are
// an ErrInvalid.
func Narrow(a, b nacre.Constraints) (nacre.Constraints, error) {
	a, err := Normalize(a)
	if err != nil {
		return nacre.Constraints{}, err
	}
	if b, err = Normalize(b); err != nil {
		return nacre.Constraints{}, err
	}
	if b.MaxRows != nil && (a.MaxRows == nil || *b.MaxRows < *a.MaxRows) {
		a.MaxRows = b.MaxRows
	}
	a.AllowedFields = intersect(a.AllowedFields, b.AllowedFields)
	a.Arguments.AllowedKeys = intersect(a.Arguments.AllowedKeys, b.Arguments.AllowedKeys)
	if a.Scope, err = union("scope", a.Scope, b.Scope, onlyEqual); err != nil {
		return nacre.Constraints{}, err
	}
	if a.Arguments.Pinned, err = union("pinned argument", a.Arguments.Pinned, b.Arguments.Pinned, onlySame); err != nil {
		return nacre.Constraints{}, err
	}
	if a.Arguments.Prefix, err = union("prefix of argument", a.Arguments.Prefix, b.Arguments.Prefix, longerPrefix); err != nil {
		return nacre.Constraints{}, err
	}
	return a, nil
}

// intersect keeps what both lists have, each once; nil is the list of everything.
func intersect(a, b []string) []string {
	if a == nil {
		a = b
	}
	if b == nil {
		b = a
	}
	if a == nil {
		return nil
	}
	in := make(map[string]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	both := []string{}
	for _, s := range a {
		if in[s] {
			both = append(both, s)
			in[s] = false
		}
	}
	return both
}

// union holds everything to both maps, and changes a; pick returns what meets
// both values.
func union[V any](noun string, a, b map[string]V, pick func(a, b V) (V, bool)) (map[string]V, error) {
	if a == nil {
		return b, nil
	}
	for name, theirs := range b {
		if ours, both := a[name]; both {
			var ok bool
			if theirs, ok = pick(ours, theirs); !ok {
				return nil, fmt.Errorf("%w: nothing meets both demands on %s %.80q", ErrInvalid, noun, name)
			}
		}
		a[name] = theirs
	}
	return a, nil
}

func onlyEqual(a, b string) (string, bool) { return a, a == b }

func onlySame(a, b json.RawMessage) (json.RawMessage, bool) { return a, string(a) == string(b) }

func longerPrefix(a, b string) (string, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	return a, strings.HasPrefix(a, b)
}

// Normalize returns constraints that mean the same, share no memory with c and
// have one form for signing and comparing: pinned values are Canonical. What
// cannot be held is an ErrInvalid.
func Normalize(c nacre.Constraints) (nacre.Constraints, error) {
	if c.IsZero() {
		return c, nil
	}
	c = c.Clone()
	if c.MaxRows != nil && (*c.MaxRows < 0 || *c.MaxRows > MaxRows) {
		return nacre.Constraints{}, fmt.Errorf("%w: %d rows: use 0–%d", ErrInvalid, *c.MaxRows, MaxRows)
	}
	for name, value := range c.Arguments.Pinned {
		canonical, err := Canonical(value)
		if err != nil {
			return nacre.Constraints{}, fmt.Errorf("%w: pinned argument %.80q: %w", ErrInvalid, name, err)
		}
		c.Arguments.Pinned[name] = canonical
	}
	if err := checkText(c); err != nil {
		return nacre.Constraints{}, err
	}
	for name, prefix := range c.Arguments.Prefix {
		if !stays(prefix, prefix) { // nothing stays in one that climbs by itself
			return nacre.Constraints{}, fmt.Errorf("%w: prefix of argument %.80q: write it without .., escapes of its own or control characters",
				ErrInvalid, name)
		}
	}
	return c, nil
}

// checkText refuses strings that a journey as JSON would change.
func checkText(c nacre.Constraints) error {
	valid := allValid(slices.Values(c.AllowedFields)) && allValid(slices.Values(c.Arguments.AllowedKeys)) &&
		allValid(maps.Keys(c.Arguments.Pinned)) && allValid(maps.Keys(c.Scope)) && allValid(maps.Values(c.Scope)) &&
		allValid(maps.Keys(c.Arguments.Prefix)) // their values are checked by what they mean
	if !valid {
		return fmt.Errorf("%w: a name or a value is not UTF-8", ErrInvalid)
	}
	return nil
}

func allValid(all func(yield func(string) bool)) bool {
	for s := range all {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
