package assembly

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/kernel"
)

// grantForm is the id of a grant, or of one derived from it.
var grantForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{32}(/[A-Za-z0-9_.-]{1,64})*$`) })

// Revoke refuses, from now on and in every process, what is named: a grant by
// its id, all calls of a session as "group/session", or all of a group (K-12).
// span is after how long a group or a session is let in again; zero is never.
func (r *Runtime) Revoke(what string, span time.Duration) error {
	now := r.options.Now()
	if grantForm().MatchString(what) {
		if span != 0 {
			return errors.New("a grant is revoked for good: leave out --for")
		}
		return r.revoked.Revoke(what, "", now.Add(kernel.MaxGrantTTL))
	}
	group, session, deeper := strings.Cut(what, "/")
	if _, err := nacre.ParseGroup(group); err != nil {
		return fmt.Errorf("revoke %.80q: neither a group, nor a group/session, nor a grant's id: %w", what, err)
	}
	if deeper {
		if _, err := nacre.ParseSessionID(session); err != nil {
			return fmt.Errorf("revoke %.80q: %w", what, err)
		}
	}
	var until time.Time
	if span > 0 {
		until = now.Add(span)
	}
	return r.revoked.Revoke("", what, until)
}

// RotateGrantKey makes a new key sign grants, and returns its id. What the last
// one signed stays good until its own end.
func (r *Runtime) RotateGrantKey() (string, error) {
	now := r.options.Now()
	keys, err := revocation.RotateKeys(r.registry.Paths().Keys(), now, now.Add(kernel.MaxGrantTTL))
	if err != nil {
		return "", err
	}
	return keys.Current.ID, nil
}
