package operator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/kernel"
)

// grantForm is the id of a grant, or of one derived from it.
var grantForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{32}(/[A-Za-z0-9_.-]{1,64})*$`) })

// Revoked says what a name was taken for.
type Revoked struct {
	// Kind is grant, session or group.
	Kind string
	// Note is what may not have been meant, empty where nothing is known to be odd.
	Note string
	// Unknown says that nothing of that name was ever there.
	Unknown bool
}

// Revoke refuses, from now on and in every process, what is named: a grant by
// its id, all calls of a session as "group/session", or all of a group (K-12).
// span is after how long a group or a session is let in again; zero is never.
// A session by its id alone, or under another group than its own, is an error:
// nothing of it would be refused.
func Revoke(inst *installation.Installation, what string, span time.Duration) (Revoked, error) {
	now := inst.Options.Now()
	if grantForm().MatchString(what) {
		if span != 0 {
			return Revoked{}, errors.New("a grant is revoked for good: leave out --for")
		}
		return Revoked{Kind: "grant"}, inst.Revoked.Revoke(what, "", now.Add(kernel.MaxGrantTTL))
	}
	group, session, deeper := strings.Cut(what, "/")
	if _, err := nacre.ParseGroup(group); err != nil {
		return Revoked{}, fmt.Errorf("revoke %.80q: neither a group, nor a group/session, nor a grant's id: %w", what, err)
	}
	meant, err := revocable(inst, nacre.Group(group))
	if deeper {
		meant, err = revocableSession(inst, nacre.Group(group), session)
	}
	if err != nil {
		return Revoked{}, fmt.Errorf("revoke %.80q: %w", what, err)
	}
	var until time.Time
	if span > 0 {
		until = now.Add(span)
	}
	if err := inst.Revoked.Revoke("", what, until); err != nil || until.IsZero() {
		return meant, err
	}
	longer, err := inst.Revoked.Revoked("", what, until)
	if longer {
		meant.Note = strings.TrimPrefix(meant.Note+"; it was revoked for longer already, and stays so", "; ")
	}
	return meant, err
}

// revocableSession holds a session's name against those there are.
func revocableSession(inst *installation.Installation, group nacre.Group, name string) (Revoked, error) {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return Revoked{}, err
	}
	meant := Revoked{Kind: "session"}
	switch known, err := inst.Registry.Show(id); {
	case errors.Is(err, registry.ErrUnknown) && elsewhere(inst, func(s machines.Session) bool { return s.ID == id && s.Group == group }):
	case err != nil:
		meant.Note = err.Error() // it is revoked all the same
		meant.Unknown = errors.Is(err, registry.ErrUnknown)
	case known.Group != group:
		return Revoked{}, fmt.Errorf("session %s is one of group %s: write %s/%s", id, known.Group, known.Group, id)
	}
	return meant, nil
}

// revocable holds a group's name against the sessions there are.
func revocable(inst *installation.Installation, group nacre.Group) (Revoked, error) {
	if id, err := nacre.ParseSessionID(string(group)); err == nil {
		if known, err := inst.Registry.Show(id); err == nil {
			return Revoked{}, fmt.Errorf("that is a session of group %s: write %s/%s", known.Group, known.Group, id)
		}
	}
	sessions, err := inst.Registry.List()
	if err != nil {
		return Revoked{Kind: "group", Note: err.Error()}, nil //nolint:nilerr // the group is revoked all the same: a file that nobody can read lets nothing in
	}
	if !slices.ContainsFunc(sessions, func(s registry.Session) bool { return s.Group == group }) &&
		!elsewhere(inst, func(s machines.Session) bool { return s.Group == group }) {
		_, configured := inst.Config.Groups[string(group)]
		return Revoked{
			Kind: "group", Note: fmt.Sprintf("group %s has had no session; a grant's id has 32 letters and digits", group),
			Unknown: !configured && group != installation.DefaultGroup,
		}, nil
	}
	return Revoked{Kind: "group"}, nil
}

// elsewhere tells whether another machine of the installation has such a session. Where the store does not answer,
// nobody knows of one.
func elsewhere(inst *installation.Installation, such func(machines.Session) bool) bool {
	list, err := machines.SessionsOf(inst.Registry, inst.Keys).List(context.Background(), false)
	return err == nil && slices.ContainsFunc(list, such)
}

// RotateGrantKey makes a new key sign grants, and returns its id. What the last
// one signed stays good until its own end.
func RotateGrantKey(inst *installation.Installation) (string, error) {
	now := inst.Options.Now()
	keys, err := revocation.RotateKeys(inst.Registry.Paths().Keys(), now, now.Add(kernel.MaxGrantTTL))
	if err != nil {
		return "", err
	}
	return keys.Current.ID, nil
}
