package atom

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// ErrAmbiguous is a name that both a project and nacre itself have.
var ErrAmbiguous = errors.New("it has a built-in's name")

// Shelf is where rules lie: those that ship, and those that a project adds. A
// file that both have is an error wherever it is met, since a project may not
// silently replace one (S-01).
type Shelf struct {
	// BuiltIn ships with nacre.
	BuiltIn fs.FS
	// Project is a project's .nacre folder; nil means that there is none.
	Project fs.FS
}

// Holder is which of the two holds a file; nil where neither does.
func (s Shelf) Holder(file string) (from fs.FS, builtIn bool, err error) {
	ours, err := has(s.BuiltIn, file)
	if err != nil {
		return nil, false, err
	}
	theirs, err := has(s.Project, file)
	switch {
	case err != nil:
		return nil, false, err
	case ours && theirs:
		return nil, false, ErrAmbiguous
	case ours:
		return s.BuiltIn, true, nil
	case theirs:
		return s.Project, false, nil
	}
	return nil, false, nil
}

func has(from fs.FS, file string) (bool, error) {
	if from == nil {
		return false, nil
	}
	_, err := fs.Stat(from, file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Names are all names on both, each once and in order. in lists those of one,
// of which only a folder that is not there may be empty.
func (s Shelf) Names(in func(fs.FS) ([]string, error)) ([]string, error) {
	var all []string
	for _, from := range []fs.FS{s.BuiltIn, s.Project} {
		if from == nil {
			continue
		}
		names, err := in(from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ReadFile reads a regular file of at most MaxFile bytes.
func ReadFile(from fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(from, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxFile {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", name, MaxFile)
	}
	return fs.ReadFile(from, name)
}
