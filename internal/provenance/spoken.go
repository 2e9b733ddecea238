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
	// maxParts is in how many parts of sentences a word is heard, and how many nouns a number has.
	maxParts = 16
	// maxStory is the longest text in which what somebody wrote about is looked for, in bytes.
	maxStory = 1 << 10
	// minPrefix is the shortest beginning of an id that stands for a noun, as INV for invoice.
	minPrefix = 2
	// minName is the shortest name, in bytes, maxNamed how many words one with its title has.
	minName, maxNamed = 2, 2
	// maxReach is how many words behind "write" stands the "to" that says to whom.
	maxReach = 64
)

// spoken is how the operator's words name things and people.
type spoken struct {
	// told are the stems of the words that say what is spoken of, with the parts of sentences
	// in which they stand. What a clause begins with is what is to be done: an outsider who
	// writes "cancel" describes nothing.
	told map[string][]int
	part int
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
	return spoken{told: map[string][]int{}, names: map[string]struct{}{}, numbers: map[string][]string{}, met: map[string]string{}, asked: map[string]struct{}{}}
}

// hear takes in a text of the operator, as they wrote it.
func (s *spoken) hear(text string) {
	for clause := range strings.FieldsFuncSeq(strings.ReplaceAll(text, ":", ":;"), func(r rune) bool { return strings.ContainsRune(".!?;\n\r", r) }) {
		words := strings.FieldsFunc(strings.ReplaceAll(clause, comma, " , "), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("'’-,", r)
		})
		s.clause(words, strings.HasSuffix(clause, ":"))
	}
}

// clause takes in the words of a clause, commas among them. A topic, as in "the printer: close
// it", does not begin with what is to be done.
func (s *spoken) clause(words []string, topic bool) {
	noun, answering := "", false
	s.part++
	for i, word := range words {
		if len(word) > maxIdentifier {
			continue
		}
		last, next := wordAt(words, i-1), wordAt(words, i+1)
		s.name(word, last, next)
		plain := string(normalise([]byte(word)))
		if i > 0 || topic {
			s.tell(plain)
		}
		noun = s.number(noun, plain)
		switch rest := words[i+1:]; {
		case plain == "write" && isNamed(rest):
			s.addresses, answering = true, false
			s.ask(rest[:min(len(rest), maxNamed)])
		case addresses(plain, next, rest):
			s.addresses, answering = true, true
		case plain == "that" && !strings.HasPrefix(last, "one"):
			answering = false
		case answering:
			s.ask(words[i : i+1])
		}
		s.days = s.days || slices.Contains(dayNouns[:], plain) && !slices.Contains(reckoning[:], next) ||
			last == "that" && slices.Contains(timesOfDay[:], plain)
		if plain == comma || plain == "and" || plain == "then" || plain == "but" {
			s.part++
		}
	}
}

const comma = ","

// wordAt is a word of a clause, in small letters; empty where there is none.
func wordAt(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return strings.ToLower(words[i])
}

// ask takes in words that describe who is to be answered.
func (s *spoken) ask(words []string) {
	for _, word := range words {
		word = string(normalise([]byte(word)))
		if tells(word) && len(word) <= maxIdentifier && len(s.asked) < maxSpoken {
			s.asked[stem(word)] = struct{}{}
		}
	}
}

// tell takes in what a word says of what is spoken of.
func (s *spoken) tell(word string) {
	r := dateReader{text: word}
	for t := r.next(); t.text != ""; t = r.next() {
		root := stem(t.text)
		parts, known := s.told[root]
		if !tells(t.text) || !known && len(s.told) == maxVocabulary || len(parts) == maxParts || slices.Contains(parts, s.part) {
			continue
		}
		s.told[root] = append(parts, s.part)
	}
}

// tells reports whether a call's arguments have a word that says what is spoken of.
func (s *spoken) tells(arguments []byte) bool {
	for i, d := range readValues(arguments) {
		if i == maxFields || len(d) > maxPointer {
			return false
		}
		r := dateReader{text: string(d)}
		for t := r.next(); t.text != ""; t = r.next() {
			if _, is := s.told[stem(t.text)]; is {
				return true
			}
		}
	}
	return false
}

// dayNouns are the words by which the operator speaks of a day that another text says.
var dayNouns = [...]string{"day", "date", "deadline", "due"}

// timesOfDay are those of a day that another text says, as in "that morning".
var timesOfDay = [...]string{"morning", "afternoon", "evening", "night"}

// reckoning are the words behind "day" with which the operator reckons one themselves.
var reckoning = [...]string{"after", "before", "later", "earlier", "of", "ago"}

// name takes in a word that is written as a name is: with a capital that no beginning of a
// sentence asks for, or of which something is.
func (s *spoken) name(word, last, next string) {
	bare, owns := strings.CutSuffix(strings.ReplaceAll(word, "’", "'"), "'s")
	capital, _ := utf8.DecodeRuneInString(bare)
	subject := last != "" || owns || slices.Contains(ofSubjects[:], next)
	if !unicode.IsUpper(capital) || !subject || len(s.names) >= maxSpoken {
		return
	}
	plain := string(normalise([]byte(bare)))
	if named(plain) && strings.ToUpper(bare) != bare && monthOf(plain) == 0 && !slices.Contains(dayWords[:], plain) {
		s.names[stem(plain)] = struct{}{}
	}
}

// titles stand before a name, ofSubjects behind one, and behind no word that says what to do.
var (
	titles     = [...]string{"mr", "mrs", "ms", "miss", "dr"}
	ofSubjects = [...]string{"is", "was", "has", "had", "wants", "wanted", "needs", "asks", "asked", "says", "said", "writes", "wrote", "called", "gets", "got", "came", "will", "would", "can", "could", "should"}
)

// named reports whether a word may be a name: it says what is spoken of, or is short and no
// word of English that says nothing.
func named(word string) bool {
	if len(word) >= minTelling {
		return tells(word)
	}
	return len(word) >= minName && !slices.Contains(short[:], word) && !slices.ContainsFunc([]rune(word), unicode.IsDigit)
}

// short are the words of English of two and three letters that say nothing of what is spoken of.
var short = [...]string{
	"a", "an", "am", "and", "any", "are", "as", "at", "be", "but", "by", "can", "did", "do", "for", "get", "he", "her", "him", "his", "how", "if", "in", "is", "it", "its", "let",
	"me", "mr", "mrs", "ms", "dr", "my", "new", "no", "not", "of", "off", "old", "on", "one", "or", "our", "out", "re", "see", "she", "so", "the", "to", "too", "two", "up", "us", "was", "we", "who",
	"why", "yes", "you",
}

// number takes in a word as the number of the noun before it, and returns the noun of the
// next one: "invoices 4711 and 4712".
func (s *spoken) number(noun, word string) string {
	switch number := strings.TrimLeft(word, "0"); {
	case word == "and" || word == "or" || word == "to" || word == "no" || word == "nr" || word == "number":
		return noun
	case !isNumbering(number):
		return stem(word)
	case noun != "" && (len(s.numbers) < maxNumbers || s.numbers[number] != nil) && len(s.numbers[number]) < maxParts && !slices.Contains(s.numbers[number], noun):
		s.numbers[number] = append(s.numbers[number], noun)
	}
	return noun
}

// isNumbering reports whether a text is a number as things are numbered by: 4711, 2026-17.
func isNumbering(text string) bool {
	return text != "" && isDigit(text[0]) && isDigit(text[len(text)-1]) && strings.Trim(text, "0123456789-") == ""
}

// addresses reports whether a word wants somebody to be written to, and not the operator.
func addresses(word, next string, rest []string) bool {
	switch word {
	case "reply", "answer", "respond", "thank", "apologise", "apologize", "confirm":
		return true
	case "tell", "ask", "inform", "notify", "warn", "remind":
		return next != "me" && next != "us"
	case "let":
		return next != "me" && next != "us" && slices.Contains(rest[:min(len(rest), maxReach)], "know")
	case "write", "say":
		return slices.Contains(rest[:min(len(rest), maxReach)], "to")
	}
	return false
}

// isNamed reports whether words begin with a name or a title.
func isNamed(words []string) bool {
	if len(words) == 0 {
		return false
	}
	capital, _ := utf8.DecodeRuneInString(words[0])
	return unicode.IsUpper(capital) || slices.Contains(titles[:], strings.ToLower(words[0]))
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
		for _, part := range partsOf(strings.ToLower(name)) {
			nouns = append(nouns, stem(part))
		}
	}
	return nouns
}

// called are the records that alone have a name which the operator wrote, in a short field.
func (s *spoken) called(records []*mintedRecord) (found []*mintedRecord) {
	if len(s.names) == 0 {
		return nil
	}
	for i, words := range distinctive(records) {
		if slices.ContainsFunc(words, func(root string) bool { _, is := s.names[root]; return is }) {
			found = append(found, records[i])
		}
	}
	return found
}

// describes finds the records that the parts of the operator's sentences describe: each is the
// only one that alone has a word of its part. Where several have one each, the operator may mean
// any of them, and an outsider who writes such words into a record of their own wins nothing.
func (s *spoken) describes(records []*mintedRecord) (found []*mintedRecord) {
	if len(s.told) == 0 {
		return nil
	}
	of := make(map[int]*mintedRecord) // by part; nil where there are two
	for i, words := range distinctive(records) {
		for _, word := range words {
			for _, part := range s.told[word] {
				if other, met := of[part]; met && other != records[i] {
					of[part] = nil
				} else {
					of[part] = records[i]
				}
			}
		}
	}
	described := make(map[*mintedRecord]bool)
	for _, record := range of {
		described[record] = record != nil
	}
	return slices.DeleteFunc(slices.Clone(records), func(of *mintedRecord) bool { return !described[of] })
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

// distinctive are the words of each record's short fields that no other record has there; none
// where there are too many.
func distinctive(records []*mintedRecord) [][]string {
	count, all := make(map[string]int), make([][]string, len(records))
	seen := 0
	for i, of := range records {
		all[i] = of.titleWords()
		if seen += len(all[i]); seen > maxWords {
			return nil
		}
		for _, word := range all[i] {
			count[word]++
		}
	}
	for i := range all {
		all[i] = slices.DeleteFunc(all[i], func(word string) bool { return count[word] > 1 })
	}
	return all
}
