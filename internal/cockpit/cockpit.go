// Package cockpit is what every face of nacre stands on: what waits for a person, and the one way
// to press a button on it. The terminal, the command line, the web page and the services send a
// press here. Which of them it was changes what may be decided, and never how (M-42, M-47).
//
// It knows no service, and it authenticates nobody: a face says whose press it brings.
package cockpit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/session"
)

// pressChain is the kind of chain of presses that belong to no session any more.
const pressChain = "press-"

// Roster is who may decide in an installation.
func Roster(inst *installation.Installation) roster.Roster {
	paths := inst.Registry.Paths()
	return roster.Roster{Config: paths.Config, State: paths.State, Now: inst.Options.Now}
}

// WantedHere tells whether the person at this terminal is to be told of a question on the
// desktop at this moment. Whoever is nobody's in the config set nothing.
func WantedHere(inst *installation.Installation) bool {
	directory, err := Roster(inst).Directory()
	if err != nil {
		return true
	}
	p, err := directory.Who(person.OfUser(os.Geteuid()))
	return err != nil || p.Wants(person.Desktop, inst.Options.Now())
}

// Questions are those that wait for a person, in all live sessions, and with a store in those of
// all its machines. With an error, they are those of the sessions that can be read.
func Questions(ctx context.Context, inst *installation.Installation) ([]nacre.Question, error) {
	var all []nacre.Question
	err := eachLive(inst, func(remote *session.Remote) {
		if questions, err := remote.Approvals(ctx); err == nil { // else it ended meanwhile
			all = append(all, questions...)
		}
	})
	if store := inst.Registry.Store(); store != nil {
		elsewhere, failed := approval.NewBoard(store).Questions(ctx)
		all, err = merged(all, elsewhere), errors.Join(err, failed)
	}
	return all, err
}

// merged adds the questions of other machines, which also show this one's.
func merged(here, elsewhere []nacre.Question) []nacre.Question {
	for _, q := range elsewhere {
		if !slices.ContainsFunc(here, func(h nacre.Question) bool { return h.ID == q.ID && h.Session == q.Session }) {
			here = append(here, q)
		}
	}
	return here
}

// QuestionsOf are the questions that wait in a session.
func QuestionsOf(ctx context.Context, inst *installation.Installation, id nacre.SessionID) ([]nacre.Question, error) {
	known, err := inst.Registry.Show(id)
	if err != nil {
		return nil, err
	}
	remote, err := session.Dial(known)
	if err != nil {
		return nil, err
	}
	return remote.Approvals(ctx)
}

// Press brings a press to the desk of the session whose question it names, which decides, at
// whichever machine of the installation the session is.
// Where no such question waits, as after a restart, nothing happens: a person is told so
// and the press is recorded, a stranger is nobody to be told.
func Press(ctx context.Context, inst *installation.Installation, p nacre.Press) (nacre.Pressed, error) {
	directory, err := Roster(inst).Directory()
	if err != nil {
		return nacre.Pressed{}, fmt.Errorf("%w: %w", approval.ErrNobody, err)
	}
	var found []*session.Remote
	unread := eachLive(inst, func(remote *session.Remote) {
		questions, err := remote.Approvals(ctx)
		for _, q := range questions {
			if err == nil && q.ID == p.ID {
				found = append(found, remote)
			}
		}
	})
	if len(found) == 1 {
		return found[0].Press(ctx, p)
	}
	who, err := directory.Who(person.Identity(p.Identity))
	if err != nil {
		return nacre.Pressed{}, err
	}
	if store := inst.Registry.Store(); store != nil && len(found) == 0 {
		outcome, err := approval.NewBoard(store).Press(ctx, p, who)
		if !errors.Is(err, approval.ErrUnknown) {
			return outcome, err
		}
	}
	switch {
	case len(found) > 1:
		err = fmt.Errorf("question %q waits in %d sessions: stop one of them", p.ID, len(found))
	case unread != nil:
		err = fmt.Errorf("no pending question %.80q in any session that could be reached: %w", p.ID, unread)
	default:
		err = missing{p.ID}
	}
	return nacre.Pressed{}, errors.Join(err, recordLate(ctx, inst, p, err))
}

// Stop tells a live session to end what runs in it, for the person behind an identity. The
// session's own desk asks for the right to stop, and records who it was.
func Stop(ctx context.Context, inst *installation.Installation, id nacre.SessionID, by person.Identity) error {
	known, err := inst.Registry.Show(id)
	if err != nil {
		return err
	}
	remote, err := session.Dial(known)
	if err != nil {
		return err
	}
	return remote.StopFor(ctx, by)
}

// Decides refuses what the person behind an identity may not decide, such as that held files
// land. group is whose session it is about; empty where it is about all of them.
func Decides(inst *installation.Installation, by person.Identity, kind string, group nacre.Group) error {
	who, err := known(inst, by)
	if err != nil {
		return err
	}
	return who.Answer(person.Matter{Kind: person.Kind(kind), Risk: nacre.Write, Group: group}, nacre.Ruling{Verdict: nacre.Allow})
}

// Configures refuses whoever may not change what is configured.
func Configures(inst *installation.Installation, by person.Identity) error {
	who, err := known(inst, by)
	if err != nil {
		return err
	}
	return who.Configure()
}

// Known refuses whoever is nobody's identity: what takes something back asks for no more.
func Known(inst *installation.Installation, by person.Identity) error {
	_, err := known(inst, by)
	return err
}

func known(inst *installation.Installation, by person.Identity) (person.Person, error) {
	directory, err := Roster(inst).Directory()
	if err != nil {
		return person.Person{}, err
	}
	return directory.Who(by)
}

// missing is a question that no session asks any more.
type missing struct{ id string }

func (m missing) Error() string {
	return fmt.Sprintf("no question %.80q is waiting: it was answered, it expired, or its session ended; nacre approvals list", m.id)
}

// Is makes it what a desk says of a question that it does not know.
func (m missing) Is(target error) bool { return target == approval.ErrUnknown }

// recordLate records a person's press on what does not wait.
func recordLate(ctx context.Context, inst *installation.Installation, p nacre.Press, why error) error {
	return record(ctx, inst, approval.Refusal(p, why, false))
}

// kindPaired records that an identity became an operator's.
const kindPaired nacre.Kind = "operator.pair"

func pairedDetail(name string, id, by person.Identity) json.RawMessage {
	detail, err := json.Marshal(map[string]string{"person": name, "identity": string(id), "by": string(by)})
	if err != nil {
		return nil // texts can be written
	}
	return detail
}

// record writes one record into a chain of its own.
func record(ctx context.Context, inst *installation.Installation, r nacre.Record) error {
	chain, closed, err := operator.Chain(ctx, inst, pressChain)
	if err != nil {
		return err
	}
	r.Time = inst.Options.Now()
	return errors.Join(chain.Commit(context.WithoutCancel(ctx), r), closed())
}

// eachLive does something with each live session. The error names the sessions of
// which nobody knows whether they live.
func eachLive(inst *installation.Installation, do func(*session.Remote)) error {
	list, err := inst.Registry.Live()
	for _, s := range list {
		if remote, err := session.Dial(s); err == nil { // else it is not live
			do(remote)
		}
	}
	return err
}

// Pair approves on the host that the identity which waits with a code is an operator's, by
// the user who runs this process.
func Pair(ctx context.Context, inst *installation.Installation, name, code string) (id string, err error) {
	by := person.OfUser(os.Geteuid())
	if err := Configures(inst, by); err != nil {
		return "", err
	}
	paired, err := Roster(inst).Approve(ctx, name, code)
	if err != nil {
		return "", err
	}
	return string(paired), record(ctx, inst, nacre.Record{Kind: kindPaired, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: pairedDetail(name, paired, by)})
}

// OpenPairing lets identities be paired with an operator, by the user who runs this process.
func OpenPairing(ctx context.Context, inst *installation.Installation, name string) (until time.Time, err error) {
	if err := Configures(inst, person.OfUser(os.Geteuid())); err != nil {
		return time.Time{}, err
	}
	w, err := Roster(inst).OpenPairing(ctx, name)
	return w.Until, err
}
