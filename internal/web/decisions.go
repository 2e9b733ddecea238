package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

const (
	// memoriesShown is how many entries a page shows of each kind.
	memoriesShown = 50
	// defaultGroup is whose memory is shown unless the address says otherwise.
	defaultGroup = "main"
	// days is how long an approval stands unless a person says otherwise.
	days = 30
)

// decisions are the pages on which persons decide for later sessions.
type decisions struct{ *Site }

// told is what a page says after something was done on it, or was refused.
func told(err error, done string) (status int, text string) {
	if err != nil {
		return http.StatusConflict, "Nothing was changed: " + question.Escape(err.Error())
	}
	return http.StatusOK, done
}

// memoryPage is what a group remembers.
type memoryPage struct {
	frame
	Group          nacre.Group
	Groups         []nacre.Group
	Waiting, Known []MemoryEntry
	// Full says that more waits than is shown.
	Full   bool
	Unread string
}

// groupOf is the group that an address or a form names.
func groupOf(r *http.Request) (nacre.Group, error) {
	return nacre.ParseGroup(cmp.Or(r.FormValue("group"), defaultGroup))
}

func (s decisions) memories(w http.ResponseWriter, r *http.Request, token string) {
	group, err := groupOf(r)
	if err != nil {
		s.failed(w, http.StatusBadRequest, token, err)
		return
	}
	s.show(w, http.StatusOK, "memory", s.remembered(r.Context(), token, group))
}

func (s decisions) remembered(ctx context.Context, token string, group nacre.Group) memoryPage {
	p := memoryPage{frame: frame{Title: "Memory of " + string(group), Here: "memory", Token: token}, Group: group}
	var errs [3]error
	p.Groups, errs[0] = s.Memory.Groups(ctx)
	p.Waiting, errs[1] = s.Memory.Memories(ctx, group, true, memoriesShown)
	p.Known, errs[2] = s.Memory.Memories(ctx, group, false, memoriesShown)
	p.Full = len(p.Waiting) == memoriesShown
	p.Unread = unread(errs[:]...)
	return p
}

// unread says what could not be read.
func unread(errs ...error) string {
	for _, err := range errs {
		if err != nil {
			return question.Escape(err.Error())
		}
	}
	return ""
}

func (s decisions) trust(w http.ResponseWriter, r *http.Request, token string) {
	group, err := groupOf(r)
	answer, done := r.PostFormValue("trust"), "It is trusted now, and may enter the brief of later sessions."
	switch {
	case err != nil:
		s.failed(w, http.StatusBadRequest, token, err)
		return
	case answer == "no":
		done = "It is declined: it counts as an outsider's words when it is recalled."
	case answer != "yes":
		s.failed(w, http.StatusBadRequest, token, errForm)
		return
	}
	err = s.Memory.Trust(r.Context(), group, r.PostFormValue("id"), answer == "yes")
	status, said := told(err, done)
	p := s.remembered(r.Context(), token, group)
	p.Told = said
	s.show(w, status, "memory", p)
}

// forgetPage is what goes with an entry that is forgotten.
type forgetPage struct {
	frame
	Group  nacre.Group
	ID     string
	Doomed Doomed
	// More is how many entries go beside those that are shown.
	More int
}

func (s decisions) doomed(w http.ResponseWriter, r *http.Request, token string) {
	group, err := groupOf(r)
	if err != nil {
		s.failed(w, http.StatusBadRequest, token, err)
		return
	}
	id := r.FormValue("id")
	goes, err := s.Memory.Doomed(r.Context(), group, id)
	if err != nil {
		s.failed(w, http.StatusNotFound, token, err)
		return
	}
	p := forgetPage{frame: frame{Title: "What is forgotten", Here: "memory", Token: token}, Group: group, ID: id, Doomed: goes}
	if len(goes.Entries) > memoriesShown {
		p.Doomed.Entries, p.More = goes.Entries[:memoriesShown], len(goes.Entries)-memoriesShown
	}
	s.show(w, http.StatusOK, "forget", p)
}

// forgetTime is how long a page waits for turns that are being taken of what goes.
const forgetTime = 30 * time.Second

func (s decisions) forget(w http.ResponseWriter, r *http.Request, token string) {
	group, err := groupOf(r)
	id, shown := r.PostFormValue("id"), r.PostFormValue("told")
	if err != nil || id == "" || shown == "" {
		s.failed(w, http.StatusBadRequest, token, cmp.Or(err, errForm))
		return
	}
	// A page that is closed meanwhile leaves no erasure half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), forgetTime)
	defer cancel()
	left, err := s.Memory.Forget(ctx, group, id, shown)
	status, said := told(err, "It is erased. What else may hold its words is looked for by: nacre memory forget "+id+" --group "+string(group)+" --dry-run")
	if err == nil && left != "" {
		said = "It is erased, and goes from the last bytes when their file is free: " + question.Escape(left)
	}
	p := s.remembered(r.Context(), token, group)
	p.Told = said
	s.show(w, status, "memory", p)
}

// learnPage is what could be approved, and what was.
type learnPage struct {
	frame
	Proposal  look[Proposal]
	Approvals []Approval
	Days      int
	Unread    string
}

func (s decisions) learning(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "learn", s.proposed(r.Context(), token))
}

func (s decisions) proposed(ctx context.Context, token string) learnPage {
	last := s.proposal(ctx)
	p := learnPage{
		frame: frame{Title: "What was refused", Here: "learn", Token: token, At: "/learn", Watch: watchLearn, State: stateOfProposal(last)},
		Days:  days, Proposal: last,
	}
	var err error
	p.Approvals, err = s.Learn.Approved(ctx)
	p.Unread = unread(err, p.Proposal.Err)
	return p
}

func (s decisions) approve(w http.ResponseWriter, r *http.Request, token string) {
	c := Choice{Proposal: r.PostFormValue("proposal")}
	var err error
	if c.Days, err = strconv.Atoi(r.PostFormValue("days")); err == nil {
		c.Lines, c.Wider, err = chosen(r.PostForm)
	}
	if err != nil {
		s.failed(w, http.StatusBadRequest, token, errForm)
		return
	}
	err = s.Learn.Approve(r.Context(), c)
	status, said := told(err, "It is approved, for sessions that begin from now on.")
	p := s.proposed(r.Context(), token)
	p.Told = said
	s.show(w, status, "learn", p)
}

// chosen are the lines that a form names, and those that it names with their wider path.
func chosen(form url.Values) (lines, wider []int, err error) {
	for name, to := range map[string]*[]int{"line": &lines, "wider": &wider} {
		for _, text := range form[name] {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, nil, err
			}
			*to = append(*to, n)
		}
	}
	return lines, wider, nil
}

func (s decisions) undo(w http.ResponseWriter, r *http.Request, token string) {
	id := r.PostFormValue("id")
	if id == "" {
		s.failed(w, http.StatusBadRequest, token, errForm)
		return
	}
	status, said := told(s.Learn.Undo(r.Context(), id), "It is taken back: sessions that begin now are refused it.")
	p := s.proposed(r.Context(), token)
	p.Told = said
	s.show(w, status, "learn", p)
}

type powersPage struct {
	frame
	Powers []Power
	Days   int
	Unread string
}

func (s decisions) powers(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "powers", s.standing(r.Context(), token))
}

func (s decisions) standing(ctx context.Context, token string) powersPage {
	p := powersPage{frame: frame{Title: "Powers", Here: "powers", Token: token}, Days: days}
	var err error
	p.Powers, err = s.Powers.Powers(ctx)
	p.Unread = unread(err)
	return p
}

func (s decisions) unlock(w http.ResponseWriter, r *http.Request, token string) {
	long, err := strconv.Atoi(r.PostFormValue("days"))
	if err != nil {
		s.failed(w, http.StatusBadRequest, token, errForm)
		return
	}
	s.changed(w, r, token, s.Powers.Unlock(r.Context(), r.PostFormValue("name"), long), "It is unlocked, for runs that begin from now on.")
}

func (s decisions) lock(w http.ResponseWriter, r *http.Request, token string) {
	s.changed(w, r, token, s.Powers.Lock(r.Context(), r.PostFormValue("name")), "It is locked.")
}

func (s decisions) changed(w http.ResponseWriter, r *http.Request, token string, err error, done string) {
	status, said := told(err, done)
	p := s.standing(r.Context(), token)
	p.Told = said
	s.show(w, status, "powers", p)
}
