package token_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/token"
)

func encode(t testing.TB, tok nacre.Token) string {
	t.Helper()
	text, err := token.Encode(tok)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// samples are tokens of every shape.
func samples(t testing.TB) []nacre.Token {
	r := ring(t, "a")
	empty := plain()
	empty.Constraints = nacre.Constraints{
		AllowedFields: []string{}, Scope: map[string]string{},
		Arguments: nacre.ArgumentLimits{
			AllowedKeys: []string{}, Pinned: map[string]json.RawMessage{}, Prefix: map[string]string{},
		},
	}
	handed := attenuate(t, mint(t, r, full()), nacre.Caveat{
		ID: "c1", Principal: alice.ID + "/b", Roles: []string{}, Expires: now.Add(time.Second), Uses: ptr(1),
		Constraints: nacre.Constraints{MaxRows: ptr(0)},
	})
	return []nacre.Token{mint(t, r, plain()), mint(t, r, full()), mint(t, r, empty), handed, attenuate(t, handed, nacre.Caveat{ID: "c2"})}
}

func TestATokenSurvivesItsText(t *testing.T) {
	for _, tok := range samples(t) {
		text := encode(t, tok)
		back, err := token.Decode(text)
		if err != nil || !reflect.DeepEqual(back, tok) {
			t.Errorf("%s: have %+v, %v, want %+v", text, back, err, tok)
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("%s is not fit for a URL", text)
		}
	}
}

// K-10: no bit of the text can be another one.
func TestEveryBitOfTheTextCounts(t *testing.T) {
	r := ring(t, "a")
	for i, tok := range samples(t) {
		p := present()
		if i > 2 {
			p.Caller = alice.ID + "/b"
		}
		text := []byte(encode(t, tok))
		for at := range text {
			for bit := range 8 {
				text[at] ^= 1 << bit
				if back, err := token.Decode(string(text)); err == nil {
					if _, err := r.Verify(back, p); err == nil {
						t.Errorf("sample %d: byte %d, bit %d: verified", i, at, bit)
					}
				}
				text[at] ^= 1 << bit
			}
		}
	}
}

func TestThereIsOneSpellingOfAToken(t *testing.T) {
	text := encode(t, samples(t)[1])
	for name, other := range map[string]string{
		"nothing":             "",
		"another version":     strings.Replace(text, "nct2.", "nct1.", 1),
		"no version":          strings.TrimPrefix(text, "nct2."),
		"upper case":          strings.ToUpper(text),
		"white space before":  " " + text,
		"white space after":   text + " ",
		"a line break after":  text + "\n",
		"a line break inside": text[:20] + "\r\n" + text[20:],
		"padding":             text + "=",
		"a byte more":         text + "AAAA",
		"a byte less":         text[:len(text)-4],
		"the other alphabet":  text[:20] + "+/" + text[22:],
		"twice":               text + text,
		"too long":            text + strings.Repeat("A", token.MaxText),
	} {
		if _, err := token.Decode(other); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%s: have %v, want %v", name, err, token.ErrMalformed)
		}
	}
	for cut := range len(text) {
		if _, err := token.Decode(text[:cut]); err == nil {
			t.Errorf("cut at %d: decoded", cut)
		}
	}
	if _, err := token.Encode(nacre.Token{}); !errors.Is(err, token.ErrMalformed) {
		t.Errorf("the zero token: have %v, want %v", err, token.ErrMalformed)
	}
}

func FuzzDecode(f *testing.F) {
	for _, tok := range samples(f) {
		corpus.Add(f, encode(f, tok))
	}
	corpus.Add(f, "nct2.")
	r := ring(f, "z")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := token.Decode(text)
		if err != nil {
			return
		}
		if back, err := token.Encode(tok); err != nil || back != text {
			t.Errorf("%q became %q, %v", text, back, err)
		}
		p := present()
		p.Caller, p.Capability = tok.Principal, tok.Capability
		if _, err := r.Verify(tok, p); err == nil {
			t.Errorf("%q verified", text)
		}
	})
}
