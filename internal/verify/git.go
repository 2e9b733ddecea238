package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

// noGitOps is the verifier of policy::no-git-ops: the work holds no git folder
// by any name that some system takes for one, no bare repository, and leaves
// submodules alone.
func noGitOps(_ context.Context, s Subject, _ atom.Atom, _ Runner) (v Verdict, err error) {
	root, err := openTree(s.Tree)
	if err != nil {
		return Verdict{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var findings []string
	for _, left := range s.Left {
		if isGitPath(left) {
			findings = append(findings, fmt.Sprintf("%q is a git folder", left))
		}
	}
	for folder := range s.delta.folders {
		if isGitName(path.Base(folder)) {
			findings = append(findings, fmt.Sprintf("%q is a git folder", folder))
		}
	}
	bare := gitFolders{delta: s.delta, known: map[string]bool{}}
	for _, c := range s.delta.changes {
		switch {
		case isGitPath(c.path):
			findings = append(findings, fmt.Sprintf("%q was %s: it is git's", c.path, c.kind))
		case isModules(path.Base(c.path)):
			findings = append(findings, fmt.Sprintf("%q was %s: it says what submodules are", c.path, c.kind))
		case c.kind != deleted:
			found, err := bare.above(root, c.path)
			if err != nil {
				return Verdict{}, err
			}
			if found != "" {
				findings = append(findings, fmt.Sprintf("%q was %s: %q is a bare repository", c.path, c.kind, found))
			}
		}
	}
	return verdict("git's own files changed", findings), nil
}

// gitFolders finds bare repositories, however their names are spelt.
type gitFolders struct {
	delta
	known map[string]bool // by folder
	names map[string]string
}

// above is the bare repository that a file lies in. Its folder is found as git finds one.
func (g *gitFolders) above(root *os.Root, name string) (string, error) {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		bare, ok := g.known[dir]
		if !ok {
			var err error
			if bare, err = g.isBare(root, dir); err != nil {
				return "", err
			}
			g.known[dir] = bare
		}
		if bare {
			return dir, nil
		}
		if dir == "." {
			return "", nil
		}
	}
}

// isBare tells a folder with a HEAD, and with objects and refs or what stands
// for them.
func (g *gitFolders) isBare(root *os.Root, dir string) (bool, error) {
	head, ok := g.has(dir, "head")
	if !ok || !g.hasAny(dir, "objects", "commondir") || !g.hasAny(dir, "refs", "packed-refs", "reftable") {
		return false, nil
	}
	if file, is := g.tree[head]; !is || file.link {
		return is, nil
	}
	f, err := openFile(root, head)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	start := strings.TrimSpace(string(text))
	return strings.HasPrefix(start, "ref:") || len(start) >= 40 && strings.Trim(start[:40], "0123456789abcdef") == "", nil
}

func (g *gitFolders) hasAny(dir string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := g.has(dir, name); return ok })
}

// has is the path of what some file system takes for this name in a folder.
func (g *gitFolders) has(dir, name string) (string, bool) {
	if g.names == nil {
		g.names = make(map[string]string, len(g.tree)+len(g.folders))
		for folder := range g.folders {
			g.names[fold(folder)] = folder
		}
		for file := range g.tree {
			g.names[fold(file)] = file
		}
	}
	found, ok := g.names[fold(path.Join(dir, name))]
	return found, ok
}

func isGitPath(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if isGitName(part) {
			return true
		}
	}
	return false
}

// isGitName tells a name that is .git on some file system. It is so in another case, with trailing
// dots, spaces or a stream (NTFS), as its short name, with code points that HFS+ ignores, or behind
// a backslash.
func isGitName(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		switch fold(part) {
		case ".git", "git~1":
			return true
		}
	}
	return false
}

func isModules(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	name = fold(name)
	return name == ".gitmodules" || strings.HasPrefix(name, "gitmod~") || strings.HasPrefix(name, "gi7eba~")
}
