package httpdriver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxTemplate is the longest URL or body of a declaration, in bytes.
const maxTemplate = 64 << 10

// Rest is the place in a body for an object of all arguments that have no
// place of their own.
const Rest = "{*}"

// Endpoint declares one operation of an HTTP service.
type Endpoint struct {
	// Method is GET, POST, PUT, PATCH or DELETE.
	Method string
	// URL is absolute. In its path and in the values of its query, {name} is filled with the
	// argument of that name, escaped. A query parameter that is a place only is left out where the
	// argument is absent, and repeated where it is a list. A place in the path must be filled.
	URL string
	// Body is a JSON document in which a string that is just "{name}" is replaced by that argument.
	// "{*}" is replaced by an object of all arguments without a place of their own. Members without
	// an argument are left out. Empty means no body.
	Body json.RawMessage
	// Headers are sent as they are.
	Headers map[string]string
	// Secrets are headers too; their values appear in no error, and are cut out of
	// an answer that repeats them.
	Secrets map[string]nacre.Secret
	// URLSecrets fill places of the URL, by name, as services want them that take
	// a token in the path or the query. No argument can have such a name.
	URLSecrets map[string]nacre.Secret
}

// endpoint is a declaration that was checked.
type endpoint struct {
	// name stands for the endpoint in errors: the method and what of the URL is no secret.
	name    string
	method  string
	origin  string // scheme and host
	path    []template
	query   []parameter
	body    any
	headers map[string]string
	secrets map[string]nacre.Secret
	// hidden are the secrets that fill places of the URL.
	hidden map[string]nacre.Secret
	// places are the arguments with a place of their own; rest is set where the
	// body takes the others.
	places map[string]bool
	rest   bool
}

// template is text with places in it: parts at odd indexes name arguments.
type template []string

type parameter struct {
	key   string
	value template
}

// owned are headers that the protocol itself sets.
func owned() []string {
	return []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer",
		"Upgrade", "Proxy-Connection", "Proxy-Authorization", "Accept-Encoding", "Expect"}
}

func (e Endpoint) check(cleartext bool) (*endpoint, error) {
	if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, e.Method) {
		return nil, fmt.Errorf("method %.20q: use GET, POST, PUT, PATCH or DELETE", e.Method)
	}
	made := &endpoint{method: e.Method, places: map[string]bool{}, headers: map[string]string{}, secrets: map[string]nacre.Secret{}, hidden: maps.Clone(e.URLSecrets)}
	if err := made.setURL(e.URL, cleartext); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for name, value := range made.hidden {
		if !made.places[name] || value.Empty() {
			return nil, fmt.Errorf("url secret %.40q: it is empty, or has no place in the URL", name)
		}
		delete(made.places, name)
	}
	if err := made.setBody(e.Body); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	for name, value := range e.Headers {
		if err := made.checkHeader(name, value); err != nil {
			return nil, err
		}
		made.headers[http.CanonicalHeaderKey(name)] = value
	}
	for name, value := range e.Secrets {
		if err := made.checkHeader(name, value.Reveal()); err != nil {
			return nil, err
		}
		if value.Empty() {
			return nil, fmt.Errorf("header %s: the secret is empty", name)
		}
		made.secrets[http.CanonicalHeaderKey(name)] = value
	}
	return made, nil
}

// setURL takes the text apart itself: a URL parser would read the places as it pleases.
func (e *endpoint) setURL(text string, cleartext bool) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("%d bytes, the limit is %d", len(text), maxTemplate)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "https" && (scheme != "http" || !cleartext) {
		return errors.New("begin with https:// (http:// only where the options allow cleartext)")
	}
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		rest, at = rest+"/", len(rest)
	}
	host, path := rest[:at], rest[at:]
	if strings.ContainsAny(host, "{}@\\%") {
		return errors.New("the host is fixed: no place, user or password may stand in it")
	}
	if strings.ContainsAny(path, "#\\") {
		return errors.New(`no "#" or "\" may stand in it`)
	}
	if parsed, err := url.Parse(scheme + "://" + host + "/"); err != nil || parsed.Hostname() == "" || parsed.Host != host {
		return errors.New("no usable host")
	}
	e.origin = scheme + "://" + strings.ToLower(host)
	path, query, _ := strings.Cut(path, "?")
	e.name = e.method + " " + e.origin + path
	if err := e.setPath(path); err != nil {
		return err
	}
	return e.setQuery(query)
}

func (e *endpoint) setPath(path string) error {
	for _, segment := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		t, err := e.template(segment)
		if err != nil {
			return err
		}
		for i := 0; i < len(t); i += 2 {
			literal, err := url.PathUnescape(t[i])
			if err != nil {
				return fmt.Errorf("path: %w", err)
			}
			t[i] = url.PathEscape(literal)
		}
		if len(t) == 1 && climbs(t[0]) {
			return errors.New("the path may not climb")
		}
		e.path = append(e.path, t)
	}
	return nil
}

func (e *endpoint) setQuery(query string) error {
	if query == "" {
		return nil
	}
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "{}") {
			return errors.New("a query parameter's name is fixed")
		}
		key, err := url.QueryUnescape(key)
		if err != nil || key == "" {
			return errors.New("a query parameter has no usable name")
		}
		t, err := e.template(value)
		if err != nil {
			return err
		}
		for i := 0; i < len(t); i += 2 {
			if t[i], err = url.QueryUnescape(t[i]); err != nil {
				return fmt.Errorf("query: %w", err)
			}
		}
		e.query = append(e.query, parameter{key, t})
	}
	return nil
}

// template splits a text at its places and notes their names.
func (e *endpoint) template(text string) (template, error) {
	var t template
	for {
		before, after, found := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return nil, errors.New(`"}" without "{"`)
		}
		t = append(t, before)
		if !found {
			return t, nil
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || !isName(name) {
			return nil, fmt.Errorf("{%.40s: a place is {name}, of letters, digits, _ and -", name)
		}
		e.places[name] = true
		t = append(t, name)
		text = rest
	}
}

func isName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", c) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func (e *endpoint) setBody(body json.RawMessage) error {
	switch {
	case len(body) == 0:
		return nil
	case e.method == http.MethodGet:
		return errors.New("a GET has none")
	}
	if err := wire.Check(body, wire.Limits{Message: maxTemplate}); err != nil {
		return err
	}
	document, err := decode(body)
	if err != nil {
		return err
	}
	e.body = document
	return e.notePlaces(document)
}

func (e *endpoint) notePlaces(value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if err := e.notePlaces(inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := e.notePlaces(inner); err != nil {
				return err
			}
		}
	case string:
		name, place := placeOf(v)
		switch {
		case v == Rest:
			e.rest = true
		case place && e.hidden[name] != (nacre.Secret{}):
			return fmt.Errorf("{%s} is a secret of the URL", name)
		case place:
			e.places[name] = true
		case strings.Contains(v, "{"):
			return fmt.Errorf(`%.40q: a place is the whole string, such as "{name}"`, v)
		}
	}
	return nil
}

// placeOf returns the argument that a string of a body stands for.
func placeOf(s string) (name string, ok bool) {
	if len(s) < 3 || s[0] != '{' || s[len(s)-1] != '}' {
		return "", false
	}
	name = s[1 : len(s)-1]
	return name, isName(name)
}

func (e *endpoint) checkHeader(name, value string) error {
	canonical := http.CanonicalHeaderKey(name)
	_, plain := e.headers[canonical]
	_, secret := e.secrets[canonical]
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("header %.40q: not a header's name", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("header %s: its value holds a character that no header may have", name)
	case slices.Contains(owned(), canonical):
		return fmt.Errorf("header %s: the driver sets it", name)
	case plain || secret:
		return fmt.Errorf("header %s: given twice", name)
	}
	return nil
}

func (e *endpoint) setHeaders(to http.Header, body bool) {
	to.Set("Accept", "application/json")
	to.Set("User-Agent", "nacre")
	if body {
		to.Set("Content-Type", "application/json")
	}
	for name, value := range e.headers {
		to.Set(name, value)
	}
	for name, value := range e.secrets {
		to.Set(name, value.Reveal())
	}
}
