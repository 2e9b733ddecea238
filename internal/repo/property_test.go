package repo_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// propertyChecks is how many random projects are tried, unless a flag says more.
const propertyChecks = "25"

// drawFiles draws a set of files in which no path is below another.
func drawFiles(t *rapid.T, label string) map[string]string {
	part := rapid.SampledFrom([]string{"a", "b", "c d", "é", "-x", "A", ".hid", "q\"uote", "n\nl", "日本", "z~1", "b\\s"})
	content := rapid.OneOf(
		rapid.StringMatching(`[a-c\n\r]{0,40}`), rapid.SampledFrom([]string{"", "\x00\xff", "#!/bin/sh\n", "-> a", "-> ../..", "-> /etc/passwd", "$Id$\r\n"}),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")) }),
	)
	files := make(map[string]string)
	for range rapid.IntRange(1, 12).Draw(t, label) {
		path := filepath.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "path")...)
		if !nests(files, path) {
			files[path] = content.Draw(t, "content")
		}
	}
	return files
}

// nests reports whether a path is above, below or the same as one of the set.
func nests(set map[string]string, path string) bool {
	for other := range set {
		for _, pair := range [][2]string{{path, other}, {other, path}} {
			if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && (rel == "." || filepath.IsLocal(rel)) {
				return true
			}
		}
	}
	return false
}

// S-12: for any project and any edits, the tree that was verified is the tree
// that lands, byte for byte, and until then the user's repository is untouched.
func TestWhatIsVerifiedIsWhatLands(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(propertyChecks); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		base, next := drawFiles(rt, "base"), drawFiles(rt, "next")
		u := newUser(t)
		u.write(base)
		u.commit("base")
		r := open(t, u)
		before := u.fingerprint()
		for name := range base {
			if rapid.Bool().Draw(rt, "delete") {
				r.agentRemoves(name)
			}
		}
		for _, name := range sortedKeys(next) {
			if !nests(files(t, r.work), name) {
				if err := os.RemoveAll(filepath.Join(r.work, name)); err != nil {
					rt.Fatal(err)
				}
				r.agent(map[string]string{name: next[name]})
			}
		}
		want := files(t, r.work)
		tree, _ := r.snapshot()
		verify := filepath.Join(r.state, "verify")
		if err := r.project.Checkout(t.Context(), tree, verify); err != nil {
			rt.Fatal(err)
		}
		if err := r.project.Matches(t.Context(), tree, verify); err != nil {
			rt.Fatal(err)
		}
		sameFiles(t, files(t, verify), want)
		m := r.merge(tree, r.project.Base)
		if u.fingerprint() != before {
			rt.Fatal("the repository changed before the landing")
		}
		if _, err := r.land(m.Commit, r.project.Base); err != nil {
			rt.Fatal(err)
		}
		sameFiles(t, files(t, u.dir), want)
		if status := u.git("status", "--porcelain"); u.git("rev-parse", "HEAD^{tree}") != string(tree) || status != "" {
			rt.Fatalf("git status: %s", status)
		}
		if oracle := plainTree(u); oracle != string(tree) {
			rt.Fatalf("git makes tree %s of the same files, not %s", oracle, tree)
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// plainTree is the tree that ordinary git makes of the landed files.
func plainTree(u *user) string {
	apart := u.apart(filepath.Join(u.t.TempDir(), "index"))
	apart.git("add", "-A", "-f")
	return apart.git("write-tree")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
