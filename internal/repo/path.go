package repo

import (
	"fmt"
	"path"
	"strings"
)

// checkPath refuses a path that would leave the project, or that git on some
// system takes for its own directory.
func checkPath(p string) error {
	if len(p) > MaxPath || strings.Count(p, "/") >= MaxDepth {
		return fmt.Errorf("path %.80q: %w", p, ErrTooBig)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return fmt.Errorf("path %q: %w", p, ErrUnsafe)
		}
		if isGitName(part) {
			return fmt.Errorf("path %q names a git directory: %w", p, ErrUnsafe)
		}
	}
	return nil
}

// isGitName reports whether one path component is ".git" on some file system:
// as it is, in another case, with trailing dots, spaces or a stream name
// (NTFS), as its short name, or with code points that HFS+ ignores. NTFS also
// takes a backslash for a separator.
func isGitName(component string) bool {
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

// isGitFile reports whether a name is one that git reads on its own and refuses
// as a symbolic link.
func isGitFile(p string) bool {
	name := strings.ToLower(strings.Map(dropIgnored, path.Base(p)))
	name = strings.TrimRight(name, " .")
	for _, own := range []string{".gitmodules", "gitmod~", "gi7eba~"} {
		if name == own || strings.HasSuffix(own, "~") && strings.HasPrefix(name, own) {
			return true
		}
	}
	return false
}

// parents calls each directory above a path, the topmost first.
func parents(p string) []string {
	var dirs []string
	for i, c := range []byte(p) {
		if c == '/' {
			dirs = append(dirs, p[:i])
		}
	}
	return dirs
}
