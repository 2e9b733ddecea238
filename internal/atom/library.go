package atom

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

//go:embed capabilities
var builtIn embed.FS

// folder is where atoms lie, in the binary and in a project's .nacre.
const folder = "capabilities"

// maxAtoms is how many atoms a project may add.
const maxAtoms = 1024

// Library finds atoms: the built-in ones, and those that a project adds.
type Library struct {
	// Project is a project's .nacre folder; nil means that there is none.
	Project fs.FS
}

// ErrUnknown is a name that no atom bears.
var ErrUnknown = errors.New("unknown atom")

func (l Library) shelf() Shelf { return Shelf{builtIn, l.Project} }

// Find reads one atom. The retired names of the seed are resolved.
func (l Library) Find(name string) (Atom, error) {
	id, err := ParseID(canonicalName(name))
	if err != nil {
		return Atom{}, err
	}
	from, ours, err := l.shelf().Holder(path.Join(folder, id.path()))
	switch {
	case errors.Is(err, ErrAmbiguous):
		return Atom{}, fmt.Errorf("the project's %s/%s has the name of a built-in atom: fork it under a name of its own", folder, id.path())
	case err != nil:
		return Atom{}, err
	case from == nil:
		return Atom{}, fmt.Errorf("%w %q: nacre capability list shows those there are", ErrUnknown, id)
	}
	a, err := read(from, id)
	a.BuiltIn = ours
	return a, err
}

// read reads an atom's two files.
func read(from fs.FS, id ID) (Atom, error) {
	dir := path.Join(folder, id.path())
	name := path.Join(dir, "capability.toml")
	source, err := ReadFile(from, name)
	if err != nil {
		return Atom{}, err
	}
	a, text, err := parse(id, source)
	if err != nil {
		return Atom{}, fmt.Errorf("%s: %w", name, err)
	}
	if text == "" {
		text = "text.md"
	}
	if path.Base(text) != text || !fs.ValidPath(text) || text == "." {
		return Atom{}, fmt.Errorf("%s: text.path is %q: name a file beside it", name, clip(text))
	}
	if a.text, err = ReadFile(from, path.Join(dir, text)); err != nil {
		return Atom{}, err
	}
	if err := checkText(a.text); err != nil {
		return Atom{}, fmt.Errorf("%s: %w", path.Join(dir, text), err)
	}
	a.Text = string(a.text)
	return a, nil
}

// All reads every atom, in the order of their names. One that cannot be read
// fails them all: half a set of rules is none.
func (l Library) All() ([]Atom, error) {
	ids, err := l.shelf().Names(names)
	if err != nil {
		return nil, err
	}
	list := make([]Atom, 0, len(ids))
	for _, id := range ids {
		a, err := l.Find(id)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// names are the atoms of a folder. What is no folder there is left out.
func names(from fs.FS) ([]string, error) {
	var ids []string
	categories, err := fs.ReadDir(from, folder)
	if err != nil {
		return nil, err
	}
	for _, category := range categories {
		if !category.IsDir() {
			continue
		}
		slugs, err := fs.ReadDir(from, path.Join(folder, category.Name()))
		if err != nil {
			return nil, err
		}
		for _, slug := range slugs {
			if !slug.IsDir() {
				continue
			}
			id, err := ParseID(category.Name() + "::" + slug.Name())
			if err != nil {
				return nil, err
			}
			if ids = append(ids, string(id)); len(ids) > maxAtoms {
				return nil, fmt.Errorf("%s holds more than %d atoms", folder, maxAtoms)
			}
		}
	}
	return ids, nil
}
