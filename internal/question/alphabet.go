package question

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nacre-dev/nacre"
)

// maxLooks is how many words of a question are pointed out.
const maxLooks = 3

// Looks points out the words of a question's arguments whose letters are of two alphabets, as a
// name is that looks like another one and is not. A word of prose ends at a hyphen; an address or a
// path does not.
func Looks(q nacre.Question) (found []string) {
	for _, part := range strings.FieldsFunc(indented(q.Arguments), ends) {
		words := []string{part}
		if !strings.ContainsAny(part, "@./:_") {
			words = strings.Split(part, "-")
		}
		for _, word := range words {
			mixed := mixing(word)
			said := fmt.Sprintf("%s has letters of two alphabets (%s): it may look like a name that it is not", word, strings.Join(mixed, ", "))
			if len(mixed) < 2 || slices.Contains(found, said) {
				continue
			}
			if len(found) == maxLooks {
				return append(found, "more of its words have letters of two alphabets")
			}
			found = append(found, said)
		}
	}
	return found
}

// ends tells where a word ends.
func ends(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`()[]{}<>,;|=", r) }

// mixing names the alphabets of the letters of a word.
func mixing(word string) (names []string) {
	for _, r := range word {
		if name := alphabet(r); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// alphabet names that of a letter, where it has letters which look like letters of others. Those
// that are drawn as wide as Chinese ones are Latin, and look like others.
func alphabet(r rune) string {
	switch {
	case r >= '\uff21' && r <= '\uff5a':
		return "full-width"
	case unicode.Is(unicode.Latin, r):
		return "Latin"
	case unicode.Is(unicode.Cyrillic, r):
		return "Cyrillic"
	case unicode.Is(unicode.Greek, r):
		return "Greek"
	case unicode.Is(unicode.Armenian, r):
		return "Armenian"
	case unicode.Is(unicode.Cherokee, r):
		return "Cherokee"
	case unicode.Is(unicode.Lisu, r):
		return "Lisu"
	}
	return ""
}
