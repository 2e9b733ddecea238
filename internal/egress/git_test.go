package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
)

// M-35: what carries a credential is closed, on both sides, when it is taken back.
func TestWhatCarriesACredentialEndsWhenItIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("over HTTP/2 %t", http2), func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("begun ", 1000))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(gone)
			}, nil)
			client := v.client(t, http2)
			client.Timeout = 0
			resp, err := client.Get("https://example.com/user")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if _, err := io.ReadFull(resp.Body, make([]byte, len("begun"))); err != nil {
				t.Fatal(err)
			}
			v.revoked.Store(true)
			if rest, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("the answer looks whole after %d bytes", len(rest))
			}
			<-gone
			if have := v.log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonRevoked) {
				t.Errorf("the record says %s", have.Reason)
			}
			again, err := v.client(t, http2).Get("https://example.com/user")
			if err == nil {
				_ = again.Body.Close()
			}
			if err == nil || len(v.requests()) != 1 {
				t.Errorf("a request after it: %v, and the host had %d", err, len(v.requests()))
			}
		})
	}
}

// M-35: of a push that is refused the host has nothing, whichever way it is framed.
func TestARefusedPushIsNotSent(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil, func(c *egress.Credential) {
		c.Methods, c.Paths = nil, nil
		*c = c.ForGit(posture.Git{Repositories: []string{"/acme/app.git"}, Push: []string{"refs/heads/agent/*"}})
	})
	id := strings.Repeat("1", 40)
	push := func(ref string) string {
		line := id + " " + id + " " + ref + "\x00 report-status"
		return fmt.Sprintf("%04x%s0000PACK", len(line)+4, line)
	}
	for _, http2 := range []bool{false, true} {
		for _, sized := range []bool{false, true} {
			for ref, want := range map[string]string{"refs/heads/agent/x": "", "refs/heads/main": string(egress.ReasonGit)} {
				var body io.Reader = strings.NewReader(push(ref))
				if !sized {
					body = io.MultiReader(body)
				}
				before := len(v.requests())
				resp, err := v.client(t, http2).Post("https://example.com/acme/app.git/git-receive-pack", "application/x-git-receive-pack-request", body)
				if err != nil {
					t.Fatal(err)
				}
				said, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				got := v.requests()[before:]
				switch have := resp.Header.Get("X-Nacre-Reason"); {
				case have != want:
					t.Errorf("%s: have %q, want %q", ref, have, want)
				case want == "" && (len(got) != 1 || got[0].body != push(ref)):
					t.Errorf("%s: the host had %v", ref, got)
				case want != "" && (len(got) != 0 || !strings.Contains(string(said), "and not refs/heads/main")):
					t.Errorf("%s: the host had %v, and the client %q", ref, got, said)
				}
			}
		}
	}
}

// M-36: of several credentials for one repository the first is used that is for what is asked, as
// git's own protocol says it. Whoever may only read pushes nothing with its neighbour's.
func TestSeveralCredentialsOfOneRepository(t *testing.T) {
	t.Parallel()
	git := func(name string, push ...string) func(*egress.Credential) {
		return func(c *egress.Credential) {
			c.Name, c.Methods, c.Paths, c.Material = name, nil, nil, fixed("the-token-of-"+name)
			*c = c.ForGit(posture.Git{Repositories: []string{"/acme/app.git"}, Push: push})
		}
	}
	v := newVault(t, nil, git("reads"), git("agent", "refs/heads/agent/*"), git("release", "refs/heads/release"))
	id := strings.Repeat("1", 40)
	push := func(refs ...string) string {
		var all strings.Builder
		for i, ref := range refs {
			line := id + " " + id + " " + ref
			if i == 0 {
				line += "\x00 report-status"
			}
			_, _ = fmt.Fprintf(&all, "%04x%s", len(line)+4, line)
		}
		return all.String() + "0000PACK"
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/acme/app.git/info/refs?service=git-upload-pack", "", "reads"},
		{"POST", "/acme/app.git/git-upload-pack", "0000", "reads"},
		{"GET", "/acme/app.git/info/refs?service=git-receive-pack", "", "agent"},
		{"POST", "/acme/app.git/git-receive-pack", push("refs/heads/agent/x"), "agent"},
		{"POST", "/acme/app.git/git-receive-pack", push("refs/heads/release"), "release"},
		{"POST", "/acme/app.git/git-receive-pack", push("refs/heads/main"), ""},
		{"POST", "/acme/app.git/git-receive-pack", push("refs/heads/agent/x", "refs/heads/release"), ""},
		{"POST", "/acme/other.git/git-receive-pack", push("refs/heads/agent/x"), ""},
	} {
		before := len(v.requests())
		request, err := http.NewRequest(c.method, "https://example.com"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := v.client(t, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got := v.requests()[before:]
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s %s: the host had %v", c.path, c.body, got)
		case c.want != "" && (len(got) != 1 || got[0].header.Get("Authorization") != "Bearer the-token-of-"+c.want || got[0].body != c.body):
			t.Errorf("%s %s: the host had %v, want %s", c.path, c.body, got, c.want)
		}
	}
}
