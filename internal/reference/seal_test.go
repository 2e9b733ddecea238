package reference_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/reference"
)

// TestOnlyAGroupOpensWhatItHasSealed (K-27).
func TestOnlyAGroupOpensWhatItHasSealed(t *testing.T) {
	secret := []byte("a secret of the kernel")
	mine, theirs, later := reference.NewSealer(secret, "office"), reference.NewSealer(secret, "sales"), reference.NewSealer([]byte("another secret"), "office")
	sealed, ok := mine.Seal("email", `"ann"@corp.example`)
	again, _ := mine.Seal("email", `"ann"@corp.example`)
	other, _ := mine.Seal("phone", `"ann"@corp.example`)
	if !ok || sealed != again || sealed == other || strings.Contains(sealed, "corp") {
		t.Fatalf("have %q, %q and %q", sealed, again, other)
	}
	word := func(kind, value string) (string, bool) { return "<" + kind + " " + value + ">", true }
	nothing := func(string, string) (string, bool) { return "", false }
	const want = `<email "ann"@corp.example>`
	for name, c := range map[string]struct {
		of         reference.Sealer
		text, want string // want is empty where the text stays as it is
		name       func(kind, value string) (string, bool)
	}{
		"as a whole":                    {mine, sealed, want, word},
		"in a text, twice":              {mine, "to " + sealed + ", and " + sealed + ".", "to " + want + ", and " + want + ".", word},
		"of another group":              {theirs, sealed, "", word},
		"under another secret":          {later, sealed, "", word},
		"the zero value":                {reference.Sealer{}, sealed, "", word},
		"where no word is to be had":    {mine, sealed, "", nothing},
		"as another kind":               {mine, "phone" + strings.TrimPrefix(sealed, "email"), "", word},
		"a letter more":                 {mine, sealed + "a", "", word},
		"a letter less":                 {mine, sealed[:len(sealed)-1], "", word},
		"in capitals":                   {mine, strings.ToUpper(sealed), "", word},
		"one behind the other":          {mine, sealed + sealed, "", word},
		"a mark and nothing else":       {mine, ":sealed-", "", word},
		"a mark behind a long word":     {mine, strings.Repeat("a", 99) + ":sealed-abc", "", word},
		"a mark before a very long one": {mine, "email:sealed-" + strings.Repeat("a", 1<<20), "", word},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.text
			}
			if have := string(c.of.Open([]byte(c.text), false, c.name)); have != c.want {
				t.Errorf("have %.200q, want %.200q", have, c.want)
			}
		})
	}
	opened := mine.Open([]byte(`{"text":"`+sealed+`"}`), true, word)
	if !json.Valid(opened) {
		t.Errorf("JSON became %s", opened)
	}
	for _, c := range [][2]string{{"email", ""}, {"", "x"}, {"E-mail", "x"}, {"email", strings.Repeat("a", reference.MaxValue+1)}} {
		if have, ok := mine.Seal(c[0], c[1]); ok {
			t.Errorf("%q is sealed as %.40q", c, have)
		}
	}
}

// FuzzOpen opens anything: what was not sealed stays as it is, and JSON stays JSON.
func FuzzOpen(f *testing.F) {
	of := reference.NewSealer([]byte("a secret of the kernel"), "office")
	f.Add("to email:sealed-abcdefgh and", "a\"b@c.example")
	f.Fuzz(func(t *testing.T, text, value string) {
		same := func(_, value string) (string, bool) { return value, true }
		if have := string(of.Open([]byte(text), false, same)); have != text && !strings.Contains(text, ":sealed-") {
			t.Errorf("%q became %q", text, have)
		}
		sealed, ok := of.Seal("email", value)
		if !ok {
			return
		}
		if have := string(of.Open([]byte(sealed), false, same)); have != value {
			t.Errorf("%q was sealed, and opened as %q", value, have)
		}
		quoted, err := json.Marshal(text + " " + sealed)
		if err != nil {
			t.Fatal(err)
		}
		if have := of.Open(quoted, true, same); !json.Valid(have) {
			t.Errorf("%s became %s", quoted, have)
		}
	})
}
