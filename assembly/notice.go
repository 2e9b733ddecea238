package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// maxNotices is how many different things a session's notices tell.
const maxNotices = 100

// notice is a recorder that also tells the person of what was stopped at the
// walls, which the agent inside need not mention.
type notice struct {
	nacre.Recorder
	tell func(nacre.Step)
}

// Append records, then tells.
func (n notice) Append(ctx context.Context, r nacre.Record) error {
	err := n.Recorder.Append(ctx, r)
	n.note(r)
	return err
}

// Commit records, then tells.
func (n notice) Commit(ctx context.Context, r nacre.Record) error {
	err := n.Recorder.Commit(ctx, r)
	n.note(r)
	return err
}

func (n notice) note(r nacre.Record) {
	if r.Outcome != nacre.OutcomeDenied {
		return
	}
	switch r.Kind {
	case nacre.KindEgress:
		n.tell(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: noRoute(r), IsError: true})
	case nacre.KindModelBegin:
		n.tell(nacre.Step{Kind: nacre.StepResult, Name: "model", Text: r.Reason, IsError: true})
	}
}

// noRoute says where a refused connection was to go, and what would allow it.
func noRoute(r nacre.Record) string {
	var to struct {
		Host string `json:"host"`
		Port int    `json:"port"`
	}
	if json.Unmarshal(r.Detail, &to) != nil || to.Host == "" {
		return r.Reason
	}
	address := fmt.Sprintf("%s:%d", to.Host, to.Port)
	if r.Reason == string(egress.ReasonNotListed) {
		return "no route: " + address + " is not on the list (--egress)"
	}
	return r.Reason + ": " + address
}

// noticed gives a function that tells of each thing once: who tries a refused
// host a thousand times fills the audit, not the screen.
func noticed(tell func(nacre.Step)) func(nacre.Step) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(s nacre.Step) {
		mu.Lock()
		again := told[s.Text] || len(told) == maxNotices
		if !again {
			told[s.Text] = true
		}
		mu.Unlock()
		if !again {
			tell(s)
		}
	}
}

// oneAtATime lets several goroutines tell, and keeps them apart.
func oneAtATime(tell func(nacre.Step)) func(nacre.Step) {
	if tell == nil {
		return func(nacre.Step) {}
	}
	var mu sync.Mutex
	return func(s nacre.Step) {
		mu.Lock()
		defer mu.Unlock()
		tell(s)
	}
}
