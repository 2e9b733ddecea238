package approval

import (
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// choice is a key of one letter that answers a question.
type choice struct {
	key    byte
	word   string
	about  string // what is approved, of one that stands; empty for others
	ruling nacre.Ruling
	opens  bool // it makes sense for what is opened, too
	text   bool // it wants a text to vouch for, all of which was shown
}

// span is how long an answer stands that is given for a while.
const span = 15 * time.Minute

// choices are the keys, in the order in which they are shown: yes and no in front, which a small
// terminal has room for.
func choices() []choice {
	allow := func(scope nacre.RulingScope, long time.Duration) nacre.Ruling {
		return nacre.Ruling{Verdict: nacre.Allow, For: long, Scope: scope}
	}
	return []choice{
		{key: 'y', word: "once", ruling: nacre.Ruling{Verdict: nacre.Allow}, opens: true},
		{key: 'n', word: "no", ruling: nacre.Ruling{Verdict: nacre.Deny}, opens: true},
		{key: '3', word: "times", about: "this call and two more with the same risky values", ruling: nacre.Ruling{Verdict: nacre.Allow, For: MaxStanding, Scope: nacre.ScopeSame, Times: 3}},
		{key: 'e', word: "exact", about: "exactly these arguments, for 15 minutes", ruling: allow(nacre.ScopeExact, span)},
		{key: 'm', word: "15 min", about: "the same risky values, for 15 minutes", ruling: allow(nacre.ScopeSame, span), opens: true},
		{key: 's', word: "session", about: "the same risky values, while the session lasts, up to 8 hours", ruling: allow(nacre.ScopeSame, MaxStanding), opens: true},
		{key: 't', word: "tool", about: "the tool with any arguments, for 15 minutes", ruling: allow(nacre.ScopeTool, span)},
		{key: 'w', word: "what the text says", ruling: allow(nacre.ScopeText, 0), text: true},
		{key: 'v', word: "never", ruling: nacre.Ruling{Verdict: nacre.Deny, For: MaxStanding, Scope: nacre.ScopeTool}, opens: true},
	}
}

// answers reports whether a key answers a question.
func (c choice) answers(q nacre.Question) bool {
	if c.text {
		return q.Text != nil && len(q.Text.Text) <= maxWords
	}
	o, opens := openingOf(q)
	return !opens || c.opens && c.word != o.word // which the plain yes is already
}

// opening is what a question asks to be opened: a yes is no call that runs once, but lasts.
type opening struct {
	what      string // is opened
	yes, word string // is how long a plain yes lasts, as a sentence and as a key says it
}

// told says what a ruling on it means. What was denied stays shut in its session.
func (o opening) told(r nacre.Ruling) string {
	switch {
	case r.Verdict != nacre.Allow:
		return "denied, and " + o.what + " is not asked for again in this session"
	case r.For > 0:
		return "approved, for " + long(r.For)
	}
	return "approved, " + o.yes
}

// openingOf is what a question asks to be opened, if it is no single call.
func openingOf(q nacre.Question) (o opening, ok bool) {
	switch q.Capability {
	case Egress:
		return opening{"this host", "for " + long(EgressSpan), "30 min"}, true
	case question.Mount:
		return opening{"this folder", "until the session ends", "session"}, true
	}
	return opening{}, false
}

// ByKey is what a key of one letter answers to a question, if anything.
func ByKey(q nacre.Question, key byte) (nacre.Ruling, bool) {
	for _, c := range choices() {
		if c.key == key && c.answers(q) {
			return c.ruling, true
		}
	}
	return nacre.Ruling{}, false
}

// Standing is an approval that stands for more than one call.
type Standing struct {
	Key   string // of one letter, for [ByKey]
	About string // what is approved
}

// StandingOf are the approvals of a question that stand. What several persons have to approve is
// approved once.
func StandingOf(q nacre.Question) (all []Standing) {
	for _, c := range choices() {
		if c.about == "" || !c.answers(q) || q.Approvers > 1 {
			continue
		}
		about := c.about
		if o, ok := openingOf(q); ok {
			about = strings.Replace(about, "the same risky values", o.what, 1)
		}
		all = append(all, Standing{string(c.key), about})
	}
	return all
}

// Keys says in one line which keys answer a question.
func Keys(q nacre.Question) string {
	var words []string
	for _, c := range choices() {
		if c.answers(q) {
			word := c.word
			if o, ok := openingOf(q); ok && c.ruling == (nacre.Ruling{Verdict: nacre.Allow}) {
				word = o.word
			}
			words = append(words, string(c.key)+" "+word)
		}
	}
	return strings.Join(words, " · ")
}
