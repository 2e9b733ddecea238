package recall

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxTokens is how many words of one text count; what follows them is not
// found by its words.
const maxTokens = 4096

// maxKnown is how many words an index remembers the stems of.
const maxKnown = 1 << 16

// token is one word as the index keeps it.
type token struct {
	text string
	// raw is the word before its stem was taken, where it is one of small letters.
	raw string
	// whole marks an identifier or a name with signs in it, kept beside its parts.
	whole bool
	// name marks a word with a capital letter that does not begin the text.
	name bool
	// common marks a word that says nothing of what is meant.
	common bool
}

// isWord tells what words are made of: letters, digits and the marks on them.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.Co, r)
}

// joins are the signs that hold an identifier, a path or a name together.
const joins = "_-./:'’@"

// tokens are the words of a text. A run of words joined by signs gives its parts and, where there
// are several, itself as a whole. So do camelCase and letters beside digits. A picture sign is a
// word too.
func tokens(text string) []token { return (&splitter{}).tokens(text) }

func (s *splitter) tokens(text string) []token {
	s.out = s.out[:0]
	text = strings.ToValidUTF8(text, " ")
	for i := 0; i < len(text) && len(s.out) < maxTokens; {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case isWord(r):
			end := runEnd(text, i)
			s.run(text[i:end])
			i = end
			continue
		case r > unicode.MaxLatin1 && unicode.In(r, unicode.So, unicode.Sk):
			s.add(token{text: string(r)})
		}
		i += size
	}
	return s.out
}

// runEnd is where the run of words and joining signs that begins at i ends.
func runEnd(text string, start int) int {
	end, i := start, start
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case isWord(r):
			end = i + size
		case strings.ContainsRune(joins, r) && i == end: // one sign alone
		default:
			return afterSigns(text, start, end)
		}
		i += size
	}
	return end
}

// afterSigns takes in what belongs to names such as C++ and F#.
func afterSigns(text string, start, end int) int {
	for _, signs := range []string{"++", "#"} {
		rest, ok := strings.CutPrefix(text[end:], signs)
		if next, _ := utf8.DecodeRuneInString(rest); ok && end-start <= 2 && !isWord(next) {
			return end + len(signs)
		}
	}
	return end
}

// splitter collects the words of a text.
type splitter struct {
	out []token
	// known are words of small letters that were seen before; nil remembers none.
	known map[string]token
}

func (s *splitter) add(t token) {
	if t.text != "" && len(s.out) < maxTokens {
		s.out = append(s.out, t)
	}
}

// run takes apart what stands between spaces.
func (s *splitter) run(run string) {
	run = possessive(run)
	before := len(s.out)
	start := 0
	for i, r := range run {
		if isWord(r) || strings.ContainsRune("+#", r) {
			continue
		}
		s.word(run[start:i])
		start = i + utf8.RuneLen(r)
	}
	s.word(run[start:])
	if start == 0 || len(s.out) == before {
		return
	}
	whole := closed(run)
	s.add(token{text: stem(whole), whole: true, common: isCommon(whole)})
}

// closed writes user-agent, user_agent and userAgent in one way.
func closed(run string) string {
	return strings.NewReplacer("'", "", "’", "", "-", "", "_", "").Replace(fold(run))
}

// possessive takes 's off: whose something is, is what is looked for.
func possessive(run string) string {
	for _, suffix := range []string{"'s", "’s", "'S", "’S"} {
		if rest, ok := strings.CutSuffix(run, suffix); ok {
			return rest
		}
	}
	return run
}

// word adds one word: its parts where it is written in camelCase or has letters
// beside digits, and each sign where its script has no spaces.
func (s *splitter) word(word string) {
	if word == "" {
		return
	}
	if isPlain(word) {
		s.add(s.plain(word))
		return
	}
	if dense(word) {
		s.dense(word)
		return
	}
	parts := humps(word)
	first, _ := utf8.DecodeRuneInString(word)
	name := unicode.IsUpper(first) && len(s.out) > 0
	folded := fold(word)
	if len(parts) < 2 {
		s.add(token{text: stem(regular(folded)), raw: folded, name: name, common: isCommon(folded) && (!name || len(folded) < 2)})
		return
	}
	for _, part := range parts {
		folded := fold(part)
		s.add(token{text: stem(regular(folded)), raw: folded, common: isCommon(folded)})
	}
	s.add(token{text: stem(folded), whole: true, name: name})
}

// plain is the token of a word of small letters. Most words of a text were seen
// before, and taking their stems again is most of what putting a text in takes.
func (s *splitter) plain(word string) token {
	if t, known := s.known[word]; known {
		return t
	}
	word = strings.Clone(word) // else it keeps its text
	t := token{text: stem(regular(word)), raw: word, common: isCommon(word)}
	if s.known != nil && len(s.known) < maxKnown && len(word) <= maxStem {
		s.known[word] = t
	}
	return t
}

// isPlain tells of words of small letters alone, as most are.
func isPlain(word string) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}

// humps splits parseHTTPRequest2 into parse, HTTP, Request and 2. A word of
// one case without digits is one part.
func humps(word string) []string {
	var parts []string
	runes := []rune(word)
	start := 0
	for i := 1; i < len(runes); i++ {
		if border(runes, i) {
			parts, start = append(parts, string(runes[start:i])), i
		}
	}
	return append(parts, string(runes[start:]))
}

// border tells whether a part of an identifier begins at i.
func border(runes []rune, i int) bool {
	before, here := runes[i-1], runes[i]
	switch {
	case unicode.IsMark(here):
		return false
	case unicode.IsDigit(before) != unicode.IsDigit(here):
		return true
	case unicode.IsLower(before) && unicode.IsUpper(here):
		return true
	case unicode.IsUpper(before) && unicode.IsUpper(here):
		return i+1 < len(runes) && unicode.IsLower(runes[i+1]) && i+2 < len(runes)
	}
	return false
}

// dense tells of scripts that put no spaces between words.
func dense(word string) bool {
	for _, r := range word {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
			return true
		}
	}
	return false
}

// dense adds each sign, and each pair of neighbours.
func (s *splitter) dense(word string) {
	previous := rune(0)
	for _, r := range fold(word) {
		s.add(token{text: string(r)})
		if previous != 0 {
			s.add(token{text: string([]rune{previous, r}), whole: true})
		}
		previous = r
	}
}

// fold makes a word comparable: lower case, compatible forms as one, marks taken off.
func fold(word string) string {
	ascii := true
	for i := range len(word) {
		ascii = ascii && word[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(word)
	}
	folded := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(strings.ToLower(word)))
	if folded == "" { // nothing but marks
		return word
	}
	return norm.NFC.String(strings.Map(plain, strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "þ", "th").Replace(folded)))
}

// plain writes letters with a stroke, which no mark makes, as those without.
func plain(r rune) rune {
	switch r {
	case 'ø':
		return 'o'
	case 'ł':
		return 'l'
	case 'đ', 'ð':
		return 'd'
	case 'ħ':
		return 'h'
	case 'ı':
		return 'i'
	}
	return r
}

// isCommon tells of a word, before its stem was taken, that it says nothing of
// what is meant. Such words count where a query has no others, and where words
// stand beside each other.
func isCommon(word string) bool {
	switch word {
	case "a", "about", "above", "after", "again", "against", "all", "also", "am", "an", "and", "any", "are", "arent", "as", "at", "be", "because",
		"been", "before", "being", "below", "between", "both", "but", "by", "can", "cant", "could", "couldnt", "d", "did", "didnt", "do", "does", "doesnt",
		"doing", "done", "dont", "down", "during", "each", "else", "ever", "few", "for", "from", "further", "get", "gets", "got", "had", "has", "have",
		"having", "he", "her", "here", "hers", "herself", "him", "himself", "his", "how", "i", "id", "if", "ill", "im", "in", "into", "is", "isnt", "it",
		"its", "itself", "ive", "just", "let", "lets", "like", "ll", "m", "me", "might", "more", "most", "must", "my", "myself", "no", "nor", "not", "now",
		"of", "off", "on", "once", "one", "only", "or", "other", "our", "ours", "out", "over", "own", "please", "re", "s", "same", "shall", "she",
		"should", "so", "some", "such", "t", "than", "that", "thats", "the", "their", "theirs", "them", "themselves", "then", "there", "these", "they",
		"theyre", "this", "those", "through", "to", "too", "under", "until", "up", "us", "use", "used", "uses", "using", "ve", "very", "was", "wasnt",
		"we", "were", "werent", "what", "whats", "when", "where", "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "wont",
		"would", "wouldnt", "you", "your", "youre", "yours", "yourself":
		return true
	}
	return false
}
