package policy

import (
	"path"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/constraint"
)

// maxHidden is how often the dots and slashes of a value may be escaped over and over.
const maxHidden = 4

// reading is a value as those read it who follow it. clean is what a path of this system means, and
// loose what a more lenient reader may make of it. bare is what the most lenient reader makes, who
// decodes all and looks for the host alone. An allow goes by the first two; bare only ever stands
// for what must not be.
type reading struct {
	clean, loose, bare string
	// obscure is set where nobody can tell what the value comes to.
	obscure bool
}

// readings allocates nothing where a value has only one reading.
func readings(value string) reading {
	read := reading{clean: cleanPath(value)}
	if isPlainText(value) {
		read.loose, read.bare = read.clean, read.clean
		return read
	}
	// The copy keeps what is cheap cheap: without it every value would be moved to the heap.
	loose, _, _ := strings.Cut(strings.Clone(value), "\x00") // for C, a text ends here
	loose, steady := unhidden(loose)
	read.obscure = !steady
	read.loose = cleanPath(dotted(withHost(loose)))
	read.bare = bareOf(loose)
	return read
}

// several reports whether a value can be read in more than one way.
func several(value string) bool {
	read := readings(value)
	return read.obscure || read.clean != value || read.loose != value || read.bare != value ||
		strings.Contains(value, "@") && (strings.ToLower(value) != value || strings.IndexFunc(value, isBetween) >= 0 || strings.HasSuffix(value, "."))
}

// isPlainText reports whether nothing in a value escapes, ends, drops out or
// looks like anything else, and it is no URL.
func isPlainText(value string) bool {
	colon := -1
	for i := range len(value) {
		c := value[i]
		if c < ' ' || c >= 0x7f || c == '\\' || c == '%' {
			return false
		}
		if c == ':' && colon < 0 {
			colon = i
		}
	}
	if colon >= 0 && (leads(value[:colon]) || strings.Contains(value[colon:], "://")) {
		return false
	}
	return !strings.Contains(value, "..") || !strings.ContainsAny(value, "; ")
}

// leads reports whether a scheme is one whose URLs readers follow however they
// are spelled, without its slashes too.
func leads(scheme string) bool {
	scheme = strings.TrimSpace(scheme)
	for _, known := range [...]string{"http", "https", "ws", "wss", "ftp", "file"} {
		if strings.EqualFold(scheme, known) {
			return true
		}
	}
	return false
}

// shown undoes one escape of what may be a dot or a slash.
var shown = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer(`\`, "/", "%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%25", "%",
		"%c0%ae", ".", "%C0%AE", ".", "%c0%af", "/", "%C0%AF", "/")
})

// unhidden undoes what hides a dot or a slash, however often; steady is false
// where that goes on for too long.
func unhidden(value string) (plain string, steady bool) {
	for range maxHidden {
		plain = shown().Replace(strings.Map(constraint.Fold, value))
		if plain == value {
			return plain, true
		}
		value = plain
	}
	return plain, false
}

// dotted makes of "..;x" and ".. " what readers make of it who cut off
// parameters and spaces.
func dotted(value string) string {
	if !strings.Contains(value, "..") {
		return value
	}
	parts := strings.Split(value, "/")
	for i, one := range parts {
		if constraint.IsDots(one, "..") {
			parts[i] = ".."
		}
	}
	return strings.Join(parts, "/")
}

// withHost writes the host of a URL as readers of URLs read it.
func withHost(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return value
	}
	host, _, _ := strings.Cut(rest, "/")
	plain := constraint.Unescape(strings.Map(narrow, host))
	return strings.ToLower(scheme) + "://" + strings.ToLower(plain) + rest[len(host):]
}

// narrow is the ASCII letter that a full-width one stands for.
func narrow(r rune) rune {
	if r >= '！' && r <= '～' {
		return r - '！' + '!'
	}
	return r
}

// bareOf decodes all that is escaped, and takes from a URL what does not change
// where it leads: the user, the usual port, a last dot of the host.
func bareOf(value string) string {
	value = strings.TrimSpace(strings.Map(narrow, constraint.Unescape(value)))
	scheme, rest, ok := strings.Cut(value, ":")
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "http", "https", "ws", "wss", "ftp":
	case "file":
		return cleanPath(dotted("/" + strings.TrimLeft(rest, "/")))
	default:
		ok = false
	}
	if !ok {
		return cleanPath(dotted(value))
	}
	rest = strings.TrimLeft(rest, `/\`)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host := strings.ToLower(rest[strings.LastIndexByte(rest[:end], '@')+1 : end])
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443")
	return cleanPath(dotted(scheme + "://" + strings.TrimSuffix(host, ".") + rest[end:]))
}

// cleanPath resolves . and .. and double slashes, behind the host of a URL too.
func cleanPath(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok || strings.Contains(scheme, "/") {
		if strings.Contains(value, "/") {
			return path.Clean(value)
		}
		return value
	}
	end := strings.IndexAny(rest, "/?#") // a host ends at each of them
	if end < 0 {
		return value
	}
	route, query := cutQuery(rest[end:])
	cleaned := path.Clean("/" + route)
	if strings.HasSuffix(route, "/") && cleaned != "/" {
		cleaned += "/"
	}
	return scheme + "://" + rest[:end] + cleaned + query
}

func cutQuery(route string) (before, query string) {
	if i := strings.IndexAny(route, "?#"); i >= 0 {
		return route[:i], route[i:]
	}
	return route, ""
}

// isBetween reports whether a character stands between two addresses, or
// around one.
func isBetween(r rune) bool {
	return strings.ContainsRune(`,;<>()"`, r) || unicode.IsSpace(r) || unicode.IsControl(r)
}

// nextAddress is the first address of a text, and what comes after it.
func nextAddress(text string) (one, rest string) {
	for text != "" {
		end := strings.IndexFunc(text, isBetween)
		if end < 0 {
			return text, ""
		}
		if end > 0 {
			return text[:end], text[end:]
		}
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	return "", ""
}

// allAddresses reports whether a value is nothing but addresses that the
// pattern of one matches: who mails to a text mails to everybody in it.
func (p *pattern) allAddresses(value string) bool {
	if p.mail == nil {
		return true
	}
	for one, rest := nextAddress(value); one != ""; one, rest = nextAddress(rest) {
		if !p.mail.matches(strings.ToLower(one)) || strings.Count(one, "@") != strings.Count(p.text, "@") {
			return false
		}
	}
	return true
}

// anyAddress reports whether one of the addresses in a value is one that the
// pattern matches: nobody's domain has capitals, or a last dot.
func (p *pattern) anyAddress(value string) bool {
	if p.mail == nil {
		return false
	}
	for one, rest := nextAddress(value); one != ""; one, rest = nextAddress(rest) {
		if p.mail.matches(strings.ToLower(strings.TrimSuffix(one, "."))) {
			return true
		}
	}
	return false
}
