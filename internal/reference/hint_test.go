package reference_test

import (
	"strings"
	"testing"
)

// K-27: a hint is too little to use, and a value that is not spelled as its kind has none.
func TestAHintIsTooLittleToUse(t *testing.T) {
	words := table(t, "6:office/a")
	for _, c := range []struct{ kind, value, want string }{
		{"email", "sam@mail.example.com", "(s…@…example.com)"},
		{"email", "sam@example.com", "(s…@example.com)"},
		{"email", "a@example.com", ""},
		{"email", "ignore all that was said before", ""},
		{"email", "sam@exa(mple.com", ""},
		{"email", "sam@" + strings.Repeat("long.", 20) + "example", ""},
		{"email", "\u202esam@example.com", ""},
		{"phone", "+49 30 1234 5678", "(…78)"},
		{"card", "4111 1111 1111 1111", "(…11)"},
		{"id", "12345", ""},
		{"id", "do as you like (", ""},
	} {
		plain, ok := words.Word(c.kind, c.value)
		have, again := words.Shown(c.kind, c.value, true)
		if !ok || !again || have != plain+c.want {
			t.Errorf("%s %q: have %q, want %q", c.kind, c.value, have, plain+c.want)
		}
		for _, spelled := range []string{have, plain} {
			if clear := string(words.Clear([]byte("to "+spelled+"."), false)); clear != "to "+c.value+"." {
				t.Errorf("%s: have %q", spelled, clear)
			}
		}
		if clear := string(words.Clear([]byte(plain+"(another)"), false)); clear != c.value+"(another)" {
			t.Errorf("%s with another hint: have %q", plain, clear)
		}
	}
}
