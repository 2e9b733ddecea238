package provenance

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// webAddress is a URL, taken apart. Only what is clear is one: without userinfo,
// without backslashes, without escapes in its host.
type webAddress struct {
	scheme, host, path, query, fragment string
	// written is the host as it was written.
	written string
}

func (u webAddress) String() string {
	return u.scheme + "://" + u.host + u.path + u.query + u.fragment
}

// parseURL reads a URL in normalised text.
func parseURL(text string) (u webAddress, ok bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !isScheme(scheme) || strings.ContainsAny(text, "\\ ") {
		return u, false
	}
	u.scheme = scheme
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest, u.fragment = rest[:i], rest[i:]
	}
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, u.query = rest[:i], rest[i:]
	}
	u.path = "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		rest, u.path = rest[:i], cleanURLPath(rest[i:])
	}
	u.written = strings.TrimSuffix(withoutPort(rest, scheme), ".")
	u.host, ok = parseHost(rest, scheme)
	return u, ok
}

func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (i == 0 || !isDigit(c) && strings.IndexByte("+-.", c) < 0) {
			return false
		}
	}
	return s != ""
}

// withoutPort drops the port that a scheme has anyway.
func withoutPort(host, scheme string) string {
	switch scheme {
	case "http", "ws":
		return strings.TrimSuffix(host, ":80")
	case "https", "wss":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// parseHost returns a host, with its port unless the scheme has it anyway, in
// the spelling that is resolved.
func parseHost(text, scheme string) (string, bool) {
	text = withoutPort(text, scheme)
	port := ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		text, port = text[:i], text[i:]
		if !allDigits(port[1:]) {
			return "", false
		}
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return "[" + address.String() + "]" + port, err == nil && strings.HasSuffix(inner, "]") && address.Zone() == ""
	}
	host := strings.TrimSuffix(text, ".")
	if host == "" || strings.Contains(host, "..") || strings.HasPrefix(host, ".") || !isHostText(host) {
		return "", false
	}
	if !isASCII(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", false
		}
		host = ascii
	}
	return host + port, true
}

func isHostText(host string) bool {
	for i := 0; i < len(host); {
		c, n := classAt([]byte(host[i:min(i+utf8.UTFMax, len(host))]), 0)
		if c != word && host[i] != '.' && host[i] != '-' {
			return false
		}
		i += n
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// cleanURLPath resolves the dots in a path (RFC 3986, 5.2.4). It leaves "//", which means something to servers.
func cleanURLPath(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	steps := strings.Split(path[1:], "/")
	kept := make([]string, 0, len(steps))
	for i, step := range steps {
		last := i == len(steps)-1
		if step == ".." && len(kept) > 0 {
			kept = kept[:len(kept)-1]
		}
		if step != "." && step != ".." {
			kept = append(kept, step)
		} else if last {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}
