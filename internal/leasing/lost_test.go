package leasing_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/leasing"
)

// M-35: what a credential gave is lost with its time, and where it was taken back after it was given. What was
// given after that is not.
func TestWhatWasGivenIsLost(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		until, lost time.Time
		since, now  int
		want        bool
	}{
		"without end":                    {now: 10_000},
		"before its end":                 {until: at(60), now: 59},
		"at its end":                     {until: at(60), now: 60, want: true},
		"taken back while it was used":   {lost: at(5), since: 4, now: 6, want: true},
		"taken back before it was given": {lost: at(5), since: 6, now: 7},
	} {
		s := leasing.Standing(c.until, c.lost)
		if have := s(at(c.since), at(c.now)); have != c.want {
			t.Errorf("%s: have %v", name, have)
		}
	}
}

// M-36: what is open to a host ends with the login that was made meanwhile, and not with an earlier one.
func TestALoginIsLost(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	lost := leasing.LoggedIn([2]time.Time{at(1), at(60)}, [2]time.Time{at(10), {}})
	for name, c := range map[string]struct {
		since, now int
		gone, want bool
	}{
		"before its hours are over": {since: 0, now: 59},
		"after them":                {since: 0, now: 60, want: true},
		"opened after that login":   {since: 2, now: 60},
		"its key is gone":           {since: 2, now: 20, gone: true, want: true},
		"opened after all logins":   {since: 11, now: 20, gone: true},
	} {
		if have := lost(at(c.since), at(c.now), c.gone); have != c.want {
			t.Errorf("%s: have %v", name, have)
		}
	}
}

// M-35: a credential goes on as it was where config.toml allows more than it did. It is lost where that allows
// less, says something else of it, or cannot be read.
func TestWhatAnOperatorTakesOutOfTheConfigIsLost(t *testing.T) {
	t.Parallel()
	const before = `[[credential]]
name = "forge"
host = "git.hub.example"
scheme = "basic"
user = "x"
repositories = ["/acme/app.git", "/acme/lib.git"]
push = ["refs/heads/agent/*"]
groups = ["main", "side"]
expires = 2026-06-01T00:00:00Z
standing_secret = true
value_env = "FORGE"

[[credential]]
name = "hub"
host = "api.hub.example"
paths = ["/repos/", "/user"]
methods = ["GET", "POST"]
groups = ["main"]
value_env = "HUB"
[credential.mint]
kind = "vault"
url = "https://vault.example"
policies = ["deploy", "read"]
budget = { hours = 4, renewals = 2 }
`
	for change, c := range map[string]struct{ from, to, lost string }{
		"another text around it":      {"[[credential]]", "# a remark\n[[credential]]", ""},
		"another credential":          {"name = \"hub\"\n", "name = \"hub-2\"\n", "hub"},
		"a repository more":           {`"/acme/lib.git"`, `"/acme/lib.git", "/acme/web.git"`, ""},
		"a repository less":           {`, "/acme/lib.git"`, ``, "forge"},
		"a ref more":                  {`"refs/heads/agent/*"`, `"refs/heads/agent/*", "refs/heads/main"`, ""},
		"no ref":                      {"push = [\"refs/heads/agent/*\"]\n", "", "forge"},
		"a ref that takes a power":    {`"refs/heads/agent/*"`, `"refs/heads/agent/*", "+refs/heads/main"`, "forge"},
		"a power that it takes":       {`paths = ["/repos/", "/user"]`, "paths = [\"/repos/\", \"/user\"]\npower = \"cloud\"", "hub"},
		"another group less":          {`, "side"`, ``, ""},
		"its group less":              {`groups = ["main", "side"]`, `groups = ["side"]`, "forge"},
		"an earlier end":              {"2026-06-01", "2026-05-31", "forge"},
		"a later end":                 {"2026-06-01", "2026-06-02", ""},
		"no end":                      {"expires = 2026-06-01T00:00:00Z\n", "", ""},
		"an end where there was none": {"value_env = \"HUB\"", "value_env = \"HUB\"\nexpires = 2026-06-01T00:00:00Z", "hub"},
		"a path less":                 {`, "/user"`, ``, "hub"},
		"a method less":               {`, "POST"`, ``, "hub"},
		"the methods of none named":   {"methods = [\"GET\", \"POST\"]\n", "", "hub"},
		"a method more":               {`"POST"`, `"POST", "PUT"`, ""},
		"fewer hours":                 {"hours = 4", "hours = 3", "hub"},
		"a policy less":               {`, "read"`, ``, "hub"},
		"another host":                {"api.hub.example", "api.hub2.example", "hub"},
		"another store":               {"value_env = \"HUB\"", "value_keyring = \"hub\"", "hub"},
		"an error":                    {"[[credential]]", "[[credential]", "forge, hub"},
		"nothing":                     {before, "", "forge, hub"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, config.FileName)
		write := func(text string) {
			if err := disk.Write(path, []byte(text), 0o600); err != nil { // which makes another file each time
				t.Fatal(err)
			}
		}
		write(before)
		opened, err := config.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		lost := leasing.Written(dir, "main")
		whichAreLost := func() string {
			var names []string
			for _, credential := range opened.Credentials {
				if lost(credential) != nil {
					names = append(names, credential.Name)
				}
			}
			return strings.Join(names, ", ")
		}
		if have := whichAreLost(); have != "" {
			t.Errorf("%s: before that, %s is lost", change, have)
		}
		write(strings.Replace(before, c.from, c.to, 1))
		if have := whichAreLost(); have != c.lost {
			t.Errorf("%s: have %q, want %q", change, have, c.lost)
		}
		write(before + "\n")
		if have := whichAreLost(); have != "" {
			t.Errorf("%s: once it is as it was, %s is lost", change, have)
		}
	}
}
