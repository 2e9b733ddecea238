package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Login is a vendor's side of a subscription login. The server refreshes it, and answers those calls to a
// model alone that show the token which it gave last. It speaks for both vendors, as their programs were seen to ask.
type Login struct {
	// Access and Refresh begin the tokens, each of which ends with how often the login was refreshed. The first
	// Access, of no refresh, is revoked.
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
	// Account is what OpenAI's calls must name.
	Account string `json:"account,omitempty"`
}

// Refreshes is how often the login was refreshed.
func (s *Server) Refreshes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

// Revoke ends the login: neither its token nor a refresh is taken any more.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}

// signedIn answers what is of the login, and refuses a call that does not show it. It is true for
// a call that goes on.
func (s *Server) signedIn(w http.ResponseWriter, r *http.Request, d dialect, body []byte) bool {
	if s.script.Login == nil {
		return true
	}
	if r.URL.Path == "/v1/oauth/token" || r.URL.Path == "/oauth/token" {
		s.refresh(w, body)
		return false
	}
	if r.Header.Get("X-Api-Key") != "" {
		s.fail("%s: a key was sent beside a login", r.URL.Path)
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/messages"):
		if !strings.Contains(r.Header.Get("Anthropic-Beta"), "oauth-2025-04-20") {
			s.fail("%s: the feature of logins was not asked for", r.URL.Path)
		}
	case r.Header.Get("Chatgpt-Account-Id") != s.script.Login.Account:
		s.fail("%s: the account is %q", r.URL.Path, r.Header.Get("Chatgpt-Account-Id"))
	}
	s.mu.Lock()
	good := s.refreshes > 0 && !s.revoked && r.Header.Get("Authorization") == fmt.Sprintf("Bearer %s-%d", s.script.Login.Access, s.refreshes)
	s.mu.Unlock()
	if !good {
		apiError(w, d, http.StatusUnauthorized, "the token was revoked")
	}
	return good
}

// refresh replaces the tokens: a refresh token is good once.
func (s *Server) refresh(w http.ResponseWriter, body []byte) {
	var question struct {
		Grant  string `json:"grant_type"`
		Token  string `json:"refresh_token"`
		Client string `json:"client_id"`
	}
	read := json.Unmarshal(body, &question)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.script.Login
	if read != nil || s.revoked || question.Grant != "refresh_token" || question.Client == "" || question.Token != fmt.Sprintf("%s-%d", l.Refresh, s.refreshes) {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, object{"error": "invalid_grant"})
		return
	}
	s.refreshes++
	writeJSON(w, object{"access_token": fmt.Sprintf("%s-%d", l.Access, s.refreshes), "refresh_token": fmt.Sprintf("%s-%d", l.Refresh, s.refreshes), "expires_in": 3600})
}
