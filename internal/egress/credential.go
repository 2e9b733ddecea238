package egress

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/leak"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// Scheme is how a credential is shown to its host.
type Scheme string

// The schemes.
const (
	// SchemeBearer sends "Bearer VALUE" in the header.
	SchemeBearer Scheme = "bearer"
	// SchemeBasic sends the user and the value, or a value that is USER:PASSWORD.
	SchemeBasic Scheme = "basic"
	// SchemeRaw sends the value as the header is.
	SchemeRaw Scheme = "raw"
	// SchemeQuery sends the value as a parameter of the query.
	SchemeQuery Scheme = "query"
	// SchemeSigV4 signs the request that is sent (AWS Signature Version 4).
	SchemeSigV4 Scheme = "sigv4"
	// SchemeNone adds nothing: the host is opened for the sake of methods and paths.
	SchemeNone Scheme = "none"
)

// Material is what a credential is made of at one moment.
type Material struct {
	// Value is the token, password or secret key.
	Value nacre.Secret
	// Earlier are values that the host may still know: answers are searched for them.
	Earlier []nacre.Secret
	// AccessKey and SessionToken are of SchemeSigV4; the token may be empty.
	AccessKey, SessionToken nacre.Secret
}

// Credential says for which requests of one host a secret is added (M-22). Of a
// host that has one TLS is opened, and what no credential allows is refused.
type Credential struct {
	Name string
	Host string
	Port uint16
	// Methods are all that may be used; empty means GET and HEAD.
	Methods []string
	// Paths are prefixes of what may be asked for; at least one. Whole are paths that may be
	// asked for as they are, and nothing below them.
	Paths, Whole []string
	// Git, where it is set, is all of what it is for, and is set by ForGit.
	Git    posture.Git
	Scheme Scheme
	// Plain says that it is for requests over plain HTTP, and of SchemeNone.
	Plain bool
	// Header is where the value goes, or Query the parameter of SchemeQuery.
	Header, Query string
	// User is of SchemeBasic; empty means that the value holds it.
	User string
	Signing
	// Roots verify the host's certificate; nil means the system's.
	Roots *x509.CertPool
	Source
}

// Source is where a credential's values come from. Material gives those for one request, or says why
// there are none. Lost, where set, tells whether they were lost since a moment: what carries them then ends, and
// what carries another credential of the same host goes on (M-35). It must not wait for anybody.
type Source struct {
	Material func(ctx context.Context) (Material, error)
	Lost     func(since time.Time) bool
}

// Signing is for what a request of SchemeSigV4 is signed.
type Signing struct{ Region, Service string }

// Check refuses a credential that is not complete, or would allow more than it says.
func (c Credential) Check() error {
	host, err := canonicalHost(c.Host)
	switch {
	case c.Name == "":
		return errors.New("a credential has a name")
	case err != nil:
		return fmt.Errorf("credential %s: host: %w", c.Name, err)
	case host != c.Host || c.Port == 0:
		return fmt.Errorf("credential %s: write the host in lower case, with its port", c.Name)
	case len(c.Paths) == 0:
		return fmt.Errorf("credential %s: name the paths that it is for, such as \"/repos/acme/\"", c.Name)
	}
	for _, m := range c.Methods {
		if m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || m == http.MethodConnect || m == http.MethodTrace {
			return fmt.Errorf("credential %s: methods are words in capital letters, without CONNECT and TRACE", c.Name)
		}
	}
	for _, p := range slices.Concat(c.Paths, c.Whole) {
		if p == "" || p[0] != '/' || strings.ContainsAny(p, "%?") || urlpath.Check(p) != nil {
			return fmt.Errorf("credential %s: paths begin with / and have no escapes, dot segments or empty segments", c.Name)
		}
	}
	if err := c.checkGit(); err != nil {
		return fmt.Errorf("credential %s: %w", c.Name, err)
	}
	return c.checkScheme()
}

func (c Credential) checkScheme() error {
	if c.Plain && c.Scheme != SchemeNone {
		return fmt.Errorf("credential %s: nothing is added to a request over plain HTTP", c.Name)
	}
	if c.Scheme == SchemeNone {
		if c.Header+c.Query+c.User+c.Region+c.Service != "" || c.Material != nil {
			return fmt.Errorf("credential %s: scheme none adds nothing", c.Name)
		}
		return nil
	}
	inHeader := c.Scheme == SchemeBearer || c.Scheme == SchemeBasic || c.Scheme == SchemeRaw
	switch {
	case !inHeader && c.Scheme != SchemeQuery && c.Scheme != SchemeSigV4:
		return fmt.Errorf("credential %s: scheme is bearer, basic, raw, query or sigv4", c.Name)
	case inHeader && !isHeaderForSecrets(c.Header):
		return fmt.Errorf("credential %s: header is the name of a header, and not one that frames or routes the request", c.Name)
	case (c.Scheme == SchemeQuery) != (c.Query != "") || !isPlain(c.Query):
		return fmt.Errorf("credential %s: query is the name of a parameter, for scheme query alone", c.Name)
	case c.User != "" && (c.Scheme != SchemeBasic || strings.ContainsAny(c.User, ":\r\n\x00")):
		return fmt.Errorf("credential %s: user is for scheme basic alone, without a colon", c.Name)
	case (c.Scheme == SchemeSigV4) != (c.Region != "" && c.Service != "") || !isPlain(c.Region) || !isPlain(c.Service):
		return fmt.Errorf("credential %s: region and service are for scheme sigv4, both", c.Name)
	case c.Material == nil:
		return fmt.Errorf("credential %s: it has no source", c.Name)
	}
	return nil
}

func isHeaderForSecrets(name string) bool {
	for i := range len(name) {
		if !isToken(name[i]) {
			return false
		}
	}
	lower := lowerASCII(name)
	return name != "" && !slices.Contains(hopByHop, lower) && !slices.Contains([]string{"content-type", "content-encoding", "accept-encoding", "range"}, lower)
}

// isPlain accepts what needs no escape in a query or a scope of a signature.
func isPlain(s string) bool {
	for i := range len(s) {
		if !isLetterOrDigit(s[i]) && strings.IndexByte("-_.~", s[i]) < 0 {
			return false
		}
	}
	return true
}

// allows says whether a request is one of the credential's, or what it is not.
func (c Credential) allows(method, path string) Reason {
	methods := c.Methods
	if len(methods) == 0 {
		methods = []string{http.MethodGet, http.MethodHead}
	}
	switch {
	case !slices.Contains(c.Whole, path) && !slices.ContainsFunc(c.Paths, func(prefix string) bool { return urlpath.Below(path, prefix) }):
		return ReasonPathNotLeased
	case !slices.Contains(methods, method):
		return ReasonMethodNotLeased
	}
	return ReasonListed
}

// Rule is what lets a connection to its host through.
func (c Credential) Rule() nacre.EgressRule {
	rule := nacre.EgressRule{Host: c.Host, Port: c.Port}
	if c.Plain {
		rule.Protocol = nacre.ProtocolHTTP
	}
	return rule
}

// Lets reports whether it is for a request, whose path is without its query.
func (c Credential) Lets(method, path string) bool { return c.allows(method, path) == ReasonListed }

// choose finds the credential of a request; the first that allows it is used.
func choose(list []Credential, method, path string) (Credential, Reason) {
	reason := ReasonPathNotLeased
	for _, c := range list {
		switch r := c.allows(method, path); r {
		case ReasonListed:
			return c, r
		case ReasonMethodNotLeased:
			reason = r
		}
	}
	if !slices.ContainsFunc(list, func(c Credential) bool { return c.Scheme != SchemeNone }) {
		return Credential{}, ReasonNotInBundle
	}
	return Credential{}, reason
}

// material gives the values for one request, or says that there are none now.
func (c Credential) material(ctx context.Context) (Material, error) {
	if c.Scheme == SchemeNone {
		return Material{}, nil
	}
	m, err := c.Material(ctx)
	if err == nil {
		err = c.usable(m)
	}
	if err != nil {
		return Material{}, refusal(ReasonCredential, "the credential has no value to use now: a person is asked for it (nacre approvals), or nacre audit show says why")
	}
	return m, nil
}

// secrets are what answers are searched for.
func (c Credential) secrets(m Material) []string {
	var list []string
	for _, s := range append([]nacre.Secret{m.Value, m.SessionToken}, m.Earlier...) {
		text := s.Reveal()
		if text == "" {
			continue
		}
		list = append(list, text)
		if c.Scheme == SchemeQuery {
			list = append(list, url.QueryEscape(text)) // what is sent, which may come back encoded once more
		}
		if c.Scheme != SchemeBasic {
			continue
		}
		// The header holds user and password together, so base64 of both is not base64 of
		// one; and base64 of the header is not that of what is in it.
		list = append(list, c.pair(text), base64.StdEncoding.EncodeToString([]byte(c.pair(text))))
		if _, password, ok := strings.Cut(text, ":"); ok && c.User == "" && len(password) >= leak.MinSecret {
			list = append(list, password)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pair is what basic authentication encodes.
func (c Credential) pair(value string) string {
	if c.User == "" {
		return value
	}
	return c.User + ":" + value
}

// usable refuses values that cannot be sent, or could not be found in an answer.
func (c Credential) usable(m Material) error {
	value := m.Value.Reveal()
	switch {
	case len(value) < leak.MinSecret:
		return errors.New("the value is missing or too short")
	case strings.Trim(value, printable) != "":
		return errors.New("the value has characters that are not visible ASCII")
	case c.Scheme == SchemeBasic && c.User == "" && !strings.Contains(value, ":"):
		return errors.New("the value is not USER:PASSWORD, and no user is named")
	case c.Scheme == SchemeSigV4 && m.AccessKey.Empty():
		return errors.New("the access key is missing")
	}
	return nil
}

const printable = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// add puts the value where its host reads it. Signatures come last, by sign.
func (c Credential) add(r *http.Request, m Material) {
	value := m.Value.Reveal()
	switch c.Scheme {
	case SchemeBearer:
		r.Header.Set(c.Header, "Bearer "+value)
	case SchemeBasic:
		r.Header.Set(c.Header, "Basic "+base64.StdEncoding.EncodeToString([]byte(c.pair(value))))
	case SchemeRaw:
		r.Header.Set(c.Header, value)
	case SchemeQuery:
		if r.URL.RawQuery != "" && !strings.HasSuffix(r.URL.RawQuery, "&") {
			r.URL.RawQuery += "&"
		}
		r.URL.RawQuery += c.Query + "=" + url.QueryEscape(value)
	case SchemeSigV4: // sign
	case SchemeNone:
	}
}
