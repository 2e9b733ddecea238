package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// Store is an installation's plugins and the record of what was agreed to. All
// fields are required.
type Store struct {
	// Plugins is the user's folder of plugins. Versions lie in .store below it,
	// and a link with the plugin's name leads to the one in use.
	Plugins string
	// LockFile is state/plugins.json.
	LockFile string
	Now      func() time.Time
	Getenv   func(string) string
}

// Order is a plugin to install, or an update of one.
type Order struct {
	// Source is a git URL or a folder; an update uses the recorded one.
	Source string
	// Name is the plugin's; for Install empty means the source's own.
	Name nacre.PluginName
	// Ref is a branch, tag or full commit; empty means the source's default, or
	// for an update the recorded one.
	Ref string
	// Agree is asked before anything is in place; an error from it ends the
	// order and nothing has changed. Required.
	Agree func(Plan) error
}

// Plan is what would be put in place, fetched and checked, and not yet there.
type Plan struct {
	Name   nacre.PluginName
	Found  pluginhost.Found
	Source string
	Commit string
	Wants  consent.Wants
	// Beyond is what Wants has that was not agreed to before: all that counts
	// for an update. It is empty for a new plugin.
	Beyond []string
	// Update says that another version is in place.
	Update bool
	// ByHand says that the files are somebody's own and not a source's.
	ByHand bool
}

// Done is what was put in place, or taken away.
type Done struct {
	Name    nacre.PluginName `json:"name"`
	Version string           `json:"version"`
	Source  string           `json:"source,omitempty"`
	Commit  string           `json:"commit,omitempty"`
	Hash    string           `json:"hash"`
	Wants   consent.Wants    `json:"wants"`
	// Changed is false where everything was so already.
	Changed bool `json:"changed"`
}

// Install fetches a plugin that is not there yet, asks, and puts it in place.
func (s *Store) Install(ctx context.Context, o Order) (Done, error) {
	from, err := parseSource(o.Source)
	if err == nil {
		err = checkRefFor(from, o.Ref)
	}
	if err == nil && o.Name == "" {
		o.Name, err = from.name()
	}
	if err == nil {
		_, err = nacre.ParsePluginName(string(o.Name))
	}
	if err == nil {
		err = s.vacant(o.Name)
	}
	if err != nil {
		return Done{}, err
	}
	return s.place(ctx, from, o, nil)
}

func checkRefFor(from source, ref string) error {
	if ref != "" && from.protocol == "" {
		return errors.New("--ref is for git: name the repository as a file URL, such as file:///path")
	}
	return checkRef(ref)
}

// vacant refuses a name that is in use: by an installed plugin, or by a folder
// that somebody put there.
func (s *Store) vacant(name nacre.PluginName) error {
	path := filepath.Join(s.Plugins, string(name))
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if s.linked(name) {
		return fmt.Errorf("plugin %s is installed already: run nacre plugin update %s, or choose another name with --name", name, name)
	}
	return fmt.Errorf("%s is there already and was not installed: remove it, or choose another name with --name", path)
}

// Update fetches an installed plugin's source again, and asks where it wants
// more than was agreed to.
func (s *Store) Update(ctx context.Context, o Order) (Done, error) {
	e, err := s.installed(o.Name)
	if err != nil {
		return Done{}, err
	}
	from, err := parseSource(e.Source)
	if err == nil && o.Ref == "" {
		o.Ref = e.Ref
	}
	if err == nil {
		err = checkRefFor(from, o.Ref)
	}
	if err != nil {
		return Done{}, err
	}
	return s.place(ctx, from, o, e)
}

func (s *Store) installed(name nacre.PluginName) (*consent.Entry, error) {
	l, err := consent.Load(s.LockFile)
	if err != nil {
		return nil, err
	}
	e := l.Plugins[name]
	if e == nil || e.Source == "" {
		return nil, fmt.Errorf("plugin %.80q was not installed: see nacre plugin list", string(name))
	}
	return e, nil
}

// place stages a version, asks, and swaps it in. old is nil for a new plugin.
func (s *Store) place(ctx context.Context, from source, o Order, old *consent.Entry) (done Done, err error) {
	in, err := s.openStaging()
	if err != nil {
		return Done{}, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	f, commit, err := s.fetch(ctx, in, from, o.Name, o.Ref)
	if err != nil {
		return Done{}, err
	}
	v := consent.Version{
		Version: f.Manifest.Version, Commit: commit, Hash: f.Hash, Folder: folderOf(f.Hash), Wants: consent.WantsOf(f.Manifest),
	}
	plan := Plan{Name: o.Name, Found: f, Source: from.text, Commit: commit, Wants: v.Wants, Update: old != nil}
	if old != nil {
		plan.Beyond = v.Wants.Beyond(old.Current.Wants)
		if old.Current.Hash == v.Hash && s.intact(o.Name, v) {
			return s.done(o.Name, from.text, v, false), nil
		}
	}
	if err := o.Agree(plan); err != nil {
		return Done{}, err
	}
	v.Confirmed = s.Now().UTC()
	if err := s.keep(o.Name, f.Dir, v); err != nil {
		return Done{}, err
	}
	next := &consent.Entry{Source: from.text, Ref: o.Ref, Current: v}
	err = consent.Change(s.LockFile, func(l *consent.Lock) error {
		if err := s.unchanged(o.Name, old, l.Plugins[o.Name]); err != nil {
			return err
		}
		if old != nil && old.Current.Hash != v.Hash {
			next.Previous = &old.Current
		} else if old != nil {
			next.Previous = old.Previous
		}
		l.Plugins[o.Name] = next
		return nil
	}, func() error { return s.use(o.Name, next) })
	if err != nil {
		return Done{}, err
	}
	return s.done(o.Name, from.text, v, true), nil
}

// unchanged refuses to overwrite what another process did meanwhile. What is
// on record without a link to it was never put in place.
func (s *Store) unchanged(name nacre.PluginName, before, now *consent.Entry) error {
	if before == nil {
		return s.vacant(name)
	}
	if now == nil || now.Current.Hash != before.Current.Hash {
		return fmt.Errorf("plugin %s was changed by somebody else meanwhile: look at it, and try again", name)
	}
	return nil
}

func (s *Store) done(name nacre.PluginName, from string, v consent.Version, changed bool) Done {
	return Done{name, v.Version, from, v.Commit, v.Hash, v.Wants, changed}
}

// folderOf is a version's folder in the store.
func folderOf(hash string) string { return strings.TrimPrefix(hash, "sha256:")[:16] }

func (s *Store) folder(name nacre.PluginName, v consent.Version) string {
	return filepath.Join(s.Plugins, storeFolder, string(name), v.Folder)
}

// keep moves a staged version into the store. One of the same name that is
// there is of the same content, or was changed and goes.
func (s *Store) keep(name nacre.PluginName, staged string, v consent.Version) error {
	to := s.folder(name, v)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // plugins are programs, not secrets: whoever runs them reads them
		return err
	}
	if s.holds(name, v) {
		return nil
	}
	aside := filepath.Join(filepath.Dir(filepath.Dir(staged)), "old")
	if err := os.Rename(to, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(staged, to); err != nil && !s.holds(name, v) { // somebody else was first
		return err
	}
	return disk.SyncDir(filepath.Dir(to))
}

// holds reports whether the store has this version, unchanged.
func (s *Store) holds(name nacre.PluginName, v consent.Version) bool {
	hash, err := hashOf(s.folder(name, v))
	return err == nil && hash == v.Hash
}

// linked reports whether the plugin's place leads into the store.
func (s *Store) linked(name nacre.PluginName) bool {
	to, err := os.Readlink(filepath.Join(s.Plugins, string(name)))
	return err == nil && filepath.Dir(to) == filepath.Join(storeFolder, string(name))
}

// intact reports whether this version is in use, unchanged.
func (s *Store) intact(name nacre.PluginName, v consent.Version) bool {
	to, err := os.Readlink(filepath.Join(s.Plugins, string(name)))
	return err == nil && to == s.target(name, v) && s.holds(name, v)
}

func (s *Store) target(name nacre.PluginName, v consent.Version) string {
	return filepath.Join(storeFolder, string(name), v.Folder)
}

// use makes the plugin's link lead to the entry's current version, in one
// step, and removes versions that nothing leads to any more. A session that
// runs keeps the version that it started with.
func (s *Store) use(name nacre.PluginName, e *consent.Entry) error {
	link := filepath.Join(s.Plugins, string(name))
	if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s was put there meanwhile: remove it, and run nacre plugin update %s", link, name)
	}
	fresh := filepath.Join(s.Plugins, storeFolder, ".link-"+string(name))
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(s.target(name, e.Current), fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, link); err != nil {
		return err
	}
	if err := disk.SyncDir(s.Plugins); err != nil {
		return err
	}
	return s.prune(name, e)
}

func (s *Store) prune(name nacre.PluginName, e *consent.Entry) error {
	dir := filepath.Join(s.Plugins, storeFolder, string(name))
	kept, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, one := range kept {
		if one.Name() != e.Current.Folder && (e.Previous == nil || one.Name() != e.Previous.Folder) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, one.Name())))
		}
	}
	return err
}
