package kernel

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// maxGranted is of how many grants more is kept than they say themselves.
	// What does not fit is charged once more, and asked once more.
	maxGranted = 1 << 14
	// maxKeptWords is how much of a grant's justification is kept, in bytes.
	maxKeptWords = 1 << 10
	// sweepEvery is how often what has expired is looked for, where all is full.
	sweepEvery = time.Second
)

// granted keeps what a kernel remembers of the grants that it made.
type granted struct {
	mu    sync.Mutex
	kept  map[string]grantee
	swept time.Time
}

// grantee is under what a grant was made.
type grantee struct {
	expires time.Time
	// unspent is set while the use that was counted with the grant is left.
	unspent       bool
	justification string
	// approval is what a person said, to which question and of what arguments;
	// pinned is set where the grant is for those alone.
	approval approval
	asked    nacre.Decision
	heard    string
	pinned   bool
	// content is the code and the schema that it was asked about.
	content [2]string
}

func (g *granted) add(r *run, t nacre.Token, now time.Time) {
	one := grantee{
		expires: t.Expires, unspent: true, justification: wire.Cut(r.call.Principal.Justification, maxKeptWords),
		approval: r.approval, heard: r.heard(), pinned: r.arguments != nil, content: r.tool.content(),
	}
	one.asked.Code, one.asked.Rule = r.decision.Code, r.decision.Rule
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept == nil {
		g.kept = make(map[string]grantee)
	}
	if len(g.kept) >= maxGranted && now.Sub(g.swept).Abs() >= sweepEvery {
		g.swept = now
		maps.DeleteFunc(g.kept, func(_ string, old grantee) bool { return !now.Before(old.expires) })
	}
	if len(g.kept) < maxGranted {
		g.kept[t.ID] = one
	}
}

func (g *granted) find(id string) (grantee, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.kept[id]
	return one, ok
}

// prepaid takes the use that was counted with the grant; false where it is gone.
func (g *granted) prepaid(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.kept[id]
	if !ok || !one.unspent {
		return false
	}
	one.unspent = false
	g.kept[id] = one
	return true
}

// covers reports whether what a person said when the grant was made answers a call. The same rule
// asks, the session has listened to nobody else since, and the tool is what it was. The person has
// seen the arguments where those may come from outside. Nobody has seen yet what is in files that
// are used.
func (g grantee) covers(r *run) bool {
	return g.approval.question != "" && g.asked.Code == r.decision.Code && g.asked.Rule == r.decision.Rule &&
		g.heard == r.heard() && g.content == r.tool.content() && len(r.tool.capability.Files) == 0 && (g.pinned || !r.tainted && !r.untrusted)
}

// sure are revocations that fail where they would panic: then nobody can tell,
// which refuses.
type sure struct{ Revocations }

func sureRevocations(r Revocations) Revocations {
	if r == nil {
		return new(token.RevocationList)
	}
	return sure{r}
}

// Revoked implements Revocations.
func (s sure) Revoked(id, principal string, now time.Time) (is bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			is, err = true, fmt.Errorf("revocations %w: %v", errPanicked, p)
		}
	}()
	return s.Revocations.Revoked(id, principal, now)
}
