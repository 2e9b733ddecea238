package provenance

import (
	"strings"
	"unicode/utf8"
)

const (
	// afterURL ends a URL in a text; endOfURL may stand behind one in a sentence.
	afterURL = "\"<>`"
	endOfURL = ".,;:!?)]}'*|"
	// maxAliases bounds the aliases of one doc.
	maxAliases = 64 << 10
)

// aliases returns what a doc says in spellings that are not looked for: the
// URLs, hosts, numbers, accounts and paths in it, each in the one that is.
func aliases(d doc) []doc {
	if d[0] == jsonKind[0] {
		return nil
	}
	a := aliaser{text: string(d)}
	for i := 0; i < len(a.text) && len(a.found) < maxAliases; {
		end := strings.IndexByte(a.text[i:], ' ')
		if end < 0 {
			end = len(a.text) - i
		}
		if end += i; end > i {
			a.chunk(i, end)
		}
		i = end + 1
	}
	return a.found
}

type aliaser struct {
	text  string
	found []doc
	// phoned is to where digits were read as one number.
	phoned int
}

func (a *aliaser) add(kind, text string) { a.found = append(a.found, doc(kind+text)) }

// chunk looks at what stands between two blanks.
func (a *aliaser) chunk(start, end int) {
	chunk := a.text[start:end]
	digit, slash := strings.IndexAny(chunk, "0123456789"), strings.IndexByte(chunk, '/')
	if digit >= 0 {
		if start+digit >= a.phoned {
			a.phone(start, start+digit)
		}
		a.number(chunk)
		a.iban(start, end)
	}
	if slash < 0 {
		return
	}
	if at := strings.Index(chunk, "://"); at >= 0 {
		a.url(chunk, at)
		return
	}
	if strings.Contains(chunk, "./") || strings.LastIndex(chunk, "//") > 0 {
		if clean, ok := cleanPath(strings.Trim(chunk, "\"'`(),;:<>[]")); ok && len(chunk) <= maxAtom {
			a.add("", clean)
		}
	}
}

func (a *aliaser) number(chunk string) {
	chunk = strings.TrimFunc(chunk, aroundNumber)
	chunk = strings.TrimRight(chunk, ".:?")
	if number, ok := spokenNumber(chunk); ok && number != chunk {
		a.add(numberKind, number)
	}
}

// aroundNumber is what may stand around a number. In brackets, commas part the elements of a list.
func aroundNumber(r rune) bool {
	switch r {
	case '[', ']', '{', '}':
		return false
	case '$', '%', '\'':
		return true
	}
	return classOfRune(r) == other
}

// phone reads the digits around at as one number, over blanks.
func (a *aliaser) phone(start, at int) {
	if at > start && a.text[at-1] == '(' {
		at--
	}
	if at > start && a.text[at-1] == '+' {
		at--
	}
	number, end := phoneAt(a.text, at)
	a.phoned = end
	if number != "" && number != a.text[at:end] && a.bounded(at, end) {
		a.add(accountKind, number)
	}
}

// bounded reports whether what stands from at to end is a value as a whole.
func (a *aliaser) bounded(at, end int) bool {
	from, to := max(0, at-maxJoiners*utf8.UTFMax), min(len(a.text), end+maxJoiners*utf8.UTFMax)
	near := []byte(a.text[from:to])
	return begins(near, at-from) && ends(near, end-from)
}

// iban reads groups of four from start on as an IBAN, to where its check digits fit.
func (a *aliaser) iban(start, end int) {
	if !isIBANHead(a.text[start:]) || end-start > ibanGroup+1 && a.text[start+ibanGroup] != '-' {
		return
	}
	var compact []byte
	for i, group := start, 0; i <= len(a.text) && len(compact) <= maxIBAN; i++ {
		if i < len(a.text) && (isDigit(a.text[i]) || isLetter(a.text[i])) {
			compact = append(compact, a.text[i])
			group++
			continue
		}
		if isIBAN(string(compact)) {
			a.add(accountKind, string(compact))
		}
		if group != ibanGroup || i == len(a.text) || (a.text[i] != ' ' && a.text[i] != '-') {
			return
		}
		group = 0
	}
}

// url adds a URL whole, without its fragment, as the root of its server, and its host.
func (a *aliaser) url(chunk string, at int) {
	start := at
	for start > 0 && (isLetter(chunk[start-1]) || isDigit(chunk[start-1])) {
		start--
	}
	if !begins([]byte(chunk), start) {
		return
	}
	text := chunk[start:]
	if i := strings.IndexAny(text, afterURL); i >= 0 {
		text = text[:i]
	}
	text = strings.TrimRight(text, endOfURL)
	u, ok := parseURL(text)
	if !ok || len(text) > maxAtom {
		return
	}
	a.add(urlKind, u.String())
	if u.fragment != "" {
		u.fragment = ""
		a.add(urlKind, u.String())
	}
	if u.path != "/" || u.query != "" {
		u.path, u.query = "/", ""
		a.add(urlKind, u.String())
	}
	a.add(hostKind, u.host)
}
