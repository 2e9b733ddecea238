package kernel

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/policy"
)

// sweepRevocations is how often revocations are asked to forget what has expired.
const sweepRevocations = time.Hour

// Key is a secret that grants are signed with, under a name. Nothing prints it.
type Key struct {
	// ID is empty for DefaultKeyID.
	ID string
	// Secret has at least 32 random bytes.
	Secret []byte
	// Until is the first instant at which the key verifies nothing more; the zero
	// time means never, as the current key must say.
	Until time.Time
}

// String does not print the secret.
func (Key) String() string { return "[grant key]" }

// GoString does not print the secret either.
func (Key) GoString() string { return "[grant key]" }

// Keys are what grants are signed and verified with.
type Keys struct {
	// Current signs.
	Current Key
	// Retired still verify what they signed.
	Retired []Key
}

func (k Keys) ring() (current token.Key, retired []token.Key) {
	if k.Current.ID == "" {
		k.Current.ID = DefaultKeyID
	}
	for _, key := range k.Retired {
		retired = append(retired, token.Key(key))
	}
	return token.Key(k.Current), retired
}

// rules are what decides, and for which groups: never one without the other.
type rules struct {
	engine policy.Engine
	groups policy.Groups
}

func newRules(engine policy.Engine, groups policy.Groups) (*rules, error) {
	if engine == nil {
		return nil, errors.New("kernel: no policy: use policy.Shipped() or one of your own")
	}
	if err := groups.Check(); err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	return &rules{engine, maps.Clone(groups)}, nil
}

// governed are the rules that hold now.
type governed struct{ now atomic.Pointer[rules] }

// ChangeRules puts a policy and groups in the place of those that hold, both at once (K-33).
// Handles, rates, sessions and grants stay; a grant is held against the new rules at its next use.
// A call that has begun goes on under the old ones. One which has waited for a person is decided
// again, and refused where the new rules deny it or ask. On an error, which says what is missing or
// malformed, nothing has changed.
func (k *Kernel) ChangeRules(engine policy.Engine, groups policy.Groups) error {
	fresh, err := newRules(engine, groups)
	if err != nil {
		return err
	}
	k.governed.now.Store(fresh)
	return nil
}

// ChangeKeys signs with another key from now on. A grant verifies while the key that
// signed it is among keys (K-33, K-10). On an error, such as of a short secret or of
// two keys with one name, nothing has changed.
func (k *Kernel) ChangeKeys(keys Keys) error {
	current, retired := keys.ring()
	if err := k.keys.Rotate(current, retired...); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	return nil
}

// unchanged decides a call again whose rules were changed while a person was asked:
// what they agreed to was a question under the old ones (D-13).
func (k *Kernel) unchanged(r *run) error {
	fresh := k.governed.now.Load()
	if fresh == r.rules {
		return nil
	}
	again := *r
	again.rules = fresh
	if err := k.permit(&again); err != nil {
		return err
	}
	if again.decision.Verdict == nacre.Allow {
		r.constraints = again.constraints
		return nil
	}
	return &nacre.Refusal{
		Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: again.decision.Code, Retriable: true,
		Message: "the rules were changed while this waited for an answer: call the tool again",
	}
}
