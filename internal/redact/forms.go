package redact

import "strings"

// form is a kind of credential that is known by how it begins.
type form struct {
	// prefix in lower case, and exact as it is really written.
	prefix, exact string
	// of is what the rest is made of, and least how long it is.
	of    class
	least int
	rest  rest
}

// rest is what must hold for what follows a prefix that also begins words.
type rest uint8

const (
	anything rest = iota
	// digits wants one: words are made of the same letters.
	digits
	// bothCases wants letters of both and a digit, and no more bytes than least.
	bothCases
	// uuid wants a UUID.
	uuid
	// bot wants a number of 8 to 10 digits before it: Telegram's.
	bot
)

// maxPieces is how many lines a token may be broken into.
const maxPieces = 12

// check looks at what follows a prefix.
func (f *form) check(h *hunt, start, end int) (span, bool) {
	if h.text[start:end] != f.exact {
		return span{}, false
	}
	if f.rest == bot {
		return h.bot(start, end)
	}
	if !h.starts(start) {
		return span{}, false
	}
	stop := h.run(f.of, end)
	length := stop - end
	if length < f.least {
		stop, length = f.broken(h, start, end, stop)
	}
	if length < f.least || !f.rest.holds(h.text[end:stop]) || isFiller(h.text[end:stop]) {
		return span{}, false
	}
	if f.exact == "eyJ" {
		return h.jwt(start, stop)
	}
	return span{start, f.second(h, start, stop)}, true
}

func (r rest) holds(s string) bool {
	switch m := mixOf(s); r {
	case digits:
		return m.digit
	case bothCases:
		return m.digit && m.upper && !m.other && len(s) < 32
	case uuid:
		return len(s) >= 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-'
	case anything, bot:
	}
	return true
}

// minFilled is how many of a broken token's lines would make the shortest of its kind, at most.
const minFilled = 4

// broken follows a token whose lines are broken within it, until it is long
// enough.
func (f *form) broken(h *hunt, start, end, stop int) (last, length int) {
	length = stop - end
	piece := length
	for range maxPieces {
		next := h.nextLine(stop)
		if next == len(h.text) {
			h.open = min(h.open, start)
		}
		// Who breaks a token fills the lines with it: short names below each other are none.
		if piece*minFilled < f.least || next < 0 {
			break
		}
		after := h.run(f.of, next)
		piece = after - next
		length += piece
		stop = after
		if length >= f.least {
			break
		}
	}
	if length < f.least || !mixOf(h.text[end:stop]).digit {
		return stop, 0
	}
	return stop, length
}

// minRest is the shortest second line of a token, in bytes.
const minRest = 8

// second takes the second line of a token whose first was long enough: one that
// holds nothing but letters and digits, and no token of its own.
func (f *form) second(h *hunt, start, stop int) int {
	next := h.nextLine(stop)
	if next < 0 {
		return stop
	}
	end := h.run(f.of, next)
	if end == len(h.text) {
		h.open = min(h.open, start)
	}
	if m := mixOf(h.text[next:end]); end-next < minRest || !m.digit || !m.lower && !m.upper || hasPrefixFold(h.text[next:], f.prefix) {
		return stop
	}
	switch h.byteAt(end) {
	case 0, '\n', '\r', '"', '\'', '<', '\\', ',', ';', '&':
		return end
	}
	return stop
}

// nextLine is where the next line's text begins if the line ends at i, or -1.
func (r *reading) nextLine(i int) int {
	switch {
	case i == len(r.text):
		return i
	case r.text[i] == '\n':
	case r.text[i] == '\r' && r.byteAt(i+1) == '\n':
		i++
	case r.text[i] == '\\' && r.byteAt(i+1) == 'n':
		i++
	default:
		return -1
	}
	for i++; i < len(r.text) && (r.text[i] == ' ' || r.text[i] == '\t'); i++ {
	}
	return i
}

// The digits of a Telegram bot's number.
const minBot, maxBot = 8, 10

func (h *hunt) bot(start, end int) (span, bool) {
	from := start
	for from > 0 && start-from <= maxBot && isDigit(h.text[from-1]) {
		from--
	}
	stop := h.run(dashed, end)
	if n := start - from; n < minBot || n > maxBot || stop-end < 30 || stop-end > 36 {
		return span{}, false
	}
	return span{from, stop}, true
}

// jwt wants a second part that is JSON too, and takes whatever parts follow.
func (h *hunt) jwt(start, stop int) (span, bool) {
	parts := 1
	for parts < 5 && h.byteAt(stop) == '.' && (parts > 1 || hasPrefixFold(h.text[stop+1:], "eyj") || h.byteAt(stop+1) == '.') {
		stop = h.run(dashed, stop+1)
		parts++
	}
	if parts < 2 {
		return span{}, false
	}
	return span{start, stop}, true
}

// minFiller is how many x at an end are no part of a secret.
const minFiller = 8

// isFiller reports whether a text stands for a secret to be filled in: all of
// it is x or another sign without meaning, or says whose it should be.
func isFiller(s string) bool {
	s = s[:min(len(s), sampleLimit)]
	for i := 0; ; i++ {
		if i == len(s) {
			return true
		}
		if strings.IndexByte("xX*.-_#?0", s[i]) < 0 {
			break
		}
	}
	if n := len(s); n > minFiller && strings.Trim(s[n-minFiller:], "xX*") == "" && !mixOf(s).digit {
		return true
	}
	return !mixOf(s).digit && (containsFold(s, "your") || containsFold(s, "placeholder") || containsFold(s, "here"))
}

// containsFold reports whether a text holds a word, given in lower case.
func containsFold(s, part string) bool {
	return containsFrom(s, part, part[0]) || containsFrom(s, part, part[0]-'a'+'A')
}

// containsFrom reports whether a text holds a word that begins with that letter.
func containsFrom(s, part string, letter byte) bool {
	for {
		i := strings.IndexByte(s, letter)
		if i < 0 {
			return false
		}
		if s = s[i:]; hasPrefixFold(s, part) {
			return true
		}
		s = s[1:]
	}
}
