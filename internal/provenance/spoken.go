package provenance

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of what is understood of how the operator names things and people.
const (
	maxSpoken  = 1 << 10
	maxNumbers = 1 << 10
	// maxStory is the longest text in which what somebody wrote about is looked for, in bytes.
	maxStory = 1 << 10
	// minPrefix is the shortest beginning of an id that stands for a noun, as INV for invoice.
	minPrefix = 2
)

// spoken is how the operator's words name things and people.
type spoken struct {
	// told are the stems of the words that say what is spoken of. What a clause begins with is
	// what is to be done: an outsider who writes "cancel" describes nothing.
	told map[string]struct{}
	// names are the words that they wrote as names are written, by stem.
	names map[string]struct{}
	// numbers are those that they wrote behind a noun, without zeros before them, with the
	// stems of their nouns.
	numbers map[string][]string
	// met are the ids that results had for these: empty where there were two of a number.
	met map[string]string
	// asked are the stems of the words behind "answer", up to the end of the clause: they
	// describe who is to be answered.
	asked map[string]struct{}
	// addresses is set where somebody is to be written to, days where a day is spoken of.
	addresses, days bool
}

func newSpoken() spoken {
	return spoken{told: map[string]struct{}{}, names: map[string]struct{}{}, numbers: map[string][]string{}, met: map[string]string{}, asked: map[string]struct{}{}}
}

// hear takes in a text of the operator, as they wrote it.
func (s *spoken) hear(text string) {
	for clause := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(".!?:;\n\r", r) }) {
		words := strings.FieldsFunc(clause, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("'’-", r)
		})
		noun, answering := "", false
		for i, word := range words {
			if len(word) > maxIdentifier {
				continue
			}
			s.name(word, i == 0)
			plain := string(normalise([]byte(word)))
			if i > 0 {
				s.tell(plain)
			}
			noun = s.number(noun, plain)
			next := ""
			if i+1 < len(words) {
				next = strings.ToLower(words[i+1])
			}
			switch {
			case addresses(plain, next, clause):
				s.addresses, answering = true, true
			case plain == "that" && i > 0 && !strings.HasPrefix(strings.ToLower(words[i-1]), "one"):
				answering = false
			case answering && tells(plain) && len(s.asked) < maxSpoken:
				s.asked[stem(plain)] = struct{}{}
			}
			s.days = s.days || slices.Contains(dayNouns[:], plain) && !slices.Contains(reckoning[:], next)
		}
	}
}

// tell takes in what a word says of what is spoken of.
func (s *spoken) tell(word string) {
	r := dateReader{text: word}
	for t := r.next(); t.text != "" && len(s.told) < maxVocabulary; t = r.next() {
		if tells(t.text) {
			s.told[stem(t.text)] = struct{}{}
		}
	}
}

// dayNouns are the words by which the operator speaks of a day that another text says.
var dayNouns = [...]string{"day", "date", "deadline", "due"}

// reckoning are the words behind "day" with which the operator reckons one themselves.
var reckoning = [...]string{"after", "before", "later", "earlier", "of", "ago"}

// name takes in a word that is written as a name is: with a capital that no beginning of a
// sentence asks for, or of which something is.
func (s *spoken) name(word string, first bool) {
	bare, owns := strings.CutSuffix(strings.ReplaceAll(word, "’", "'"), "'s")
	r, _ := utf8.DecodeRuneInString(bare)
	if !unicode.IsUpper(r) || first && !owns || len(s.names) >= maxSpoken {
		return
	}
	plain := string(normalise([]byte(bare)))
	if tells(plain) && monthOf(plain) == 0 && !slices.Contains(dayWords[:], plain) {
		s.names[stem(plain)] = struct{}{}
	}
}

// number takes in a word as the number of the noun before it, and returns the noun of the
// next one: "invoices 4711 and 4712".
func (s *spoken) number(noun, word string) string {
	switch number := strings.TrimLeft(word, "0"); {
	case word == "and" || word == "or" || word == "to" || word == "no" || word == "nr" || word == "number":
		return noun
	case !isNumbering(number):
		return stem(word)
	case noun != "" && (len(s.numbers) < maxNumbers || s.numbers[number] != nil) && !slices.Contains(s.numbers[number], noun):
		s.numbers[number] = append(s.numbers[number], noun)
	}
	return noun
}

// isNumbering reports whether a text is a number as things are numbered by: 4711, 2026-17.
func isNumbering(text string) bool {
	return text != "" && isDigit(text[0]) && isDigit(text[len(text)-1]) && strings.Trim(text, "0123456789-") == ""
}

// addresses reports whether a word wants somebody to be written to, and not the operator.
func addresses(word, next, clause string) bool {
	switch word {
	case "reply", "answer", "respond", "thank", "apologise", "apologize":
		return true
	case "tell", "ask", "inform", "notify", "warn", "remind":
		return next != "me" && next != "us"
	case "write", "say":
		return strings.Contains(strings.ToLower(clause), " to ")
	}
	return false
}

// numbered reports whether the operator spoke of an id by its number: "invoice 4711" of
// INV-4711. What they called it has to be the name of its field or of a tool, or to begin as
// the id does.
func (s *spoken) numbered(id string, nouns []string) (number string, is bool) {
	plain := strings.ToLower(id)
	rest := strings.TrimLeft(plain, "abcdefghijklmnopqrstuvwxyz")
	prefix := plain[:len(plain)-len(rest)]
	number = strings.TrimLeft(strings.TrimLeft(rest, "-_/#."), "0")
	if prefix == "" || !isNumbering(number) {
		return "", false
	}
	return number, slices.ContainsFunc(s.numbers[number], func(noun string) bool {
		return len(prefix) >= minPrefix && strings.HasPrefix(noun, prefix) || slices.Contains(nouns, noun)
	})
}

// nounsOf are the stems of the words of a name.
func nounsOf(names ...string) (nouns []string) {
	for _, name := range names {
		for part := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune(" _-./:*", r) }) {
			nouns = append(nouns, stem(part))
		}
	}
	return nouns
}

// called are the records that alone have a name which the operator wrote, in a short field.
func (s *spoken) called(records []*mintedRecord) (found []*mintedRecord) {
	return alone(records, (*mintedRecord).titleWords, s.names)
}

// asks finds the one record that has any of the words by which the operator describes who is
// to be answered. Where a second one has one, it may be an outsider's who knows the words.
func (s *spoken) asks(records []*mintedRecord) *mintedRecord {
	if len(s.asked) == 0 {
		return nil
	}
	var only *mintedRecord
	for _, of := range records {
		if !slices.ContainsFunc(of.storyWords(), func(word string) bool { _, is := s.asked[word]; return is }) {
			continue
		}
		if only != nil {
			return nil
		}
		only = of
	}
	return only
}

// alone are the records with a word that was told and no other record has.
func alone(records []*mintedRecord, wordsOf func(*mintedRecord) []string, told map[string]struct{}) (found []*mintedRecord) {
	if len(told) == 0 {
		return nil
	}
	count, all := make(map[string]int), make([][]string, len(records))
	seen := 0
	for i, of := range records {
		all[i] = wordsOf(of)
		if seen += len(all[i]); seen > maxWords {
			return nil
		}
		for _, word := range all[i] {
			count[word]++
		}
	}
	for i, of := range records {
		if slices.ContainsFunc(all[i], func(word string) bool { _, is := told[word]; return is && count[word] == 1 }) {
			found = append(found, of)
		}
	}
	return found
}
