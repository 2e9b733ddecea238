package encoded_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

func TestTheFirstOfEightBytesIsTheOneThatLookingAtEachFinds(t *testing.T) {
	t.Parallel()
	quoting := func(b byte) bool { return b < ' ' || b >= 0x80 || b == '"' || b == '\\' }
	for _, test := range []struct {
		name string
		fast func(string) int
		is   func(byte) bool
	}{
		{"quoting", encoded.FirstQuoting, quoting},
		{"escaping", encoded.FirstEscaping, func(b byte) bool { return quoting(b) || strings.IndexByte("$%&'`", b) >= 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			check := func(s string) {
				want := 0
				for want < encoded.Octet && !test.is(s[want]) {
					want++
				}
				if have := test.fast(s); have != want {
					t.Fatalf("%q: %d, want %d", s, have, want)
				}
				if end := strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 || quoting(byte(r)) }); encoded.Plain(s, 0) != end && end >= 0 {
					t.Fatalf("%q is plain up to %d, want %d", s, encoded.Plain(s, 0), end)
				}
			}
			for a := range 256 {
				for b := range 256 {
					check("aaa" + string([]byte{byte(a), byte(b)}) + "zzzz")
					check(string([]byte{byte(a), byte(b)}) + "   ~   ")
				}
			}
			for range 20_000 {
				var s [encoded.Octet]byte
				for i := range s {
					s[i] = byte(r.IntN(256))
					if r.IntN(4) > 0 {
						s[i] = byte(' ' + r.IntN(96))
					}
				}
				check(string(s[:]))
			}
		})
	}
}
