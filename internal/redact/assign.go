package redact

import (
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
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

// wary is set in a kind where a word before the name, such as "the" or "invalid", says that what
// follows is no secret. Then only what looks like a secret is taken for one.
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

// assignment is a name that says what kind of secret its value is. Its keyword
// stands from start up to end.
type assignment struct {
	*hunt
	kind       kind
	start, end int
}

// secret is the value, in the spellings of files, code, JSON and headers.
func (a *assignment) secret() (span, bool) {
	k, start, end := a.kind, a.start, a.end
	if k == login && start > 0 && isLetter(a.text[start-1]) {
		return span{}, false
	}
	how := excused(k, a.text[max(0, start-16):start], a.text[start:end])
	if how == notSecret {
		return span{}, false
	}
	if strings.HasPrefix(a.text[end:], " is ") {
		how = k
	}
	at, by := end, joined
	switch {
	case a.text[end-1] == '=' || strings.HasSuffix(a.text[start:end], "::"):
	case a.text[end-1] == ':': // pw: and its value
		at = encoded.Blanks(a.text[:min(len(a.text), end+maxGap)], end)
	case k == login && a.text[start:end] == "PASS" && a.byteAt(end) == ':' && a.begins():
		return span{}, false // a test's name comes behind it
	case strings.HasSuffix(a.text[start:end], " -p"):
		at = encoded.Blanks(a.text[:min(len(a.text), end+maxGap)], end)
	default:
		if at = a.nameEnd(); at < 0 {
			return span{}, false
		}
		a.heading(start, at)
		if given := max(a.typed(at), a.markup(at), declared(a.text, at)); given >= 0 {
			at = given
		} else {
			at, by = a.separator(at)
			if by == loose && strings.IndexByte("'\"", a.byteAt(at-1)) >= 0 && a.byteAt(at-2) == ' ' && a.grants() {
				at, by = at-1, joined // CREATE USER ann PASSWORD '…'
			}
		}
	}
	if at < 0 || by == loose && !a.stands(at) {
		return span{}, false // "an API key is needed"
	}
	if k == phrase {
		return a.phrase(at)
	}
	from, stop, quoted := a.value(at)
	if k == key && by == joined && !quoted && lower(a.text[start]) == 'a' && hasPrefixFold(a.text[start:], "authorization") {
		from = a.scheme(from, stop)
		if stop = a.run(value, from); a.byteAt(stop) == '"' && a.byteAt(stop-1) == '=' { // Digest username="…", response="…"
			return span{from, a.until(from, "\r\n'")}, true
		}
	}
	if !quoted && a.text[start] >= utf8.RuneSelf { // 密码：Tr0ub4dor99，which goes on
		stop = from + ascii(a.text[from:stop])
	}
	v := a.text[from:stop]
	if by == joined && !quoted {
		below := structure{a.hunt, how | wary, start}
		below.take(from)
	}
	if !quoted && lower(a.text[start]) == 'i' && k == password && !a.grants() { // rows are identified by UUIDv4
		return span{}, false
	}
	if by == listed && (!quoted || !mixOf(v).digit || strings.Contains(v, " ")) || k == login && !quoted && at > start+5 && !mixOf(v).digit {
		return span{}, false
	}
	if wrapped := a.byteAt(stop); !quoted && (wrapped == '"' || wrapped == '\'') && isWrapper(v) {
		from, stop, quoted = a.value(stop)
		v = a.text[from:stop]
	}
	capitals := isUpper(a.text[start]) && isUpper(a.text[end-1]) && len(v) >= minCapitals && k == password && !isVariable(v)
	judged := secretValue(how, v, quoted || capitals || a.bracketed(v, stop)) || capitals && how == k && isWord(v)
	if far := a.wholeLine(from, stop); !quoted && by != listed && far > stop {
		all := a.text[from:far]
		return span{from, far}, judged || secretValue(k, all, true) && looksRandom(all)
	}
	return span{from, stop}, judged && (quoted || a.ends(stop, v))
}

// begins reports whether a word stands at the beginning of its line, but for what
// go test sets before the words of a test.
func (a *assignment) begins() bool {
	start := a.start
	if start == 0 || a.text[start-1] == '\n' {
		return true
	}
	lead, ok := strings.CutSuffix(a.text[max(0, start-maxGap):start], "--- ")
	lead = strings.TrimRight(lead, " ")
	return ok && (lead == "" || lead[len(lead)-1] == '\n' || lead[len(lead)-1] == '"' || strings.HasSuffix(lead, `\n`)) // as go test -json has it
}

// grants reports whether SQL before a word makes or changes a user.
func (a *assignment) grants() bool {
	before := strings.ToLower(a.text[max(0, a.start-96):a.start])
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

// stands reports whether two words with only a space between them are a name and its value. They
// are in an option of a command, in .netrc, and where a key is in capitals.
func (a *assignment) stands(at int) bool {
	m := mixOf(a.text[at:a.run(alnum, at)])
	if a.kind == key && (m.digit || !m.lower && m.upper) {
		return true
	}
	stop := a.run(value, at)
	v := mixOf(a.text[at:stop])
	if a.kind != login && stop-at >= minLetters && v.digit && v.lower && v.upper && a.run(dashed, at) == stop { // an expired token, and which
		return true
	}
	if q := a.byteAt(at - 1); a.kind != login && stop-at >= minQuoted && v.digit && v.lower && v.upper && strings.IndexByte("\"'`", q) >= 0 && a.byteAt(stop) == q && turns(a.text[at:stop]) >= minTurns {
		return true
	}
	if before := a.text[max(0, a.start-96):a.start]; strings.Contains(before, "login ") && strings.HasSuffix(before, " ") {
		return true
	}
	return v.digit && (a.option() || a.kind == password && v.upper && v.lower)
}

// option reports whether a name is that of a command's option: --db-password.
func (a *assignment) option() bool {
	start := a.start
	for n := 0; n < maxTail && start > 0 && dashed.has(a.text[start-1]); n++ {
		start--
	}
	return a.byteAt(start) == '-' && a.byteAt(start+1) == '-'
}

// opens reports whether a name stands in a tag of XML: <password>, <db:password>
func (a *assignment) opens() bool {
	start := a.start
	for n := 0; n < maxTail && start > 0 && dotted.has(a.text[start-1]); n++ {
		start--
	}
	return a.byteAt(start-1) == '<' || a.byteAt(start-1) == ':' && start > 2 && isLetter(a.text[start-2])
}

// scheme passes over the scheme of an Authorization header: ApiKey, Token.
func (a *assignment) scheme(from, stop int) int {
	if a.byteAt(stop) == ' ' && stop-from < maxTail && !mixOf(a.text[from:stop]).digit && value.has(a.byteAt(stop+1)) {
		return stop + 1
	}
	return from
}

// nameEnd is where the name goes on to after its keyword, or -1 for another name.
func (a *assignment) nameEnd() int {
	stop := a.end
	for stop < len(a.text) && stop-a.end <= maxTail && dashed.has(a.text[stop]) {
		stop++
	}
	if stop-a.end > maxTail || !isTail(a.text[a.end:stop]) {
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

// The words before a keyword that make it a name of something else. Those of passing name what must
// go through where they are a part of the name, as a page token continues a listing. The others are
// said of what is shown.
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

// endsIn reports whether the last of a name's words is one of these. Short ones are the ends of too
// many others to be found in the middle.
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
func (a *assignment) separator(from int) (next int, by bond) {
	if a.byteAt(from) == '>' && a.opens() {
		return from + 1, joined
	}
	if next, by = a.field(from); next >= 0 {
		return next, by
	}
	for at := from; at < len(a.text) && at-from < 16; at++ {
		if strings.HasPrefix(a.text[at:], "**") { // **Password:** in Markdown
			at++
			continue
		}
		switch b := a.text[at]; b {
		case ' ', '\t', ']', '?', '!':
		case ':', '=':
			by = joined
		case '>':
			if a.text[at-1] != '=' {
				return a.block(at, by)
			}
		case '|', '-', 'i':
			if by == joined && b == '|' {
				return a.block(at, by)
			}
			skip := 1
			if b == 'i' {
				skip = 2
			}
			if at+skip >= len(a.text) || by != loose || b == 'i' && a.text[at+1] != 's' || b != '|' && (a.text[at+skip] != ' ' && (b != 'i' || a.text[at+skip] != ':') || at == from) {
				return at, by
			}
			at += skip - 1
		case '(', ',':
			if by == joined && b == '(' && strings.IndexByte("\"'`\n", a.byteAt(at+1)) >= 0 {
				continue
			}
			if by != loose || !strings.ContainsRune("\"'`", rune(a.byteAt(at+1))) && a.byteAt(at+1) != ' ' || b == '(' && at != from {
				return -1, loose
			}
			by = listed
		case '"', '\'', '`', '\\':
			if by != loose && a.text[at-1] != b { // the value's own quote
				return at, by
			}
		default:
			if at == from {
				return -1, loose
			}
			if passed := participle(a.text, at); by == loose && passed > at {
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
func (a *assignment) block(at int, by bond) (int, bond) {
	at++
	if b := a.byteAt(at); b == '-' || b == '+' {
		at++
	}
	if by != joined || a.byteAt(at) != '\n' {
		return -1, loose
	}
	return a.nextLine(at), joined
}

// field looks for the next field's name, value: `"name": "PASSWORD", "value": `
// and its like in YAML and XML.
func (a *assignment) field(from int) (int, bond) {
	if b := a.byteAt(from); b != '"' && b != '\'' && b != '\n' && b != '\r' && b != ',' {
		return -1, loose
	}
	at, limit := from, min(len(a.text), from+maxGap)
	for at < limit && strings.IndexByte("\"', \t\r\n,\\", a.text[at]) >= 0 {
		at++
	}
	if at == from || !hasPrefixFold(a.text[at:], "value") {
		return -1, loose
	}
	at += len("value")
	equals := false
	for at < limit && strings.IndexByte("\"' :=\\", a.text[at]) >= 0 {
		if b := a.text[at]; equals && (b == '"' || b == '\'') {
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
func (r *reading) value(from int) (start, stop int, quoted bool) {
	start = from
	for start < len(r.text) && r.text[start] == '\\' {
		start++
	}
	q := r.byteAt(start)
	if q != '"' && q != '\'' && q != '`' {
		return start, r.run(value, start), false
	}
	start++
	rest := r.text[start:min(len(r.text), start+maxHeader)]
	stop = strings.IndexByte(rest, q)
	if line := strings.IndexByte(rest[:max(stop, 0)], '\n'); stop < 0 || line >= 0 {
		return start, r.run(value, start), false
	}
	for stop > 0 && rest[stop-1] == '\\' { // \" inside a quoted text
		if more := closing(rest[stop+1:], q); r.text[from] == q && more >= 0 { // and inside the value
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
func (a *assignment) ends(stop int, v string) bool {
	if m := mixOf(v); m.digit || m.other {
		return true
	}
	for stop < len(a.text) && (a.text[stop] == ' ' || a.text[stop] == '\t') {
		stop++
	}
	return stop == len(a.text) || !alnum.has(a.text[stop])
}

// userOption takes the password in `-u user:password`.
func (h *hunt) userOption(start, end int) (span, bool) {
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
