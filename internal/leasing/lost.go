package leasing

import (
	"context"
	"errors"
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
	said   string // why there was nothing, the last time
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

// news notes why there is nothing, and reports whether that is another reason than the last one.
func (s *standing) news(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.said != why
	s.said = why
	return other
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

// source is what the session's proxy asks for values, which are lost once gone says why.
func (h *hold) source(gone func() error) egress.Source {
	return egress.Source{
		Material: func(ctx context.Context) (egress.Material, error) { return h.material(ctx, gone) },
		Lost: func(since time.Time) bool {
			return h.standing.isLost(since, h.of.inst.Options.Now()) || gone() != nil
		},
	}
}

// further is the credential for each use that a person approved, which is lost alone once it is taken back
// or over.
func (h *hold) further(c egress.Credential) (list []egress.Credential) {
	for _, use := range h.of.asked.Uses {
		for _, more := range c.Further(h.of.session.Group(), []egress.Use{use}) {
			more.Source = h.source(func() error { return errors.Join(h.gone(), h.of.asked.takenBack(use)) })
			list = append(list, more)
		}
	}
	return list
}

// takenBack says why a use that the session began with may not be made any more; nil where it may.
func (a Asked) takenBack(use egress.Use) error {
	now, err := a.Standing()
	if err == nil && !slices.ContainsFunc(now, func(stands egress.Use) bool {
		return stands.Group == use.Group && stands.Credential == use.Credential && stands.Host == use.Host &&
			within(use.Methods, stands.Methods) && within(use.Paths, stands.Paths)
	}) {
		err = errors.New("it was taken back, or is over")
	}
	if err != nil {
		return fmt.Errorf("credential %s: what a person approved with nacre learn beside config.toml: %w", use.Credential, err)
	}
	return nil
}

// revoking tells the session's proxy which logins were lost, beside what was revoked.
func (l *Credentials) revoking(r egress.Revocation) egress.Revocation {
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
	power, revoked := h.config.Locked(), h.of.asked.Revoked
	switch now := h.of.inst.Options.Now(); {
	case revoked != nil && revoked():
		return fmt.Errorf("credential %s: what the session was granted was revoked", h.config.Name)
	case !h.config.Expires.IsZero() && lease.Over(now, h.config.Expires):
		return fmt.Errorf("credential %s: %w: it expired at %s; put a new value there and set expires", h.config.Name, lease.ErrEnded, h.config.Expires.UTC().Format(time.RFC3339))
	case power != "" && h.of.asked.Withheld(power):
		return fmt.Errorf("credential %s: the power %s is withheld, since the run has listened to an outsider", h.config.Name, power)
	}
	if err := h.of.written.lost(h.config); err != nil {
		return fmt.Errorf("credential %s: %w", h.config.Name, err)
	}
	return nil
}

// written is what config.toml says now of a session's credentials. One that an operator takes out or
// narrows is lost to the sessions that run, and to those that a long-lived nacre opens later. While the
// file cannot be read nobody can tell what was taken out, and all are lost. The zero value knows of no
// file, and takes none out.
type written struct {
	dir, group string

	mu   sync.Mutex
	info os.FileInfo
	now  []config.Credential
	err  error // why it cannot be read
}

// lost says why the file does not give the credential any more; nil where it does.
func (w *written) lost(c config.Credential) error {
	if w.dir == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	at := slices.IndexFunc(w.now, func(now config.Credential) bool { return now.Name == c.Name && slices.Contains(now.Groups, w.group) })
	switch {
	case w.err != nil:
		return fmt.Errorf("nobody can tell whether config.toml still gives it: %w", w.err)
	case at < 0:
		return errors.New("config.toml does not name it any more for this group")
	case !covers(w.now[at], c):
		return errors.New("config.toml says something else of it now: begin a new session, or start nacre serve again, for what it says")
	}
	return nil
}

// look reads the file where it is another one than before.
func (w *written) look() {
	info, err := os.Stat(filepath.Join(w.dir, config.FileName))
	if err == nil && w.info != nil && os.SameFile(info, w.info) && info.ModTime().Equal(w.info.ModTime()) && info.Size() == w.info.Size() {
		return
	}
	c, err := config.Load(w.dir)
	w.info, w.now, w.err = info, c.Credentials, err
}

// covers reports whether a credential still allows all that it allowed before, and is otherwise the same.
// With more methods, paths, repositories or refs, or a later end, it goes on as it was.
func covers(now, before config.Credential) bool {
	same := now.Locked() == before.Locked()
	now.Groups = before.Groups
	if within(lease.Methods(before.Methods), lease.Methods(now.Methods)) {
		now.Methods = before.Methods
	}
	for _, list := range []struct {
		now    *[]string
		before []string
	}{{&now.Paths, before.Paths}, {&now.Repositories, before.Repositories}, {&now.Push, before.Push}} {
		if len(list.before) > 0 && within(list.before, *list.now) {
			*list.now = list.before
		}
	}
	if now.Expires.IsZero() || !before.Expires.IsZero() && !now.Expires.Before(before.Expires) {
		now.Expires = before.Expires
	}
	return same && reflect.DeepEqual(now, before)
}

// within reports whether all of some texts are among others.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}
