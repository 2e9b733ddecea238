// Package seal opens a sealed session with everything that serves it, in the order in which the
// parts depend on each other, and closes it. The parts are memory, plugins, kernel, door, proxy,
// gateway, credentials and tripwires. What goes through the door or the proxy passes the same
// stages in each session, in the order that ARCHITECTURE.md shows.
package seal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/doorway"
	"github.com/nacre-dev/nacre/internal/gitdir"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/metering"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/reach"
	"github.com/nacre-dev/nacre/internal/recollection"
	"github.com/nacre-dev/nacre/internal/toolset"
	"github.com/nacre-dev/nacre/internal/watch"
)

// Session is an open session with everything that serves it.
type Session struct {
	*basis.Basis
	*reach.Reach
	*recollection.Recollection
	*toolset.Toolset
	Model   *metering.Meter
	Watch   *watch.Watch     // nil until it is set up
	Plugins *hosting.Plugins // nil until what its calls reach is open
	Limited atomic.Value     // a string: for which limit the agent was ended

	request   Request
	door      *doorway.Doorway
	questions *asking.Questions
}

// Open opens a session with its memory, plugins, kernel, door, proxy and gateway.
func Open(ctx context.Context, inst *installation.Installation, req Request) (*Session, error) {
	if err := inst.PolicySeen(); err != nil {
		return nil, err
	}
	on := basis.New(inst, req.Project, strings.TrimSpace(req.Brain+" "+req.Version), req.Tell, req.Warn)
	s := &Session{Basis: on, request: req}
	s.Toolset = toolset.New(on, toolset.Options{
		Project: req.Project, Kind: req.Kind, Confined: req.Confined, Words: req.Words, Kin: req.Kin, Health: func() any { return s.Plugins.Health() },
	})
	var err error
	s.Reach, err = reach.Decide(on, reach.Asked{
		Kind: req.Kind, Egress: req.Egress, Services: req.Services, Powers: req.Powers, Handed: req.Kin.Handed,
	}, s.Tainted)
	if err != nil {
		return nil, err
	}
	if err := inst.Work(req.Project); err != nil {
		return nil, inst.Writable(err)
	}
	if err := operator.SettleAll(ctx, inst, req.Project, operator.TellSteps(req.Warn, req.Tell)); err != nil {
		return nil, err
	}
	s.door = doorway.New(on, req.Project, req.Kin, s.openLate, s.Opened)
	s.questions = asking.NewQuestions(req.Asking)
	s.Recollection = recollection.New(on, req.Group, req.Kin.Working(), (req.Kind == "exec" || req.Kind == "agent") && req.Shared == nil)
	later := s.Quiet(req.Model)
	plugins := hosting.Finder(inst, req.Group)
	if later {
		plugins = nil
	} else {
		s.Remember(ctx)
	}
	s.Found = basis.LookAround(ctx, inst, plugins)
	defer s.Found.Wait.Wait()
	if err := s.open(ctx, later); err != nil {
		return nil, errors.Join(err, s.Stopped(), s.Close(ctx, "not opened", s.Session == nil || !s.Resumed() && !s.CarriedOn()))
	}
	return s, nil
}

// open opens what the agent needs; what its calls reach as well, unless that is for later.
func (s *Session) open(ctx context.Context, later bool) error {
	r, req := s.Inst, s.request
	err := s.Basis.Open(ctx, basis.Opening{
		Status: nacre.SessionStatus{ID: req.ID, Group: req.Group, Kind: req.Kind, Title: req.Title, Project: req.Project, Brain: req.Brain, Parent: req.Kin.Parent},
		AskTTL: cmp.Or(r.Config.AskTTL(), req.Asking.Patience), Prepare: req.Prepare, Notify: s.questions.Notify, Reload: s.reloadPlugin, Directory: asking.Persons(r),
	})
	if memoryErr := s.Remembered(); memoryErr != nil && !later {
		return memoryErr // which says more than what else went wrong
	}
	if err != nil {
		return r.Writable(err)
	}
	s.questions.Follow(s.Session)
	s.Model = metering.New(r, s.Session, metering.Options{Agent: s.Agent, Tell: asking.Noticed(s.Tell), Observe: s.overhear, Revoked: s.revoked})
	if err := s.recordOpen(ctx); err != nil {
		return err
	}
	if s.Watch, err = watch.Open(r, s.Session, s.Warn); err != nil {
		return err
	}
	s.door.Begin(s.Watch)
	if err := s.OpenPins(req.Folder); err != nil {
		return err
	}
	hold := r.Config.Hold(req.Asking.Watched)
	if err := s.Reach.Open(ctx, s.Watch, hold); err != nil {
		return err
	}
	s.questions.AtTerminal()
	s.Found.Wait.Wait()
	if !later {
		if err := s.openCalls(ctx, req.Task); err != nil {
			return err
		}
	}
	s.door.Ready(!later)
	if err := s.door.Serve(s.principal(), &s.Refused); err != nil {
		return err
	}
	if err := s.Serve(hold); err != nil {
		return err
	}
	if req.Model {
		return s.Model.Serve()
	}
	return nil
}

// principal is who the calls of the session's agent act for.
func (s *Session) principal() nacre.Principal {
	who := s.Inst.Principal(s.request.Group, s.request.ID, s.request.Task)
	if h := s.request.Kin.Handed; h != nil {
		who = h.Principal
	}
	who.Agent = cmp.Or(s.request.Brain, s.Inst.Config.Brain.Name, "agent") // one that answers messages is chosen when it is woken
	return who
}

// openLate opens at the first call what was quiet when the session began.
func (s *Session) openLate(ctx context.Context) error {
	s.Found.Plugins, s.Found.Err = hosting.Finder(s.Inst, s.Group())()
	s.Remember(ctx)
	if err := s.Remembered(); err != nil {
		return err
	}
	return s.openCalls(ctx, "")
}

// openCalls opens what the agent's calls reach, over the memory and the plugins that were found.
func (s *Session) openCalls(ctx context.Context, task string) error {
	if err := s.RecordPurge(ctx); err != nil {
		return err
	}
	if s.Found.Err != nil {
		return s.Found.Err
	}
	s.Plugins = hosting.Open(s.Inst, s.Session, hosting.Options{
		Guest: hosting.Guest{ID: s.ID(), Group: s.Group(), Tools: s.Catalog, Info: s.About},
		Found: s.request.Kin.Needed(s.Found.Plugins), Shared: s.request.Shared, Folder: s.WorkFolder, Masks: s.masks, Warn: s.Warn,
	})
	return s.Toolset.Open(ctx, s.Memory, s.Plugins, task)
}

// masks keep from a plugin what is kept from the agent of git's configuration: credentials, which it would tell (U-04).
func (s *Session) masks(ctx context.Context, project, top, plugin string) ([]nacre.Mount, error) {
	return gitdir.MasksAt(ctx, project, top, filepath.Join(s.Dir(), "masks", plugin))
}

// Door is the session's kernel as its door has it.
func (s *Session) Door() *doorway.Doorway { return s.door }

// reloadPlugin replaces a plugin of this session by what its folder is now.
func (s *Session) reloadPlugin(ctx context.Context, name nacre.PluginName) error {
	if err := s.door.OpenFrom(ctx); err != nil {
		return err
	}
	return s.Plugins.Reload(ctx, name, s.Kernel.Replace)
}

// recordOpen is durable with the first record that something waits for: whatever
// is started, or let out, is recorded after it and waits.
func (s *Session) recordOpen(ctx context.Context) error {
	to := s.Reached()
	detail, err := json.Marshal(map[string]any{
		"kind": s.request.Kind, "work": s.Work(), "brain": s.Agent, "resumed": s.Resumed(), "policy": s.Inst.Policy.Version(),
		"version": s.Inst.Options.Version, "role": s.request.Role, "egress": to.Egress, "powers": s.Powers, "inside": to.Inside, "services": to.Services,
		"parent": s.request.Kin.Row, "parent_session": s.request.Kin.Parent,
	})
	if err != nil {
		return err
	}
	return s.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindSessionOpen, Source: "core", Detail: detail})
}

// overhear tells the kernel what the brain's own tools have read: it is in what
// goes to the model, and nowhere else (K-26).
func (s *Session) overhear(body []byte) {
	project := nacre.SeenUntrusted
	// What the vendor finds on the web is in what goes to the model too.
	searched := len(s.Inst.Config.VendorTools(s.Group())) > 0
	if at := s.request.Project; slices.Contains(s.Inst.Config.TrustedProjects, at) && at != "" && !searched {
		project = nacre.SeenTrusted
	}
	s.Watch.SeenInModel(body)
	if err := s.door.Open(); err != nil { // who opens it has told what is wrong
		s.Stop(err)
		return
	}
	if err := s.Kernel.ObserveModelRequest(s.Key(), body, project); err != nil {
		s.Stop(err) // what cannot be followed must not go on
	}
}

// revoked tells whether what the session was granted was taken back.
func (s *Session) revoked() bool { return s.Watch.Revoked() }

// Info is what a person is told of the session before its agent begins.
func (s *Session) Info(p nacre.Posture, brainName string) SessionInfo {
	info := s.Told(p, brainName, s.request.Project)
	info.Model, info.BudgetUSD, info.Today = s.Model.Told()
	return info
}
