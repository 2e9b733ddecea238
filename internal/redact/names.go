package redact

import (
	"cmp"
	"strings"
	"unicode"
)

// secretNames are the names of fields whose values are secret whatever they
// are, without case, underscores, dashes and spaces (K-15).
var secretNames = []string{
	"cardnumber", "creditcard", "creditcardnumber", "cvv", "cvc", "email", "emailaddress", "iban", "password", "passwd",
	"passphrase", "phone", "phonenumber", "pwd", "secret", "socialsecuritynumber", "ssn",
	"accesstoken", "refreshtoken", "idtoken", "authtoken", "bearertoken", "sessiontoken", "apitoken", "apikey",
	"xapikey", "apisecret", "secretkey", "secretaccesskey", "awssecretaccesskey", "clientsecret", "privatekey",
	"signingkey", "encryptionkey", "accesskey", "authorization", "proxyauthorization", "cookie", "setcookie",
	"dbpassword", "databasepassword", "userpassword", "adminpassword", "newpassword", "oldpassword", "currentpassword",
	"webhooksecret", "connectionstring", "credentials",
	"passwords", "secrets", "apikeys", "emails", "emailaddresses", "securitycode", "cvv2", "phones", "phonenumbers", "telephone", "mobilephone", "cellphone",
}

// holders are the fields of an object under a secret name that hold the secret.
var holders = []string{"value", "val", "data", "content", "text", "plain", "plaintext", "raw", "current", "old", "new", "key"}

// labels are the fields that hold the name of what stands beside them:
// {"name": "DB_PASSWORD", "value": …}
var labels = []string{"name", "key", "variable", "field", "header", "param", "parameter", "setting", "property"}

// maxName is the longest name of a secret field, without what is left out of it.
const maxName = 24

// naming is what the name of a value means for it.
type naming struct {
	mode mode
	// personal is the kind of personal data that the name says it is, where it is any.
	personal string
	// kind is how a string is judged that is not secret by name alone.
	kind kind
}

type mode uint8

const (
	_ mode = iota // not named
	// named: the value is secret whatever it is.
	named
	// namedAround: the name stands around an object whose fields may hold it.
	namedAround
)

// meaning is what a field's name says.
func (e *Engine) meaning(name string) knownKey {
	var room [maxName]byte
	plain := squeeze(wide(name), &room)
	_, secret := e.secretNames[string(plain)]
	_, holder := e.holders[string(plain)]
	return knownKey{name: name, kind: e.kindOf(name), secret: secret, holder: holder, label: oneOf(labels, string(plain)), personal: personalName(string(plain))}
}

// Harmless reports whether a document [{name: value}] holds nothing to replace, by a look
// at the name's meaning and at what the value is made of. Both are JSON that was checked.
// It may say no of a document that holds nothing.
func (*Engine) Harmless(name, value []byte) bool {
	e, named, said := shared(), view(name), view(value)
	if len(named) > maxKept || strings.IndexByte(named, '\\') >= 0 || !e.known(named[1:len(named)-1]).inert {
		return false
	}
	if said[0] == '"' {
		return !e.suspects.suspect(said[1 : len(said)-1])
	}
	return len(said) < minCard && (said[0] == '-' || isDigit(said[0]))
}

// naming is what a key says of a value that starts with first. What stands in an object or a list
// under a secret name is judged as if it stood there itself.
func (k *knownKey) naming(around naming, first byte) naming {
	within := around.mode == namedAround
	switch {
	case first == '{' && (k.secret || within):
		return naming{mode: namedAround, personal: k.personal}
	case first == '{' && k.kind != notSecret:
		return naming{mode: namedAround, kind: k.kind | wary}
	case first == '{':
		return naming{}
	case k.secret && isDigit(first) && k.name[len(k.name)-1]|0x20 == 's': // how many there are
		return naming{}
	case k.secret || k.holder && within && around.kind == notSecret:
		return naming{mode: named, personal: cmp.Or(k.personal, around.personal)}
	case within && first == '[':
		return around
	case within && k.kind == notSecret:
		return naming{kind: around.below(k.name)}
	default:
		return naming{kind: k.kind}
	}
}

// described are members that say what a secret must look like or where it is
// kept, not what it is.
var described = []string{
	"type", "format", "pattern", "regex", "description", "title", "example", "examples", "id", "uuid", "ref", "$ref", "version", "algorithm", "alg",
	"arn", "uri", "url", "href", "link", "path", "file", "filename", "name", "label", "placeholder", "hint", "updated", "created", "expires",
	"updatedat", "createdat", "expiresat", "validation", "message", "class", "selector", "component", "icon", "kid", "keyid",
}

// below is how a text is judged that stands under a secret name, in a member
// that does not say what it holds.
func (n naming) below(name string) kind {
	var room [maxName]byte
	if plain := squeeze(name, &room); len(plain) > 0 && oneOf(described, string(plain)) {
		return notSecret
	}
	if n.kind != notSecret {
		return n.kind
	}
	return password | wary
}

// kindOf is how a value under a name is judged: by the keyword that ends it.
func (e *Engine) kindOf(name string) kind {
	state, words := uint16(0), e.words()
	for i := range len(name) {
		state = words.Step(state, name[i])
		for _, hit := range words.Found(state) {
			k, start := e.keywords[hit.Word].kind, i+1-int(hit.Length)
			if k == notSecret || !isTail(name[i+1:]) {
				continue
			}
			if k = excused(k, name[:start], name[start:i+1]); k != notSecret {
				return k
			}
		}
	}
	return notSecret
}

// wide is a name in which letters of full width are ASCII, and what nobody sees
// is gone.
func wide(name string) string {
	if ascii(name) == len(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, name)
}

// squeeze is a name in lower case without its separators, empty where it is too long.
func squeeze(name string, room *[maxName]byte) []byte {
	n := 0
	for i := range len(name) {
		switch b := name[i]; b {
		case '_', '-', ' ', '.':
		default:
			if n == maxName {
				return nil
			}
			room[n] = lower(b)
			n++
		}
	}
	return room[:n]
}
