package recall

// stem is Porter's algorithm (1980), which SQLite's porter tokenizer follows
// too: it takes English endings off a lower-case word. Words with anything but
// a–z in them stay as they are, and so do those of one or two letters.
func stem(word string) string {
	if len(word) < 3 || len(word) > maxStem {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	w := stemmer([]byte(word))
	w.plural()
	w.past()
	if w.ends("y") && w.vowelBefore(1) {
		w[len(w)-1] = 'i'
	}
	w.replace(secondStep(), 0)
	w.replace(thirdStep(), 0)
	w.fourth()
	w.last()
	return string(w)
}

const maxStem = 64 // longer ones are no words

// stemmer is a word that loses its endings.
type stemmer []byte

// consonant tells of the letter at i.
func (w stemmer) consonant(i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !w.consonant(i-1)
	}
	return true
}

// measure counts how often vowels are followed by consonants in the first n letters.
func (w stemmer) measure(n int) int {
	m, vowel := 0, false
	for i := range n {
		c := w.consonant(i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

// vowelBefore tells whether there is a vowel before the last n letters.
func (w stemmer) vowelBefore(n int) bool {
	for i := range len(w) - n {
		if !w.consonant(i) {
			return true
		}
	}
	return false
}

func (w stemmer) ends(suffix string) bool {
	return len(w) > len(suffix) && string(w[len(w)-len(suffix):]) == suffix
}

// double tells of two equal consonants at the end.
func (w stemmer) double() bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && w.consonant(n-1)
}

// closed tells of consonant, vowel, consonant at the end of the first n
// letters, where the last is none of w, x and y.
func (w stemmer) closed(n int) bool {
	if n < 3 || !w.consonant(n-1) || w.consonant(n-2) || !w.consonant(n-3) {
		return false
	}
	return w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}

func (w *stemmer) cut(n int, ending string) { *w = append((*w)[:len(*w)-n], ending...) }

func (w *stemmer) plural() {
	switch {
	case w.ends("sses"), w.ends("ies"):
		w.cut(2, "")
	case w.ends("s") && !w.ends("ss"):
		w.cut(1, "")
	}
}

func (w *stemmer) past() {
	switch {
	case w.ends("eed"):
		if w.measure(len(*w)-3) > 0 {
			w.cut(1, "")
		}
		return
	case w.ends("ed") && w.vowelBefore(2):
		w.cut(2, "")
	case w.ends("ing") && w.vowelBefore(3):
		w.cut(3, "")
	default:
		return
	}
	switch n := len(*w); {
	case w.ends("at"), w.ends("bl"), w.ends("iz"):
		w.cut(0, "e")
	case w.double() && (*w)[n-1] != 'l' && (*w)[n-1] != 's' && (*w)[n-1] != 'z':
		w.cut(1, "")
	case w.measure(n) == 1 && w.closed(n):
		w.cut(0, "e")
	}
}

// ending is a suffix and what stands in its place.
type ending struct{ from, to string }

func secondStep() []ending {
	return []ending{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"logi", "log"}, {"bli", "ble"}, {"alli", "al"},
		{"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"}, {"alism", "al"},
		{"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"},
	}
}

func thirdStep() []ending {
	return []ending{{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}}
}

// replace puts the first ending that fits in place of what is there, where more
// than least vowel groups stand before it.
func (w *stemmer) replace(endings []ending, least int) {
	for _, e := range endings {
		if !w.ends(e.from) {
			continue
		}
		if w.measure(len(*w)-len(e.from)) > least {
			w.cut(len(e.from), e.to)
		}
		return
	}
}

func (w *stemmer) fourth() {
	if w.ends("ion") {
		if n := len(*w) - 3; ((*w)[n-1] == 's' || (*w)[n-1] == 't') && w.measure(n) > 1 {
			w.cut(3, "")
		}
		return
	}
	w.replace([]ending{
		{"al", ""}, {"ance", ""}, {"ence", ""}, {"er", ""}, {"ic", ""}, {"able", ""}, {"ible", ""}, {"ant", ""}, {"ement", ""}, {"ment", ""},
		{"ent", ""}, {"ou", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""}, {"ous", ""}, {"ive", ""}, {"ize", ""},
	}, 1)
}

func (w *stemmer) last() {
	if n := len(*w) - 1; w.ends("e") && (w.measure(n) > 1 || w.measure(n) == 1 && !w.closed(n)) {
		w.cut(1, "")
	}
	if w.ends("ll") && w.measure(len(*w)-1) > 1 {
		w.cut(1, "")
	}
}
