package web

import (
	"context"
	"errors"
	"net/http"
)

// errForm is a form that this page has not made.
var errForm = errors.New("the form says nothing that could be done, so nothing was done")

type policyPage struct {
	frame
	Policy Policy
	// Replay is there where nobody accepted the policy.
	Replay look[Replayed]
	Unread string
}

func (s decisions) policy(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "policy", s.deciding(r.Context(), token))
}

func (s decisions) deciding(ctx context.Context, token string) policyPage {
	p := policyPage{frame: frame{Title: "Policy", Here: "policy", Token: token}}
	var err error
	p.Policy, err = s.Rules.Policy(ctx)
	p.Unread = unread(err)
	if err == nil && !p.Policy.Accepted {
		p.Replay = s.replays.get(ctx, "policy", p.Policy.Version, s.Rules.Replay)
	}
	return p
}

// accept accepts the policy whose version the form carries, which is the one that was shown.
func (s decisions) accept(w http.ResponseWriter, r *http.Request, token string) {
	err := s.Rules.AcceptPolicy(r.Context(), r.PostFormValue("version"))
	status, said := told(err, "The policy is accepted.")
	p := s.deciding(r.Context(), token)
	p.Told = said
	s.show(w, status, "policy", p)
}

type rolesPage struct {
	frame
	Roles  []Role
	Unread string
}

func (s decisions) roles(w http.ResponseWriter, r *http.Request, token string) {
	p := rolesPage{frame: frame{Title: "Roles", Here: "roles", Token: token}}
	var err error
	p.Roles, err = s.Rules.Roles(r.Context())
	p.Unread = unread(err)
	s.show(w, http.StatusOK, "roles", p)
}

type egressPage struct {
	frame
	Egress Egress
	Unread string
}

func (s decisions) egress(w http.ResponseWriter, r *http.Request, token string) {
	p := egressPage{frame: frame{Title: "What may be reached", Here: "egress", Token: token}}
	var err error
	p.Egress, err = s.Rules.Egress(r.Context())
	p.Unread = unread(err)
	s.show(w, http.StatusOK, "egress", p)
}
