package compat_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// forge is a host of two repositories, which asks for the credential as a forge does.
func forge(t *testing.T) *spy {
	t.Helper()
	app, want := gitHandler(t), "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+held))
	return &spy{site: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case strings.HasPrefix(path, "/acme/moved.git/"):
			http.Redirect(w, r, "/acme/other.git/"+strings.TrimPrefix(r.URL.RequestURI(), "/acme/moved.git/"), http.StatusMovedPermanently)
			return
		case r.Header.Get("Authorization") != want:
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		name, ok := strings.CutPrefix(path, "/acme/app.git/")
		if !ok {
			http.NotFound(w, r)
			return
		}
		r.URL.Path = "/repo.git/" + name
		app.ServeHTTP(w, r)
	})}
}

// gitScope is a credential for one repository, and for pushes below agent/.
const gitScope = `scheme = "basic"
user = "x-access-token"
repositories = ["/acme/app.git", "/acme/moved.git"]
push = ["refs/heads/agent/*"]
`

// gitWork is what an agent does: its work first, and then what it may not do.
const gitWork = `set -u
export GIT_TERMINAL_PROMPT=0
cd /tmp
git clone -q https://vault.compat.test/acme/app.git app && cd app || exit 9
git config user.name t; git config user.email t@example.invalid
echo one > f; git add f; git commit -qm one
git push -q origin HEAD:refs/heads/agent/one && echo PUSHED SMALL
head -c 3000000 /dev/urandom > g; git add g; git commit -qm two
git push -q origin HEAD:refs/heads/agent/one && echo PUSHED LARGE
git fetch -q origin && git rev-parse -q --verify origin/agent/one > /dev/null && echo FETCHED
echo three >> f; git commit -qam three
no() { echo "== $1"; shift; if timeout 60 "$@" 2>&1; then echo DONE ALL THE SAME; fi; }
no main git push origin HEAD:refs/heads/main
no both git push origin HEAD:refs/heads/agent/two HEAD:refs/heads/main
no delete git push origin --delete agent/one
no option git push -o merge_request.create origin HEAD:refs/heads/agent/three
no repository git clone -q https://vault.compat.test/acme/other.git /tmp/other
no redirect git clone -q https://vault.compat.test/acme/moved.git /tmp/moved
git remote set-url origin https://vault.compat.test/acme/app.git/../other.git
no path git fetch origin
git remote set-url origin https://me:mine@vault.compat.test/acme/app.git
git fetch -q origin && echo FETCHED AS THE OPERATOR
echo == api
curl -sS -m 20 https://vault.compat.test/acme/app.git/info/lfs/objects/batch -d '{}' -w '[%{http_code}]\n'
curl -sS -m 20 https://vault.compat.test/acme/app.git/git-receive-pack -d 0000 -X DELETE -w '[%{http_code}]\n'
git config --list --show-origin
` + everything

// M-35, M-36: git in the sandbox clones, fetches and pushes with a credential that it never sees.
// The credential is for one repository, and for pushes to the refs that the operator names.
func TestGitHasACredentialForARepositoryAndItsRefs(t *testing.T) {
	testpeer.Need(t, "git")
	testpeer.Need(t, "curl")
	watch := forge(t)
	upstream := newServers(t)
	upstream.vault.Store(watch)
	b := newBench(t, upstream)
	b.withCredential(t, "vault."+domain, gitScope)
	out, err := b.exec("exec", "--session", "vault", "--project", b.project, "--", "sh", "-c", gitWork)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"PUSHED SMALL", "PUSHED LARGE", "FETCHED\n", "FETCHED AS THE OPERATOR",
		"the credential pushes refs/heads/agent/*, and not refs/heads/main", "the credential deletes no ref: refs/heads/agent/one",
		"not for LFS, archives, pages or an API of the host", "git_not_leased", "path_not_leased", "[403]\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%.6000s", want, out)
		}
	}
	if work, _, _ := strings.Cut(out, "== api"); strings.Contains(work, "DONE ALL THE SAME") {
		t.Errorf("git did what no credential is for:\n%.6000s", work)
	}
	for _, request := range strings.Split(watch.all(), "\n") {
		if strings.Contains(request, "other.git") || strings.Contains(request, "lfs") || strings.Contains(request, "DELETE") {
			t.Errorf("the host was asked: %s", request)
		}
	}
	checkAbsent(t, "what the agent can read", out)
	b.checkState(t)
	records, err := b.exec("audit", "show", "vault", "--json")
	must(t, err)
	if !strings.Contains(records, `"reason":"git_not_leased"`) {
		t.Error("no refusal in the records")
	}
}

// M-35: without push no ref can be pushed, and what is not complete opens no session.
func TestScopesOfGitInTheConfig(t *testing.T) {
	testpeer.Need(t, "git")
	watch := forge(t)
	upstream := newServers(t)
	upstream.vault.Store(watch)
	b := newBench(t, upstream)
	b.withCredential(t, "vault."+domain, "scheme = \"basic\"\nuser = \"x-access-token\"\nrepositories = [\"/acme/app.git\"]")
	out, err := b.exec("exec", "-q", "--project", b.project, "--", "sh", "-c",
		"export GIT_TERMINAL_PROMPT=0; git clone -q https://vault.compat.test/acme/app.git /tmp/app && cd /tmp/app && git push origin HEAD:refs/heads/agent/x")
	if err == nil || !strings.Contains(out, "push in its configuration names no ref") {
		t.Errorf("%v\n%s", err, out)
	}
	for more, want := range map[string]string{
		"scheme = \"basic\"\nuser = \"x\"\nrepositories = [\"/a.git\"]\npaths = [\"/\"]": "no methods and no paths of its own",
		"scheme = \"raw\"\nrepositories = [\"/a.git\"]":                                  "basic or bearer",
		"paths = [\"/\"]\npush = [\"refs/heads/x\"]":                                     "name the repositories",
		"scheme = \"basic\"\nuser = \"x\"\nrepositories = [\"/a/../b.git\"]":             "dot segments",
	} {
		b := newBench(t, upstream)
		b.withCredential(t, "vault."+domain, more)
		if out, err := b.exec("exec", "-q", "--project", b.project, "--", "true"); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", more, err, out)
		}
	}
}
