package encoded_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

// peeled is s with the escapes of its first window undone.
func peeled(t *testing.T, p encoded.Spelling, s string) string {
	t.Helper()
	w, _, ok := p.Window(s, 0)
	if !ok {
		return s
	}
	var l encoded.Layer
	l.Peel(p, s, w)
	return string(l.Text)
}

// D-15: what a text says in another spelling is read.
func TestEscapesAreUndone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`p%61ss`:            "pass",
		`\x70\u0061ss`:      "pass",
		`\u{70}ass`:         "pass",
		`p&#97;ss`:          "pass",
		`"pa" + "ss"`:       `"pass"`,
		`'pa' 'ss'`:         `'pass'`,
		"pa\\\nss":          "pass",
		"p\x1b[31mass":      "pass",
		"p\u200bass":        "pass",
		"ｐass":              "pass",
		`{"a":"b","c":"d"}`: `{"a":"b","c":"d"}`,
		"50% of it":         "50% of it",
	} {
		if have := peeled(t, encoded.Escapes, in); have != want {
			t.Errorf("%q: %q, want %q", in, have, want)
		}
	}
	long := strings.Repeat("x", encoded.MinSoft)
	if have := peeled(t, encoded.QuotedPrintable, long+"=\npass"); have != long+"pass" {
		t.Errorf("a soft line break: %q", have)
	}
}

// D-15: whatever is undone stands in the window that it came from, in the same order.
func TestALayerTellsWhereItCameFrom(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 1))
	pieces := []string{"a", " ", "\n", "%41", `\x41`, `\n`, `\\x41`, `"`, `" "`, `' + '`, "&amp;", "&#x67;", "=41", "=3D", "\x1b[1m", "é", "\u200b", "ｐ", "\xff", "password=", strings.Repeat("b", 300)}
	for range 5_000 {
		var s strings.Builder
		for range r.IntN(40) {
			s.WriteString(pieces[r.IntN(len(pieces))])
		}
		for p := range encoded.Spellings {
			if err := followed(p, s.String()); err != nil {
				t.Fatalf("%q: %v", s.String(), err)
			}
		}
	}
}

func followed(p encoded.Spelling, s string) error {
	var l encoded.Layer
	for w, next, ok := p.Window(s, 0); ok; w, next, ok = p.Window(s, next) {
		if w.Start < 0 || w.End > len(s) || next > w.End {
			return fmt.Errorf("window %v, and from %d on", w, next)
		}
		l.Peel(p, s, w)
		last := w.Start
		for i := range l.Text {
			at := l.Source(encoded.Span{Start: i, End: i + 1})
			if at.Start < last || at.End < at.Start || at.End > w.End {
				return fmt.Errorf("byte %d of %q stands at %v, in %v behind %d", i, l.Text, at, w, last)
			}
			last = at.Start
		}
	}
	return nil
}

// D-15: base64, hexadecimal and lists of bytes are read where they stand.
func TestRunsAndListsOfBytesAreRead(t *testing.T) {
	t.Parallel()
	const said = "password=hunter2-and-more"
	for name, run := range map[string]string{
		"base64":         base64.RawStdEncoding.EncodeToString([]byte(said)),
		"base64 of URLs": base64.RawURLEncoding.EncodeToString([]byte(said)),
		"hexadecimal":    hex.EncodeToString([]byte(said)),
	} {
		text := "see " + run + " here"
		at, ok := encoded.NextBlob(text, 0)
		if !ok || text[at.Start:at.End] != run {
			t.Fatalf("%s: %v %v", name, at, ok)
		}
		if plain, start := encoded.DecodeBlob(nil, run); string(plain) != said || start != 0 {
			t.Errorf("%s says %q from %d on", name, plain, start)
		}
		if _, ok := encoded.NextBlob(text, at.End); ok {
			t.Errorf("%s: another run", name)
		}
	}
	for _, form := range []string{"%02x:", "0x%02x, ", "%d, ", "%02X "} {
		var list strings.Builder
		for _, b := range []byte(said) {
			fmt.Fprintf(&list, form, b)
		}
		text := strings.Repeat("a line of words\n", 3) + list.String() + "\n"
		if plain, at := encoded.NextDump(nil, text, 0); string(plain) != said || at.Start != 48 {
			t.Errorf("%q says %q at %v", form, plain, at)
		}
	}
}
