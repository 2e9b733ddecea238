package verify_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/verify"
)

// matches is the glob of the task's lists, written as plainly as it can be:
// * within a folder, ** over folders, at the end of what is below.
func matches(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(name) > 0
	case pattern[0] == "**":
		return matches(pattern[1:], name) || len(name) > 0 && matches(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	hit, err := path.Match(pattern[0], name[0])
	return err == nil && hit && matches(pattern[1:], name[1:])
}

// listedBy says that a list names a path, or with above a folder over it.
func listedBy(patterns []string, name string, above bool) bool {
	parts := strings.Split(name, "/")
	for _, pattern := range patterns {
		for n := len(parts); n > 0; n-- {
			if matches(strings.Split(pattern, "/"), parts[:n]) {
				return true
			}
			if !above {
				break
			}
		}
	}
	return false
}

// S-06: over random trees, edits and lists, the verifiers say what a naive reading of the row says.
// The denylist beats the whitelist, renames count on both ends, and what did not change does not
// count.
func TestListsAgainstAModel(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"a", "b", "ab", "c.go"})
	name := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/") })
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "a*", "*.go", "c.go"})
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 1, 3).Draw(t, "pattern"), "/") }), 0, 3)
	content := rapid.SampledFrom([]string{"1", "2", "", "exec:1"})
	scratch := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		base := tidy(rapid.MapOfN(name, content, 0, 6).Draw(r, "base"))
		tree := tidy(rapid.MapOfN(name, content, 0, 6).Draw(r, "tree"))
		if rapid.Bool().Draw(r, "mostly the same") {
			tree = tidy(edited(base, tree))
		}
		whitelist, denylist := list.Draw(r, "whitelist"), list.Draw(r, "denylist")
		clean, allowed := true, true
		for _, c := range changesOf(base, tree) {
			denied := listedBy(denylist, c.Path, true)
			clean = clean && !denied
			allowed = allowed && !denied && listedBy(whitelist, c.Path, false)
		}
		dir := scratch + "/case"
		s := verify.Subject{Base: plant(r, dir+"/base", base), Tree: plant(r, dir+"/tree", tree), Changes: changesOf(base, tree)}
		s.Task = atom.Parameters{Whitelist: append([]string{}, whitelist...), Denylist: append([]string{}, denylist...)}
		if v := judge(t, "scope::files-whitelist", s); v.Passed != allowed {
			r.Errorf("whitelist: have %+v, want %v", v, allowed)
		}
		if v := judge(t, "scope::files-denylist", s); v.Passed != clean {
			r.Errorf("denylist: have %+v, want %v", v, clean)
		}
		if err := os.RemoveAll(dir); err != nil {
			r.Fatal(err)
		}
	})
}

// tidy leaves out what would be a file and a folder at once.
func tidy(tree map[string]string) files {
	out := files{}
	for name, text := range tree {
		out[name] = text
	}
	for name := range tree {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			delete(out, dir)
		}
	}
	return out
}

func plant(r *rapid.T, dir string, tree files) string {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.Fatal(err)
	}
	for name, text := range tree {
		full, mode := dir+"/"+name, os.FileMode(0o644)
		if rest, ok := strings.CutPrefix(text, "exec:"); ok {
			text, mode = rest, 0o755
		}
		if err := os.MkdirAll(path.Dir(full), 0o755); err != nil {
			r.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), mode); err != nil {
			r.Fatal(err)
		}
	}
	return dir
}
