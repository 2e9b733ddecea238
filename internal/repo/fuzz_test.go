package repo_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", "/a", "a//b", ".git/x", "a/.GIT", "git~1", ".git .", "x\\.git", ".g\u200cit", "a\x00b", "é/日本", ".gitx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		_ = repo.SensitiveName(path)
		if repo.CheckPath(path) != nil {
			return
		}
		if !filepath.IsLocal(path) || filepath.Clean(path) != path {
			t.Errorf("%q leaves the project", path)
		}
		for part := range strings.SplitSeq(path, "/") {
			if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
				t.Errorf("%q names a git directory", path)
			}
		}
	})
}

func FuzzParseChanges(f *testing.F) {
	f.Add([]byte(":100644 000000 aa 00 D\x00a\x00:000000 100755 00 bb A\x00b c\x001\t2\ta\x00-\t-\tb c\x00"))
	f.Add([]byte(":\x00\x00\t\t\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		changes, err := repo.ParseChanges(out)
		if err == nil && len(changes) > len(out) {
			t.Errorf("%d changes from %d bytes", len(changes), len(out))
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, seed := range []string{"git version 2.39.5", "git version 2.34.1 (Apple Git-1)", "git version 99999.1", "", "git version x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := repo.ParseVersion(text); err == nil && (v[0] < 0 || v[0] > 9999 || v[1] < 0 || v[1] > 9999) {
			t.Errorf("%q is version %v", text, v)
		}
	})
}
