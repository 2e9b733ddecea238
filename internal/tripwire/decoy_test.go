package tripwire_test

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/tripwire"
)

func decoys(t testing.TB, seed byte) *tripwire.Decoys {
	t.Helper()
	random := make([]byte, tripwire.DecoyRandom)
	source := rand.NewChaCha8([32]byte{seed})
	_, _ = source.Read(random)
	d, err := tripwire.NewDecoys(random)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// values are what somebody who looks for credentials would take.
func values(t testing.TB, d *tripwire.Decoys) []string {
	t.Helper()
	text := strings.Join(d.Env, "\n")
	for _, f := range d.Files {
		text += "\n" + string(f.Data)
	}
	found := regexp.MustCompile(`AKIA[A-Z2-7]{16}|ghp_\w{36}|dpl_\w{32}|[A-Za-z0-9]{40}`).FindAllString(text, -1)
	if len(found) != 4 {
		t.Fatalf("have %q in %s", found, text)
	}
	return found
}

// M-58: a decoy is found in whatever form it leaves, wherever it stands.
func TestADecoyIsFoundInEveryForm(t *testing.T) {
	d := decoys(t, 1)
	for _, v := range values(t, d) {
		forms := map[string]string{
			"as it is": v, "in lower case": strings.ToLower(v), "in upper case": strings.ToUpper(v), "as hexadecimal": hex.EncodeToString([]byte(v)),
			"in a host": strings.ToLower(v) + ".evil.example", "in a header": "Authorization: Bearer " + v + "\r\n",
			"in basic authentication": base64.StdEncoding.EncodeToString([]byte("deploy:" + v)),
			"rotated":                 strings.Map(rot13, v),
			"in JSON":                 fmt.Sprintf(`{"a":"%s"}`, v),
			"backwards":               reversed(v), "in UTF-16": interleaved(v, "\x00"), "with a space after each": interleaved(v, " "),
			"in the labels of a host":        strings.ToLower(v[:9]) + "." + strings.ToLower(v[9:]) + ".evil.example",
			"in labels, as hexadecimal":      lines(hex.EncodeToString([]byte(v)), 30, ".") + ".evil.example",
			"as hexadecimal in short lines":  lines(hex.EncodeToString([]byte("[default]\nkey = "+v)), 60, "\n"),
			"as a dump":                      strings.TrimSpace(fmt.Sprintf("% x", v)),
			"as a dump in lines":             lines(fmt.Sprintf("% x", v), 48, "\n "),
			"in base64 in JSON's short text": lines(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("text, ", 9)+v)), 76, `\n`),
			"in base64 in a form":            lines(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("text, ", 9)+v)), 76, "%0D%0A"),
		}
		for i := range 8 {
			text := base32.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + v + strings.Repeat("y", i)))
			forms[fmt.Sprintf("in base32 after %d", i)] = text
			forms[fmt.Sprintf("in base32 of labels after %d", i)] = strings.ToLower(lines(strings.TrimRight(text, "="), 20, ".")) + ".evil.example"
			forms[fmt.Sprintf("in base32 of digits after %d", i)] = base32.HexEncoding.EncodeToString([]byte(strings.Repeat("x", i) + v))
			forms[fmt.Sprintf("in base64 in lines after %d", i)] = lines(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 30+i)+v+"y")), 76, "\r\n")
		}
		for i := range 6 {
			text := strings.Repeat("x", i) + v + strings.Repeat("y", i)
			forms[fmt.Sprintf("in base64 after %d", i)] = base64.StdEncoding.EncodeToString([]byte(text))
			forms[fmt.Sprintf("in base64 of URLs after %d", i)] = base64.RawURLEncoding.EncodeToString([]byte(text))
		}
		for i := range 9 {
			once := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i/3) + v + "yy"))
			padded := strings.Repeat("z", i%3)
			forms[fmt.Sprintf("in base64 twice after %d", i)] = base64.StdEncoding.EncodeToString([]byte(padded + once))
			forms[fmt.Sprintf("in hexadecimal of base64 after %d", i)] = hex.EncodeToString([]byte(once))
			forms[fmt.Sprintf("in base64 of hexadecimal after %d", i)] = base64.StdEncoding.EncodeToString([]byte(padded + hex.EncodeToString([]byte(v))))
		}
		var codes, octal strings.Builder
		for _, c := range []byte(v) {
			fmt.Fprintf(&codes, "%d, ", c)
			fmt.Fprintf(&octal, " %03o", c)
		}
		forms["as codes"], forms["as octal codes"] = "["+codes.String()+"]", octal.String()
		var percent, unicode strings.Builder
		for _, c := range v {
			fmt.Fprintf(&percent, "%%%02x", c)
			fmt.Fprintf(&unicode, `\u%04X`, c)
		}
		forms["as percent signs"], forms["as JSON's escapes"] = percent.String(), unicode.String()
		forms["as one escape"] = fmt.Sprintf("%%%02X%s", v[0], v[1:])
		for name, form := range forms {
			for offset := range 9 {
				text := strings.Repeat("-", offset) + form + strings.Repeat("-", offset)
				if _, ok := d.Find([]byte(text)); !ok {
					t.Errorf("%s, at %d: not found", name, offset)
				}
			}
		}
	}
}

func reversed(v string) string {
	b := []byte(v)
	slices.Reverse(b)
	return string(b)
}

func interleaved(v, between string) string { return strings.Join(strings.Split(v, ""), between) }

// lines breaks a text after each n characters.
func lines(v string, n int, end string) string {
	var b strings.Builder
	for ; len(v) > n; v = v[n:] {
		b.WriteString(v[:n] + end)
	}
	return b.String() + v
}

func rot13(c rune) rune {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a' + (c-'a'+13)%26
	case c >= 'A' && c <= 'Z':
		return 'A' + (c-'A'+13)%26
	}
	return c
}

// M-58: also where a stream is cut in the middle of it.
func TestADecoyIsFoundAcrossPieces(t *testing.T) {
	d := decoys(t, 2)
	v := values(t, d)[0]
	whole := []byte(strings.Repeat("0123456789", 300) + base64.StdEncoding.EncodeToString([]byte(v)) + strings.Repeat("9876543210", 300))
	for _, size := range []int{1, 2, 7, 64, 700, 769, 1000, 3001, 3010, 1 << 20} {
		s, found := d.Stream(), false
		for rest := whole; len(rest) > 0; {
			n := min(size, len(rest))
			_, ok := s.Next(rest[:n])
			found, rest = found || ok, rest[n:]
		}
		if !found {
			t.Errorf("not found in pieces of %d", size)
		}
	}
}

// Nothing else is one: not another session's decoy, a part of it, nor chance.
func TestNothingElseIsADecoy(t *testing.T) {
	d, other := decoys(t, 3), decoys(t, 4)
	for _, v := range values(t, other) {
		if _, ok := d.Find([]byte(v)); ok {
			t.Errorf("another session's %s", v)
		}
	}
	for _, v := range values(t, d) {
		if _, ok := d.Find([]byte(v[:len(v)-4])); ok {
			t.Errorf("a part of %s", v)
		}
	}
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(noise)
	if found, ok := d.Find(noise); ok {
		t.Errorf("found %v in noise", found)
	}
	if _, err := tripwire.NewDecoys(make([]byte, 10)); err == nil {
		t.Error("decoys of 10 random bytes")
	}
}

// A use contains; a variable that `env` prints is no use where the model reads it.
func TestADecoyThatIsUsedContains(t *testing.T) {
	d := decoys(t, 5)
	for _, v := range values(t, d) {
		for _, where := range []tripwire.Place{tripwire.InEgress, tripwire.InCall, tripwire.InModel, tripwire.InMerge} {
			found, _ := d.Find([]byte(v))
			want := "canary:contain"
			if strings.HasPrefix(v, "dpl_") && where == tripwire.InModel {
				want = "canary:notify"
			}
			alarms := tripwire.New(tripwire.Default()).Seen(found, where)
			if have := wires(alarms); have != want {
				t.Errorf("%s in %s: have %q, want %q", found.Name, where, have, want)
			}
			if strings.Contains(alarms[0].What, v) {
				t.Errorf("an alarm tells the value: %s", alarms[0].What)
			}
		}
	}
}

func FuzzFind(f *testing.F) {
	d := decoys(f, 6)
	v := values(f, d)[1]
	f.Add([]byte("%41%"), 3)
	f.Add([]byte(`\u00`), 1)
	f.Add([]byte(v), 5)
	f.Fuzz(func(t *testing.T, noise []byte, at int) {
		at = min(max(at, 0), len(noise))
		text := append(append(append([]byte{}, noise[:at]...), v...), noise[at:]...)
		if _, ok := d.Find(text); !ok {
			t.Errorf("not found at %d in %q", at, text)
		}
		s := d.Stream()
		_, first := s.Next(text[:len(text)/2])
		if _, second := s.Next(text[len(text)/2:]); !first && !second {
			t.Errorf("not found in two pieces of %q", text)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	d := decoys(b, 7)
	noise := make([]byte, 32<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(len(noise)))
		for b.Loop() {
			bytes.IndexByte(noise, 'x')
			_ = bytes.Contains(noise, []byte("no such text in here"))
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(noise)))
		for b.Loop() {
			d.Find(noise)
		}
	})
}
