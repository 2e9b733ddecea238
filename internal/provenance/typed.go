package provenance

import (
	"slices"
	"strconv"
	"strings"
)

// The kinds of docs that only the operator's words have. One is a number that is written as a word
// or with its unit. The other is an id of two characters, which is too short to be looked for in
// texts.
const (
	countKind = "\x01c"
	codeKind  = "\x01w"
)

const (
	// aroundTyped is what may stand around a word in a sentence.
	aroundTyped = "\"'()[]{}<>,;:.!?"
	// A unit behind a number has so many letters: 40mg, 30min.
	minUnit, maxUnit = 2, 4
)

// typedAliases are the docs of what people type in ways of their own: "two" and "twice",
// "40mg", "pen P7". The text is normalised.
func typedAliases(text string) (found []doc) {
	words := strings.Fields(text)
	for i := range words {
		words[i] = strings.Trim(words[i], aroundTyped)
	}
	for i, word := range words {
		if len(found) >= maxDates {
			break
		}
		if isCode(word) {
			found = append(found, doc(codeKind+word))
		}
		if number := countOf(word); number != "" && (number != "1" || word == "once" || isCounted(words, i)) {
			found = append(found, doc(countKind+number))
		}
	}
	return found
}

// isCode reports whether a word is an id of two characters: a letter and a digit.
func isCode(word string) bool {
	return len(word) == 2 && (isLetter(word[0]) && isDigit(word[1]) || isDigit(word[0]) && isLetter(word[1]))
}

// countOf is the number that a word says; empty where it says none.
func countOf(word string) string {
	switch word {
	case "once":
		return "1"
	case "twice":
		return "2"
	}
	if at := slices.Index(numerals[:], word); at >= 0 {
		return strconv.Itoa(at + 1)
	}
	unit := strings.TrimLeft(word, "0123456789.,")
	if len(unit) < minUnit || len(unit) > maxUnit || !isUnit(unit) {
		return ""
	}
	number, _ := spokenNumber(strings.TrimSuffix(word, unit))
	return number
}

// isUnit reports whether letters behind a number measure it, and are no ending of a day or an hour.
func isUnit(letters string) bool {
	for i := range len(letters) {
		if !isLetter(letters[i]) {
			return false
		}
	}
	return !slices.Contains([]string{"st", "nd", "rd", "th", "am", "pm"}, letters)
}

// isCounted reports whether the "one" at i counts what follows, and does not stand for
// something, as in "the one of last week".
func isCounted(words []string, i int) bool {
	before, after := "", ""
	if i > 0 {
		before = words[i-1]
	}
	if i+1 < len(words) {
		after = words[i+1]
	}
	return after != "" && !slices.Contains([]string{"the", "this", "that", "which", "each", "every", "any", "another", "no"}, before) &&
		!slices.Contains([]string{"of", "for", "that", "who", "which", "with", "from", "in", "about", "to", "is", "and"}, after)
}

// formsOfAmount are the spellings of a number that is an amount: of these alone, people write
// some as words.
func formsOfAmount(raw []byte) []needle {
	f := forms{needles: formsOf(raw)}
	for _, n := range f.needles {
		if number, is := strings.CutPrefix(string(n.text), numberKind); is {
			f.add(countKind+number, true)
			break
		}
	}
	return f.needles
}
