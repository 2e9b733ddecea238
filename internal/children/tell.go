package children

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/memory"
)

const (
	// maxReport is how much of what a child reported its parent is told, in bytes.
	maxReport = 16 << 10
	// maxChanges is how many of the files that it changed are named.
	maxChanges = 200
)

// news is what a parent is told of a child.
type news struct {
	Child  nacre.SessionID `json:"child"`
	State  string          `json:"state"`
	Memory string          `json:"memory"`
	// Reason is why its work did not land, and Next what helps.
	Reason string `json:"reason,omitempty"`
	Next   string `json:"next,omitempty"`
	Commit string `json:"commit,omitempty"`
	Cost   string `json:"cost,omitempty"`
	// Report is what it says of its work: a claim. Changes are its files.
	Report  string   `json:"report,omitempty"`
	Changes []string `json:"changes,omitempty"`
	Left    []string `json:"left,omitempty"`
}

// named is the child that a call names.
func (f *Family) named(raw json.RawMessage) (c *Child, args struct {
	Child   nacre.SessionID `json:"child"`
	Seconds int             `json:"seconds"`
	Limit   int             `json:"limit"`
}, err error) {
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, args, err
	}
	for _, c := range f.all() {
		if c.ID == args.Child {
			return c, args, nil
		}
	}
	return nil, args, told(fmt.Errorf("you have no sub-agent %.64q: start_child says the name of each", args.Child))
}

// wait waits a while for a child. What it reported is as much to be trusted as what it had
// been told.
func (f *Family) wait(ctx context.Context, in nacre.Invocation) (json.RawMessage, nacre.Label, error) {
	c, args, err := f.named(in.Arguments)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	patience := time.NewTimer(min(time.Duration(args.Seconds)*time.Second, intrinsic.MaxWait))
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
	case <-f.parent.Interruption.Begun():
	case <-ctx.Done():
		return nil, nacre.Untrusted, context.Cause(ctx)
	}
	result, err := json.Marshal(c.news())
	return result, c.label(), err
}

// label is how far what is told of the child can be trusted: nobody vouches for its words.
func (c *Child) label() nacre.Label {
	switch {
	case !c.ended():
		return nacre.Trusted // the host's words alone
	case c.tainted.Load():
		return nacre.Untrusted
	}
	return nacre.Unvouched
}

func (c *Child) news() news {
	n := news{Child: c.ID, State: c.state(), Memory: c.working().ID}
	if !c.ended() {
		n.Next = "call wait_child again"
		return n
	}
	r := c.result
	n.Reason, n.Next, n.Commit, n.Cost = r.Reason, r.Next, r.Commit, budget.Dollars(c.cost)
	if c.err != nil {
		n.Reason = c.err.Error()
	}
	n.Report = r.Report[:min(len(r.Report), maxReport)]
	for _, change := range r.Changes[:min(len(r.Changes), maxChanges)] {
		n.Changes = append(n.Changes, change.Kind+" "+change.Path)
	}
	n.Left = r.Left[:min(len(r.Left), maxChanges)]
	return n
}

// stop ends a child.
func (f *Family) stop(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	c, _, err := f.named(in.Arguments)
	if err != nil {
		return nil, err
	}
	c.cancel(errStopped)
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return json.Marshal(map[string]any{"child": c.ID, "state": c.state()})
}

// memories are what a child has stored, the latest first.
func (f *Family) memories(ctx context.Context, in nacre.Invocation) (json.RawMessage, nacre.Label, error) {
	c, args, err := f.named(in.Arguments)
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	hits, err := f.parent.Memory.Search(ctx, memory.Query{Tags: []string{c.working().Tag()}, Limit: args.Limit})
	if err != nil {
		return nil, nacre.Untrusted, err
	}
	label := nacre.Trusted
	ids := make([]string, 0, len(hits))
	for _, hit := range hits {
		label, ids = label.And(hit.Told()), append(ids, hit.ID)
	}
	if err := f.parent.Memory.Recalled(ctx, memory.Writer{Session: in.Principal.Session, Label: in.Label}, ids); err != nil {
		return nil, nacre.Untrusted, err
	}
	result, err := json.Marshal(map[string]any{"child": c.ID, "memory": c.working().ID, "entries": hits})
	return result, label, err
}
