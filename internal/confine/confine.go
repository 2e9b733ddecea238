// Package confine promises the third layer of an atom: what its globs say of
// files becomes mounts, so that a write elsewhere fails with EROFS whatever
// program tries it (S-04). Mounts cannot express every glob: where a folder had
// to be opened further than its globs, the layer says so, and the verifier
// covers the rest. It mounts nothing itself.
package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
)

const (
	// MaxMounts is how many files and folders are held one by one; the verifier
	// covers what is beyond.
	MaxMounts = 400
	// maxOpened is how many folders are opened; the rest stays read-only.
	maxOpened = MaxMounts / 2
	// maxEntries is how many files and folders of a project are looked at.
	maxEntries = 200_000
	// maxNamed is how many globs a line names.
	maxNamed = 4
)

// Layer is what the operating system holds of a task.
type Layer struct {
	// ReadOnly says that of the project only what Mounts open can be written.
	ReadOnly bool
	// Mounts come after the project's own.
	Mounts []nacre.Mount
	// Make are folders, relative to the project, that have to be there first.
	Make []string
	// Widened says what is covered by the verifier alone.
	Widened []string
}

// rule is one atom's layer with the task's lists in it.
type rule struct {
	confined           bool
	writable, readOnly []string
}

// project is the folder that globs are resolved against, as gates see it.
const project = "/project"

var world = gate.World{Project: project}

// Of is the layer of a task's atoms over the project in the host folder dir,
// which is seen at target. programs are the folders inside that hold programs.
func Of(atoms []atom.Atom, task atom.Parameters, dir, target string, programs []string) (Layer, error) {
	rules, hidden := read(atoms, task)
	p := &plan{rules: rules, dir: dir, target: target}
	for _, r := range rules {
		p.layer.ReadOnly = p.layer.ReadOnly || r.confined
	}
	if p.layer.ReadOnly {
		p.open()
	}
	if len(rules) > 0 {
		if err := p.walk(); err != nil {
			return Layer{}, err
		}
		p.tellAbsent()
	}
	for _, folder := range programs {
		for _, name := range hidden {
			p.layer.Mounts = append(p.layer.Mounts, nacre.Mount{Kind: nacre.Mask, Target: path.Join(folder, name), Optional: true})
		}
	}
	if p.more > 0 {
		p.widen("files: %d more files and folders are held by the verifier alone", p.more)
	}
	return p.layer, nil
}

// read takes the layers of the atoms that the task does not lift.
func read(atoms []atom.Atom, task atom.Parameters) (rules []rule, hidden []string) {
	for _, a := range atoms {
		if a.OS.IsZero() || a.OS.Unless == "allow-dep-bump" && task.AllowDepBump {
			continue
		}
		hidden = append(hidden, a.OS.HidePrograms...)
		r := rule{a.OS.Confined, listed(a.OS.Writable, task), listed(a.OS.ReadOnly, task)}
		if r.confined || len(r.readOnly) > 0 {
			rules = append(rules, r)
		}
	}
	slices.Sort(hidden)
	return rules, slices.Compact(hidden)
}

// listed puts the task's lists where an atom names them.
func listed(globs []string, task atom.Parameters) []string {
	var list []string
	for _, g := range globs {
		switch g {
		case "$files-whitelist":
			list = append(list, task.Whitelist...)
		case "$files-denylist":
			list = append(list, task.Denylist...)
		default:
			list = append(list, g)
		}
	}
	return list
}

// plan is a layer in the making.
type plan struct {
	rules  []rule
	dir    string
	target string
	layer  Layer
	opened []string // folders that were opened, relative
	looked int
	more   int
}

func (p *plan) widen(format string, args ...any) {
	p.layer.Widened = append(p.layer.Widened, fmt.Sprintf(format, args...))
}

// writable reports whether all atoms let a file be written. A name that no rule
// can read may not.
func (p *plan) writable(name string) bool {
	for _, r := range p.rules {
		if r.confined && !(gate.Rule{Kind: gate.FilesWhitelist, Whitelist: r.writable}).Place(name, world).Allowed {
			return false
		}
		if len(r.readOnly) > 0 && !(gate.Rule{Kind: gate.FilesDenylist, Denylist: r.readOnly}).Place(name, world).Allowed {
			return false
		}
	}
	return true
}

// open makes the folders writable that hold what may be written.
func (p *plan) open() {
	for _, r := range p.rules {
		for _, glob := range r.writable {
			folder, exact := folderOf(glob)
			if !p.openable(folder) {
				p.widen("files: %s: %s is no folder of the project, so nothing in it can be written", glob, orTop(folder))
				continue
			}
			if !p.admitsBelow(folder) { // another atom lets nothing there be written
				continue
			}
			if !exact {
				p.widen("files: %s: new files can be written in all of %s", glob, orTop(folder))
			}
			p.opened = append(p.opened, folder)
		}
	}
	slices.Sort(p.opened)
	p.opened = slices.Compact(p.opened)
	var outermost []string
	for _, folder := range p.opened {
		if !slices.ContainsFunc(outermost, func(outer string) bool { return within(folder, outer) }) {
			outermost = append(outermost, folder)
		}
	}
	if more := len(outermost) - maxOpened; more > 0 { // room is left to hold what in them may not be written
		outermost = outermost[:maxOpened]
		p.widen("files: %d more folders stay read-only, of those that may be written: name fewer, or one above them", more)
	}
	p.opened = outermost
	for _, folder := range p.opened {
		p.layer.Make = append(p.layer.Make, folder)
		p.mount(nacre.BindReadWrite, folder)
		if folder == "" { // what opens the project opens its git folder too
			p.mount(nacre.BindReadOnly, ".git")
		}
	}
}

// folderOf is the longest part of a glob that names a folder, and whether the
// glob is all of it.
func folderOf(glob string) (folder string, exact bool) {
	glob = strings.TrimPrefix(path.Clean(glob), "./")
	parts := strings.Split(glob, "/")
	n := 0
	for n < len(parts) && !strings.ContainsAny(parts[n], `*?[{\`) {
		n++
	}
	rest := strings.Join(parts[n:], "/")
	if n == len(parts) { // a file, or a folder that is meant with all in it
		n--
		rest = ""
	}
	return strings.Join(parts[:n], "/"), rest == "**"
}

func orTop(folder string) string {
	if folder == "" {
		return "the project's own folder"
	}
	return folder
}

func within(name, folder string) bool {
	return folder == "" || name == folder || strings.HasPrefix(name, folder+"/")
}

// openable reports whether a folder is one, or can be made: no part of it is a
// link or a file.
func (p *plan) openable(folder string) bool {
	if folder == ".." || strings.HasPrefix(folder, "../") || path.IsAbs(folder) || within(folder, ".git") && folder != "" {
		return false
	}
	for at := folder; at != "" && at != "."; at = path.Dir(at) {
		info, err := os.Lstat(filepath.Join(p.dir, at))
		if err == nil && !info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// walk holds what is there already and may not be written, one by one.
func (p *plan) walk() error {
	roots := []string{""}
	if p.layer.ReadOnly {
		roots = p.opened
	}
	for _, root := range roots {
		if err := p.visit(root); err != nil {
			return err
		}
	}
	return nil
}

// visit holds what is in a folder that can be written. A folder in which
// nothing may be written is held as a whole.
func (p *plan) visit(folder string) error {
	entries, err := os.ReadDir(filepath.Join(p.dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if name == ".git" { // held already
			continue
		}
		if p.looked++; p.looked > maxEntries {
			return fmt.Errorf("the project has more than %d files: name narrower folders in the task's lists", maxEntries)
		}
		switch {
		case !e.IsDir():
			if e.Type().IsRegular() && !p.writable(name) {
				p.hold(name)
			}
		case p.admits(name):
			if err := p.visit(name); err != nil {
				return err
			}
		default:
			p.hold(name)
		}
	}
	return nil
}

// admits reports whether something in a folder may be written: what is there,
// or what the globs would let be made there.
func (p *plan) admits(folder string) bool {
	if p.admitsBelow(folder) {
		return true
	}
	found := false
	err := filepath.WalkDir(filepath.Join(p.dir, folder), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p.looked++; p.looked > maxEntries {
			return fs.SkipAll
		}
		if !d.IsDir() {
			name, err := filepath.Rel(p.dir, at)
			if found = err == nil && p.writable(filepath.ToSlash(name)); found {
				return fs.SkipAll
			}
		}
		return nil
	})
	return found || err != nil
}

// admitsBelow reports whether all atoms would let something be made in a folder.
func (p *plan) admitsBelow(folder string) bool {
	for _, r := range p.rules {
		if r.confined && !slices.ContainsFunc(r.writable, func(glob string) bool { return reaches(glob, folder) }) {
			return false
		}
		denied := gate.Rule{Kind: gate.FilesDenylist, Denylist: r.readOnly}
		if len(r.readOnly) > 0 && !denied.Place(path.Join(folder, "x"), world).Allowed {
			return false
		}
	}
	return true
}

// reaches reports whether a glob could mean something below a folder. A part
// with wildcards is taken to match: what is there is held one by one.
func reaches(glob, folder string) bool {
	parts := strings.Split(path.Clean(glob), "/")
	if folder == "" || folder == "." {
		return true
	}
	for _, name := range strings.Split(folder, "/") {
		switch {
		case len(parts) == 0:
			return false
		case parts[0] == "**":
			return true
		case strings.ContainsAny(parts[0], `*?[{\`) || strings.EqualFold(parts[0], name):
			parts = parts[1:]
		default:
			return false
		}
	}
	return len(parts) > 0
}

// tellAbsent names what could be made although it may not be written: there is
// nothing yet to mount over.
func (p *plan) tellAbsent() {
	var absent []string
	for _, r := range p.rules {
		for _, glob := range r.readOnly {
			folder, _ := folderOf(glob)
			if name := strings.TrimSuffix(glob, "/**"); !strings.ContainsAny(name, `*?[{\`) {
				folder = name
			}
			_, err := os.Lstat(filepath.Join(p.dir, folder))
			reachable := !p.layer.ReadOnly || slices.ContainsFunc(p.opened, func(o string) bool { return within(folder, o) || within(o, folder) })
			if reachable && (folder == "" || errors.Is(err, fs.ErrNotExist)) {
				absent = append(absent, glob)
			}
		}
	}
	if slices.Sort(absent); len(absent) > 0 {
		absent = slices.Compact(absent)
		more := ""
		if n := len(absent) - maxNamed; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		p.widen("files: what is not there yet can be made, and is refused on return: %s%s", strings.Join(absent[:min(len(absent), maxNamed)], ", "), more)
	}
}

// hold makes one file or folder read-only where its folder is not.
func (p *plan) hold(name string) {
	if len(p.layer.Mounts) >= MaxMounts {
		p.more++
		return
	}
	p.mount(nacre.BindReadOnly, name)
}

func (p *plan) mount(kind nacre.MountKind, name string) {
	p.layer.Mounts = append(p.layer.Mounts, nacre.Mount{
		Kind: kind, Source: filepath.Join(p.dir, filepath.FromSlash(name)), Target: path.Join(p.target, name),
	})
}
