package lease_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/lease"
)

// M-34, M-35, M-36: a token of GitHub is minted for the repositories that its credential is used
// for and no others. It has no right to write where nothing is written.
func TestATokenIsForWhatItsCredentialIsUsedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		repositories []string
		level        string
		uses         lease.Uses
		want         string
	}{
		"an API":                  {[]string{"widget"}, "write", lease.Uses{Methods: []string{"POST"}, Paths: []string{"/repos/acme/widget/"}}, ""},
		"an API that is read":     {[]string{"widget"}, "read", lease.Uses{Paths: []string{"/repos/acme/widget/"}}, ""},
		"in another case":         {[]string{"Widget"}, "read", lease.Uses{Paths: []string{"/repos/acme/widget/"}}, ""},
		"GitHub Enterprise":       {[]string{"widget"}, "read", lease.Uses{Paths: []string{"/api/v3/repos/acme/widget/"}}, ""},
		"git that is read":        {[]string{"widget"}, "read", lease.Uses{Repositories: []string{"/acme/widget.git"}}, ""},
		"git that is pushed":      {[]string{"widget"}, "write", lease.Uses{Repositories: []string{"/acme/widget"}, Push: []string{"refs/heads/a"}}, ""},
		"another path of the API": {[]string{"widget", "vaults"}, "read", lease.Uses{Paths: []string{"/repos/acme/widget/", "/graphql"}}, ""},
		"all of an owner":         {[]string{"widget", "vaults"}, "read", lease.Uses{Paths: []string{"/repos/acme/"}}, ""},
		"one more than is used":   {[]string{"widget", "vaults"}, "read", lease.Uses{Paths: []string{"/repos/acme/widget/"}}, `"vaults" too`},
		"one more than git uses":  {[]string{"widget", "vaults"}, "read", lease.Uses{Repositories: []string{"/acme/widget.git"}}, `"vaults" too`},
		"another one":             {[]string{"vaults"}, "read", lease.Uses{Repositories: []string{"/acme/widget.git"}}, "do not name"},
		"two owners":              {[]string{"widget"}, "read", lease.Uses{Repositories: []string{"/acme/widget.git", "/bolt/widget.git"}}, "two owners"},
		"write, for an API's GET": {[]string{"widget"}, "write", lease.Uses{Methods: []string{"GET"}, Paths: []string{"/repos/acme/widget/"}}, "only reads"},
		"write, without methods":  {[]string{"widget"}, "write", lease.Uses{Paths: []string{"/repos/acme/widget/"}}, "only reads"},
		"admin, for clones":       {[]string{"widget"}, "admin", lease.Uses{Repositories: []string{"/acme/widget.git"}}, "only reads"},
		"read, for a push":        {[]string{"widget"}, "read", lease.Uses{Repositories: []string{"/acme/widget.git"}, Push: []string{"refs/heads/a"}}, "push needs"},
		"no repository at all":    {nil, "read", lease.Uses{Paths: []string{"/repos/acme/widget/"}}, "name repositories and permissions"},
	} {
		m := lease.Minting{Kind: lease.GitHubApp, App: "1", Installation: "2", Repositories: c.repositories, Permissions: map[string]string{"contents": c.level}}
		err := m.CheckFor(c.uses)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
}
