// Package web is the web page of nacre. It shows what waits for a person, what sessions do and did
// and how the installation is, and it brings a person's press to the desk. It promises that nothing
// is shown or pressed without a cookie that a one-time code or a passkey was exchanged for. A
// request is served only where its Host is the page's own. What is shown is the whole card whose
// digest the press carries (M-44, M-49).
//
// It decides nothing and keeps nothing: the desk of the session does.
package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/ceremony"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// cookiePrefix is in front of the port: a browser sends a cookie to all ports of a host,
	// and two pages of one machine must not sign each other out.
	cookiePrefix = "nacre-web-"
	// codeTTL is how long a code can be exchanged, signInTTL how long one is signed in.
	codeTTL, signInTTL = 10 * time.Minute, 12 * time.Hour
	// maxBody bounds a form, maxCards how many questions a page shows.
	maxBody, maxCards = 16 << 10, 20
	// maxSignIns is how often one identity is signed in at the same time: one more ends the oldest.
	maxSignIns = 8
)

//go:embed *.html page.css page.js
var files embed.FS

// Site is the web page at one address, for whoever is signed in.
type Site struct {
	readings

	ceremonies *ceremony.Room

	page *template.Template
	// streams holds a place for each page that is told of changes.
	streams chan struct{}

	mu sync.Mutex
	// code is the digest of what is exchanged once; nil when it was.
	code     []byte
	codeEnds time.Time
	// visits are those who are signed in, the oldest first.
	visits []visit
}

// visit is somebody who is signed in, and cookie the digest of what their browser shows for it.
type visit struct {
	cookie []byte
	by     person.Identity
	ends   time.Time
}

// New makes the page, and the code that signs a person in once.
func New(o Options) (site *Site, code string, err error) {
	if err := o.check(); err != nil {
		return nil, "", err
	}
	page, err := template.New("page").Funcs(words()).ParseFS(files, "*.html")
	if err != nil {
		return nil, "", fmt.Errorf("page: %w", err)
	}
	code = rand.Text() + rand.Text()
	return &Site{
		readings: readings{Options: o}, ceremonies: ceremony.New(o.Now), page: page, streams: make(chan struct{}, maxStreams),
		code: digest(code), codeEnds: o.Now().Add(codeTTL),
	}, code, nil
}

// Handler serves the page. The Host is checked before all else, so that a name which an
// attacker points at this address reaches nothing.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page.css", asset("page.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /page.js", asset("page.js", "text/javascript; charset=utf-8"))
	k := passkeys{signing{s}}
	mux.HandleFunc("POST /sign-in", k.signIn)
	mux.HandleFunc("POST /sign-in/asked", k.ask)
	mux.HandleFunc("POST /sign-in/passkey", k.signInWith)
	mux.HandleFunc("POST /sign-out", s.pressed(k.signOut))
	mux.HandleFunc("GET /passkeys", s.seen(k.list))
	mux.HandleFunc("POST /passkeys/asked", s.pressed(k.askNew))
	mux.HandleFunc("POST /passkeys/add", s.pressed(k.add))
	mux.HandleFunc("POST /passkeys/remove", s.pressed(k.remove))
	mux.HandleFunc("GET /{$}", s.front)
	mux.HandleFunc("POST /answer", s.pressed(s.answer))
	mux.HandleFunc("GET /sessions", s.seen(s.sessions))
	mux.HandleFunc("GET /sessions/{id}", s.seen(s.session))
	mux.HandleFunc("GET /sessions/{id}/records", s.seen(s.records))
	mux.HandleFunc("GET /sessions/{id}/diff", s.seen(s.diff))
	mux.HandleFunc("POST /sessions/{id}/stop", s.pressed(s.stop))
	mux.HandleFunc("POST /sessions/{id}/land", s.pressed(s.land))
	mux.HandleFunc("GET /audit", s.seen(s.audit))
	d := decisions{s}
	mux.HandleFunc("GET /memory", s.seen(d.memories))
	mux.HandleFunc("POST /memory/trust", s.pressed(d.trust))
	mux.HandleFunc("GET /memory/forget", s.seen(d.doomed))
	mux.HandleFunc("POST /memory/forget", s.pressed(d.forget))
	mux.HandleFunc("GET /learn", s.seen(d.learning))
	mux.HandleFunc("POST /learn/approve", s.pressed(d.approve))
	mux.HandleFunc("POST /learn/undo", s.pressed(d.undo))
	mux.HandleFunc("GET /powers", s.seen(d.powers))
	mux.HandleFunc("POST /powers/unlock", s.pressed(d.unlock))
	mux.HandleFunc("POST /powers/lock", s.pressed(d.lock))
	mux.HandleFunc("GET /policy", s.seen(d.policy))
	mux.HandleFunc("POST /policy/accept", s.pressed(d.accept))
	mux.HandleFunc("GET /roles", s.seen(d.roles))
	mux.HandleFunc("GET /egress", s.seen(d.egress))
	mux.HandleFunc("GET /schedules", s.seen(s.schedules))
	mux.HandleFunc("GET /credentials", s.seen(s.credentials))
	mux.HandleFunc("GET /health", s.seen(s.healthPage))
	mux.HandleFunc("GET /events", s.seen(s.stream))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		origin, own := s.origin(r.Host)
		switch {
		case !own:
			http.Error(w, "This page is not served under this name.", http.StatusMisdirectedRequest)
		case r.Method == http.MethodPost && r.Header.Get("Origin") != origin:
			http.Error(w, "This form was not sent by this page.", http.StatusForbidden)
		case askedByAnother(r):
			http.Error(w, "This was asked for by another page.", http.StatusForbidden)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			mux.ServeHTTP(w, r)
		}
	})
}

// askedByAnother tells whether a page of another origin had a browser ask for this. Ports are one
// site to a browser, as the names of one domain are, so it sends the cookie along. Such a page
// could not read what comes, but it could take all places of the stream. A link that a person
// follows is no such thing: it shows a page, and changes nothing.
func askedByAnother(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// protect lets a browser run and show nothing but what this page brings. A referrer stays
// within the page: without one, a browser would send its forms without an origin.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func asset(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		content, err := files.ReadFile(name)
		if err != nil {
			http.Error(w, "This file cannot be read.", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content) // a browser that has gone needs no answer
	}
}

func (s *Site) cookieName() string {
	_, port, _ := net.SplitHostPort(s.Host) // a host without a port has a page alone
	return cookiePrefix + port
}

// signedIn gives the token that the forms of this person carry, and the request with whose it is.
// A passkey signs in for as long as it is known and somebody's.
func (s *Site) signedIn(r *http.Request) (of *http.Request, token string, ok bool) {
	sent, err := r.Cookie(s.cookieName())
	if err != nil {
		return r, "", false
	}
	s.mu.Lock()
	at := slices.IndexFunc(s.visits, func(v visit) bool {
		return subtle.ConstantTimeCompare(v.cookie, digest(sent.Value)) == 1 && !deadline.Over(s.Now(), v.ends)
	})
	var by person.Identity
	if at >= 0 {
		by = s.visits[at].by
	}
	s.mu.Unlock()
	if at < 0 {
		return r, "", false
	}
	if by.Passkey() {
		if _, err := s.Passkeys.SignsIn(by); err != nil {
			return r, "", false
		}
	}
	return r.WithContext(context.WithValue(r.Context(), visitorKey{}, by)), hex.EncodeToString(digest("form " + sent.Value)), true
}

// visitorKey is under which a request's context has who is signed in.
type visitorKey struct{}

// Visitor is who is signed in, in the context of what a page asks for; empty, which is nobody's
// identity, in any other one.
func Visitor(ctx context.Context) person.Identity {
	by, _ := ctx.Value(visitorKey{}).(person.Identity)
	return by
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// seen shows a page to whoever is signed in, and the form to sign in to all others.
func (s *Site) seen(page func(w http.ResponseWriter, r *http.Request, token string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, token, ok := s.signedIn(r)
		if !ok {
			s.show(w, http.StatusUnauthorized, "sign-in", frame{Title: "Sign in", Told: "You are not signed in."})
			return
		}
		page(w, r, token)
	}
}

// pressed does what a form asks for that this page brought to whoever is signed in.
func (s *Site) pressed(do func(w http.ResponseWriter, r *http.Request, token string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, token, ok := s.signedIn(r)
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(r.PostFormValue("token"))) != 1 {
			s.show(w, http.StatusForbidden, "sign-in", frame{Title: "Sign in", Told: "You are not signed in, so nothing was done."})
			return
		}
		do(w, r, token)
	}
}

// frame is what every page has.
type frame struct {
	Title string
	// Here is the part of the page that is shown; empty where nobody is signed in.
	Here  string
	Token string
	Told  string
	// State names what is shown, and Watch what of it may change: the stream tells when it
	// is not that state any more.
	State, Watch string
	// At is the address of a page that also answers a form: there it stays up to date.
	At string
}

// show writes a page as a whole, or says that it cannot.
func (s *Site) show(w http.ResponseWriter, status int, name string, data any) {
	var page bytes.Buffer
	if err := s.page.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "This page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // a browser that has gone needs no answer
}

// failed says why there is no page.
func (s *Site) failed(w http.ResponseWriter, status int, token string, err error) {
	s.show(w, status, "failed", frame{Title: "This cannot be shown", Here: "failed", Token: token, Told: err.Error()})
}
