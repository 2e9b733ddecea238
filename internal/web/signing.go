package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/person"
)

// signing is how persons come in and go out.
type signing struct{ *Site }

// signIn exchanges the code for a cookie, once.
func (s signing) signIn(w http.ResponseWriter, r *http.Request) {
	if !s.exchange(r.PostFormValue("code")) {
		s.show(w, http.StatusForbidden, "sign-in", frame{Title: "Sign in", Told: "This code was used, is too old, or is not one. Run nacre web again for a new link."})
		return
	}
	s.welcome(w, r, s.Identity)
}

func (s signing) exchange(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == nil || deadline.Over(s.Now(), s.codeEnds) || subtle.ConstantTimeCompare(s.code, digest(code)) != 1 {
		return false
	}
	s.code = nil
	return true
}

// welcome gives a browser the cookie of somebody who has shown who they are.
func (s signing) welcome(w http.ResponseWriter, r *http.Request, by person.Identity) {
	cookie := rand.Text() + rand.Text()
	s.mu.Lock()
	mine := func(v visit) bool { return v.by == by }
	s.visits = slices.DeleteFunc(s.visits, func(v visit) bool { return deadline.Over(s.Now(), v.ends) })
	if count(s.visits, mine) >= maxSignIns {
		oldest := slices.IndexFunc(s.visits, mine)
		s.visits = slices.Delete(s.visits, oldest, oldest+1)
	}
	s.visits = append(s.visits, visit{digest(cookie), by, s.Now().Add(signInTTL)})
	s.mu.Unlock()
	s.setCookie(w, r, cookie, int(signInTTL/time.Second))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

func (s signing) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // no TLS on loopback, where Secure would keep the cookie from being sent
		Name: s.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: slices.Contains(s.Hosts, r.Host), MaxAge: age,
	})
}

// signOut ends this sign-in, and no other one.
func (s signing) signOut(w http.ResponseWriter, r *http.Request, _ string) {
	if sent, err := r.Cookie(s.cookieName()); err == nil {
		s.mu.Lock()
		s.visits = slices.DeleteFunc(s.visits, func(v visit) bool { return subtle.ConstantTimeCompare(v.cookie, digest(sent.Value)) == 1 })
		s.mu.Unlock()
	}
	s.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
