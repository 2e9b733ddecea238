package redact

import (
	"strings"
	"unicode/utf8"
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
	// login: a short name that is also a word, such as pass.
	login
	// account: a name of a service whose keys are UUIDs.
	account
	// phrase: a name of the words that a wallet is made of.
	phrase
	// session: a name of what a cookie holds, and of what logs call a run by.
	session
)

// wary is set in a kind where a word before the name says that what follows is
// no secret, "the" or "invalid": then only what looks like one is taken for it.
const wary kind = 1 << 7

// names are the keywords before a value, by how the value is judged.
var names = []struct {
	kind  kind
	words []string
}{
	{password, []string{
		"password", "passwd", "passphrase", "passwort", "pwd", "secret", "mot_de_passe", "passcode", "_pass", "-pass", "dbpass",
		"userpass", "smtppass", "kennwort", "wachtwoord", "contrasena", "contraseña", "senha", "passwrd", "requirepass", "sshpass -p", "_pw",
		"mot de passe", "ароль", "密码", "密碼", "パスワード", "비밀번호", "identified by", "_password by",
		"storepass", "keypass", "masterauth", "bindpw", "rootpw", "psk", "::add-mask::", "securestring",
	}},
	{key, []string{
		"api_key", "apikey", "api-key", "api key", "api_token", "apitoken", "api-token", "access_key", "accesskey", "access-key",
		"private_key", "privatekey", "private-key", "encryption_key", "encryptionkey", "signing_key", "signingkey", "account_key",
		"accountkey", "auth_token", "authtoken", "auth-token", "authkey", "auth_key", "auth-key", "credential", "shared_access_signature", "sig=", "master_key", "masterkey", "app_key", "appkey", "application_key",
		"consumer_key", "storage_key", "license_key", "licence_key", "subscription-key", "subscription_key", "subscriptionkey",
		"deploy_key", "service_key", "server_key", "write_key", "admin_key", "functions-key", "session_key", "fernet_key",
		"aes_key", "jwt_key", "hmac_key", "phpsessid", "connect.sid", "sessid", "integration_key", "routing_key", "service_role_key",
		"shared_key", "sharedkey", "key-data", "ssh_key", "webhook_key", "client_key", "secure_key", "crypt_key", "hmac", "auth plain", "auth login",
	}},
	{key, []string{"authorization"}},
	{session, []string{"sessionid", "session_id"}},
	{tokenish, []string{"token", "jwt", "_auth", "oauth", "bearer_"}},
	{tokenish | wary, []string{"?key=", "&key="}},
	{login, []string{"pass", "auth", "pw=", "pw:"}},
	{account, []string{"heroku"}},
	{phrase, []string{"mnemonic", "seed phrase", "seed_phrase", "seedphrase", "recovery phrase", "recovery_phrase", "backup phrase"}},
}

// tails may follow a keyword within a name, which may also end with it: SECRET_KEY,
// password2, api_key_prod.
var tails = []string{
	"key", "keyid", "accesskey", "value", "val", "string", "text", "base64", "token", "pass", "password", "s",
	"prod", "production", "dev", "live", "test", "staging", "old", "new", "current", "hash", "data", "env", "keybase", "id",
	"primary", "secondary", "default", "main", "plain", "plaintext", "raw", "confirmation", "confirm", "again", "secret",
	"root", "admin", "user", "db", "file64", "b64", "enc", "encoded",
}

// The longest rest of a name after a keyword and the longest of what stands
// between a name and its value, in bytes.
const (
	maxTail = 24
	maxGap  = 48
)

// bond is how a name and a value are joined.
type bond uint8

const (
	loose bond = iota // only white space
	joined
	// listed: the value is the next argument or the next field.
	listed
)

// assigned looks for `name = value` in the spellings of files, code, JSON and headers.
func assigned(h *hunt, k kind, start, end int) (span, bool) {
	if k == login && start > 0 && isLetter(h.text[start-1]) {
		return span{}, false
	}
	how := excused(k, h.text[max(0, start-16):start], h.text[start:end])
	if how == notSecret {
		return span{}, false
	}
	if strings.HasPrefix(h.text[end:], " is ") {
		how = k
	}
	at, by := end, joined
	switch {
	case h.text[end-1] == '=' || strings.HasSuffix(h.text[start:end], "::"):
	case h.text[end-1] == ':': // pw: and its value
		at = blanks(h.text[:min(len(h.text), end+maxGap)], end)
	case k == login && h.text[start:end] == "PASS" && h.byteAt(end) == ':' && h.begins(start):
		return span{}, false // a test's name comes behind it
	case strings.HasSuffix(h.text[start:end], " -p"):
		at = blanks(h.text[:min(len(h.text), end+maxGap)], end)
	default:
		if at = h.nameEnd(end); at < 0 {
			return span{}, false
		}
		h.header(start, at)
		if given := max(h.typed(at), h.markup(start, at), declared(h.text, at)); given >= 0 {
			at = given
		} else {
			at, by = h.separator(at, h.opens(start))
			if by == loose && strings.IndexByte("'\"", h.byteAt(at-1)) >= 0 && h.byteAt(at-2) == ' ' && h.grants(start) {
				at, by = at-1, joined // CREATE USER ann PASSWORD '…'
			}
		}
	}
	if at < 0 || by == loose && !h.stands(k, start, at) {
		return span{}, false // "an API key is needed"
	}
	if k == phrase {
		return h.phrase(at)
	}
	from, stop, quoted := h.value(at)
	if k == key && by == joined && !quoted && lower(h.text[start]) == 'a' && hasPrefixFold(h.text[start:], "authorization") {
		from = h.scheme(from, stop)
		if stop = h.run(value, from); h.byteAt(stop) == '"' && h.byteAt(stop-1) == '=' { // Digest username="…", response="…"
			return span{from, h.until(from, "\r\n'")}, true
		}
	}
	if !quoted && h.text[start] >= utf8.RuneSelf { // 密码：Tr0ub4dor99，which goes on
		stop = from + ascii(h.text[from:stop])
	}
	v := h.text[from:stop]
	if by == joined && !quoted && h.opensBelow(from) {
		h.below(how|wary, start, from)
	}
	if !quoted && lower(h.text[start]) == 'i' && k == password && !h.grants(start) { // rows are identified by UUIDv4
		return span{}, false
	}
	if by == listed && (!quoted || !mixOf(v).digit || strings.Contains(v, " ")) || k == login && !quoted && at > start+5 && !mixOf(v).digit {
		return span{}, false
	}
	if wrapped := h.byteAt(stop); !quoted && (wrapped == '"' || wrapped == '\'') && isWrapper(v) {
		from, stop, quoted = h.value(stop)
		v = h.text[from:stop]
	}
	capitals := isUpper(h.text[start]) && isUpper(h.text[end-1]) && len(v) >= minCapitals && k == password && !isVariable(v)
	judged := secretValue(how, v, quoted || capitals || h.bracketed(v, stop)) || capitals && how == k && isWord(v)
	if far := h.wholeLine(start, end, from, stop); !quoted && by != listed && far > stop {
		all := h.text[from:far]
		return span{from, far}, judged || secretValue(k, all, true) && looksRandom(all)
	}
	return span{from, stop}, judged && (quoted || h.ends(stop, v))
}

// begins reports whether a word stands at the beginning of its line, but for what
// go test sets before the words of a test.
func (h *hunt) begins(start int) bool {
	if start == 0 || h.text[start-1] == '\n' {
		return true
	}
	lead, ok := strings.CutSuffix(h.text[max(0, start-maxGap):start], "--- ")
	lead = strings.TrimRight(lead, " ")
	return ok && (lead == "" || lead[len(lead)-1] == '\n' || lead[len(lead)-1] == '"' || strings.HasSuffix(lead, `\n`)) // as go test -json has it
}

// grants reports whether SQL before a word makes or changes a user.
func (h *hunt) grants(start int) bool {
	before := strings.ToLower(h.text[max(0, start-96):start])
	for _, verb := range [...]string{"create user", "create role", "alter user", "alter role", "grant "} {
		if strings.Contains(before, verb) {
			return true
		}
	}
	return false
}

// ascii is how much of a text is ASCII, from its beginning.
func ascii(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// minCapitals is the shortest word that is a secret under a name in capitals,
// as those of an environment are, though it says what it is: JWT_SECRET=topsecretword
const minCapitals = 12

func isWord(v string) bool {
	m := mixOf(v)
	return m.lower && !m.upper && !m.other && !isFiller(v) && !isPlain(v) && len(v) <= maxTail
}

// isWrapper reports whether a value is the call that takes the secret, Some("…"),
// or says what kind of text it is, as b"…" does.
func isWrapper(v string) bool {
	if n := len(v); n == 1 || n == 2 {
		return strings.Trim(v, "bBrRuUfF") == ""
	}
	for _, call := range []string{"Some(", "from(", "SecretStr(", "Secret(", "String(", "Password(", "new("} {
		if strings.HasSuffix(v, call) {
			return true
		}
	}
	return false
}

// stands reports whether a name and a value with only a space between them are
// a name and its value: an option of a command, .netrc, or a key in capitals.
func (h *hunt) stands(k kind, start, at int) bool {
	m := mixOf(h.text[at:h.run(alnum, at)])
	if k == key && (m.digit || !m.lower && m.upper) {
		return true
	}
	stop := h.run(value, at)
	v := mixOf(h.text[at:stop])
	if k != login && stop-at >= minLetters && v.digit && v.lower && v.upper && h.run(dashed, at) == stop { // an expired token, and which
		return true
	}
	if q := h.byteAt(at - 1); k != login && stop-at >= minQuoted && v.digit && v.lower && v.upper && strings.IndexByte("\"'`", q) >= 0 && h.byteAt(stop) == q && turns(h.text[at:stop]) >= minTurns {
		return true
	}
	if before := h.text[max(0, start-96):start]; strings.Contains(before, "login ") && strings.HasSuffix(before, " ") {
		return true
	}
	return v.digit && (h.option(start) || k == password && v.upper && v.lower)
}

// option reports whether a name is that of a command's option: --db-password.
func (h *hunt) option(start int) bool {
	for n := 0; n < maxTail && start > 0 && dashed.has(h.text[start-1]); n++ {
		start--
	}
	return h.byteAt(start) == '-' && h.byteAt(start+1) == '-'
}

// opens reports whether a name stands in a tag of XML: <password>, <db:password>
func (h *hunt) opens(start int) bool {
	for n := 0; n < maxTail && start > 0 && dotted.has(h.text[start-1]); n++ {
		start--
	}
	return h.byteAt(start-1) == '<' || h.byteAt(start-1) == ':' && start > 2 && isLetter(h.text[start-2])
}

// scheme passes over the scheme of an Authorization header: ApiKey, Token.
func (h *hunt) scheme(from, stop int) int {
	if h.byteAt(stop) == ' ' && stop-from < maxTail && !mixOf(h.text[from:stop]).digit && value.has(h.byteAt(stop+1)) {
		return stop + 1
	}
	return from
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
	return n == 0 || oneOf(tails, string(plain[:n]))
}

// The words before a keyword that make it a name of something else. Those of
// passing name what must go through, as a page token continues a listing, where
// they are a part of the name; the others are said of what is shown.
var (
	passing = []string{"page", "next", "continuation", "cursor", "sync", "correlation", "idempotency", "public"}
	excuses = []string{"max", "num", "total", "min", "count", "invalid", "valid", "no", "the", "of", "reset", "change", "forgot", "forgotten"}
)

// excused is how a value is judged under a keyword with what stands before it:
// not at all where the name is that of a thing which must go through.
func excused(k kind, before, name string) kind {
	word := before
	for word != "" && strings.IndexByte("_-. ", word[len(word)-1]) >= 0 {
		word = word[:len(word)-1]
	}
	part := !strings.HasSuffix(before, " ")
	if endsIn(word, passing) {
		open := hasSuffixFold(word, "public")
		loud := isUpper(name[0]) && isUpper(name[len(name)-1])
		if part && (k == key || k == tokenish && !open) && (open || !loud) {
			return notSecret
		}
		return k | wary
	}
	if endsIn(word, excuses) {
		return k | wary
	}
	return k
}

// endsIn reports whether the last of a name's words is one of these; short ones
// are the ends of too many others to be found in the middle.
func endsIn(name string, words []string) bool {
	if name == "" {
		return false
	}
	last := lower(name[len(name)-1])
	for _, end := range words {
		if last == end[len(end)-1] && hasSuffixFold(name, end) {
			if rest := name[:len(name)-len(end)]; len(end) > 3 || rest == "" || !isLetter(rest[len(rest)-1]) {
				return true
			}
		}
	}
	return false
}

func hasSuffixFold(s, end string) bool {
	return len(s) >= len(end) && hasPrefixFold(s[len(s)-len(end):], end)
}

// separator is where the value begins after what stands between it and its
// name, or -1, and how that joins the two.
func (h *hunt) separator(from int, tag bool) (next int, by bond) {
	if tag && h.byteAt(from) == '>' {
		return from + 1, joined
	}
	if next, by = h.field(from); next >= 0 {
		return next, by
	}
	for at := from; at < len(h.text) && at-from < 16; at++ {
		if strings.HasPrefix(h.text[at:], "**") { // **Password:** in Markdown
			at++
			continue
		}
		switch b := h.text[at]; b {
		case ' ', '\t', ']', '?', '!':
		case ':', '=':
			by = joined
		case '>':
			if h.text[at-1] != '=' {
				return h.block(at, by)
			}
		case '|', '-', 'i':
			if by == joined && b == '|' {
				return h.block(at, by)
			}
			skip := 1
			if b == 'i' {
				skip = 2
			}
			if at+skip >= len(h.text) || by != loose || b == 'i' && h.text[at+1] != 's' || b != '|' && (h.text[at+skip] != ' ' && (b != 'i' || h.text[at+skip] != ':') || at == from) {
				return at, by
			}
			at += skip - 1
		case '(', ',':
			if by == joined && b == '(' && strings.IndexByte("\"'`\n", h.byteAt(at+1)) >= 0 {
				continue
			}
			if by != loose || !strings.ContainsRune("\"'`", rune(h.byteAt(at+1))) && h.byteAt(at+1) != ' ' || b == '(' && at != from {
				return -1, loose
			}
			by = listed
		case '"', '\'', '`', '\\':
			if by != loose && h.text[at-1] != b { // the value's own quote
				return at, by
			}
		default:
			if at == from {
				return -1, loose
			}
			if passed := participle(h.text, at); by == loose && passed > at {
				at = passed - 1
				continue
			}
			return at, by
		}
	}
	return -1, loose
}

// participle is behind a word that errors say between a name and its value, as in
// "incorrect API key provided: ", or where it began.
func participle(text string, at int) int {
	for _, word := range [...]string{"provided", "given", "supplied", "received", "specified", "used", "was"} {
		if end := at + len(word); hasPrefixFold(text[at:], word) && end < len(text) && strings.IndexByte(" :=", text[end]) >= 0 {
			return at + len(word)
		}
	}
	return at
}

// block is where YAML's block begins: `password: |` and a line below.
func (h *hunt) block(at int, by bond) (int, bond) {
	at++
	if b := h.byteAt(at); b == '-' || b == '+' {
		at++
	}
	if by != joined || h.byteAt(at) != '\n' {
		return -1, loose
	}
	return h.nextLine(at), joined
}

// field looks for the next field's name, value: `"name": "PASSWORD", "value": `
// and its like in YAML and XML.
func (h *hunt) field(from int) (int, bond) {
	if b := h.byteAt(from); b != '"' && b != '\'' && b != '\n' && b != '\r' && b != ',' {
		return -1, loose
	}
	at, limit := from, min(len(h.text), from+maxGap)
	for at < limit && strings.IndexByte("\"', \t\r\n,\\", h.text[at]) >= 0 {
		at++
	}
	if at == from || !hasPrefixFold(h.text[at:], "value") {
		return -1, loose
	}
	at += len("value")
	equals := false
	for at < limit && strings.IndexByte("\"' :=\\", h.text[at]) >= 0 {
		if b := h.text[at]; equals && (b == '"' || b == '\'') {
			return at, joined
		} else if b == ':' || b == '=' {
			equals = true
		}
		at++
	}
	if !equals {
		return -1, loose
	}
	return at, joined
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
		if more := closing(rest[stop+1:], q); h.text[from] == q && more >= 0 { // and inside the value
			return start, start + stop + 1 + more, true
		}
		stop--
	}
	return start, start + stop, true
}

// closing is where the quote stands that ends a text, or -1 where its line ends before.
func closing(text string, quote byte) int {
	for i := 0; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case quote:
			return i
		case '\\':
			i++
		}
	}
	return -1
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

// userOption takes the password in `-u user:password`.
func userOption(h *hunt, start, end int) (span, bool) {
	if start > 0 && h.text[start-1] != ' ' && h.text[start-1] != '\n' {
		return span{}, false
	}
	for q := 0; q < 2 && (h.byteAt(end) == '"' || h.byteAt(end) == '\''); q++ {
		end++
	}
	stop := h.run(value, end)
	colon := strings.IndexByte(h.text[end:min(stop, end+maxUserinfo)], ':')
	if colon < 1 || strings.Contains(h.text[end:min(stop, end+maxUserinfo)], "/") || !secretValue(password, h.text[end+colon+1:stop], true) || !mixOf(h.text[end:end+colon]).lower {
		return span{}, false
	}
	return span{end + colon + 1, stop}, true
}
