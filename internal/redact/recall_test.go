package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

const perClass = 10

// survives reports whether a text still holds most of a secret.
func survives(out, secret string) bool {
	if len(secret) > 24 {
		at := len(secret) / 2
		secret = secret[at : at+10]
	}
	return strings.Contains(out, secret)
}

// D-15: at least 95 % of plain secrets, and at least 8 of 10 of every class.
func TestRecallOfPlainSecrets(t *testing.T) {
	e := redact.New()
	s := source{rand.New(rand.NewPCG(15, 1))}
	caught, total := 0, 0
	for _, c := range classes() {
		here := 0
		for i := range perClass {
			secret := c.make(s)
			text := c.inContext(i, secret)
			if out, _ := e.String(text); survives(out, secret) {
				t.Logf("%s: have %q", c.name, out)
			} else {
				here++
			}
		}
		if here < perClass-2 {
			t.Errorf("%-16s %d of %d", c.name, here, perClass)
		}
		caught, total = caught+here, total+perClass
	}
	t.Logf("%d classes: %d of %d, %.1f %%", len(classes()), caught, total, 100*float64(caught)/float64(total))
	if caught*100 < total*95 {
		t.Errorf("recall %d of %d", caught, total)
	}
}

// disguises write a text in another way.
var disguises = []struct {
	name string
	// all are disguises of a text with the name in it, others of the secret alone.
	all bool
	as  func(string) string
}{
	{"base64", true, func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) }},
	{"base64 raw", true, func(v string) string { return base64.RawStdEncoding.EncodeToString([]byte(v)) }},
	{"base64 url", true, func(v string) string { return base64.URLEncoding.EncodeToString([]byte(v)) }},
	{"base64 twice", true, func(v string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(v))))
	}},
	{"base64 in lines", true, func(v string) string {
		return wrap(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("some text, ", 6)+v)), 76)
	}},
	{"hex", true, func(v string) string { return hex.EncodeToString([]byte(v)) }},
	{"hex capitals", true, func(v string) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) }},
	{"hex with colons", true, func(v string) string { return strings.TrimSpace(each(v, "%02x:")) }},
	{"hex with spaces", true, func(v string) string { return strings.TrimSpace(each(v, "%02x ")) }},
	{"percent", false, url.QueryEscape},
	{"percent of all", true, func(v string) string { return each(v, "%%%02X") }},
	{"percent twice", true, func(v string) string { return url.QueryEscape(each(v, "%%%02x")) }},
	{"unicode escapes", false, func(v string) string { return each(v, `\u%04x`) }},
	{"byte escapes", false, func(v string) string { return each(v, `\x%02x`) }},
	{"octal escapes", false, func(v string) string { return each(v, `\%03o`) }},
	{"entities", false, func(v string) string { return each(v, "&#%d;") }},
	{"hex entities", false, func(v string) string { return each(v, "&#x%x;") }},
	{"quoted-printable", true, quoted},
	{"quoted-printable of all", true, func(v string) string { return each(v, "=%02X") }},
	{"zero width", false, func(v string) string { return strings.Join(strings.Split(v, ""), "\u200b") }},
	{"soft hyphen", false, func(v string) string { return v[:len(v)/2] + "\u00ad" + v[len(v)/2:] }},
	{"full width", false, wide},
	{"mathematical", false, mathematical},
	{"concatenated", false, func(v string) string { return `"` + v[:len(v)/2] + `" + "` + v[len(v)/2:] + `"` }},
	{"concatenated early", false, func(v string) string { return `'` + v[:3] + `' . '` + v[3:] + `'` }},
	{"over lines of code", false, func(v string) string { return `"` + v[:len(v)/3] + "\" +\n    \"" + v[len(v)/3:] + `"` }},
	{"over lines of Python", false, func(v string) string { return "(\"" + v[:len(v)/3] + "\"\n  \"" + v[len(v)/3:] + `")` }},
	{"over lines of a shell", false, func(v string) string { return v[:len(v)/2] + "\\\n" + v[len(v)/2:] }},
	{"over lines", false, func(v string) string { return v[:len(v)/2] + "\n" + v[len(v)/2:] }},
	{"coloured", false, func(v string) string { return v[:4] + "\x1b[31m" + v[4:] + "\x1b[0m" }},
	{"reversed case of JSON in JSON", true, func(v string) string { return fmt.Sprintf("%q", fmt.Sprintf("%q", v)) }},
}

func each(v, format string) string {
	var b strings.Builder
	for i := range len(v) {
		fmt.Fprintf(&b, format, v[i])
	}
	return b.String()
}

func wrap(v string, n int) string {
	var lines []string
	for ; len(v) > n; v = v[n:] {
		lines = append(lines, v[:n])
	}
	return strings.Join(append(lines, v), "\n")
}

func quoted(v string) string {
	var b strings.Builder
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.Repeat("x", 60) + " " + v))
	_ = w.Close()
	return b.String()
}

func wide(v string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r - '!' + 0xFF01
		}
		return r
	}, v)
}

func mathematical(v string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 0x1D41A
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 0x1D400
		case r >= '0' && r <= '9':
			return r - '0' + 0x1D7CE
		}
		return r
	}, v)
}

// D-15: at least 60 % of encoded secrets; 80 % here, and half of each disguise.
func TestRecallOfEncodedSecrets(t *testing.T) {
	e := redact.New()
	s := source{rand.New(rand.NewPCG(15, 2))}
	caught, total := 0, 0
	for _, d := range disguises {
		here, tried := 0, 0
		var missed []string
		for _, c := range classes() {
			secret := c.make(s)
			text, hidden := disguised(c, d.all, d.as, secret)
			tried++
			if out, _ := e.String(text); strings.Contains(out, hidden) {
				missed = append(missed, c.name)
			} else {
				here++
			}
		}
		t.Logf("%-24s %d of %d, without %v", d.name, here, tried, missed)
		if here*2 < tried && d.name != "over lines" { // a value without a form ends with its line
			t.Errorf("%s: %d of %d", d.name, here, tried)
		}
		caught, total = caught+here, total+tried
	}
	t.Logf("%d of %d, %.1f %%", caught, total, 100*float64(caught)/float64(total))
	if caught*10 < total*8 {
		t.Errorf("recall %d of %d", caught, total)
	}
}

// disguised is a text with a secret in disguise, and the part of it that must go.
func disguised(c class, all bool, as func(string) string, secret string) (text, hidden string) {
	if !all {
		return c.inContext(2, as(secret)), last(as(secret))
	}
	plain := secret
	if c.whole != "" {
		plain = fmt.Sprintf(c.whole, secret)
	} else if c.key != "" {
		plain = c.key + "=" + secret
	}
	text = "payload: " + as(plain) + "\nend\n"
	if hidden = last(as(secret)); !strings.Contains(text, hidden) {
		hidden = last(as(plain))
	}
	return text, hidden
}

// last is a stretch near the end of a disguised text.
func last(v string) string {
	v = strings.TrimRight(v, "\"')\n =:")
	from := len(v) - min(len(v)/3, 12)
	return v[from:]
}
