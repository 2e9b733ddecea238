package reference_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/reference"
)

func table(t testing.TB, session string) *reference.Table {
	t.Helper()
	return reference.New(reference.Tag([]byte("a secret of the kernel"), session))
}

func word(t testing.TB, of *reference.Table, value string) string {
	t.Helper()
	w, ok := of.Word("email", value)
	if !ok {
		t.Fatalf("no word for %q", value)
	}
	return w
}

// TestAWordStandsForOneValueInOneSession (K-27).
func TestAWordStandsForOneValueInOneSession(t *testing.T) {
	mine, other := table(t, "6:office/a"), table(t, "6:office/b")
	ann, bob := word(t, mine, "ann@corp.example"), word(t, mine, "bob@corp.example")
	if again := word(t, mine, "ann@corp.example"); again != ann || ann == bob {
		t.Errorf("have %q, %q and %q", ann, again, bob)
	}
	theirs := word(t, other, "eve@evil.example")
	for name, c := range map[string]struct {
		arguments string
		want      string // empty where nothing is resolved
		places    []string
	}{
		"a sink":                            {`{"to":"` + ann + `"}`, `{"to":"ann@corp.example"}`, nil},
		"a sink with a name before it":      {`{"to":"Ann <` + ann + `>"}`, `{"to":"Ann <ann@corp.example>"}`, nil},
		"elements of a list":                {`{"to":["` + ann + `","` + bob + `"]}`, `{"to":["ann@corp.example","bob@corp.example"]}`, nil},
		"free text":                         {`{"body":"write to ` + ann + `, please"}`, `{"body":"write to ann@corp.example, please"}`, nil},
		"another argument, as a whole":      {`{"query":"` + ann + `"}`, `{"query":"ann@corp.example"}`, []string{"query"}},
		"another argument, in a text":       {`{"query":"from ` + ann + `"}`, "", nil},
		"a word of another session":         {`{"to":"` + theirs + `"}`, "", nil},
		"a word that nobody was given":      {`{"to":"` + strings.Replace(ann, ":1-", ":9-", 1) + `"}`, "", nil},
		"two words that were put together":  {`{"to":"` + ann + bob + `"}`, "", nil},
		"a word with a letter behind it":    {`{"to":"` + ann + `x"}`, "", nil},
		"a word with a digit before it":     {`{"to":"7` + ann + `"}`, "", nil},
		"a word with a capital before it":   {`{"to":"X` + ann + `"}`, "", nil},
		"a word within a URL":               {`{"url":"https://x.example/?q=` + ann + `"}`, "", nil},
		"a word as a key":                   {`{"` + ann + `":1}`, "", nil},
		"numbers are left as they are":      {`{"n":1e999999,"to":"` + ann + `"}`, `{"n":1e999999,"to":"ann@corp.example"}`, nil},
		"a word without its tag, as spoken": {`{"to":"email:1"}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := mine.Resolve(json.RawMessage(c.arguments), []string{"to", "body"})
			if string(r.Arguments) != c.want || ok != (c.want != "") || !slices.Equal(r.Places, c.places) {
				t.Errorf("have %s at %v, want %s at %v", r.Arguments, r.Places, c.want, c.places)
			}
		})
	}
}

func TestATableHasBounds(t *testing.T) {
	of := table(t, "6:office/a")
	if w, ok := of.Word("email", strings.Repeat("a", reference.MaxValue+1)); ok {
		t.Errorf("a value that is too long has the word %q", w)
	}
	for i := range reference.MaxWords {
		word(t, of, strconv.Itoa(i)+"@corp.example")
	}
	if w, ok := of.Word("email", "one@more.example"); ok {
		t.Errorf("one value more than there is room for has the word %q", w)
	}
}

// FuzzClear holds a table against texts of anything: what is cleared and named
// again is the text, and JSON stays JSON.
func FuzzClear(f *testing.F) {
	f.Add("to email:1-abcde and", "a\"b@c.example")
	f.Add("email:1-email:1-", "\u202e")
	f.Fuzz(func(t *testing.T, text, value string) {
		of := table(t, "6:office/a")
		w, ok := of.Word("email", value)
		if !ok {
			return
		}
		if have := string(of.Clear([]byte(text), false)); !strings.Contains(text, w) && have != text {
			t.Errorf("%q became %q", text, have)
		}
		quoted, err := json.Marshal(text + w)
		if err != nil {
			t.Fatal(err)
		}
		if have := of.Clear(quoted, true); !json.Valid(have) {
			t.Errorf("%s became %s", quoted, have)
		}
	})
}
