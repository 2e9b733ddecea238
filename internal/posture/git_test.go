package posture_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/posture"
)

// M-35: what names no repository and no ref as git has them is refused.
func TestScopesOfGit(t *testing.T) {
	t.Parallel()
	app := []string{"/acme/app.git"}
	for name, c := range map[string]struct {
		scope posture.Git
		want  string
	}{
		"nothing":                  {posture.Git{}, ""},
		"to read":                  {posture.Git{Repositories: app}, ""},
		"to push":                  {posture.Git{Repositories: app, Push: []string{"refs/heads/agent/*", "refs/tags/v1"}}, ""},
		"refs of no repository":    {posture.Git{Push: []string{"refs/heads/x"}}, "name the repositories"},
		"the whole host":           {posture.Git{Repositories: []string{"/"}}, "repositories are"},
		"a folder":                 {posture.Git{Repositories: []string{"/acme/"}}, "repositories are"},
		"no slash":                 {posture.Git{Repositories: []string{"acme/app"}}, "repositories are"},
		"too many":                 {posture.Git{Repositories: make([]string, 65)}, "at most 64"},
		"all refs":                 {posture.Git{Repositories: app, Push: []string{"*"}}, "push names refs"},
		"all below refs":           {posture.Git{Repositories: app, Push: []string{"refs/*"}}, "push names refs"},
		"a star within":            {posture.Git{Repositories: app, Push: []string{"refs/heads/*/x"}}, "push names refs"},
		"a star that is no folder": {posture.Git{Repositories: app, Push: []string{"refs/heads/a*"}}, "push names refs"},
		"a branch's short name":    {posture.Git{Repositories: app, Push: []string{"main"}}, "push names refs"},
	} {
		err := c.scope.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
}

func TestNamesOfRefs(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"refs/heads/main", "refs/for/main", "refs/heads/a/b-c_d", "refs/heads/ünü"} {
		if !posture.IsRef(ref) {
			t.Errorf("%s is none", ref)
		}
	}
	for _, ref := range []string{
		"", "main", "HEAD", "refs/", "refs/heads", "refs/heads/", "refs//x", "refs/heads/a..b", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a.lock/b",
		"refs/heads/a.", "refs/heads/a b", "refs/heads/a\x00", "refs/heads/a\n", "refs/heads/a~1", "refs/heads/a^", "refs/heads/a:b", "refs/heads/@{u}",
		"refs/heads/*", "refs/heads/[a]", "refs/heads/a\\b", "refs/heads/" + strings.Repeat("a", 1024),
	} {
		if posture.IsRef(ref) {
			t.Errorf("%q is one", ref)
		}
	}
}
