package main_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	ical "github.com/emersion/go-ical"
	"github.com/emersion/go-webdav"
	"github.com/emersion/go-webdav/caldav"
)

// A store is a CalDAV server's memory, for another implementation's protocol handler.
type store struct {
	mu      sync.Mutex
	objects map[string]*caldav.CalendarObject
	etag    int
}

func (s *store) CurrentUserPrincipal(context.Context) (string, error) { return "/dav/ada/", nil }
func (s *store) CalendarHomeSetPath(context.Context) (string, error)  { return "/dav/ada/cal/", nil }
func (s *store) CreateCalendar(context.Context, *caldav.Calendar) error {
	return errors.New("not here")
}

func (s *store) ListCalendars(context.Context) ([]caldav.Calendar, error) {
	return []caldav.Calendar{
		{Path: "/dav/ada/cal/tasks/", Name: "Personal", SupportedComponentSet: []string{"VTODO"}},
		{Path: "/dav/ada/cal/work/", Name: "Work & <more>", SupportedComponentSet: []string{"VEVENT", "VTODO"}},
		{Path: "/dav/ada/cal/events/", Name: "Events", SupportedComponentSet: []string{"VEVENT"}},
	}, nil
}

func (s *store) GetCalendar(ctx context.Context, path string) (*caldav.Calendar, error) {
	all, _ := s.ListCalendars(ctx)
	for _, c := range all {
		if c.Path == path {
			return &c, nil
		}
	}
	return nil, webdav.NewHTTPError(http.StatusNotFound, errors.New("no calendar"))
}

func (s *store) GetCalendarObject(_ context.Context, path string, _ *caldav.CalendarCompRequest) (*caldav.CalendarObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[path]; o != nil {
		return o, nil
	}
	return nil, webdav.NewHTTPError(http.StatusNotFound, errors.New("no object"))
}

func (s *store) ListCalendarObjects(_ context.Context, in string, _ *caldav.CalendarCompRequest) (found []caldav.CalendarObject, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, o := range s.objects {
		if path.Dir(p)+"/" == in {
			found = append(found, *o)
		}
	}
	return found, nil
}

func (s *store) QueryCalendarObjects(ctx context.Context, in string, q *caldav.CalendarQuery) ([]caldav.CalendarObject, error) {
	all, err := s.ListCalendarObjects(ctx, in, nil)
	if err != nil {
		return nil, err
	}
	return caldav.Filter(q, all)
}

func (s *store) PutCalendarObject(_ context.Context, path string, c *ical.Calendar, o *caldav.PutCalendarObjectOptions) (*caldav.CalendarObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.objects[path]
	if o.IfNoneMatch.IsWildcard() && was != nil {
		return nil, webdav.NewHTTPError(http.StatusPreconditionFailed, errors.New("is there"))
	}
	if o.IfMatch.IsSet() {
		if want, err := o.IfMatch.ETag(); err != nil || was == nil || want != was.ETag {
			return nil, webdav.NewHTTPError(http.StatusPreconditionFailed, errors.New("changed"))
		}
	}
	if !o.IfMatch.IsSet() && !o.IfNoneMatch.IsSet() {
		return nil, webdav.NewHTTPError(http.StatusPreconditionRequired, errors.New("blind write"))
	}
	s.etag++
	s.objects[path] = &caldav.CalendarObject{Path: path, ETag: fmt.Sprintf("e%d", s.etag), Data: c}
	return s.objects[path], nil
}

func (s *store) DeleteCalendarObject(_ context.Context, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, path)
	return nil
}

func (s *store) etagOf(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[path]; o != nil {
		return `"` + o.ETag + `"`
	}
	return ""
}

// A server is the store behind TLS and a password; before may answer instead.
type server struct {
	*httptest.Server
	store  *store
	mu     sync.Mutex
	log    []string
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{store: &store{objects: map[string]*caldav.CalendarObject{}}}
	inner := &caldav.Handler{Backend: s.store, Prefix: "/dav"}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, r.Method+" "+r.URL.Path)
		before := s.before
		s.mu.Unlock()
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "pass" {
			w.Header().Set("WWW-Authenticate", `Basic realm="dav"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		if before != nil && before(w, r) {
			return
		}
		if r.Method == http.MethodDelete && r.Header.Get("If-Match") != s.store.etagOf(r.URL.Path) {
			http.Error(w, "changed", http.StatusPreconditionFailed)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func (s *server) config(more string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`{"store":"caldav","url":%q,"user":"ada","groups":["family"],"ca":%s%s}`, s.URL+"/dav/ada/", quote(string(ca)), more)
}

func (s *server) only(t *testing.T) (path string, data *ical.Calendar) {
	t.Helper()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if len(s.store.objects) != 1 {
		t.Fatalf("have %d objects", len(s.store.objects))
	}
	for p, o := range s.store.objects {
		path, data = p, o.Data
	}
	return path, data
}

func idIn(t *testing.T, answer string) string {
	t.Helper()
	_, rest, ok := strings.Cut(answer, `"reminder_id":"`)
	if !ok {
		t.Fatalf("no id in %s", answer)
	}
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// The four tools against another implementation of CalDAV.
func TestCalDAV(t *testing.T) {
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	p.want("family", "list_reminders", `{"list":"Personal"}`, `"reminders":[]`)
	id := idIn(t, p.want("family", "create_reminder", `{"title":"Buy; milk,\nand 漢","due":"2026-02-17T17:00:00+01:00","list":"Personal"}`, "created"))
	p.want("family", "create_reminder", `{"title":"sooner","due":"2026-02-17T10:00:00Z","list":"Personal"}`, "created")
	p.want("family", "create_reminder", `{"title":"at work","list":"Work & <more>"}`, "created")
	have := p.want("family", "list_reminders", `{"list":"Personal"}`, `"title":"Buy; milk,\nand 漢","due":"2026-02-17T16:00:00Z"`)
	if strings.Index(have, "sooner") > strings.Index(have, "Buy") || strings.Contains(have, "at work") {
		t.Errorf("have %s", have)
	}
	p.want("family", "create_reminder", `{"title":"x","list":"None"}`, "NO_LIST (retriable false)")
	p.want("family", "create_reminder", `{"title":"x","list":"Events"}`, `NO_LIST`)
	p.want("family", "complete_reminder", `{"reminder_id":"`+id+`"}`, "completed")
	p.want("family", "list_reminders", `{"list":"Personal","include_completed":true}`, `"completed":true`)
	p.want("family", "delete_reminder", `{"reminder_id":"`+id+`"}`, "deleted")
	p.want("family", "delete_reminder", `{"reminder_id":"`+id+`"}`, "NOT_FOUND (retriable false)")
	p.want("family", "delete_reminder", `{"reminder_id":"<x>&\""}`, "NOT_FOUND (retriable false)")
	p.want("other", "list_reminders", `{"list":"Personal"}`, "NOT_CONFIGURED (retriable false)")
	if m := p.verify(); m.Error != nil {
		t.Errorf("verify: %+v", m.Error)
	}
}

// The calendar that is configured is the default list, by its name or its path.
func TestConfiguredCalendar(t *testing.T) {
	for _, calendar := range []string{"Work & <more>", "/dav/ada/cal/work/"} {
		s := newServer(t)
		p := started(t, t.TempDir(), s.config(`,"calendar":`+quote(calendar)), "pass")
		p.want("family", "create_reminder", `{"title":"x","list":"Personal"}`, "created")
		if at, _ := s.only(t); !strings.HasPrefix(at, "/dav/ada/cal/work/") {
			t.Errorf("%s: have %s", calendar, at)
		}
	}
}

// A change of somebody else's between reading and writing is not overwritten.
func TestConcurrentChange(t *testing.T) {
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	id := idIn(t, p.call("family", "create_reminder", `{"title":"x","list":"Personal"}`))
	at, data := s.only(t)
	for tool, method := range map[string]string{"complete_reminder": http.MethodPut, "delete_reminder": http.MethodDelete} {
		once := true
		s.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == method && once {
				once = false
				data.Children[0].Props.SetText("SUMMARY", "changed by a person")
				s.store.mu.Lock()
				s.store.objects[at].ETag += "x"
				s.store.mu.Unlock()
			}
			return false
		})
		p.want("family", tool, `{"reminder_id":"`+id+`"}`, "CONFLICT (retriable true)")
		p.want("family", "list_reminders", `{"list":"Personal"}`, `"title":"changed by a person","list":"Personal","completed":false`)
		s.intercept(nil)
	}
	p.want("family", "complete_reminder", `{"reminder_id":"`+id+`"}`, "completed")
	if _, data := s.only(t); data.Children[0].Props.Get("SUMMARY").Value != "changed by a person" {
		t.Error("the person's change is lost")
	}
}

// What a server may answer, and what an agent is told of it.
func TestStatuses(t *testing.T) {
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	for code, want := range map[int]string{
		401: "AUTH_ERROR (retriable false)", 403: "FORBIDDEN (retriable false)", 404: "NOT_FOUND", 412: "CONFLICT (retriable true)", 423: "CONFLICT (retriable true)",
		413: "FULL (retriable false)", 507: "FULL (retriable false)", 429: "BUSY (retriable true)", 503: "BUSY (retriable true)",
		500: "SERVER_ERROR (retriable true)", 502: "SERVER_ERROR (retriable true)", 400: "SERVER_ERROR (retriable false)", 204: "CONFIG_ERROR", 303: "SERVER_ERROR (retriable false)",
	} {
		s.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "/etc/secret "+strings.Repeat("x", 100), code)
			return true
		})
		if have := p.want("family", "list_reminders", `{"list":"Personal"}`, want); strings.Contains(have, "secret") {
			t.Errorf("%d: the server's words got through: %s", code, have)
		}
	}
	for name, body := range map[string]string{
		"no XML": "hello", "another document": "<a/>", "an unclosed one": `<multistatus xmlns="DAV:"><response>`,
		"another host": `<multistatus xmlns="DAV:"><response><href>/dav/ada/</href><propstat><prop><current-user-principal><href>https://evil.example/x</href></current-user-principal></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>`,
		"endless":      "<multistatus xmlns='DAV:'><!--" + strings.Repeat("x", 17<<20),
	} {
		s.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusMultiStatus)
			_, _ = w.Write([]byte(body))
			return true
		})
		if have := p.call("family", "list_reminders", `{"list":"Personal"}`); !strings.Contains(have, "CONFIG_ERROR") {
			t.Errorf("%s: have %s", name, have)
		}
	}
}

// D-23: what is wrong at the start has its category.
func TestStart(t *testing.T) {
	s := newServer(t)
	for name, c := range map[string]struct{ config, password, want string }{
		"a wrong password":         {s.config(""), "wrong", "AUTH_ERROR"},
		"no password":              {s.config(""), "", "AUTH_ERROR"},
		"nobody there":             {strings.Replace(s.config(""), s.URL, "https://127.0.0.1:1", 1), "pass", "NETWORK_ERROR"},
		"a stranger's certificate": {strings.Replace(s.config(""), `"ca"`, `"calendar":"","ca":"","calendar"`, 1), "pass", ""},
		"no calendar there":        {s.config(`,"calendar":"/dav/ada/cal/none/"`), "pass", "CONFIG_ERROR"},
	} {
		m := begin(t, c.password).initialize(t.TempDir(), c.config)
		if c.want == "" {
			c.want = "NETWORK_ERROR"
		}
		if m.Error == nil || !strings.Contains(string(m.Error.Data), `"`+c.want+`"`) {
			t.Errorf("%s: have %+v %s", name, m.Error, m.Result)
		}
	}
}

// The password follows no redirect to another host; one on the same host is followed as it is.
func TestRedirects(t *testing.T) {
	var stolen sync.Map
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Store(r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	for _, code := range []int{301, 302, 307, 308} {
		for _, to := range []string{thief.URL + "/x", strings.Replace(s.URL, "https", "http", 1), "//evil.example/", "https://ada:pass@evil.example/"} {
			s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, to, code)
				return true
			})
			p.want("family", "list_reminders", `{"list":"Personal"}`, "another host: nothing was sent there")
		}
		s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path+"x", code)
			return true
		})
		p.want("family", "list_reminders", `{"list":"Personal"}`, "redirects without end")
		s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			moved := strings.HasPrefix(r.URL.Path, "/old")
			if moved {
				http.Redirect(w, r, strings.TrimPrefix(r.URL.Path, "/old"), code)
			}
			return moved
		})
		old := started(t, t.TempDir(), strings.Replace(s.config(""), s.URL, s.URL+"/old", 1), "pass")
		old.want("family", "create_reminder", `{"title":"moved","list":"Personal"}`, "created")
	}
	stolen.Range(func(path, header any) bool {
		t.Errorf("the other host was asked for %s with %q", path, header)
		return true
	})
}

// A reminder whose answer got lost is not made twice, nor told as made if it was not.
func TestLostAnswers(t *testing.T) {
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	hangUp := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	lost := func(kept, found bool) {
		s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodPut && kept:
				r.Header.Set("If-None-Match", "*")
				(&caldav.Handler{Backend: s.store, Prefix: "/dav"}).ServeHTTP(httptest.NewRecorder(), r)
				hangUp(w)
			case r.Method == http.MethodPut, r.Method == http.MethodGet && !found:
				hangUp(w)
			}
			return false
		})
	}
	lost(true, true)
	p.want("family", "create_reminder", `{"title":"kept","list":"Personal"}`, "created")
	lost(false, true)
	p.want("family", "create_reminder", `{"title":"lost","list":"Personal"}`, "SERVER_ERROR (retriable true)")
	lost(true, false)
	p.want("family", "create_reminder", `{"title":"unknown","list":"Personal"}`, "NETWORK_ERROR (retriable false): The calendar server did not answer")
	s.intercept(nil)
	have := p.call("family", "list_reminders", `{"list":"Personal"}`)
	if strings.Count(have, "reminder_id") != 2 {
		t.Errorf("have %s", have)
	}
}

// An object that is none hides no other; one whose ETag is weak is not changed.
func TestOddObjects(t *testing.T) {
	s := newServer(t)
	p := started(t, t.TempDir(), s.config(""), "pass")
	const object = `<response><href>%s</href><propstat><prop><getetag>%s</getetag><C:calendar-data>%s</C:calendar-data></prop><status>HTTP/1.1 200 OK</status></propstat></response>`
	todo := "BEGIN:VCALENDAR&#13;\nBEGIN:VTODO&#13;\nUID:u&#13;\nSUMMARY:good&#13;\nEND:VTODO&#13;\nEND:VCALENDAR&#13;\n"
	answer := func(etag, href string) {
		s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "REPORT" || !strings.Contains(r.URL.Path, "tasks") {
				return r.Method == "REPORT" && empty(w)
			}
			w.WriteHeader(http.StatusMultiStatus)
			_, _ = fmt.Fprintf(w, `<multistatus xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">`+object+object+`<response><href>/gone</href><status>HTTP/1.1 404 Not Found</status></response></multistatus>`,
				"/dav/ada/cal/tasks/bad.ics", `"e"`, "BEGIN:VCALENDAR", href, etag, todo)
			return true
		})
	}
	answer(`W/"weak"`, "/dav/ada/cal/tasks/u.ics")
	p.want("family", "list_reminders", `{"list":"Personal"}`, `"title":"good"`)
	p.want("family", "complete_reminder", `{"reminder_id":"u"}`, "no strong ETag")
	answer(`"strong"`, "https://evil.example/u.ics")
	p.want("family", "delete_reminder", `{"reminder_id":"u"}`, "another host: nothing was sent there")
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.log, func(l string) bool { return strings.HasPrefix(l, "PUT") || strings.HasPrefix(l, "DELETE") }) {
		t.Errorf("have %q", s.log)
	}
}

func empty(w http.ResponseWriter) bool {
	w.WriteHeader(http.StatusMultiStatus)
	_, _ = w.Write([]byte(`<multistatus xmlns="DAV:"></multistatus>`))
	return true
}
