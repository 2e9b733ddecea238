package leasing

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/lease"
)

// remembered is for how long a login is, whose time is over: what it carried has ended by then.
const remembered = time.Minute

// standing is what may be used of what a credential gave. It has a lock of its own, which nobody
// holds while a provider is waited for: what carries a credential ends in time (M-35).
type standing struct {
	mu     sync.Mutex
	until  time.Time // when what was given ends; the zero time where it does not
	lost   time.Time // when it was lost last; the zero time where it was not
	logins []login
}

// login is one by a key of SSH, which carries what was open to its host then.
type login struct{ at, until time.Time }

// given notes until when what was given may be used.
func (s *standing) given(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// lose ends what was given until now.
func (s *standing) lose(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = now
}

// loggedIn notes a login, and forgets those that have carried nothing for a while.
func (s *standing) loggedIn(now, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins = slices.DeleteFunc(s.logins, func(l login) bool { return !l.until.IsZero() && lease.Over(now, l.until.Add(remembered)) })
	s.logins = append(s.logins, login{now, until})
}

// isLost tells whether what was given since a moment may not be used any more.
func (s *standing) isLost(since, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lost.Before(since) || lease.Over(now, s.until)
}

// loginLost tells whether a login since a moment does not hold any more; gone says that none does.
func (s *standing) loginLost(since, now time.Time, gone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.logins, func(l login) bool {
		return !l.at.Before(since) && (gone || !s.lost.Before(since) || lease.Over(now, l.until))
	})
}

// revoking tells the session's proxy which credentials were lost, beside what was revoked.
func (l *Credentials) revoking(r egress.Revocation) egress.Revocation {
	r.Credential = func(name string, since time.Time) bool {
		return slices.ContainsFunc(l.holds, func(h *hold) bool {
			return h.config.Name == name && !h.config.OverSSH() && (h.standing.isLost(since, l.inst.Options.Now()) || h.gone() != nil)
		})
	}
	logins := l.overSSH()
	if len(logins) == 0 {
		return r
	}
	r.Login = func(host string, port uint16, since time.Time) bool {
		return slices.ContainsFunc(logins, func(h *hold) bool {
			rule := h.config.Rule(nil)
			return rule.Host == host && rule.Port == port && h.standing.loginLost(since, l.inst.Options.Now(), h.gone() != nil)
		})
	}
	return r
}

// gone says why a credential may not be used any more, whatever was granted; nil where it may.
func (h *hold) gone() error {
	power := h.config.Locked()
	switch now := h.of.inst.Options.Now(); {
	case !h.config.Expires.IsZero() && lease.Over(now, h.config.Expires):
		return fmt.Errorf("credential %s: %w: it expired at %s; put a new value there and set expires", h.config.Name, lease.ErrEnded, h.config.Expires.UTC().Format(time.RFC3339))
	case power != "" && h.of.asked.Withheld(power):
		return fmt.Errorf("credential %s: the power %s is withheld, since the run has listened to an outsider", h.config.Name, power)
	case !h.of.written.has(h.config):
		return fmt.Errorf("credential %s: config.toml does not name it any more for this group, its host and its store: begin a new session with what it says now", h.config.Name)
	}
	return nil
}

// written is what config.toml says now of a session's credentials: one that an operator takes out
// is lost to the sessions that run. A file that cannot be read says what it said before. The zero
// value knows of no file, and takes none out.
type written struct {
	dir, group string

	mu    sync.Mutex
	info  os.FileInfo
	first []config.Credential // when the session opened
	now   []config.Credential
}

// open reads the file for the first time. What is not in it, an embedder said.
func (w *written) open(dir, group string) {
	w.dir, w.group = dir, group
	w.look()
	w.first = w.now
}

// has reports whether the file still names the credential, unless it never did.
func (w *written) has(c config.Credential) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	same := func(other config.Credential) bool {
		return other.Name == c.Name && other.Host == c.Host && slices.Contains(other.Groups, w.group) && reflect.DeepEqual(other.Value, c.Value)
	}
	return !slices.ContainsFunc(w.first, same) || slices.ContainsFunc(w.now, same)
}

// look reads the file where it is another one than before.
func (w *written) look() {
	if w.dir == "" {
		return
	}
	info, err := os.Stat(filepath.Join(w.dir, config.FileName))
	if err == nil && w.info != nil && os.SameFile(info, w.info) && info.ModTime().Equal(w.info.ModTime()) && info.Size() == w.info.Size() {
		return
	}
	if c, err := config.Load(w.dir); err == nil {
		w.info, w.now = info, c.Credentials
	}
}
