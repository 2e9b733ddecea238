package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// verifyLimit is for one answer to verify (D-29).
const verifyLimit = 10 * time.Second

// ErrNoVerify is the answer of [Host.Verify] for a plugin whose manifest does
// not say verify.
var ErrNoVerify = errors.New("the plugin does not verify itself")

// Reloaded are a plugin's tools before and after a reload. Kernels that
// registered Old must forget them and register New: the drivers of Old answer
// that the plugin is unavailable, unless its folder is what it was.
type Reloaded struct {
	Old, New []nacre.Tool
}

// Reload replaces one plugin by what its folder is now (D-27). Where that does
// not start, the old one goes on and the error is a *[Problem]. The new one runs
// when Reload returns; the old one answers what it has been asked, at most
// Limits.Drain, and shuts down meanwhile. Other plugins notice nothing.
func (h *Host) Reload(ctx context.Context, name nacre.PluginName) (Reloaded, error) {
	select {
	case h.reloading <- struct{}{}:
	case <-ctx.Done():
		return Reloaded{}, fmt.Errorf("plugin %s: reload: %w", name, ctx.Err())
	}
	done := func() { <-h.reloading }
	old := h.unit(name)
	if old == nil {
		done()
		return Reloaded{}, fmt.Errorf("plugin %s was not there at the start: start again to find it", name)
	}
	tools := Reloaded{Old: h.tools(old)}
	next, err := h.replacement(ctx, old)
	if err == nil {
		err = h.swap(ctx, old, next, done)
	}
	if err != nil {
		old.record(ctx, "plugin.reloaded", nacre.OutcomeError, detail{"category": categoryOf(err), "error": old.redacted(err.Error())})
		done()
		return Reloaded{}, fmt.Errorf("plugin %s: %w", name, err)
	}
	next.record(ctx, "plugin.reloaded", "ready", detail{"before": old.found.Hash})
	tools.New = h.tools(next)
	return tools, nil
}

// replacement starts what the folder holds now.
func (h *Host) replacement(ctx context.Context, old *unit) (*unit, error) {
	next := newUnit(old.found.again(), &h.opts)
	next.found.Name = old.found.Name
	if next.found.Err == nil && h.opts.Admit != nil {
		next.found.Err = h.opts.Admit(next.found)
	}
	next.found.Err = h.collisionOf(old, next.found)
	restore := h.setAside(old)
	if err := h.open(ctx, next); err != nil {
		restore()
		return nil, err
	}
	return next, nil
}

// collisionOf is what is wrong with a plugin in the place of an old one.
func (h *Host) collisionOf(old *unit, next Found) error {
	found := []Found{next}
	for _, u := range h.all() {
		if u != old {
			found = append(found, u.found)
		}
	}
	return Settle(found, h.opts.Taken)[0].Err
}

// again is the plugin as its folder is now.
func (f Found) again() Found {
	if f.from == "" {
		return Inspect(f.Dir)
	}
	return Inspect(f.from)
}

// swap puts next in the place of old, which ends while nobody waits for it.
func (h *Host) swap(ctx context.Context, old, next *unit, done func()) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return errors.Join(errors.New("the host is closing"), next.close(ctx))
	}
	h.units[slices.Index(h.units, old)] = next
	h.retiring.Go(func() {
		defer done()
		h.retire(context.WithoutCancel(ctx), old, next)
	})
	h.mu.Unlock()
	return nil
}

// retire ends a plugin that was replaced. While it shuts down, the socket of its
// successor is kept out of its reach: who stops listening removes the name.
func (h *Host) retire(ctx context.Context, old, next *unit) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	h.retiring.Go(func() {
		select {
		case <-h.hurried:
			cancel()
		case <-ended:
		}
	})
	old.drain(ctx)
	restore := h.setAside(next)
	_ = old.end(ctx) // how it ended is recorded
	restore()
}

// setAside renames the socket that a listening plugin has made, and gives back
// what names it again.
func (h *Host) setAside(u *unit) (restore func()) {
	if !listens(u) {
		return func() {}
	}
	path := filepath.Join(h.opts.DataRoot, string(u.found.Name), plugin.ListenSocket)
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		return func() {}
	}
	return func() { _ = os.Rename(aside, path) } // it was there a moment ago, and the folder is ours
}

// forgetSocket removes what an earlier process left, so that the next can listen.
func forgetSocket(dataDir string) error {
	err := os.Remove(filepath.Join(dataDir, plugin.ListenSocket))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReloadSkills reads the skills of all plugins again and returns those of the
// plugins that started (D-27). Where more than the skill has changed in a folder,
// its plugin keeps the skill that it has, and the error says to reload it.
func (h *Host) ReloadSkills() ([]Skill, error) {
	var errs []error
	for _, u := range h.all() {
		if u.category() != "" {
			continue
		}
		now := u.found.again()
		switch {
		case now.Err != nil:
			errs = append(errs, fmt.Errorf("plugin %s: skill: %w", u.found.Name, now.Err))
		case now.code != u.found.code:
			errs = append(errs, fmt.Errorf("plugin %s: skill: the rest of its folder has changed too: reload the plugin", u.found.Name))
		default:
			u.show(now.Skill)
		}
	}
	return h.Skills(), errors.Join(errs...)
}

func (u *unit) show(s Skill) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shown = s
	u.shown.Name = u.found.Skill.Name
}

// Verify asks a plugin whether its credentials and its network are such that
// it can work, for at most 10 s (D-29). The error is a *[Problem], [ErrNoVerify]
// for a plugin that cannot tell, or says that there is no such plugin.
func (h *Host) Verify(ctx context.Context, name nacre.PluginName) error {
	u := h.unit(name)
	if u == nil {
		return fmt.Errorf("there is no plugin %s", name)
	}
	if err := u.problem(); err != nil {
		return err
	}
	if !u.found.Manifest.Verify {
		return ErrNoVerify
	}
	return u.verify(ctx)
}

func (u *unit) verify(ctx context.Context) error {
	c, err := u.enter()
	if err != nil {
		return &Problem{plugin.CategoryInternal, err}
	}
	defer u.leave()
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	name := newTicket()
	c.issue(name, u.forInitialize(ctx))
	defer c.revoke(name)
	if _, err = c.request(ctx, plugin.MethodVerify, plugin.VerifyParams{Ticket: name}); err != nil {
		category := said(err)
		return &Problem{category, errors.New(u.redacted(strings.TrimPrefix(err.Error(), category+": ")))}
	}
	return nil
}
