package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/verify"
)

// files are a tree: a path's content, or link:TARGET, exec:CONTENT, dir:.
type files map[string]string

func folder(t testing.TB, tree files) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tree {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasPrefix(text, "link:"):
			err = os.Symlink(strings.TrimPrefix(text, "link:"), full)
		case strings.HasPrefix(text, "exec:"):
			err = testpeer.WriteProgram(full, strings.TrimPrefix(text, "exec:"))
		case text == "dir:":
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// changesOf are what leads from one tree to another, told as the host does.
func changesOf(base, tree files) []nacre.Change {
	var list []nacre.Change
	for name, text := range base {
		now, ok := tree[name]
		switch {
		case text == "dir:" && (!ok || now == "dir:"):
		case !ok || now == "dir:":
			list = append(list, nacre.Change{Path: name, Kind: "deleted"})
		case now != text:
			list = append(list, nacre.Change{Path: name, Kind: "modified"})
		}
	}
	for name, text := range tree {
		if _, ok := base[name]; !ok && text != "dir:" {
			list = append(list, nacre.Change{Path: name, Kind: "added"})
		}
	}
	return list
}

// edited is a tree with changes; "-" deletes.
func edited(base files, edits files) files {
	tree := files{}
	for name, text := range base {
		tree[name] = text
	}
	for name, text := range edits {
		if text == "-" {
			delete(tree, name)
			continue
		}
		tree[name] = text
	}
	return tree
}

func subject(t testing.TB, base, tree files) verify.Subject {
	t.Helper()
	return verify.Subject{Base: folder(t, base), Tree: folder(t, tree), Changes: changesOf(base, tree)}
}

func shipped(t testing.TB, name string) atom.Atom {
	t.Helper()
	a, err := atom.Library{}.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// judge is the one verdict of a shipped atom.
func judge(t testing.TB, name string, s verify.Subject) verify.Verdict {
	t.Helper()
	report, err := verify.Judge(context.Background(), s, []atom.Atom{shipped(t, name)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Verdicts) != 1 || report.Passed != report.Verdicts[0].Passed || report.Passed != (len(report.Failed) == 0) {
		t.Fatalf("the report is not of one piece: %+v", report)
	}
	return report.Verdicts[0]
}
