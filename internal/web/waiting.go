package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/question"
)

// maxOthers is how many things are listed that this page cannot answer.
const maxOthers = 50

// waitingPage is what waits.
type waitingPage struct {
	frame
	Cards []card
	// More is how many questions wait that are not shown.
	More   int
	Others []Other
	// Looking says that records are still looked through.
	Looking bool
	// Unread says what could not be looked at.
	Unread string
}

type card struct {
	question.Card
	Digest   string
	Asked    time.Time
	Standing []approval.Standing
}

func (s *Site) front(w http.ResponseWriter, r *http.Request) {
	r, token, ok := s.signedIn(r)
	if !ok {
		s.show(w, http.StatusOK, "sign-in", frame{Title: "Sign in"})
		return
	}
	s.show(w, http.StatusOK, "waiting", s.waiting(r.Context(), token, "")) //nolint:contextcheck // it is the request's own, with whose it is
}

// waiting is what waits, the question that expires first in front.
func (s *Site) waiting(ctx context.Context, token, told string) waitingPage {
	p := waitingPage{frame: frame{Title: "What waits", Here: "waiting", Token: token, Told: told, Watch: watchWaiting, At: "/"}}
	questions, err := s.Desk.Approvals(ctx)
	if err != nil {
		p.Unread = question.Escape(err.Error())
	}
	p.State = stateOf(questions)
	slices.SortStableFunc(questions, func(a, b nacre.Question) int { return a.Expires.Compare(b.Expires) })
	p.More = max(0, len(questions)-maxCards)
	for _, q := range questions[:len(questions)-p.More] {
		shown := question.Of(q)
		p.Cards = append(p.Cards, card{Card: shown, Digest: shown.Digest(), Asked: q.Asked, Standing: approval.StandingOf(q)})
	}
	others, err := s.Desk.Others(ctx)
	found := s.elsewhere(ctx)
	if err := cmp.Or(err, found.Err); err != nil && p.Unread == "" {
		p.Unread = question.Escape(err.Error())
	}
	p.Looking = !found.Known
	others = slices.Concat(others, found.Value)
	p.Others = others[:min(len(others), maxOthers)]
	return p
}

// stateOf names a list of questions, whatever its order.
func stateOf(questions []nacre.Question) string {
	var shown []string
	for _, q := range questions {
		shown = append(shown, question.Of(q).Digest())
	}
	slices.Sort(shown)
	return named(shown...)
}

// named is a short name of what is shown, which is another one when that is.
func named(shown ...string) string {
	sum := sha256.New()
	for _, one := range shown {
		_, _ = fmt.Fprintf(sum, "%d %s\n", len(one), one) // a hash takes all
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// answer brings a press to the desk. The form carries the digest of the card that it
// stood under, so a question that changed meanwhile is not what is answered.
func (s *Site) answer(w http.ResponseWriter, r *http.Request, token string) {
	ruling, ok := rulingOf(r, s.Desk)
	if !ok {
		s.show(w, http.StatusBadRequest, "waiting", s.waiting(r.Context(), token, "The form names neither approve nor deny, so nothing was done."))
		return
	}
	pressed, err := s.Desk.Answer(r.Context(), nacre.Press{
		ID: r.PostFormValue("id"), Identity: string(Visitor(r.Context())), Shown: r.PostFormValue("shown"), Ruling: ruling,
	})
	if err != nil {
		s.show(w, http.StatusConflict, "waiting", s.waiting(r.Context(), token, "Nothing was approved: "+question.Escape(err.Error())))
		return
	}
	s.show(w, http.StatusOK, "waiting", s.waiting(r.Context(), token, outcome(pressed, ruling)))
}

// rulingOf is what a form answers: for once, or with a key for as long as that says. Of a question
// that waits no more it does not matter what is answered: the desk takes no answer. A form with more than one
// answer has none.
func rulingOf(r *http.Request, desk Desk) (ruling nacre.Ruling, ok bool) {
	ruling = nacre.Ruling{Verdict: nacre.Deny, Scope: nacre.ScopeOnce}
	key := r.PostFormValue("stands")
	if len(r.PostForm["stands"])+len(r.PostForm["verdict"]) != 1 {
		return nacre.Ruling{}, false
	}
	switch verdict := r.PostFormValue("verdict"); {
	case verdict == "approve":
		ruling.Verdict = nacre.Allow
	case verdict == "deny":
	case verdict == "" && len(key) == 1:
		ruling, ok = standing(r, desk, key)
		if !ok {
			return nacre.Ruling{}, false
		}
	default:
		return nacre.Ruling{}, false
	}
	ruling.By = "the web page"
	return ruling, true
}

// standing is the approval of a key that the page offers for a question.
func standing(r *http.Request, desk Desk, key string) (nacre.Ruling, bool) {
	questions, _ := desk.Approvals(r.Context()) // what cannot be read has no key
	for _, q := range questions {
		offered := slices.ContainsFunc(approval.StandingOf(q), func(s approval.Standing) bool { return s.Key == key })
		if q.ID == r.PostFormValue("id") && offered {
			return approval.ByKey(q, key[0])
		}
	}
	return nacre.Ruling{}, false
}

func outcome(p nacre.Pressed, r nacre.Ruling) string {
	switch {
	case p.Open > 0:
		return approval.Counts(p)
	case r.Verdict == nacre.Allow && r.For > 0:
		return "Approved for longer by " + question.Escape(p.By) + ": the session asks no more about what this covers."
	case r.Verdict == nacre.Allow:
		return "Approved by " + question.Escape(p.By) + "."
	}
	return "Denied by " + question.Escape(p.By) + "."
}
