package search

import (
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/tree"
)

// looksBare reports whether git takes the folder for a repository without a .git.
func looksBare(entries []tree.Entry) bool {
	var seen planted.RepositoryParts
	for _, e := range entries {
		seen |= planted.PartOfRepository(e.Name)
	}
	return seen == planted.WholeRepository
}

// bareRepository names one that was made, and remembers one that was there, of
// which what git obeys counts. The top is one, too, where its .git is none.
func (s *searcher) bareRepository(f tree.Folder) {
	atTop := f.Path == "."
	made := !atTop && f.Self.New
	for _, e := range f.Entries {
		if planted.MakesRepository(e.Name) || atTop && planted.PartOfRepository(e.Name) != 0 {
			made = made || e.New
		}
	}
	switch {
	case made && atTop:
		s.note("HEAD", planted.Class{Kind: planted.Nested})
	case made:
		s.note(f.Path, planted.Class{Kind: planted.Nested})
	case !atTop:
		s.mu.Lock()
		s.bare[f.Path] = true
		s.mu.Unlock()
	}
}
