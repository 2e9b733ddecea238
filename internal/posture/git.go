package posture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Git binds a credential to repositories of its host, and what is pushed to refs (M-35).
type Git struct {
	// Repositories are the paths of repositories, as their URLs have them: "/acme/app.git".
	Repositories []string
	// Push are the refs that may be pushed, whole or with /* at their end for all below. A + stands
	// before them where they may be moved to what does not follow. Without any, nothing is pushed.
	Push []string
}

// maxGit is how many repositories, and how many refs, one credential names.
const maxGit = 64

// IsZero reports whether it binds to no repository and no ref.
func (g Git) IsZero() bool { return len(g.Repositories)+len(g.Push) == 0 }

// Check refuses what is not complete, or would allow more than it says.
func (g Git) Check() error {
	switch {
	case len(g.Push) > 0 && len(g.Repositories) == 0:
		return errors.New("push names refs of repositories: name the repositories too")
	case len(g.Repositories) > maxGit || len(g.Push) > maxGit:
		return fmt.Errorf("at most %d repositories and %d refs", maxGit, maxGit)
	}
	for _, path := range g.Repositories {
		if len(path) < 2 || path[0] != '/' || strings.HasSuffix(path, "/") {
			return errors.New("repositories are the paths of their URLs, such as \"/acme/app.git\"")
		}
	}
	for _, pattern := range g.Push {
		if !IsRef(strings.TrimSuffix(strings.TrimPrefix(pattern, force), "/*")) {
			return errors.New("push names refs, such as \"refs/heads/fix\" or \"refs/heads/agent/*\", with a + before them where they may be forced")
		}
	}
	return nil
}

// force stands before a ref that may be moved to what does not follow, as in git's refspecs.
const force = "+"

// AllowsPush reports whether a ref may be pushed.
func (g Git) AllowsPush(ref string) bool {
	return slices.ContainsFunc(g.Push, func(pattern string) bool { return matches(strings.TrimPrefix(pattern, force), ref) })
}

// AllowsForce reports whether a ref may be moved to what does not follow.
func (g Git) AllowsForce(ref string) bool {
	return slices.ContainsFunc(g.Push, func(pattern string) bool {
		forced, is := strings.CutPrefix(pattern, force)
		return is && matches(forced, ref)
	})
}

// Forces reports whether any ref may be moved to what does not follow.
func (g Git) Forces() bool {
	return slices.ContainsFunc(g.Push, func(pattern string) bool { return strings.HasPrefix(pattern, force) })
}

func matches(pattern, ref string) bool {
	above, all := strings.CutSuffix(pattern, "*")
	return IsRef(ref) && (ref == pattern || all && strings.HasPrefix(ref, above))
}

const (
	maxRef = 1024
	// notInRefs are bytes that git allows in no name of a ref, besides control characters.
	notInRefs = " ~^:?*[\\\x7f"
)

// IsRef reports whether a text is the whole name of a ref, as git check-ref-format has it,
// below two parts at least: "refs/heads/main".
func IsRef(ref string) bool {
	rest, ok := strings.CutPrefix(ref, "refs/")
	if !ok || len(ref) > maxRef || !strings.Contains(rest, "/") || strings.ContainsAny(ref, notInRefs) ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.HasSuffix(ref, ".") {
		return false
	}
	for _, c := range []byte(ref) {
		if c < ' ' {
			return false
		}
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
