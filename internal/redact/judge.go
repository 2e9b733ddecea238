package redact

import (
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/ownid"
)

// plain are values that say what something is, not what it holds.
var plain = []string{
	"string", "required", "optional", "boolean", "integer", "number", "default", "undefined", "disabled", "enabled",
	"missing", "invalid", "unknown", "redacted", "[redacted]", "changeme", "example", "placeholder", "password",
	"secret", "object", "expired", "forbidden", "unauthorized", "generated", "configured", "incorrect", "function",
	"hidden", "private", "public", "protected", "readonly", "nullable", "varchar", "sensitive", "encrypted",
	"username", "yourself", "inherit", "include", "same-origin", "identifier", "authenticate", "authentication", "authorization",
	"uint8array", "base64", "base64url", "sha256", "bcrypt", "argon2", "argon2id", "pbkdf2", "utf-8", "md5", "hs256", "rs256",
	"<redacted>", "***redacted***", "filtered", "[filtered]", "[hidden]", "masked", "omitted", "not set", "present", "interactive",
	"prompt", "keychain", "keyring", "vault", "environment", "literal", "variable", "textfield", "passwordbox", "anything",
	"something", "nothing", "buffer", "char[]", "byte[]", "strings", "always", "ifnotpresent", "refresh", "bearer", "basic",
}

// The shortest values that are taken for secrets, in bytes.
const (
	minPassword = 6
	minKey      = 8
	minToken    = 10
	minLetters  = 20
	minRandom   = 8
	// minQuoted is the shortest value in quotes that prose names without a sign between:
	// Use the token "…". Its bytes change their kind minTurns times, as those of names do not.
	minQuoted = 16
	minTurns  = 6
	// minSession is the shortest id of a session that nobody can guess.
	minSession = 20
)

// oneOf reports whether s is one of few words; a loop, for the compiler keeps
// its temporary strings off the heap.
func oneOf(words []string, s string) bool {
	for _, w := range words {
		if w == s {
			return true
		}
	}
	return false
}

// pauses may stand behind a value in a sentence.
const pauses = ".,:;!?)*"

// maxPlain is the longest of the plain values.
const maxPlain = 16

// plainBy are the plain values by their length.
var plainBy = func() (by [maxPlain + 1][]string) {
	for _, w := range plain {
		by[len(w)] = append(by[len(w)], w)
	}
	return by
}()

func isPlain(s string) bool {
	if len(s) > maxPlain {
		return false
	}
	for _, w := range plainBy[len(s)] {
		if lower(s[0]) == w[0] && hasPrefixFold(s, w) {
			return true
		}
	}
	return false
}

// secretValue judges a value by its name's kind.
func secretValue(k kind, v string, quoted bool) bool {
	if k&wary != 0 {
		return looksRandom(v) && secretValue(k&^wary, v, quoted)
	}
	if len(v) < minPassword {
		return false
	}
	m := mixOf(v)
	// Code is asked for first: a text that is nothing but names costs no more then (F-57).
	if !quoted && isExpression(v, m) && (!m.digit || m.calls) {
		return false
	}
	if isReference(v) || isFiller(v) || isVariable(v) || isPath(v) || ownid.Made(v) {
		return false
	}
	length := len(v)
	v = v[:min(length, sampleLimit)]
	if isPlain(v) || strings.IndexByte(pauses, v[len(v)-1]) >= 0 && isPlain(strings.TrimRight(v, pauses)) {
		return false
	}
	switch k {
	case password:
		return !isSentence(v) && (m.lower && m.upper || m.digit || m.other || !namesItself(v))
	case key:
		return length >= minKey && !strings.Contains(v, " ") && (m.digit || !namesItself(v))
	case tokenish, login:
		if isTime(v) {
			return false
		}
		letters := m.digit && (m.lower || m.upper)
		least := minToken
		if k == login {
			least = minPassword
		}
		return length >= least && letters && !strings.Contains(v, " ") ||
			length >= minLetters && m.lower && m.upper && !strings.ContainsAny(v, " .")
	case session:
		return length >= minSession && m.digit && !strings.Contains(v, " ") && !ownid.Spoken(v)
	case account:
		return uuid.holds(v)
	case phrase:
		_, words := phraseEnd(v, 0)
		return words >= minPhrase
	case notSecret, wary:
	}
	return false
}

// looksRandom reports whether a value looks as if a program had made it, or as
// what people take for a password: it has no spaces and mixes kinds of bytes.
func looksRandom(v string) bool {
	length := len(v)
	v = v[:min(length, sampleLimit)]
	if length < minRandom || strings.Contains(v, " ") || isTime(v) {
		return false
	}
	m := mixOf(v)
	switch {
	case m.digit && m.lower && m.upper, m.digit && (m.lower || m.upper) && m.other:
		return true
	case m.digit && (m.lower || m.upper):
		return len(v) >= minToken
	default:
		return m.lower && m.upper && len(v) >= minLetters && !strings.Contains(v, ".")
	}
}

// turns is how often a value goes from letters of one case, digits or other bytes to another. A
// capital that begins a word does not count, as in the names of programs.
func turns(v string) (n int) {
	for i := 1; i < len(v); i++ {
		if kinds[v[i-1]] != kinds[v[i]] && (kinds[v[i-1]] != anUpper || kinds[v[i]] != aLower) {
			n++
		}
	}
	return n
}

// placeholders are what stands for a password in a page that explains one.
var placeholders = []string{"changeme", "change-me", "change_me", "placeholder", "yourpassword", "your-password", "your_password"}

func isPlaceholder(v string) bool {
	return slices.ContainsFunc(placeholders, func(p string) bool { return strings.EqualFold(p, v) })
}

// elsewhere are how references to a secret that is kept elsewhere begin.
var elsewhere = []string{
	"[redacted", "op://", "vault:", "arn:aws", "env:", "env.", "file:", "http://", "https://", "ssm:", "kms:", "projects/",
	"secret://", "process.env", "os.environ", "os.getenv", "system.getenv", "getenv", "env[", "config.", "settings.",
	"self.", "this.", "args.", "opts.", "props.", "ctx.", "req.", "request.", "params.", "secrets.", "data:", "var.", "local.",
	"module.", "@", "lookup(", "func(", "function", "urn:", "uuid.", "string.", "null", "none", "true", "false", "nil",
}

// elsewhereBy are they by their first letter.
var elsewhereBy = func() (by [256][]string) {
	for _, begin := range elsewhere {
		by[begin[0]] = append(by[begin[0]], begin)
	}
	return by
}()

// isReference reports whether a value names a secret that is kept elsewhere.
func isReference(v string) bool {
	if v == "" {
		return true
	}
	switch v[0] {
	case '$', '<', '{', '%', '(', '&':
		return !mixOf(v).digit || len(v) > 1 && strings.IndexByte("{(<", v[1]) >= 0 || v[0] == '<' || v[0] == '{' || isVariable(v[1:])
	}
	m := mixOf(v)
	for _, begin := range elsewhereBy[lower(v[0])] {
		if hasPrefixFold(v, begin) && (len(begin) > 5 || !m.digit) {
			return true
		}
	}
	head := v[:min(len(v), sampleLimit)]
	return m.braces && (strings.Contains(head, "${") || strings.Contains(head, "{{") || strings.Contains(head, "#{"))
}

// isVariable reports whether a value is the name of one: DB_PASSWORD, my-secret.
func isVariable(v string) bool {
	v = v[:min(len(v), sampleLimit)]
	m := mixOf(v)
	if strings.Contains(v, "_") && m.upper && !m.lower && strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" {
		return !m.digit || namesItself(v)
	}
	if m.digit || m.upper {
		return false
	}
	return (strings.HasPrefix(v, "my-") || strings.HasPrefix(v, "my_") || strings.HasPrefix(v, "the-") || strings.HasPrefix(v, "some-") ||
		strings.HasPrefix(v, "insert") || strings.HasPrefix(v, "enter") || strings.HasPrefix(v, "replace") || strings.HasPrefix(v, "change"))
}

// isPath reports whether a value is a file's name.
func isPath(v string) bool {
	v = v[:min(len(v), sampleLimit)]
	if v[0] != '/' && !strings.HasPrefix(v, "./") && !strings.HasPrefix(v, "../") && !strings.HasPrefix(v, "~/") {
		return false
	}
	m := mixOf(v)
	return strings.Count(v, "/") > 1 && (!m.upper || !m.digit)
}

// isTime reports whether a value is made of what dates and versions are.
func isTime(v string) bool {
	return len(v) < 40 && strings.Trim(v, "0123456789-:.TZ+/ ") == ""
}

// isSentence reports whether a value says something in words.
func isSentence(v string) bool {
	v = v[:min(len(v), sampleLimit)]
	spaces := strings.Count(v, " ")
	if spaces == 0 {
		return hasPrefixFold(v, "required|")
	}
	if strings.HasSuffix(v, "?") || containsFold(v, "character") || containsFold(v, "must ") {
		return true
	}
	return !mixOf(v).digit && (namesItself(v) || spaces > 3 || strings.HasSuffix(v, ".") || containsFold(v, "enter"))
}

// isExpression reports whether an unquoted value is code that computes one.
func isExpression(v string, m mixed) bool {
	if m.calls || m.braces {
		return true
	}
	v = v[:min(len(v), sampleLimit)]
	dot := strings.IndexByte(v, '.')
	return dot > 0 && dot < len(v)-1 && isLetter(v[dot+1]) || namesItself(v)
}

// namesItself reports whether a value is a variable called after what it holds.
func namesItself(v string) bool {
	for i := range min(len(v), sampleLimit) {
		switch rest := v[i:]; lower(v[i]) {
		case 'p':
			if hasPrefixFold(rest, "password") || hasPrefixFold(rest, "passwd") || hasPrefixFold(rest, "passphrase") || hasPrefixFold(rest, "privatekey") {
				return true
			}
		case 's':
			if hasPrefixFold(rest, "secret") {
				return true
			}
		case 't':
			if hasPrefixFold(rest, "token") {
				return true
			}
		case 'c':
			if hasPrefixFold(rest, "credential") {
				return true
			}
		case 'a':
			if hasPrefixFold(rest, "api") && (hasPrefixFold(rest[3:], "key") || len(rest) > 6 && hasPrefixFold(rest[4:], "key")) {
				return true
			}
		}
	}
	return false
}
