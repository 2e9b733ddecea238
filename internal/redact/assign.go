package redact

import (
	"slices"
	"strings"
)

// kind says how a value must look to be a secret under a name.
type kind uint8

const (
	notSecret kind = iota
	// password: any value of some length that is no word of a programming language.
	password
	// key: eight characters; names of this kind are seldom used for anything else.
	key
	// tokenish: names that also mean something harmless, such as a parser's token.
	tokenish
)

// names are the keywords before a value, by how the value is judged.
var names = []struct {
	kind  kind
	words []string
}{
	{password, []string{"password", "passwd", "passphrase", "passwort", "pwd", "secret", "mot_de_passe"}},
	{key, []string{
		"api_key", "apikey", "api-key", "api key", "api_token", "apitoken", "api-token", "access_key", "accesskey", "access-key",
		"private_key", "privatekey", "private-key", "encryption_key", "signing_key", "account_key", "accountkey",
		"auth_token", "authtoken", "auth-token", "authkey", "auth_key", "credential", "sessionid", "session_id",
		"shared_access_signature", "sig=", "authorization",
	}},
	{tokenish, []string{"token", "jwt", "_auth"}},
}

// tails may follow a keyword within a name: SECRET_KEY, password2, api_key_prod.
var tails = []string{
	"", "key", "keyid", "accesskey", "value", "val", "string", "text", "base64", "token", "pass", "password", "s",
	"prod", "production", "dev", "live", "test", "staging", "old", "new", "current", "hash", "data", "env",
}

// maxTail is the longest rest of a name after a keyword, in bytes.
const maxTail = 24

// assigned looks for `name = value` in the spellings of files, code, JSON and headers.
func assigned(h *hunt, k kind, start, end int) (span, bool) {
	if harmless(h.text[max(0, start-16):start]) {
		return span{}, false
	}
	at := end
	if h.text[end-1] != '=' {
		var joined bool
		if at = h.nameEnd(end); at < 0 {
			return span{}, false
		}
		if at, joined = h.separator(at); at < 0 {
			return span{}, false
		}
		if m := mixOf(h.text[at:h.run(alnum, at)]); !joined && (k != key || !m.digit && (m.lower || !m.upper)) {
			return span{}, false // "an API key is needed"
		}
	}
	from, stop, quoted := h.value(at)
	v := h.text[from:stop]
	if !secretValue(k, v, quoted) || !quoted && !h.ends(stop, v) {
		return span{}, false
	}
	return span{from, stop}, true
}

// nameEnd is where the name goes on to after its keyword, or -1 for another name.
func (h *hunt) nameEnd(end int) int {
	stop := end
	for stop < len(h.text) && stop-end <= maxTail && dashed.has(h.text[stop]) {
		stop++
	}
	if stop-end > maxTail || !isTail(h.text[end:stop]) {
		return -1
	}
	return stop
}

func isTail(rest string) bool {
	var plain [maxTail]byte
	n := 0
	for i := range min(len(rest), maxTail) {
		if b := rest[i]; b != '_' && b != '-' && !isDigit(b) {
			plain[n] = lower(b)
			n++
		}
	}
	return slices.Contains(tails, string(plain[:n]))
}

// harmless reports whether a name before its keyword is that of a thing which
// must go through: a page token continues a listing.
func harmless(before string) bool {
	before = strings.TrimRight(before, "_-. ")
	for _, end := range []string{"page", "next", "continuation", "cursor", "sync", "max", "num", "total"} {
		if len(before) >= len(end) && hasPrefixFold(before[len(before)-len(end):], end) {
			return true
		}
	}
	return false
}

// separator is where the value begins after what stands between it and its
// name, or -1, and whether that joins the two.
func (h *hunt) separator(at int) (next int, joined bool) {
	for from := at; at < len(h.text) && at-from < 12; at++ {
		switch b := h.text[at]; b {
		case ' ', '\t', ']':
		case ':', '=':
			joined = true
		case '>':
			if h.text[at-1] != '=' {
				return -1, false
			}
		case '"', '\'', '`', '\\':
			if joined { // the value's own quote
				return at, true
			}
		default:
			if at == from {
				return -1, false
			}
			return at, joined
		}
	}
	return -1, false
}

// value is the span of the value at from, without its quotes.
func (h *hunt) value(from int) (start, stop int, quoted bool) {
	start = from
	for start < len(h.text) && h.text[start] == '\\' {
		start++
	}
	q := h.byteAt(start)
	if q != '"' && q != '\'' && q != '`' {
		return start, h.run(value, start), false
	}
	start++
	rest := h.text[start:min(len(h.text), start+maxHeader)]
	stop = strings.IndexByte(rest, q)
	if line := strings.IndexByte(rest[:max(stop, 0)], '\n'); stop < 0 || line >= 0 {
		return start, h.run(value, start), false
	}
	for stop > 0 && rest[stop-1] == '\\' { // \" inside a quoted text
		stop--
	}
	return start, start + stop, true
}

// ends reports whether an unquoted value of letters ends its line or its
// clause: "password: letmein" is one, "the password: please ask" is prose.
func (h *hunt) ends(stop int, v string) bool {
	if m := mixOf(v); m.digit || m.other {
		return true
	}
	for stop < len(h.text) && (h.text[stop] == ' ' || h.text[stop] == '\t') {
		stop++
	}
	return stop == len(h.text) || !alnum.has(h.text[stop])
}

// plain are values that say what something is, not what it holds.
var plain = []string{
	"string", "required", "optional", "boolean", "integer", "number", "default", "undefined", "disabled", "enabled",
	"missing", "invalid", "unknown", "redacted", "[redacted]", "changeme", "example", "placeholder", "password",
	"secret", "object", "expired", "forbidden", "unauthorized", "generated", "configured", "incorrect", "function",
	"hidden", "private", "public", "protected", "readonly", "nullable", "varchar", "sensitive", "encrypted",
	"username", "yourself", "inherit", "include", "same-origin", "identifier", "authenticate", "authentication", "authorization",
}

// The shortest values that are taken for secrets, in bytes.
const (
	minPassword = 6
	minKey      = 8
	minToken    = 10
	minLetters  = 20
)

// secretValue judges a value by its name's kind.
func secretValue(k kind, v string, quoted bool) bool {
	if isReference(v) || len(v) < minPassword || slices.ContainsFunc(plain, func(p string) bool { return len(p) == len(v) && hasPrefixFold(v, p) }) {
		return false
	}
	m := mixOf(v)
	if !quoted && !m.digit && isExpression(v) {
		return false
	}
	switch k {
	case password:
		if !quoted && v[0] == '/' { // PWD=/home/me
			return false
		}
		return m.lower && m.upper || m.digit || m.other || !namesItself(v)
	case key:
		return len(v) >= minKey && (m.digit || quoted && !strings.Contains(v, " ") || !namesItself(v))
	case tokenish:
		letters := m.digit && (m.lower || m.upper)
		return len(v) >= minToken && letters || len(v) >= minLetters && m.lower && m.upper && !strings.ContainsAny(v, " .")
	case notSecret:
	}
	return false
}

// isReference reports whether a value names a secret that is kept elsewhere.
func isReference(v string) bool {
	if v == "" {
		return true
	}
	switch v[0] {
	case '$', '<', '{', '%', '(', '&':
		return true
	case '*', '.', '-', 'x', 'X':
		return strings.Trim(v, v[:1]) == ""
	}
	return strings.HasPrefix(v, "[REDACTED") || strings.Contains(v[:min(len(v), sampleLimit)], "${")
}

// isExpression reports whether an unquoted value is code that computes one.
func isExpression(v string) bool {
	v = v[:min(len(v), sampleLimit)]
	if strings.ContainsAny(v, "([{") {
		return true
	}
	dot := strings.IndexByte(v, '.')
	return dot > 0 && dot < len(v)-1 && isLetter(v[dot+1]) || namesItself(v)
}

// namesItself reports whether a value is a variable called after what it holds.
func namesItself(v string) bool {
	v = v[:min(len(v), sampleLimit)]
	for _, part := range []string{"password", "passwd", "secret", "token", "apikey", "api_key", "credential", "passphrase"} {
		for i := 0; i+len(part) <= len(v); i++ {
			if hasPrefixFold(v[i:], part) {
				return true
			}
		}
	}
	return false
}
