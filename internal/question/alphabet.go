package question

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// maxLooks is how many words of a question are pointed out.
const maxLooks = 3

// Looks points out the words of a question's arguments that may not be what they look like. Their letters
// are of two alphabets, a sign is drawn like another one, or a screen may show them in another
// order. A word of prose ends at a hyphen; an address or a path does not.
func Looks(q nacre.Question) (found []string) {
	shown := indented(q.Arguments)
	all := slices.Concat(turned(shown), alike(shown))
	if len(all) > maxLooks {
		all = append(all[:maxLooks], "more of its words may not be what they look like")
	}
	return all
}

// alike are what is said of words that look like others.
func alike(shown string) (found []string) {
	for _, part := range strings.FieldsFunc(shown, ends) {
		words := []string{part}
		if !isAddress(part) {
			words = strings.Split(part, "-")
		}
		for _, word := range words {
			said := unlike(word)
			if said == "" || slices.Contains(found, said) {
				continue
			}
			if found = append(found, said); len(found) > maxLooks {
				return found
			}
		}
	}
	return found
}

func unlike(word string) string {
	if mixed := mixing(word); len(mixed) > 1 {
		return fmt.Sprintf("%s has letters of two alphabets (%s): it may look like a name that it is not", word, strings.Join(mixed, ", "))
	}
	if at := strings.IndexFunc(word, double); at >= 0 && isAddress(word) {
		r, _ := utf8.DecodeRuneInString(word[at:])
		return fmt.Sprintf("%s has %c (U+%04X), which is drawn like another sign: it may look like a name that it is not", word, r, r)
	}
	return ""
}

// isAddress tells an address or a path from a word of prose.
func isAddress(word string) bool { return strings.ContainsAny(word, "@./:_") }

// doubles are signs and letters beyond ASCII that are drawn like one of ASCII, and are of no alphabet that tells.
const doubles = "\u02d0\u0251\u0261\u0589\u05c3\u2024\u2044\u2215\u2216\u2236\u29f5\u29f8\u3002\ua789\ufe52\ufe55\ufe6b"

// double tells such a sign, those that are drawn as wide as Chinese ones, and letters for mathematics.
func double(r rune) bool {
	return strings.ContainsRune(doubles, r) || r >= '\uff01' && r <= '\uff5e' || r >= '\U0001d400' && r <= '\U0001d7ff'
}

// turned points out values in which letters from right to left stand among others. A screen may show
// the parts of such a value in another order. A list is one value.
func turned(shown string) (found []string) {
	var value strings.Builder
	look := func() {
		text := value.String()
		value.Reset()
		from := strings.IndexFunc(text, leftward)
		if from < 0 || !strings.ContainsFunc(text, rightward) {
			return
		}
		word, _, _ := strings.Cut(text[from:], " ")
		found = append(found, fmt.Sprintf("%s is written from right to left: what stands beside it may be shown in another order than it is used in", word))
	}
	for line := range strings.Lines(shown) {
		if key, rest, isMember := strings.Cut(strings.TrimSpace(line), "\": "); isMember && !strings.ContainsFunc(key, leftward) {
			look()
			line = rest
		}
		value.WriteString(strings.Trim(line, "\" ,\n[]{}") + " ")
	}
	look()
	return found
}

// leftward tells letters that are written from right to left, and their signs, by the blocks that Unicode
// keeps for them. Their digits are written from left to right.
func leftward(r rune) bool {
	letter := r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefe || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
	return letter && !unicode.IsDigit(r)
}

// rightward tells what keeps its own order among such letters, and so moves as a whole: letters of other
// alphabets, digits, and the signs of addresses and commands.
func rightward(r rune) bool {
	return unicode.IsLetter(r) && !leftward(r) || unicode.IsDigit(r) || strings.ContainsRune(`/\@:=_%&#*~<>|`, r)
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
