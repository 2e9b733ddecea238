package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/egress/gitwire"
	"github.com/nacre-dev/nacre/internal/posture"
)

// ForGit binds the credential to repositories and refs, where any are named.
func (c Credential) ForGit(scope posture.Git) Credential {
	if c.Git = scope; len(scope.Repositories) > 0 && len(c.Methods)+len(c.Paths) == 0 {
		c.Methods, c.Paths = []string{http.MethodGet, http.MethodPost}, scope.Repositories
	}
	return c
}

// checkGit refuses repositories and refs beside which the credential would allow more.
func (c Credential) checkGit() error {
	switch err := c.Git.Check(); {
	case err != nil || c.Git.IsZero():
		return err
	case !slices.Equal(c.Paths, c.Git.Repositories) || !slices.Equal(c.Methods, []string{http.MethodGet, http.MethodPost}):
		return errors.New("a credential for repositories has no methods and no paths of its own")
	case c.Scheme != SchemeBasic && c.Scheme != SchemeBearer:
		return errors.New("scheme is basic or bearer where repositories are named")
	}
	return nil
}

// choose finds the credential of a request, and names it in the record. Of several for one
// repository git's own protocol says which: the first one that is for what is asked.
func (o *opened) choose(r *http.Request, d *denial, held *memory, path, query string) (Credential, error) {
	c, reason := choose(o.list, r.Method, path)
	if reason != ReasonListed {
		return c, refusal(reason, "what the operator allows of this host is not this method and path")
	}
	var no []string
	for _, c = range o.list {
		if c.allows(r.Method, path) != ReasonListed {
			continue
		}
		d.credential = c.Name
		err := c.admitGit(r, held, path, query)
		var refused gitwire.Refusal
		if !errors.As(err, &refused) {
			return c, err
		}
		no = append(no, string(refused))
	}
	return c, refusal(ReasonGit, strings.Join(no, "; "))
}

// admitGit refuses what is not a clone, fetch or push of the credential's. The refs of a
// push are read before anything of it is sent.
func (c Credential) admitGit(r *http.Request, held *memory, path, query string) error {
	if c.Git.IsZero() {
		return nil
	}
	service, err := gitwire.Read(scopeOf(c.Git), r.Method, path, query)
	if err == nil && service == gitwire.Push && r.Method == http.MethodPost {
		err = c.admitPush(r, held)
	}
	return err
}

// admitPush reads the beginning of a push, for which there is room in the session's memory.
func (c Credential) admitPush(r *http.Request, held *memory) error {
	if len(codingsOf(r.Header, "Content-Encoding")) > 0 {
		return gitwire.Refusal("a push is sent without a Content-Encoding")
	}
	before := held.held // of the credentials that it was read for before this one
	if err := held.take(gitwire.MaxMemory); err != nil {
		return err
	}
	body := r.Body
	read, err := gitwire.Admit(body, scopeOf(c.Git))
	held.giveTo(before + int64(len(read)))
	r.Body = struct { // also where it is refused: the next credential reads it anew
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), body), body}
	return err
}

// isPush reports whether a push was refused for what it would change.
func (d denial) isPush() bool {
	return d.reason == ReasonGit && d.method == http.MethodPost && strings.HasSuffix(d.path, "/"+string(gitwire.Push))
}

// explainPush answers as a git that refuses does, and so with 200: of any other status git
// tells its user the number alone. What it answers acknowledges nothing.
func explainPush(w http.ResponseWriter, d denial) {
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("X-Nacre-Reason", string(d.reason))
	_, _ = w.Write(gitwire.Fatal(d.text())) // a client that is gone needs no answer
}

func scopeOf(g posture.Git) gitwire.Scope {
	return gitwire.Scope{Repositories: g.Repositories, Push: g.Push, IsRef: posture.IsRef, AllowsPush: g.AllowsPush, AllowsForce: g.AllowsForce}
}
