package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxSettings is the largest settings file that is read, in bytes.
	maxSettings = 8 << 20
	// backupSuffix names the copy of a settings file as it was before.
	backupSuffix = ".before-nacre"
)

// ErrOtherRole is a place that another role holds already.
var ErrOtherRole = errors.New("another role holds it already")

// Order says what is to be installed.
type Order struct {
	Pin Pin
	// Program is the absolute path of nacre.
	Program string
	Places  []Place
	// Replace lets the hook of another role be replaced.
	Replace bool
}

// Change is what becomes of one settings file.
type Change struct {
	Place
	// Command is the hook that the file has afterwards; empty where it has none.
	Command string `json:"command,omitempty"`
	// Unchanged says that the file already is as it shall be.
	Unchanged bool `json:"unchanged,omitempty"`

	before, after []byte
	// gone are the hooks of nacre's that were there.
	gone []string
}

// Plan is what an installation or a removal would write. Nothing was written.
type Plan struct {
	Changes []Change
	pins    string
	pin     Pin
	mode    fs.FileMode
}

// PlanInstall looks at the places and says what would be written: all of it or
// an error. Every place must be of one scope.
func (h Home) PlanInstall(o Order) (Plan, error) {
	plan, err := h.plan(o.Places)
	if err != nil {
		return Plan{}, err
	}
	if err := checkProgram(o.Program, o.Places[0].Scope == Managed); err != nil {
		return Plan{}, err
	}
	_, name, err := o.Pin.bytes()
	if err != nil {
		return Plan{}, err
	}
	plan.pin = o.Pin
	if err := errors.Join(checkPath(o.Program), checkPath(plan.pins)); err != nil {
		return Plan{}, err
	}
	command := line(o.Program, filepath.Join(plan.pins, name))
	for i := range plan.Changes {
		c := &plan.Changes[i]
		if !o.Replace {
			if err := c.sameRole(o.Pin.Role); err != nil {
				return Plan{}, err
			}
		}
		if err := c.make(command); err != nil {
			return Plan{}, err
		}
	}
	return plan, nil
}

// PlanRemove says what would be taken out of the places.
func (h Home) PlanRemove(places []Place) (Plan, error) {
	plan, err := h.plan(places)
	if err != nil {
		return Plan{}, err
	}
	for i := range plan.Changes {
		if err := plan.Changes[i].make(""); err != nil {
			return Plan{}, err
		}
	}
	return plan, nil
}

func (h Home) plan(places []Place) (Plan, error) {
	if len(places) == 0 {
		return Plan{}, errors.New("no place for hooks is named")
	}
	plan := Plan{pins: h.Pins(places[0].Scope), mode: 0o600}
	if places[0].Scope == Managed {
		plan.mode = 0o644
	}
	for _, p := range places {
		data, err := readSettings(p.File)
		if err != nil {
			return Plan{}, err
		}
		c := Change{Place: p, before: data}
		if c.gone, err = p.ours(data); err != nil {
			return Plan{}, err
		}
		plan.Changes = append(plan.Changes, c)
	}
	return plan, nil
}

func (p Place) isRequirements() bool { return p.Agent == Codex && p.Scope == Managed }

// ours are nacre's hooks in a place's file.
func (p Place) ours(data []byte) (found []string, err error) {
	if p.isRequirements() {
		found, err = requirementsOurs(data)
	} else {
		found, err = oursIn(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: it %w", p.File, err)
	}
	return found, nil
}

// sameRole refuses to replace what another role holds, or what cannot be read.
func (c Change) sameRole(name string) error {
	for _, command := range c.gone {
		_, file, _ := parse(command)
		held := "a role that cannot be read any more"
		if pin, err := LoadPin(file); err == nil {
			if pin.Role == name {
				continue
			}
			held = "the role " + pin.Role
		}
		return fmt.Errorf("%s: %w: %s; give --replace to put %s in its place", c.File, ErrOtherRole, held, name)
	}
	return nil
}

// make computes the file's new text, and reads it again as its agent would.
func (c *Change) make(command string) (err error) {
	c.Command = command
	if c.isRequirements() {
		c.after, err = withRequirement(c.before, command)
	} else {
		c.after, err = withHook(c.before, command)
		if err == nil && c.Scope == Managed {
			c.after, err = withManagedOnly(c.after, command != "")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: it %w", c.File, err)
	}
	if command == "" && len(c.gone) == 0 || bytes.Equal(c.before, c.after) {
		c.Unchanged, c.after = true, c.before
		return nil
	}
	found, err := c.ours(c.after)
	if err == nil && (command == "" && len(found) != 0 || command != "" && (len(found) != 1 || found[0] != command)) {
		err = fmt.Errorf("%s: the hook did not come out as written", c.File)
	}
	return err
}

// withManagedOnly has Claude Code run managed hooks only.
func withManagedOnly(data []byte, on bool) ([]byte, error) {
	before, object, after, err := document(data)
	if err != nil {
		return nil, err
	}
	value := []byte("true")
	if !on {
		all, err := spans(object, '{')
		if err != nil || len(all) != 1 || all[0].key != "allowManagedHooksOnly" {
			return data, err // it may have been there before
		}
		value = nil
	}
	if object, err = withMember(object, "allowManagedHooksOnly", value, 0); err != nil {
		return nil, err
	}
	return append(append(append([]byte{}, before...), object...), after...), nil
}

// Apply writes the plan: the pin first, so that no hook is without one.
func (p Plan) Apply() error {
	folder := fs.FileMode(0o700)
	if p.mode == 0o644 {
		folder = 0o755
	}
	if err := os.MkdirAll(p.pins, folder); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(p.pins, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if p.pin.Role != "" {
		data, name, err := p.pin.bytes()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(p.pins, name), data, p.mode); err != nil {
			return err
		}
	}
	for _, c := range p.Changes {
		if err := c.apply(folder, p.mode); err != nil {
			return err
		}
	}
	return nil
}

// Orphans removes pins that no hook names any more, of those that the plan has replaced. used says
// whether one is still named elsewhere.
func (p Plan) Orphans(used func(pin string) bool) error {
	var errs []error
	for _, c := range p.Changes {
		for _, command := range c.gone {
			if _, file, _ := parse(command); filepath.Dir(file) == p.pins && !used(file) {
				if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (c Change) apply(folder, mode fs.FileMode) error {
	if c.Unchanged {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.File), folder); err != nil {
		return err
	}
	now, err := readSettings(c.File)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.before) {
		return fmt.Errorf("%s was changed meanwhile: try again", c.File)
	}
	if len(c.before) == 0 && c.Command == "" {
		return nil
	}
	if len(c.before) > 0 {
		if err := writeLike(c.File, c.File+backupSuffix, c.before, mode); err != nil {
			return err
		}
	}
	if c.Command == "" && isEmpty(c.after) {
		return os.Remove(c.File)
	}
	return writeLike(c.File, c.File, c.after, mode)
}

// isEmpty tells whether nothing is left in a file that may have been ours alone.
func isEmpty(data []byte) bool {
	var object map[string]json.RawMessage
	return len(bytes.TrimSpace(data)) == 0 || json.Unmarshal(data, &object) == nil && len(object) == 0
}

// readSettings reads a settings file; nil where there is none. A link in its
// place, or in its folder's, leads elsewhere than where it says and is refused.
func readSettings(path string) ([]byte, error) {
	for _, one := range []string{filepath.Dir(path), path} {
		info, err := os.Lstat(one)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("%s is a symbolic link: nacre writes no settings through links", one)
		case one == path && !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not a regular file", one)
		case one == path && info.Size() > maxSettings:
			return nil, fmt.Errorf("%s is over %d bytes", one, maxSettings)
		}
	}
	return os.ReadFile(path)
}

// writeLike writes a file with the mode and owner that another one has.
func writeLike(model, path string, data []byte, mode fs.FileMode) error {
	uid, gid := -1, -1
	if info, err := os.Lstat(model); err == nil {
		mode = info.Mode().Perm()
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			uid, gid = int(stat.Uid), int(stat.Gid)
		}
	}
	return replaceFile(path, data, mode, [2]int{uid, gid})
}

func writeFile(path string, data []byte, mode fs.FileMode) error {
	return replaceFile(path, data, mode, [2]int{-1, -1})
}

// replaceFile puts a whole file in a file's place, or changes nothing.
func replaceFile(path string, data []byte, mode fs.FileMode, owner [2]int) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".nacre-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // nothing names it
		}
	}()
	_, err = f.Write(data)
	if err == nil && owner[0] >= 0 && owner[0] != os.Geteuid() {
		err = f.Chown(owner[0], owner[1])
	}
	err = errors.Join(err, f.Chmod(mode))
	err = errors.Join(err, f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another nacre is writing hooks: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // the lock goes with it
}

// checkProgram refuses a program that would not be there for the hook, or that
// somebody else than root could change under a managed one.
func checkProgram(path string, managed bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !filepath.IsAbs(path) || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program", path)
	case !managed:
		return nil
	}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if !ok || stat.Uid != 0 || info.Mode()&0o022 != 0 && info.Mode()&fs.ModeSymlink == 0 && !sticky {
			return fmt.Errorf("%s can be changed by others than root: install nacre in a folder of root's first, such as /usr/local/bin", at)
		}
		if info.Mode()&0o001 == 0 && info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s is not open to all users: a managed hook runs as each of them", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
