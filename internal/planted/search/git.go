package search

import (
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/tree"
)

// looksBare reports whether git takes the folder for a repository without a .git.
func looksBare(entries []tree.Entry) bool {
	seen := 0
	for _, e := range entries {
		switch e.Name {
		case "HEAD", "objects", "refs":
			seen++
		case "commondir":
			seen += 3
		}
	}
	return seen >= 3
}

// bareRepository names one that was made, and remembers one that was there, of
// which what git obeys counts. The top is one, too, where its .git is none.
func (s *searcher) bareRepository(f tree.Folder) {
	atTop := f.Path == "."
	made := !atTop && f.Self.New
	for _, e := range f.Entries {
		switch e.Name {
		case "HEAD", "config", "commondir":
			made = made || e.New
		case "objects", "refs":
			made = made || atTop && e.New
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
