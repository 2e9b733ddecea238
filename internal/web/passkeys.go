package web

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/nacre-dev/nacre/internal/ceremony"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
)

// passkeys are the pages on which persons sign in with one, add one and remove one (M-46).
type passkeys struct{ signing }

// ask gives a browser what it asks an authenticator for, to sign somebody in.
func (s passkeys) ask(w http.ResponseWriter, r *http.Request) {
	origin, _ := s.origin(r.Host) // the handler has asked whether it is its own
	s.asked(w)(s.ceremonies.AskSignIn(origin))
}

func (s passkeys) askNew(w http.ResponseWriter, r *http.Request, token string) {
	a, err := s.adding(r, token)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	s.asked(w)(s.ceremonies.AskNew(a))
}

// asked answers the page's script.
func (s passkeys) asked(w http.ResponseWriter) func([]byte, error) {
	return func(what []byte, err error) {
		switch {
		case err != nil && len(s.Local) > 0:
			http.Error(w, err.Error()+": open http://"+s.Local[0]+"/ instead", http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(what) //nolint:gosec // JSON, which no browser reads as a page; one that has gone needs no answer
		}
	}
}

// signInWith exchanges what an authenticator has signed for a cookie. Whoever is nobody is told no
// more than that.
func (s passkeys) signInWith(w http.ResponseWriter, r *http.Request) {
	by, err := s.signs(r)
	if err != nil {
		s.show(w, http.StatusForbidden, "sign-in", frame{Title: "Sign in", Told: "You are not signed in: " + err.Error() + "."})
		return
	}
	s.welcome(w, r, by)
}

func (s passkeys) signs(r *http.Request) (person.Identity, error) {
	keys, err := s.Passkeys.Keys()
	if err != nil {
		return "", err
	}
	origin, _ := s.origin(r.Host)
	key, err := s.ceremonies.SignedIn(origin, []byte(r.PostFormValue("credential")), func(id []byte) (passkey.Key, bool) {
		for _, k := range keys {
			if bytes.Equal(k.ID, id) {
				return k.Key, true
			}
		}
		return passkey.Key{}, false
	})
	if err != nil {
		return "", err
	}
	if _, err := s.Passkeys.SignsIn(key.Identity()); err != nil {
		return "", err
	}
	return key.Identity(), s.Passkeys.Use(r.Context(), key.Identity(), key.Count)
}

// adding is what the form says that adds a passkey, where whoever is signed in may.
func (s passkeys) adding(r *http.Request, token string) (ceremony.Adding, error) {
	origin, _ := s.origin(r.Host)
	a := ceremony.Adding{Origin: origin, Name: r.PostFormValue("owner"), Session: token}
	owners, err := s.Passkeys.Owners(r.Context())
	if err != nil {
		return a, err
	}
	keys, err := s.Passkeys.Keys()
	for _, k := range keys {
		if k.Owner == a.Name {
			a.Known = append(a.Known, k.Key)
		}
	}
	if !slices.Contains(owners, a.Name) {
		return a, errForm
	}
	return a, err
}

type passkeysPage struct {
	frame
	Keys []Passkey
	// Owners are whom a passkey may be added for; Unable says why for nobody.
	Owners []string
	Unable string
	Unread string
}

func (s passkeys) list(w http.ResponseWriter, r *http.Request, token string) {
	s.show(w, http.StatusOK, "passkeys", s.all(r, token, ""))
}

func (s passkeys) all(r *http.Request, token, said string) passkeysPage {
	p := passkeysPage{frame: frame{Title: "Passkeys", Here: "passkeys", Token: token, Told: said, At: "/passkeys"}}
	keys, err := s.Passkeys.Keys()
	p.Keys, p.Unread = keys, unread(err)
	if p.Owners, err = s.Passkeys.Owners(r.Context()); err != nil {
		p.Unable = question.Escape(err.Error())
	}
	return p
}

func (s passkeys) add(w http.ResponseWriter, r *http.Request, token string) {
	a, err := s.adding(r, token)
	var key passkey.Key
	if err == nil {
		key, err = s.ceremonies.New(a, []byte(r.PostFormValue("credential")))
	}
	if err == nil {
		key.Name = r.PostFormValue("name")
		err = s.Passkeys.Add(r.Context(), a.Name, key)
	}
	status, said := told(err, "The passkey is added: it signs in as "+a.Name+" from now on.")
	s.show(w, status, "passkeys", s.all(r, token, said))
}

func (s passkeys) remove(w http.ResponseWriter, r *http.Request, token string) {
	err := s.Passkeys.Remove(r.Context(), person.Identity(r.PostFormValue("id")))
	status, said := told(err, "The passkey is removed, and whoever was signed in with it is not any more.")
	s.show(w, status, "passkeys", s.all(r, token, said))
}
