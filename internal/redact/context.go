package redact

import (
	"encoding/base64"
	"slices"
	"strings"
)

// The limits of a private key's block and of its first and last line, in bytes.
const (
	maxKeyBlock = 64 << 10
	maxLabel    = 64
)

// privateKey takes a whole PEM or PGP block, and of one without an end what
// looks like its body.
func (h *hunt) privateKey(start, end int) (span, bool) {
	label := h.text[end:min(len(h.text), end+maxLabel)]
	if h.text[start] == '-' && !strings.Contains(label, "PRIVATE KEY") && !strings.Contains(label, "PRIVATE+KEY") { // + is a form's space
		return span{}, false
	}
	if at := h.nextKeyEnd(end); h.text[start] == '-' && at < len(h.text) && at-end < maxKeyBlock {
		label := h.text[at:min(len(h.text), at+maxLabel)]
		if dashes := strings.Index(label, "KEY-----"); dashes >= 0 && strings.Contains(label, "PRIVATE") {
			return span{start, at + dashes + len("KEY-----")}, true
		}
		if dashes := strings.Index(label, "BLOCK-----"); dashes >= 0 {
			return span{start, at + dashes + len("BLOCK-----")}, true
		}
	}
	stop, material := h.keyBody(end)
	if len(h.text)-end < maxKeyBlock && len(h.text)-h.keyEnd < maxLabel { // its last line may yet come
		h.open = min(h.open, start)
	}
	return span{start, stop}, material
}

// nextKeyEnd is where the next end of a block stands. It is remembered, so
// that a text full of beginnings is searched once.
func (h *hunt) nextKeyEnd(from int) int {
	const mark = "-----END"
	if h.keyEnd < from {
		h.keyEnd = len(h.text)
		if at := strings.Index(h.text[from:], mark); at >= 0 {
			h.keyEnd = from + at + len(mark)
		}
	}
	return h.keyEnd
}

// keyBody follows lines without spaces, such as those of base64, from the end
// of a first line on.
func (r *reading) keyBody(from int) (stop int, material bool) {
	first := strings.IndexAny(r.text[from:min(len(r.text), from+maxLabel)], "\n\\")
	if first < 0 {
		return from, false
	}
	for stop = from + first; stop < len(r.text); {
		line := stop + 1
		next := line
		for next < len(r.text) && (base64ed.has(r.text[next]) || r.text[next] == '\\' || r.text[next] == '\r') {
			next++
		}
		if next < len(r.text) && r.text[next] != '\n' && r.text[next] != '"' {
			break
		}
		material = material || next-line >= 16
		if stop = next; next == len(r.text) || r.text[next] == '"' {
			break
		}
	}
	return stop, material
}

// authorization takes the credentials of an Authorization header: `Bearer abc`, `Basic dXNlcjpwYXNz`.
func (h *hunt) authorization(start, end int) (span, bool) {
	if !h.starts(start) {
		return span{}, false
	}
	at := end
	for at < len(h.text) && (h.text[at] == ' ' || h.text[at] == '\t' || h.text[at] == '\\' && h.byteAt(at+1) == ' ') && at-end < 8 {
		at++
	}
	stop := h.run(base64ed, at)
	if at == end || stop == at {
		return span{}, false
	}
	token := strings.TrimRight(h.text[at:stop], ".")
	named := h.follows(start, "authorization")
	switch {
	case isFiller(token), isVariable(token):
		return span{}, false
	case named:
	case lower(h.text[start]) == 'b' && lower(h.text[start+1]) == 'e':
		if !bearerLike(token) {
			return span{}, false
		}
	default:
		if !basicLike(token) {
			return span{}, false
		}
	}
	return span{at, at + len(token)}, len(token) > 0
}

// follows reports whether name stands just before i, but for quotes, colons and space.
func (r *reading) follows(i int, name string) bool {
	const reach = 24
	before := strings.TrimRight(r.text[max(0, i-reach):i], ` :='"\	`)
	stop := max(0, i-reach) + len(before)
	return stop >= len(name) && hasPrefixFold(r.text[stop-len(name):], name)
}

// prose are the words that follow "bearer" in sentences.
var prose = []string{
	"token", "tokens", "scheme", "header", "headers", "auth", "authentication", "authorization", "access",
	"format", "prefix", "credential", "credentials", "realm", "method", "methods", "security", "string", "value",
	"values", "required", "missing", "invalid", "capability", "capabilities", "challenge", "account", "accounts",
	"option", "options", "should", "cannot", "before", "usage", "example", "followed", "instead", "support",
}

func bearerLike(token string) bool {
	m := mixOf(token)
	if !m.digit && !m.upper && !m.other { // a plain word
		return len(token) >= 6 && !slices.Contains(prose, token)
	}
	if !m.digit && !m.other && m.lower { // a word with a capital
		return len(token) >= 12
	}
	return len(token) >= 3
}

// basicLike reports whether a token is the base64 of "user:password".
func basicLike(token string) bool {
	token = strings.TrimRight(token[:min(len(token), sampleLimit)], "=")
	token = token[:len(token)/4*4+decodable(len(token)%4)]
	var plain [sampleLimit]byte
	n, err := base64.RawStdEncoding.Decode(plain[:], []byte(token))
	if err != nil || len(token) < 6 {
		return false
	}
	colon := false
	for _, b := range plain[:n] {
		colon = colon || b == ':'
		if b < ' ' || b == 0x7f {
			return false
		}
	}
	return colon
}

// decodable is how many of the last letters of raw base64 stand for bytes.
func decodable(rest int) int {
	if rest == 1 {
		return 0
	}
	return rest
}

// minCookie is the shortest value of a cookie that is a secret: theme=dark is none.
const minCookie = 8

// cookie takes what a Cookie or Set-Cookie header holds.
func (h *hunt) cookie(end int) (span, bool) {
	at := end
	for at < len(h.text) && at-end < 8 && strings.IndexByte(" :\"'\\\t", h.text[at]) >= 0 {
		at++
	}
	if !strings.Contains(h.text[end:at], ":") {
		return span{}, false
	}
	equals := h.run(dashed, at)
	if equals == at || h.byteAt(equals) != '=' {
		return span{}, false
	}
	stop := h.until(equals+1, "\r\n\"'\\")
	if semicolon := h.until(equals+1, ";\r\n\"'\\"); h.setCookie(end) {
		stop = semicolon
	}
	return span{equals + 1, stop}, stop-equals > minCookie
}

func (r *reading) setCookie(end int) bool {
	return end >= 10 && hasPrefixFold(r.text[end-10:], "set-cookie")
}

// maxHeader is the longest value of a header, in bytes.
const maxHeader = 8 << 10

func (r *reading) until(from int, stops string) int {
	rest := r.text[from:min(len(r.text), from+maxHeader)]
	if at := strings.IndexAny(rest, stops); at >= 0 {
		return from + at
	}
	return from + len(rest)
}

// maxUserinfo is the longest user and password in a URL, in bytes.
const maxUserinfo = 512

// minUser is the shortest user that is a token.
const minUser = 20

// userinfo takes the password in scheme://user:password@host.
func (h *hunt) userinfo(end int) (span, bool) {
	colon, at := -1, -1
	for i := end; i < min(len(h.text), end+maxUserinfo); i++ {
		b := h.text[i]
		if b == ':' && colon < 0 {
			colon = i
		}
		if b == '@' {
			at = i
		}
		if b <= ' ' || strings.IndexByte("/\"'<>\\`|", b) >= 0 {
			break
		}
	}
	if colon < 0 && at-end >= minUser { // a token instead of a user
		m := mixOf(h.text[end:at])
		return span{end, at}, m.digit && (m.lower || m.upper) && !m.other
	}
	if colon < 0 || at <= colon+1 || isReference(h.text[colon+1:at]) || isPlaceholder(h.text[colon+1:at]) || isPlain(h.text[colon+1:at]) && containsFold(h.text[at:min(len(h.text), at+maxLabel)], "example") {
		return span{}, false
	}
	return span{colon + 1, at}, true
}

// The limits of an address's parts (RFC 5321).
const (
	maxLocal  = 64
	maxDomain = 253
)

// address takes an e-mail address around its @.
func (h *hunt) address(at, end int) (span, bool) {
	if n := len(h.found); n > 0 && h.found[n-1].end == at {
		return span{}, false // the host after a password in a URL
	}
	start := at
	for start > 0 && at-start < maxLocal && isLocal(h.text[start-1]) {
		start--
	}
	stop, label, dots := end, end, 0
	for stop < len(h.text) && stop-end < maxDomain {
		b := h.text[stop]
		if b == '.' && stop > label && isLabel(h.byteAt(stop+1)) {
			label = stop + 1
			dots++
		} else if !isLabel(b) {
			break
		}
		stop++
	}
	top := h.text[label:stop]
	if start > 0 && h.text[start-1] == '\\' && start < at { // the letter of \n
		start++
	}
	local := h.text[start:at]
	if h.byteAt(start-1) == '/' && h.byteAt(start-2) == '/' { // ssh://me@host
		return span{}, false
	}
	if dots == 0 || !isTop(top) || local == "git" || h.byteAt(start-1) == ':' && isPlain(local) || strings.Trim(local, "._%+-") == "" ||
		strings.HasSuffix(local, "…") { // a hint of one
		return span{}, false
	}
	return span{start, stop}, true
}

func isLocal(b byte) bool { return dotted.has(b) || b == '+' || b == '%' || b >= 0x80 }

func isLabel(b byte) bool { return alnum.has(b) || b == '-' || b >= 0x80 }

// units are the endings of systemd's names, which look like addresses.
var units = []string{"service", "socket", "timer", "target", "mount", "slice", "scope", "path"}

func isTop(top string) bool {
	if len(top) < 2 || slices.Contains(units, top) {
		return false
	}
	for i := range len(top) {
		if isDigit(top[i]) || top[i] == '-' {
			return hasPrefixFold(top, "xn--")
		}
	}
	return true
}
