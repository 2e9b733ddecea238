package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/sentence"
	"github.com/nacre-dev/nacre/internal/terminal"
)

const (
	// sessionsShown is how many sessions a page lists, recordsShown how many records.
	sessionsShown, recordsShown = 50, 100
	// stopWait is how long a person waits for a session that is told to stop.
	stopWait = 5 * time.Second
	// landTime is how long work may take to land.
	landTime = time.Minute
)

// sessionsPage lists sessions, the newest first.
type sessionsPage struct {
	frame
	Running, Over []row
	// Newer and Older are where the pages beside this one begin; empty where there is none.
	Newer, Older string
	Unread       string
}

// row is one session in a list.
type row struct {
	nacre.SessionStatus
	Age, Took, Cost string
	Questions       int
}

func (s *Site) sessions(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "sessions", s.listed(r.Context(), token, placeOf(r.FormValue("first"))))
}

// placeOf is a place in a list, its beginning where the text names none.
func placeOf(text string) int {
	place, err := strconv.Atoi(text)
	if err != nil || place < 0 {
		return 0
	}
	return place
}

func (s *Site) listed(ctx context.Context, token string, first int) sessionsPage {
	list := s.list(first)
	p := sessionsPage{frame: frame{Title: "Sessions", Here: "sessions", Token: token, Watch: watchSessions, State: list.state(), At: "/sessions"}}
	if first > 0 {
		p.Watch, p.At = watchSessionsFrom+strconv.Itoa(first), "/sessions?first="+strconv.Itoa(first)
		p.Newer = strconv.Itoa(max(0, first-sessionsShown))
	}
	if list.next > 0 {
		p.Older = strconv.Itoa(list.next)
	}
	if list.err != nil {
		p.Unread = question.Escape(list.err.Error())
	}
	questions, _ := s.Desk.Approvals(ctx) // the page of what waits says what cannot be read
	for _, one := range list.live {
		p.Running = append(p.Running, s.row(ctx, one, questions))
	}
	for _, one := range list.over {
		p.Over = append(p.Over, s.row(ctx, one, nil))
	}
	return p
}

func (s *Site) row(ctx context.Context, one nacre.SessionStatus, questions []nacre.Question) row {
	now := s.Now()
	end := one.Finished
	if one.Live() || end.IsZero() {
		end = now
	}
	shown := row{SessionStatus: one, Age: ago(now.Sub(one.Started)), Took: span(end.Sub(one.Started))}
	if micro, known := s.Work.Cost(one.ID); known {
		shown.Cost = terminal.Dollars(micro)
	} else if one.Live() {
		if page := s.overview(ctx, one.ID); page.Known && page.Err == nil {
			shown.Cost = terminal.Dollars(page.Value.Spent.MicroUSD)
		}
	}
	for _, q := range questions {
		if q.Session == one.ID {
			shown.Questions++
		}
	}
	return shown
}

// stop tells a session to end. Whether this person may is the session's own to say.
func (s *Site) stop(w http.ResponseWriter, r *http.Request, token string) {
	id, err := nacre.ParseSessionID(r.PathValue("id"))
	if err != nil {
		s.failed(w, http.StatusNotFound, token, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), stopWait)
	defer cancel()
	p := s.listed(ctx, token, 0)
	if err := s.Desk.Stop(ctx, id, Visitor(ctx)); err != nil {
		p.Told = "Nothing was stopped: " + question.Escape(err.Error())
		s.show(w, http.StatusConflict, "sessions", p)
		return
	}
	p.Told = fmt.Sprintf("Session %s was told to stop.", id)
	s.show(w, http.StatusOK, "sessions", p)
}

// sessionPage is one session.
type sessionPage struct {
	frame
	row
	Page look[overview.Page]
	// Proof is whether its chains are what was written.
	Proof proof
	Steps []Step
}

func (s *Site) session(w http.ResponseWriter, r *http.Request, token string) {
	one, ok := s.named(w, r, token)
	if !ok {
		return
	}
	questions, _ := s.Desk.Approvals(r.Context()) // the page of what waits says what cannot be read
	p := sessionPage{
		frame: frame{Title: "Session " + string(one.ID), Here: "sessions", Token: token, Watch: watchSession + string(one.ID), State: s.stateOfSession(r.Context(), one.ID)},
		row:   s.row(r.Context(), one, questions), Page: s.overview(r.Context(), one.ID), Proof: s.proof(r.Context(), one.ID), Steps: s.Records.Steps(one.ID),
	}
	if !p.Page.Known { // the parts below are empty until they are read
		p.Page.Value.SessionStatus = one
	}
	s.show(w, http.StatusOK, "session", p)
}

// named is the session that a request's address names.
func (s *Site) named(w http.ResponseWriter, r *http.Request, token string) (one nacre.SessionStatus, ok bool) {
	id, err := nacre.ParseSessionID(r.PathValue("id"))
	if err == nil {
		one, err = s.Work.Session(id)
	}
	if err != nil {
		s.failed(w, http.StatusNotFound, token, err)
		return one, false
	}
	return one, true
}

// of are the questions of one session.
func of(questions []nacre.Question, id nacre.SessionID) (own []nacre.Question) {
	for _, q := range questions {
		if q.Session == id {
			own = append(own, q)
		}
	}
	return own
}

// recordsPage is what is recorded of a session, or of all of them, a page at a time.
type recordsPage struct {
	frame
	// Path is the page's address, and Session whose records it shows: empty for those of all.
	Path    string
	Session nacre.SessionID
	Query   audit.Query
	Entries []entry
	// Reading says that the records are being read for the first time, and nothing is searched yet.
	Reading bool
	// First and Next are the addresses of other pages of the same search; empty where there is none.
	First, Next string
	Proof       proof
}

// entry is one record in words.
type entry struct {
	audit.Found
	Words string
}

func (s *Site) records(w http.ResponseWriter, r *http.Request, token string) {
	one, ok := s.named(w, r, token)
	if !ok {
		return
	}
	p := recordsPage{
		frame: frame{Title: "Records of " + string(one.ID), Here: "sessions", Token: token}, Path: "/sessions/" + string(one.ID) + "/records",
		Session: one.ID, Query: audit.Query{Session: one.ID}, Proof: s.proof(r.Context(), one.ID),
	}
	s.find(w, r, p)
}

// audit shows the records of all sessions, and of what belongs to none.
func (s *Site) audit(w http.ResponseWriter, r *http.Request, token string) {
	p := recordsPage{frame: frame{Title: "Audit", Here: "audit", Token: token}, Path: "/audit", Query: audit.Query{Newest: true}}
	if name := r.FormValue("session"); name != "" {
		var err error
		if p.Query.Session, err = nacre.ParseSessionID(name); err != nil {
			s.failed(w, http.StatusBadRequest, token, err)
			return
		}
	}
	s.find(w, r, p)
}

// find shows the records that an address searches for.
func (s *Site) find(w http.ResponseWriter, r *http.Request, p recordsPage) {
	q := &p.Query
	q.Kind, q.Outcome, q.After, q.Limit = nacre.Kind(r.FormValue("kind")), r.FormValue("outcome"), r.FormValue("after"), recordsShown
	if p.Reading = !s.searchable(r.Context()); p.Reading {
		s.show(w, http.StatusOK, "records", p)
		return
	}
	found, next, err := s.Records.Find(r.Context(), *q)
	if err != nil {
		s.failed(w, http.StatusBadRequest, p.Token, err)
		return
	}
	for _, f := range found {
		p.Entries = append(p.Entries, entry{f, sentence.Of(f.Entry)})
	}
	if q.After != "" {
		p.First = p.page("")
	}
	if next != "" {
		p.Next = p.page(next)
	}
	s.show(w, http.StatusOK, "records", p)
}

// page is the address of a page of the same search.
func (p recordsPage) page(after string) string {
	asked := url.Values{}
	for name, value := range map[string]string{"kind": string(p.Query.Kind), "outcome": p.Query.Outcome, "after": after} {
		if value != "" {
			asked.Set(name, value)
		}
	}
	if p.Session == "" && p.Query.Session != "" {
		asked.Set("session", string(p.Query.Session))
	}
	return p.Path + "?" + asked.Encode()
}

// diffPage is work that did not land.
type diffPage struct {
	frame
	Session nacre.SessionID
	Diff    Diff
}

func (s *Site) diff(w http.ResponseWriter, r *http.Request, token string) {
	one, ok := s.named(w, r, token)
	if !ok {
		return
	}
	diff, err := s.Records.Diff(r.Context(), one.ID)
	if err != nil {
		s.failed(w, http.StatusConflict, token, err)
		return
	}
	s.show(w, http.StatusOK, "diff", diffPage{frame: frame{Title: "Changes of " + string(one.ID), Here: "sessions", Token: token}, Session: one.ID, Diff: diff})
}

// land decides on work that did not land.
func (s *Site) land(w http.ResponseWriter, r *http.Request, token string) {
	one, ok := s.named(w, r, token)
	if !ok {
		return
	}
	l := Landing{Session: one.ID, Verb: r.PostFormValue("land"), Shown: r.PostFormValue("shown")}
	done, known := map[string]string{
		LandAll:  "The work of session %s was taken. The session says where it is.",
		LandRest: "The work of session %s was taken without those files, which the session still has.",
		Discard:  "The work of session %s was thrown away.",
	}[l.Verb]
	if !known || l.Shown == "" {
		s.failed(w, http.StatusBadRequest, token, errForm)
		return
	}
	// A page that is closed meanwhile leaves nothing half landed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), landTime)
	defer cancel()
	status, said := told(s.Desk.Land(ctx, l), fmt.Sprintf(done, one.ID))
	p := s.listed(ctx, token, 0)
	p.Told = said
	s.show(w, status, "sessions", p)
}
