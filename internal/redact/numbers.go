package redact

import (
	"strings"

	"github.com/nacre-dev/nacre/internal/checksum"
)

// numbers finds what is known by its digits: cards, social security numbers,
// telephone numbers and bank accounts. Groups of digits are walked once.
func (h *hunt) numbers() {
	var n number
	for at, ok := h.nextFigures(0); ok; at, ok = h.nextFigures(at.end) {
		for i := at.start; i < at.end; i++ {
			if !isDigit(h.text[i]) {
				continue
			}
			if stop, none := h.noNumber(i); none {
				i = stop
				continue
			}
			n.read(h, i)
			if f, ok := n.secret(h); ok {
				h.found, h.personal = append(h.found, f), append(h.personal, personal{f, n.kind})
			}
			i = n.end
		}
	}
}

// nextFigures is the first stretch behind i of what numbers are written with that is long
// enough for one. Where there is none, it looks at one byte in minWritten.
func (r *reading) nextFigures(i int) (span, bool) {
	for probe := i + minWritten - 1; probe < len(r.text); {
		start, end := probe, r.run(figured, probe)
		for start > 0 && end > probe && figured.has(r.text[start-1]) {
			start--
		}
		if end-start >= minWritten {
			return span{start, end}, true
		}
		probe = end + minWritten
	}
	return span{}, false
}

// noNumber reports whether the digits from i on are too few for any number that is looked for, or
// go on with a name. Most of a log's are. It says where they end, too.
func (r *reading) noNumber(i int) (stop int, none bool) {
	for stop = i + 1; stop < len(r.text) && isDigit(r.text[stop]); stop++ {
	}
	before := r.byteAt(i - 1)
	if before == '.' || before == '_' || isLetter(before) && !isUpper(before) {
		return stop - 1, true
	}
	after, next := r.byteAt(stop), r.byteAt(stop+1)
	alone := after != ' ' && after != '-' && after != '.' && after != ')' || !isDigit(next) && (after != ')' || next != ' ')
	return stop, alone && stop-i < minNumber && !isUpper(before)
}

// The limits of a number's form: a bank account has most digits and groups.
const (
	minNumber  = 9
	minWritten = 11 // bytes: 078-05-1120
	maxDigits  = 34
	maxGroups  = 9
)

// number is a run of groups of digits with one separator between each.
type number struct {
	start, end int
	digits     [maxDigits]byte
	count      int
	// groups are the lengths of the groups, seps what stands between them.
	groups [maxGroups]uint8
	seps   [maxGroups]byte
	parts  int
	// kind is which number it is.
	kind string
	// over is set where there were more digits or groups than any form has.
	over bool
}

// read takes the groups that start at i.
func (n *number) read(h *hunt, i int) {
	n.start, n.count, n.parts, n.over = i, 0, 0, false
	for {
		if n.parts == maxGroups {
			n.over = true
			break
		}
		from := i
		for i < len(h.text) && isDigit(h.text[i]) {
			if n.count == maxDigits {
				n.over = true
			} else {
				n.digits[n.count] = h.text[i]
				n.count++
			}
			i++
		}
		n.groups[n.parts] = uint8(min(i-from, 255))
		n.parts++
		n.end = i
		sep := h.byteAt(i)
		if sep == ')' && h.byteAt(i+1) == ' ' {
			i++ // (555) 123-4567
		}
		if sep != ' ' && sep != '-' && sep != '.' && sep != ')' || !isDigit(h.byteAt(i+1)) || n.parts == maxGroups {
			break
		}
		n.seps[n.parts-1] = sep
		i++
	}
}

func (n *number) secret(h *hunt) (span, bool) {
	before, after := h.byteAt(n.start-1), h.byteAt(n.end)
	if n.over || alnum.has(after) || after == '_' {
		return span{}, false
	}
	if isUpper(before) {
		n.kind = IBAN
		return n.account(h)
	}
	if n.count < minNumber || alnum.has(before) || before == '_' || before == '.' {
		return span{}, false
	}
	if n.kind = Card; n.card() {
		return span{n.start, n.end}, true
	}
	if n.kind = ID; n.social(h, before) {
		return span{n.start, n.end}, true
	}
	n.kind = Phone
	return n.phone(h, before)
}

// card wants a brand's first digits and length, the groups that cards are
// printed in, and Luhn's checksum.
func (n *number) card() bool {
	if !checksum.Card(n.digits[:n.count]) {
		return false
	}
	for i := range n.parts - 1 {
		if n.seps[i] != n.seps[0] || n.seps[i] == ')' || n.seps[i] == '.' || n.groups[i] < 4 {
			return false
		}
	}
	return true
}

// social wants 3-2-4 digits that were ever given out; with spaces only after
// its name, for tables hold such groups too.
func (n *number) social(h *hunt, before byte) bool {
	if n.parts != 3 || n.groups[0] != 3 || n.groups[1] != 2 || n.groups[2] != 4 || n.seps[0] != n.seps[1] || before == '-' {
		return false
	}
	d := n.digits[:9]
	area, group, serial := string(d[:3]), string(d[3:5]), string(d[5:])
	if area == "000" || area == "666" || area[0] == '9' || group == "00" || serial == "0000" {
		return false
	}
	return n.seps[0] == '-' || n.seps[0] == ' ' && n.after(h, "ssn", "social", "security")
}

func (n *number) after(h *hunt, names ...string) bool {
	before := h.text[max(0, n.start-32):n.start]
	for _, name := range names {
		for i := range before {
			if hasPrefixFold(before[i:], name) {
				return true
			}
		}
	}
	return false
}

// minE164 is how many digits a number without spaces has that is no count of seconds.
const minE164 = 11

// phone wants an international prefix or the American grouping, or a British one with dots.
func (n *number) phone(h *hunt, before byte) (span, bool) {
	first, last := n.groups[0], n.groups[n.parts-1]
	switch {
	case before == '+' && n.parts == 1 && n.count >= minE164 && n.count <= 15 && n.digits[0] != '0':
		return span{n.start - 1, n.end}, n.calls(h)
	case before == '+' && n.parts >= 3 && first <= 3 && n.count >= 10 && n.count <= 15 && last >= 2:
		return span{n.start - 1, n.end}, true
	case n.parts == 3 && first == 3 && n.groups[1] == 3 && last == 4 && before == '(' && n.seps[0] == ')':
		return span{n.start - 1, n.end}, true
	case n.parts == 3 && first == 3 && n.groups[1] == 3 && last == 4 && n.seps[0] == '-' && n.seps[1] == '-' && before != '-':
		return span{n.start, n.end}, n.digits[0] >= '2'
	case n.parts == 3 && first == 3 && n.groups[1] == 4 && last == 4 && n.seps[0] == '.' && n.seps[1] == '.':
		return span{n.start, n.end}, n.digits[0] == '0'
	}
	return span{}, false
}

// calls tells a number with a plus from one that is added, signed or on a line
// of a diff, and knows what American numbers never are.
func (n *number) calls(h *hunt) bool {
	lead := strings.TrimRight(h.text[max(0, n.start-8):n.start-1], " ")
	if lead != "" && !isLetter(lead[len(lead)-1]) && strings.IndexByte(`:"'(>,;`, lead[len(lead)-1]) < 0 || alnum.has(h.byteAt(n.start-2)) {
		return false
	}
	return n.digits[0] != '1' || n.count == minE164 && n.digits[1] >= '2'
}

// accounts are the lengths of a bank account number (IBAN) by country.
const accounts = "AD24AE23AT20BE16BG22CH21CY28CZ24DE22DK18EE20ES24FI18FR27GB22GI23GR27HR21HU28IE22IL23IS26IT27" +
	"LI21LT20LU20LV21MC27MT31NL18NO15PL28PT25RO24SA24SE24SI19SK24SM27TR26"

// account wants a country, its length and the checksum of ISO 13616.
func (n *number) account(h *hunt) (span, bool) {
	start := n.start - 2
	if start < 0 || !isUpper(h.text[start]) || !h.starts(start) || n.groups[0] < 2 {
		return span{}, false
	}
	country := strings.Index(accounts, h.text[start:n.start])
	if country < 0 || country%4 != 0 {
		return span{}, false
	}
	want := int(accounts[country+2]-'0')*10 + int(accounts[country+3]-'0')
	var plain [maxDigits]byte
	at, length := start, 0
	for at < len(h.text) && length < want && (isUpper(h.text[at]) || isDigit(h.text[at]) || h.text[at] == ' ' && length%4 == 0) {
		if h.text[at] != ' ' {
			plain[length] = h.text[at]
			length++
		}
		at++
	}
	if length != want || alnum.has(h.byteAt(at)) || !checksum.Account(plain[:want]) {
		return span{}, false
	}
	return span{start, at}, true
}
