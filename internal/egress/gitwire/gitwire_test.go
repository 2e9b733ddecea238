package gitwire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/egress/gitwire"
	"github.com/nacre-dev/nacre/internal/posture"
)

func scope() gitwire.Scope {
	return scopeOf(posture.Git{Repositories: []string{"/acme/app.git", "/acme/docs.git"}, Push: []string{"refs/heads/agent/*", "refs/heads/fix"}})
}

func scopeOf(g posture.Git) gitwire.Scope {
	return gitwire.Scope{Repositories: g.Repositories, Push: g.Push, IsRef: posture.IsRef, AllowsPush: g.AllowsPush, AllowsForce: g.AllowsForce}
}

// M-35: what a credential is used for is read from the protocol, and is one repository's.
func TestRequests(t *testing.T) {
	t.Parallel()
	reads := scope()
	reads.Push = nil
	for _, c := range []struct {
		method, path, query string
		scope               gitwire.Scope
		want                gitwire.Service
	}{
		{"GET", "/acme/app.git/info/refs", "service=git-upload-pack", scope(), gitwire.Fetch},
		{"GET", "/acme/docs.git/info/refs", "service=git-receive-pack", scope(), gitwire.Push},
		{"POST", "/acme/app.git/git-upload-pack", "", scope(), gitwire.Fetch},
		{"POST", "/acme/app.git/git-receive-pack", "", scope(), gitwire.Push},
		{"GET", "/acme/app.git/info/refs", "service=git-upload-pack", reads, gitwire.Fetch},
		{"GET", "/acme/app.git/info/refs", "service=git-receive-pack", reads, ""},
		{"POST", "/acme/app.git/git-receive-pack", "", reads, ""},
		{"GET", "/acme/app.git/info/refs", "", scope(), ""},
		{"GET", "/acme/app.git/info/refs", "service=git-upload-archive", scope(), ""},
		{"GET", "/acme/app.git/info/refs", "service=git-upload-pack&service=git-receive-pack", scope(), ""},
		{"GET", "/acme/app.git/info/refs", "service=git-upload-pack&", scope(), ""},
		{"GET", "/acme/app.git/info/refs", "Service=git-upload-pack", scope(), ""},
		{"GET", "/acme/app.git/info/refs", "service=git%2dupload-pack", scope(), ""},
		{"POST", "/acme/app.git/info/refs", "service=git-upload-pack", scope(), ""},
		{"GET", "/acme/app.git/git-upload-pack", "", scope(), ""},
		{"POST", "/acme/app.git/git-upload-pack", "x=1", scope(), ""},
		{"POST", "/acme/app.git/git-upload-pack/", "", scope(), ""},
		{"POST", "/acme/app.git/info/lfs/objects/batch", "", scope(), ""},
		{"GET", "/acme/app.git/HEAD", "", scope(), ""},
		{"GET", "/acme/app.git", "", scope(), ""},
		{"GET", "/acme/other.git/info/refs", "service=git-upload-pack", scope(), ""},
		{"GET", "/acme/app%2egit/info/refs", "service=git-upload-pack", scope(), ""},
		{"GET", "/acme/app.github/info/refs", "service=git-upload-pack", scope(), ""},
		{"GET", "/Acme/app.git/info/refs", "service=git-upload-pack", scope(), ""},
		{"GET", "/info/refs", "service=git-upload-pack", gitwire.Scope{}, ""},
	} {
		have, err := gitwire.Read(c.scope, c.method, c.path, c.query)
		if have != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %s?%s: have %q, %v, want %q", c.method, c.path, c.query, have, err, c.want)
		}
	}
}

const (
	zeros = "0000000000000000000000000000000000000000"
	one   = "1111111111111111111111111111111111111111"
	two   = "2222222222222222222222222222222222222222"
)

func line(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// M-35: a push is sent when all its commands are of the scope, and not a byte of it else.
func TestCommandsOfAPush(t *testing.T) {
	t.Parallel()
	const abilities = "\x00 report-status side-band-64k agent=git/2.39"
	allowed := one + " " + two + " refs/heads/agent/x"
	sha256 := strings.Repeat("a", 64) + " " + strings.Repeat("b", 64) + " refs/heads/fix"
	for name, c := range map[string]struct{ push, want string }{
		"one ref":                     {line(allowed+abilities+"\n") + "0000PACK", ""},
		"a new ref":                   {line(zeros+" "+two+" refs/heads/agent/a/b"+abilities) + "0000PACK", ""},
		"two refs":                    {line(allowed+abilities) + line(one+" "+two+" refs/heads/fix") + "0000", ""},
		"objects of SHA-256":          {line(sha256+abilities) + "0000", ""},
		"of a shallow clone":          {line("shallow "+one) + line(allowed+abilities) + "0000", ""},
		"a probe":                     {"0000", ""},
		"another ref":                 {line(one+" "+two+" refs/heads/main"+abilities) + "0000", "pushes refs/heads/agent/*, refs/heads/fix, and not refs/heads/main"},
		"another ref behind one":      {line(allowed+abilities) + line(one+" "+two+" refs/heads/main") + "0000", "not refs/heads/main"},
		"a longer name":               {line(one+" "+two+" refs/heads/fixes") + "0000", "not refs/heads/fixes"},
		"the folder of a pattern":     {line(one+" "+two+" refs/heads/agent") + "0000", "not refs/heads/agent"},
		"a tag":                       {line(one+" "+two+" refs/tags/v1") + "0000", "not refs/tags/v1"},
		"dots":                        {line(one+" "+two+" refs/heads/agent/../main") + "0000", "a ref that is none"},
		"two spaces":                  {line(one+" "+two+"  refs/heads/fix") + "0000", "a ref that is none"},
		"a line break in a ref":       {line(one+" "+two+" refs/heads/fix\nx") + "0000", "a ref that is none"},
		"no ref":                      {line(one+" "+two) + "0000", "not in git's protocol"},
		"HEAD":                        {line(one+" "+two+" HEAD") + "0000", "a ref that is none"},
		"a deletion":                  {line(one+" "+zeros+" refs/heads/agent/x"+abilities) + "0000", "deletes no ref"},
		"a second zero byte":          {line(allowed+"\x00a\x00b") + "0000", "not in git's protocol"},
		"abilities behind the second": {line(allowed+abilities) + line(one+" "+two+" refs/heads/fix\x00 atomic") + "0000", "not in git's protocol"},
		"push options":                {line(allowed+abilities+" push-options") + "0000" + line("merge_request.create") + "0000", "push options"},
		"a signed push":               {line("push-cert\x00 report-status\n") + "0000", "signed push"},
		"ids of two lengths":          {line(strings.Repeat("a", 64)+" "+two+" refs/heads/fix") + "0000", "not in git's protocol"},
		"shallow behind a command":    {line(allowed+abilities) + line("shallow "+one) + "0000", "not in git's protocol"},
		"a delimiter":                 {"0001" + line(allowed) + "0000", "a line that no push has"},
		"an empty line":               {"0004" + line(allowed) + "0000", "a line that no push has"},
		"a length with a sign":        {"+032" + allowed, "not in git's protocol"},
		"a length of no digits":       {"00g0", "not in git's protocol"},
		"gzip":                        {"\x1f\x8b\x08\x00\x00\x00", "not in git's protocol"},
		"an end within a line":        {"0100" + allowed, "ends before"},
		"no end of the commands":      {line(allowed + abilities), "ends before"},
		"nothing":                     {"", "ends before"},
		"without an end":              {strings.Repeat(line("shallow "+one), 100_000), "some 500 refs"},
	} {
		from := strings.NewReader(c.push)
		read, _, err := gitwire.Commands(from, scope())
		var no gitwire.Refusal
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &no) || !strings.Contains(string(no), c.want)):
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		case err != nil:
		default:
			rest, _ := io.ReadAll(from)
			if have := string(read) + string(rest); have != c.push {
				t.Errorf("%s: what is sent is %q", name, have)
			}
		}
	}
}

// A push that is refused names no ref outside of the scope, and one that is not is what it was.
func FuzzCommands(f *testing.F) {
	corpus.Add(f, []byte(line(one+" "+two+" refs/heads/fix\x00 report-status")+"0000PACK"))
	corpus.Add(f, []byte(line("shallow "+one)+line(zeros+" "+two+" refs/heads/agent/x")+"0000"))
	f.Fuzz(func(t *testing.T, push []byte) {
		read, _, err := gitwire.Commands(bytes.NewReader(push), scope())
		if err == nil && (!bytes.HasPrefix(push, read) || !bytes.HasSuffix(read, []byte("0000")) || bytes.Contains(read, []byte("refs/heads/main"))) {
			t.Errorf("read %q of %q", read, push)
		}
	})
}
