// Package folders lets the agent of a session ask for folders outside of its project (M-42). In the sandboxes
// that the session's agent runs in it shows those that a person lets it see. They are read-only, at a place of
// their own, and there for the session or for a time.
//
// What no agent may see is refused before anybody is asked. What was opened for the question is what is
// shown: a folder that was removed, replaced or mounted upon meanwhile is not. One question waits at a time.
package folders

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
)

const (
	// patience is how long a call waits for the answer: a call is answered in less than 30 s.
	patience = 20 * time.Second
	// maxAsked is how many questions of a session a person is asked at most.
	maxAsked = 16
	// maxShown is how many folders a session is shown at once.
	maxShown = 16
)

// Folders are those that the agent of one session asked for. Its methods may be called concurrently.
type Folders struct {
	inst    *installation.Installation
	project string // without symbolic links; empty where there is none
	warn    func(nacre.Step)
	session *session.Session // nil until Follow

	mu       sync.Mutex
	known    map[string]*folder // by their paths
	waiting  *folder
	asked    int
	programs []sandbox.Shown // in which the session's agent runs
	closed   bool
	timers   sync.WaitGroup
}

// folder is one that was asked for. The lock of its Folders guards it.
type folder struct {
	*sandbox.Folder
	place string
	// decided is closed when its question does not wait any more.
	decided chan struct{}
	id      string // of the question
	denied  bool
	shown   bool
	until   time.Time // zero for as long as the session lasts
	// standing says that it is shown for as long as an approval for all sessions stands, and nobody was asked.
	standing bool
	failed   string // why it is not shown although a person said yes
}

// New are those of a session that works on a project. warn tells the operator.
func New(inst *installation.Installation, project string, warn func(nacre.Step)) *Folders {
	return &Folders{inst: inst, project: project, warn: warn, known: map[string]*folder{}}
}

// Follow says which session's they are, once it is open and before its agent runs.
func (f *Folders) Follow(s *session.Session) { f.session = s }

// Tool is what the agent asks with.
func (f *Folders) Tool() nacre.Tool { return intrinsic.FolderTool(nacre.DriverFunc(f.request)) }

// answer is what the agent is told.
type answer struct {
	State  string `json:"state"` // shown or waiting
	Folder string `json:"folder,omitempty"`
	Access string `json:"access,omitempty"`
	Until  string `json:"until,omitempty"`
	Next   string `json:"next,omitempty"`
}

const readOnly = "read-only"

// request answers one call: with the place of a folder that is shown, or with what is waited for.
func (f *Folders) request(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	var asked struct{ Path, Reason string }
	if err := json.Unmarshal(in.Arguments, &asked); err != nil {
		return nil, err
	}
	seen, err := f.open(asked.Path) //nolint:contextcheck // what is refused is recorded whatever becomes of the call
	if err != nil {
		return nil, refusal(err.Error())
	}
	about := question.Folder{Folder: seen.Path(), Asked: asked.Path, Access: readOnly}
	about.Holds, about.Keys = glance(seen.Name())                // without the lock: its disk may be one that hangs
	known, err := f.enter(seen, about, asked.Reason, in.Origins) //nolint:contextcheck // the question outlives the call that asks it
	if known == nil || known.Folder != seen {
		seen.Close() // it was asked for before, or is not
	}
	if err != nil {
		return nil, refusal(err.Error())
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-known.decided:
	case <-timer.C:
	case <-ctx.Done():
	}
	return f.told(known, seen.Path())
}

func refusal(why string) *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: why}
}

// told is what a call is answered with by now.
func (f *Folders) told(e *folder, path string) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.shown && f.known[path] == e:
		a := answer{State: "shown", Folder: sandbox.FoldersDir + "/" + e.place, Access: readOnly}
		if !e.until.IsZero() {
			a.Until = e.until.UTC().Format(time.RFC3339)
		}
		return json.Marshal(a)
	case e.failed != "":
		return nil, refusal("a person said yes, and the folder could not be shown: " + e.failed)
	case e.denied:
		return nil, refusal("a person denied this folder for the session: go on without it")
	case f.waiting == e:
		return json.Marshal(answer{State: "waiting", Next: "a person is asked for it: call again with the same path, or go on without it"})
	case f.waiting != nil:
		return json.Marshal(answer{State: "waiting", Next: "another folder waits for a person's answer: ask for this one after it"})
	}
	return nil, refusal("nobody answered in time, so the folder stays away: ask again if you cannot go on without it")
}

// enter finds what became of asking for a folder, or asks for it.
func (f *Folders) enter(seen *sandbox.Folder, about question.Folder, reason string, origins []nacre.Origin) (*folder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	earlier := f.known[seen.Path()]
	switch {
	case f.closed || f.session == nil:
		return nil, errEnded
	case earlier != nil && (earlier.shown || earlier.denied || earlier == f.waiting):
		return earlier, nil
	case f.waiting != nil:
		decided := make(chan struct{})
		close(decided) // it is not asked for yet
		return &folder{decided: decided}, nil
	case f.asked >= maxAsked:
		return nil, fmt.Errorf("this session has asked for %d folders, and asks for no more", maxAsked)
	case f.count() >= maxShown:
		return nil, fmt.Errorf("this session is shown %d folders, and no more", maxShown)
	}
	e := &folder{Folder: seen, place: f.placeOf(seen.Path()), decided: make(chan struct{})}
	if by, is := f.approval(e); is {
		e.until, e.standing = by.Until, true
		f.showApproved(e, map[string]any{"by": by.By, "learned": by.ID})
		close(e.decided)
	} else {
		if err := f.ask(e, about, reason, origins); err != nil {
			return nil, fmt.Errorf("the question could not be asked: %w", err)
		}
		f.waiting = e
	}
	if earlier != nil {
		earlier.Close() // nobody answered, or its time is over
	}
	f.asked++
	f.known[seen.Path()] = e
	return e, nil
}

// approval is what a person approved of a folder once for all sessions of the group (U-40). Of what cannot
// be read nothing is approved, and a person is asked.
func (f *Folders) approval(e *folder) (by learned.Approval, is bool) {
	approvals, err := learned.Load(f.inst.Registry.Paths().Config)
	if err != nil {
		return learned.Approval{}, false
	}
	return approvals.FolderAt(f.inst.Options.Now(), f.session.Group(), e.Path())
}

// count is called with mu held.
func (f *Folders) count() (n int) {
	for _, e := range f.known {
		if e.shown {
			n++
		}
	}
	return n
}

// ask opens the question, once it is recorded that it is asked. It is called with mu held.
func (f *Folders) ask(e *folder, about question.Folder, reason string, origins []nacre.Origin) error {
	about.Inside = sandbox.FoldersDir + "/" + e.place
	arguments, err := json.Marshal(about)
	if err != nil {
		return err
	}
	words, _ := f.inst.Redact.String(reason)
	q := nacre.Question{
		Capability: question.Mount, Arguments: arguments, Digest: question.Digest(question.Mount, arguments), Origins: slices.Clone(origins),
		Why: "its agent asked to see it: it is outside of the project", AgentWords: words, Safety: nacre.Write,
	}
	detail, err := json.Marshal(map[string]any{"capability": q.Capability, "folder": e.Path(), "access": readOnly, "digest": q.Digest})
	if err != nil {
		return err
	}
	s := f.session
	if err := s.Recorder.Commit(s.Context(), nacre.Record{Kind: nacre.KindApprovalAsk, Source: "folders", Reason: q.Why, Detail: detail}); err != nil {
		return err // what cannot be recorded is not asked
	}
	e.id, err = s.Approvals.Propose(s.Context(), q, func(q nacre.Question, r nacre.Ruling, err error) { f.decided(e, q, r, err) })
	return err
}

// placeOf is the name of a folder's place: its own as far as it is plain, and no other one's. It is
// called with mu held.
func (f *Folders) placeOf(path string) string {
	const most = 48
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, path[strings.LastIndexByte(path, '/')+1:])
	plain = strings.TrimLeft(plain[:min(len(plain), most)], ".-")
	if plain == "" {
		plain = "folder"
	}
	name := plain
	for n := 2; f.taken(name); n++ {
		name = fmt.Sprintf("%s-%d", plain, n)
	}
	return name
}

func (f *Folders) taken(place string) bool {
	for _, e := range f.known {
		if e.place == place && (e.shown || e == f.waiting) {
			return true
		}
	}
	return false
}
