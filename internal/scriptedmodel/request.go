package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// asked is the part of a request that a script looks at, in any dialect.
type asked struct {
	model  string
	stream bool
	// usage says that a Chat stream was asked for its usage.
	usage bool
	// said are the conversation's texts in order, system texts among them.
	said []message
	// tools are the types of the tools on offer, by name.
	tools map[string]string
	// spaces are the namespaces of those that have one.
	spaces map[string]string
}

type message struct {
	role, text string
	failed     bool
}

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

func (a *asked) add(role string, content json.RawMessage) {
	text, failed := textOf(content)
	if role == "developer" {
		role = "system"
	}
	a.said = append(a.said, message{role, text, failed})
}

// result adds what a tool gave. OpenAI's dialects have no mark for errors, so
// a result that begins with the word is one.
func (a *asked) result(content json.RawMessage, failed bool) {
	text, _ := textOf(content)
	failed = failed || strings.HasPrefix(strings.ToLower(text), "error")
	if n := len(a.said); n > 0 && a.said[n-1].role == "tool" {
		a.said[n-1].text += "\n" + text
		a.said[n-1].failed = a.said[n-1].failed || failed
		return
	}
	a.said = append(a.said, message{"tool", text, failed})
}

// turn is how many answers the history holds; neighbouring messages of the
// assistant are one answer.
func (a asked) turn() int {
	n, last := 0, ""
	for _, m := range a.said {
		if m.role == "assistant" && last != "assistant" {
			n++
		}
		if m.role != "system" {
			last = m.role
		}
	}
	return n
}

// last is the text of the last message that is not the system's, and whether it holds a tool's error.
func (a asked) last() (text string, failed bool) {
	for _, m := range slices.Backward(a.said) {
		if m.role != "system" {
			return m.text, m.failed
		}
	}
	return "", false
}

// textOf joins all text in a content: a string, or blocks with text and tool results.
func textOf(content json.RawMessage) (text string, failed bool) {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s, false
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return "", false
	}
	var all []string
	for _, b := range blocks {
		inner, bad := textOf(b.Content)
		all = append(all, b.Text, inner)
		failed = failed || bad || b.IsError
	}
	return strings.Join(all, "\n"), failed
}

func (a asked) offers(tool string) bool {
	_, ok := a.tools[tool]
	return ok
}

// matches expects patterns that Check has compiled once.
func matches(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return ok && err == nil
}

func (m Match) fits(path string, a asked) bool {
	if m.Path != "" && m.Path != path || m.NoTools && len(a.tools) > 0 {
		return false
	}
	if m.Contains != "" {
		var all string
		for _, msg := range a.said {
			all += msg.text + "\n"
		}
		if !matches(m.Contains, all) {
			return false
		}
	}
	return matches(m.Model, a.model)
}

// choose finds the turn to play, and its name in failures.
func (s *Server) choose(path string, a asked) (Turn, string, bool) {
	turns, name := s.script.Turns, "turn"
	for i, o := range s.script.Others {
		if o.Match.fits(path, a) {
			turns, name = o.Turns, fmt.Sprintf("others[%d] turn", i)
			break
		}
	}
	n := a.turn()
	name = fmt.Sprintf("%s %d", name, n)
	if n >= len(turns) {
		return Turn{}, name, false
	}
	return turns[n].offered(a), name, true
}

// offered has the turn call what it was offered.
func (t Turn) offered(a asked) Turn {
	tools := make([]Tool, 0, len(t.Tools))
	for _, tool := range t.Tools {
		for _, other := range tool.Else {
			if !a.offers(tool.Name) && a.offers(other.Name) {
				tool = other
			}
		}
		tools = append(tools, tool)
	}
	t.Tools = tools
	return t
}

// check notes every way in which a request is not what the turn expects.
func (s *Server) check(name string, e *Expect, a asked) {
	if e == nil {
		return
	}
	text, failed := a.last()
	for _, want := range e.Contains {
		if !strings.Contains(text, want) {
			s.fail("%s: want %q in the last message, have %.300q", name, want, text)
		}
	}
	for _, want := range e.Matches {
		if !matches(want, text) {
			s.fail("%s: want a match of %q in the last message, have %.300q", name, want, text)
		}
	}
	for _, tool := range e.Tools {
		if !a.offers(tool) {
			s.fail("%s: the tool %q is not offered", name, tool)
		}
	}
	for _, tool := range e.NoTools {
		if a.offers(tool) {
			s.fail("%s: the tool %q is offered", name, tool)
		}
	}
	if !matches(e.Model, a.model) {
		s.fail("%s: want a model like %q, have %q", name, e.Model, a.model)
	}
	if e.Error != nil && *e.Error != failed {
		s.fail("%s: want a tool's error: %t, have %t: %.300q", name, *e.Error, failed, text)
	}
}

// inspect looks for what must not be in any request, and for what must be.
func (s *Server) inspect(r *http.Request, body []byte) {
	for _, secret := range s.script.Forbid {
		if strings.Contains(string(body), secret) {
			s.fail("the body holds a forbidden string")
		}
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, "\n"), secret) {
				s.fail("the header %s holds a forbidden string", name)
			}
		}
	}
	for name, want := range s.script.WantHeader {
		if r.Header.Get(name) != want {
			s.fail("the header %s does not have the wanted value", name)
		}
	}
}
