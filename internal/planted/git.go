package planted

import (
	"path"
	"strings"
)

// IsGitName reports whether one path component is ".git" on some file system. It may be that as it
// is, in another case, or with trailing dots, spaces or a stream name (NTFS). It may be the short
// name, or hold code points that HFS+ ignores. NTFS also takes a backslash for a separator.
func IsGitName(component string) bool {
	for part := range strings.SplitSeq(component, `\`) {
		if isGitNamePart(part) {
			return true
		}
	}
	return false
}

func isGitNamePart(part string) bool {
	plain := strings.ToLower(strings.Map(dropIgnored, part))
	if plain == ".git" {
		return true
	}
	for _, name := range []string{".git", "git~1"} {
		rest, ok := strings.CutPrefix(plain, name)
		rest = strings.TrimLeft(rest, " .")
		if ok && (rest == "" || rest[0] == ':') {
			return true
		}
	}
	return false
}

// dropIgnored removes the code points that HFS+ does not compare.
func dropIgnored(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// IsGitFile reports whether a name is one that git reads on its own and refuses
// as a symbolic link.
func IsGitFile(p string) bool {
	name := strings.ToLower(strings.Map(dropIgnored, path.Base(p)))
	name = strings.TrimRight(name, " .")
	for _, own := range []string{".gitmodules", "gitmod~", "gi7eba~"} {
		if name == own || strings.HasSuffix(own, "~") && strings.HasPrefix(name, own) {
			return true
		}
	}
	return false
}

// RepositoryParts is a set of what git wants to see in a folder before it takes it for a
// repository.
type RepositoryParts uint8

// WholeRepository is all that it wants.
const WholeRepository = head | objects | refs

const (
	head RepositoryParts = 1 << iota
	objects
	refs
)

// PartOfRepository is what an entry of this base name is of a repository, or 0: in
// another case too, which a folder may ignore. Git asks no more of objects and refs than
// that they may be entered, as a link, and a file that may be run, can.
func PartOfRepository(base string) RepositoryParts {
	if base == "" || !strings.ContainsRune("HhOoRrCc", rune(base[0])) { // most are none
		return 0
	}
	switch gitsOwn(base) {
	case "head":
		return head
	case "objects":
		return objects
	case "refs":
		return refs
	case "commondir": // it names where objects and refs are
		return objects | refs
	}
	return 0
}

// gitsOwn is a name in a git directory as systems compare it that ignore case and the end.
func gitsOwn(name string) string { return strings.TrimRight(Folded(name), " .") }

// MakesRepository reports whether an entry of this base name decides what git obeys in a
// repository without a .git: an older one, made anew, makes another repository of it.
func MakesRepository(base string) bool {
	name := gitsOwn(base)
	return name == "head" || name == "config" || name == "commondir"
}

// InGit says what git obeys in a git directory, given the path of a file below it:
// files by which it runs or reads something else, and hooks. Objects and names are
// not among them; a submodule may be called what it likes.
func InGit(below string) bool {
	parts := strings.Split(below, "/")
	named := false // below a folder of refs or their logs, or below a submodule whose name is like one
	for i, part := range parts {
		parts[i] = gitsOwn(part)
		switch parts[i] {
		case "refs", "logs", "lfs":
			if i == 0 {
				return false
			}
			named = named || parts[i-1] != "modules"
		}
	}
	base := parts[len(parts)-1]
	if len(parts) > 1 && parts[len(parts)-2] == "hooks" {
		return true
	}
	switch base {
	case "config", "config.worktree", "commondir", "gitdir", "attributes", "alternates", "git-rebase-todo", "hooks", "modules", "worktrees":
		return true
	}
	return base == "head" && !named // the log of HEAD has its name
}
