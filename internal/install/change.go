package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// Rollback puts the previous version of an installed plugin in place again; a
// second one goes forward again. What it wants was agreed to when it came; fits refuses
// it where it cannot live beside the plugins that came since.
func (s *Store) Rollback(name nacre.PluginName, fits func(Plan) error) (Done, error) {
	var e *consent.Entry
	err := consent.Change(s.LockFile, func(l *consent.Lock) error {
		e = l.Plugins[name]
		switch {
		case e == nil || e.Source == "":
			return fmt.Errorf("plugin %.80q was not installed: see nacre plugin list", string(name))
		case e.Previous == nil:
			return fmt.Errorf("plugin %s has no version to go back to", name)
		case !s.holds(name, *e.Previous):
			return fmt.Errorf("the previous version of plugin %s is gone or was changed: run nacre plugin update %s --ref with the commit %s", name, name, e.Previous.Commit)
		}
		dir := s.folder(name, *e.Previous)
		if err := fits(Plan{Name: name, Found: pluginhost.Inspect(dir), Source: e.Source, Commit: e.Previous.Commit, Wants: e.Previous.Wants, Update: true}); err != nil {
			return err
		}
		now := e.Current
		e.Current, e.Previous = *e.Previous, &now
		return nil
	}, func() error { return s.use(name, e) })
	if err != nil {
		return Done{}, err
	}
	return s.done(name, e.Source, e.Current, true), nil
}

// Remove takes an installed plugin away, with all its versions. Of a folder
// that was put there by hand it forgets what was agreed to, and leaves it. The plugin's
// data stays.
func (s *Store) Remove(name nacre.PluginName) (Done, error) {
	var e *consent.Entry
	err := consent.Change(s.LockFile, func(l *consent.Lock) error {
		if e = l.Plugins[name]; e == nil {
			return fmt.Errorf("plugin %.80q was neither installed nor confirmed: delete its folder yourself", string(name))
		}
		delete(l.Plugins, name)
		if e.Source == "" {
			return nil
		}
		return s.unlink(name)
	}, func() error {
		if e.Source == "" {
			return nil
		}
		return os.RemoveAll(filepath.Join(s.Plugins, storeFolder, string(name)))
	})
	if err != nil {
		return Done{}, err
	}
	return s.done(name, e.Source, e.Current, e.Source != ""), nil
}

// unlink removes the link to the store, and never a folder of somebody's.
func (s *Store) unlink(name nacre.PluginName) error {
	link := filepath.Join(s.Plugins, string(name))
	info, err := os.Lstat(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%s is not what was installed: move it away first", link)
	}
	return os.Remove(link)
}

// Confirm asks about a plugin as it lies there, and records what was agreed to. It is for a folder
// that was put there by hand, or an installed one that its operator changed.
func (s *Store) Confirm(name nacre.PluginName, agree func(Plan) error) (Done, error) {
	f, err := s.there(name)
	if err != nil {
		return Done{}, err
	}
	l, err := consent.Load(s.LockFile)
	if err != nil {
		return Done{}, err
	}
	old := l.Plugins[name]
	v := consent.Version{Version: f.Manifest.Version, Hash: f.Hash, Wants: consent.WantsOf(f.Manifest)}
	plan := Plan{Name: name, Found: f, Wants: v.Wants, Update: old != nil, ByHand: true}
	if old != nil {
		plan.Source, plan.Beyond = old.Source, v.Wants.Beyond(old.Current.Wants)
		if old.Current.Hash == f.Hash {
			return s.done(name, old.Source, old.Current, false), nil
		}
	}
	if err := agree(plan); err != nil {
		return Done{}, err
	}
	v.Confirmed = s.Now().UTC()
	e := &consent.Entry{Current: v}
	err = consent.Change(s.LockFile, func(l *consent.Lock) error {
		if now := l.Plugins[name]; (now == nil) != (old == nil) || now != nil && now.Current.Hash != old.Current.Hash {
			return fmt.Errorf("plugin %s was changed by somebody else meanwhile: look at it, and try again", name)
		}
		if old != nil && old.Source != "" && s.linked(name) {
			e.Source, e.Ref, e.Previous, e.Current.Folder = old.Source, old.Ref, old.Previous, filepath.Base(f.Dir)
		}
		l.Plugins[name] = e
		return nil
	}, func() error { return nil })
	return s.done(name, e.Source, v, true), err
}

// there is the plugin in the user's folder.
func (s *Store) there(name nacre.PluginName) (pluginhost.Found, error) {
	found, err := pluginhost.Discover(s.Plugins)
	if err != nil {
		return pluginhost.Found{}, err
	}
	for _, f := range found {
		if f.Name == name {
			return f, f.Err
		}
	}
	return pluginhost.Found{}, fmt.Errorf("no plugin %.80q in %s", string(name), s.Plugins)
}
