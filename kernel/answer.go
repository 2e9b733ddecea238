package kernel

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxAnswers is how many addresses one session may answer.
const maxAnswers = 16

// An Answer is the right to answer whoever woke a session, which an operator gives with the route
// that let them. The argument that stands for the recipient, of one of these tools, counts as the
// operator's word where it is, byte for byte, one of these addresses. It says nothing of other
// tools, other arguments, other values or what is written. Its zero value gives no right.
type Answer struct {
	// Recipients name, for each tool, the argument that stands for the recipient.
	Recipients map[nacre.ToolName]string
	Addresses  []string
	// By names where the right comes from, such as the route, in records.
	By string
	// Public, unless nil, ends the right once the session has read a result of another tool
	// (M-50b). Ended says that one did so before, in the conversation that goes on. All says that
	// who is answered may be told all: the right does not end.
	Public     func(nacre.ToolName) bool
	Ended, All bool
}

// names reports whether an argument of a call is an address that may be answered.
// Only whole arguments count: one within a list or an object is not looked for.
func (a Answer) names(arguments []wire.Member, path string) bool {
	return !strings.Contains(path, ".") && slices.ContainsFunc(arguments, func(m wire.Member) bool {
		text, ok := wire.Text(m.Value)
		return ok && m.Key == path && text != "" && slices.Contains(a.Addresses, text)
	})
}

// right is a session's right to answer, and the tools that have told it something.
type right struct {
	Answer
	read map[nacre.ToolName]bool
}

// private reports whether one of them was neither public nor of the conversation itself.
func (r *right) private() bool {
	if r.Public == nil {
		return false
	}
	for tool := range r.read {
		if _, own := r.Recipients[tool]; !own && !r.Public(tool) {
			return true
		}
	}
	return r.Ended
}

// Answer lets a session answer whoever woke it, until the kernel forgets the session. A later
// answer takes the place of an earlier one. Addresses beyond 16 give no right.
func (k *sessions) Answer(id nacre.SessionKey, a Answer) error {
	s, err := k.session(id)
	if err != nil {
		return err
	}
	a.Recipients, a.Addresses = maps.Clone(a.Recipients), slices.Clone(a.Addresses[:min(len(a.Addresses), maxAnswers)])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer.Answer = a
	return nil
}

// AnswerEnded reports whether what a session has read ends the right, but for who is told all.
func (k *sessions) AnswerEnded(id nacre.SessionKey) bool {
	s := k.known(id)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer.private()
}

// answering are origins with those of addresses that the session may answer in the
// operator's name.
func (s *session) answering(tool nacre.ToolName, arguments json.RawMessage, origins []nacre.Origin) []nacre.Origin {
	s.mu.Lock()
	a, ended := s.answer.Answer, !s.answer.All && s.answer.private()
	s.mu.Unlock()
	recipient := a.Recipients[tool]
	if recipient == "" || ended {
		return origins
	}
	members, err := wire.Object(arguments, wire.Limits{})
	if err != nil {
		return origins
	}
	for i, o := range origins {
		if o.Argument == recipient && a.names(members, recipient) {
			origins[i] = nacre.Origin{Argument: o.Argument, Provenance: nacre.SeenOperator, Sources: []string{a.By}}
		}
	}
	return origins
}
