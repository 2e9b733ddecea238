package web

import (
	"net/http"

	"github.com/nacre-dev/nacre/internal/question"
)

type healthPage struct {
	frame
	Health look[[]Finding]
}

// healthPage shows what was found within the last minute, or is being found.
func (s *Site) healthPage(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "health", healthPage{
		frame:  frame{Title: "Health", Here: "health", Token: token, Watch: watchHealth, State: s.stateOfHealth(r.Context())},
		Health: s.examined(r.Context()),
	})
}

type schedulesPage struct {
	frame
	Schedules []Schedule
	Unread    string
}

func (s *Site) schedules(w http.ResponseWriter, r *http.Request, token string) {
	p := schedulesPage{frame: frame{Title: "Schedules", Here: "schedules", Token: token}}
	var err error
	if p.Schedules, err = s.Facts.Schedules(r.Context()); err != nil {
		p.Unread = question.Escape(err.Error())
	}
	s.show(w, http.StatusOK, "schedules", p)
}

type credentialsPage struct {
	frame
	Credentials []Credential
}

func (s *Site) credentials(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "credentials", credentialsPage{
		frame: frame{Title: "Credentials", Here: "credentials", Token: token}, Credentials: s.Facts.Credentials(r.Context()),
	})
}
