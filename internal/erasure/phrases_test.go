package erasure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nacre-dev/nacre/internal/erasure"
)

// M-57: a text that was forgotten is found in whatever file holds it, however that writes it.
func TestATextIsFoundInFiles(t *testing.T) {
	t.Parallel()
	far := strings.Repeat("filling ", 100_000)
	asJSON := func(text string) string {
		data, err := json.Marshal(map[string]string{"content": text})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	const quoted = "she said \"meet at the old well\" & left"
	for name, c := range map[string]struct {
		text, file string
		want       bool
	}{
		"as it is":                         {"the cat is called Minka", "x the cat is called Minka y", true},
		"in any case":                      {"the cat is called Minka", "THE CAT IS CALLED MINKA", true},
		"at the end":                       {"the cat is called Minka", "the cat is called Minka", true},
		"its beginning alone":              {"the cat is called Minka", "the cat is called Mink", false},
		"another that begins alike":        {"the cat is called Minka", "the cat is called Luna.", false},
		"far into the file":                {"the cat is called Minka", far + "the cat is called Minka" + far, true},
		"in JSON, with what that escapes":  {quoted, asJSON(quoted), true},
		"in JSON within JSON":              {quoted, asJSON(asJSON(quoted)), true},
		"of several lines":                 {"first of all\nthe keys are in the blue pot\n", asJSON("first of all\nthe keys are in the blue pot\n"), true},
		"of letters that are not ASCII":    {"кот живёт у колодца", asJSON("кот живёт у колодца"), true},
		"partly of those, escaped":         {"größer als das alte haus am fluss", `gr\u00f6\u00dfer als das alte haus am fluss`, true},
		"longer than what is compared":     {strings.Repeat("abcdefghi ", 50), "x" + strings.Repeat("abcdefghi ", 50), true},
		"shorter than what tells anything": {"abc", "abc", false},
		"no text":                          {"", "anything", false},
		"nothing but what is escaped":      {"\"\\\"\n", "\"\\\"\n", false},
		"an empty file":                    {"the cat is called Minka", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []io.Reader{strings.NewReader(c.file), iotest.HalfReader(strings.NewReader(c.file))} {
				have, err := erasure.Holds(from, "quite another text", c.text)
				if err != nil || have != c.want {
					t.Errorf("have %v, %v, want %v", have, err, c.want)
				}
			}
		})
	}
	if _, err := erasure.Holds(iotest.ErrReader(io.ErrClosedPipe), "a text"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// M-57: wherever in the file a text is, what is read at once does not cut it off.
func TestATextIsFoundWhereverItIs(t *testing.T) {
	t.Parallel()
	const text = "a text of somewhat more than thirty-two letters, and fewer than sixty-four"
	for _, before := range []int{0, 1, 63, 64, 256<<10 - 75, 256<<10 - 74, 256<<10 - 64, 256<<10 - 63, 256<<10 - 1, 256 << 10, 512<<10 - 100} {
		file := strings.Repeat("-", before) + text
		if have, err := erasure.Holds(strings.NewReader(file+"tail"), text); err != nil || !have {
			t.Errorf("after %d bytes: have %v, %v", before, have, err)
		}
	}
}

// M-57: texts that an agent has made alike make the look neither slow nor wrong.
func TestManyTextsThatBeginAlike(t *testing.T) {
	t.Parallel()
	var texts []string
	for n := range 5000 {
		texts = append(texts, fmt.Sprintf("%s%05d", strings.Repeat("a", 40), n))
	}
	have, err := erasure.Holds(strings.NewReader(strings.Repeat("a", 4<<20)), texts...)
	if err != nil || !have { // so many begin so that the beginning counts
		t.Errorf("have %v, %v", have, err)
	}
	have, err = erasure.Holds(strings.NewReader(strings.Repeat("b", 4<<20)), texts...)
	if err != nil || have {
		t.Errorf("have %v, %v", have, err)
	}
}

func FuzzHolds(f *testing.F) {
	f.Add("the cat is called Minka", "x ", " y")
	f.Add("a\"b\\c", "", "")
	f.Add("größer", "\xff", "\x00")
	f.Fuzz(func(t *testing.T, text, before, after string) {
		alone, err := erasure.Holds(strings.NewReader(text), text)
		if err != nil {
			t.Fatal(err)
		}
		within, err := erasure.Holds(strings.NewReader(before+text+after), text)
		if err != nil || alone && !within {
			t.Errorf("%q is found alone, and not in %q: %v", text, before+text+after, err)
		}
	})
}
