package role

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

//go:embed roles
var builtIn embed.FS

const (
	// folder is where roles lie, in the binary and in a project's .nacre.
	folder = "roles"
	// maxRoles is how many roles a project may add.
	maxRoles = 256
)

// Library finds roles: the built-in ones, and those that a project adds.
type Library struct {
	// Project is a project's .nacre folder; nil means that there is none.
	Project fs.FS
}

// ErrUnknown is a name that no role bears.
var ErrUnknown = errors.New("unknown role")

// Atoms are the atoms that the roles are made of.
func (l Library) Atoms() atom.Library { return atom.Library{Project: l.Project} }

func (l Library) shelf() atom.Shelf { return atom.Shelf{BuiltIn: builtIn, Project: l.Project} }

// Find reads one role's own file.
func (l Library) Find(name string) (Role, error) {
	if err := atom.CheckSlug(name); err != nil {
		return Role{}, err
	}
	from, ours, err := l.shelf().Holder(pathOf(name))
	switch {
	case errors.Is(err, atom.ErrAmbiguous):
		return Role{}, fmt.Errorf("the project's %s has the name of a built-in role: give it a name of its own and let it extend %q", pathOf(name), name)
	case err != nil:
		return Role{}, err
	case from == nil:
		return Role{}, fmt.Errorf("%w %q: nacre role list shows those there are", ErrUnknown, name)
	}
	r, err := read(from, name)
	r.BuiltIn = ours
	return r, err
}

func pathOf(name string) string { return path.Join(folder, name+".toml") }

func read(from fs.FS, name string) (Role, error) {
	source, err := atom.ReadFile(from, pathOf(name))
	if err != nil {
		return Role{}, err
	}
	r, err := parse(name, source)
	if err != nil {
		return Role{}, fmt.Errorf("%s: %w", pathOf(name), err)
	}
	return r, nil
}

// All resolves every role, in the order of their names. One that cannot be
// resolved fails them all.
func (l Library) All() ([]Resolved, error) {
	names, err := l.shelf().Names(namesIn)
	if err != nil {
		return nil, err
	}
	list := make([]Resolved, 0, len(names))
	for _, name := range names {
		r, err := l.Resolve(name)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// namesIn are the roles of a folder. Files that are no TOML are left out.
func namesIn(from fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(from, folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".toml")
		if !ok {
			continue
		}
		if err := atom.CheckSlug(name); err != nil {
			return nil, fmt.Errorf("%s/%.80q: %w", folder, entry.Name(), err)
		}
		if names = append(names, name); len(names) > maxRoles {
			return nil, fmt.Errorf("%s holds more than %d roles", folder, maxRoles)
		}
	}
	return names, nil
}
