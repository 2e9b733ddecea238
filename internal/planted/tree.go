package planted

import (
	"iter"
	"path"
	"slices"
)

// above are the folders around a path, and the path itself, the topmost first.
func above(name string) []string {
	var list []string
	for i, c := range name {
		if c == '/' {
			list = append(list, name[:i])
		}
	}
	return append(list, name)
}

// Collisions looks through all names of a tree. It tells of one whether it, or a folder around it,
// is the same as another on a file system that ignores case.
func Collisions(names iter.Seq[string]) func(name string) bool {
	count, seen := map[string]int{}, map[string]bool{}
	for name := range names {
		for _, part := range above(name) {
			if !seen[part] {
				seen[part] = true
				count[Folded(part)]++
			}
		}
	}
	return func(name string) bool {
		for _, part := range above(name) {
			if count[Folded(part)] > 1 {
				return true
			}
		}
		return false
	}
}

// InPlace are those of n changes that cannot be beside a held one, since one's path is a
// folder of the other's: neither lands without the other.
func InPlace(n int, change func(i int) (name string, held bool)) (beside []int) {
	held, around := map[string]bool{}, map[string]bool{}
	for i := range n {
		if name, is := change(i); is {
			held[name] = true
			for _, folder := range above(name) {
				around[folder] = true
			}
		}
	}
	for i := range n {
		name, is := change(i)
		if !is && (around[name] || slices.ContainsFunc(above(name), func(folder string) bool { return held[folder] })) {
			beside = append(beside, i)
		}
	}
	return beside
}

// Bare looks through all names of a tree, and tells of one whether it is in a folder that git takes
// for a repository, without any .git. git obeys its configuration as soon as somebody enters it.
// What makes the folder one may be links and files as well.
func Bare(names iter.Seq[string]) func(name string) bool {
	has := map[string]RepositoryParts{}
	for name := range names {
		for _, part := range above(name) {
			if p := PartOfRepository(path.Base(part)); p != 0 {
				has[path.Dir(part)] |= p
			}
		}
	}
	return func(name string) bool {
		folders := above(name)
		for _, dir := range folders[:len(folders)-1] {
			if has[dir] == WholeRepository {
				return true
			}
		}
		return false
	}
}
