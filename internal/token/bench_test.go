package token_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// signedBytes is what the plain token here has under its MAC.
const signedBytes = 107

func floor(b *testing.B) {
	h, message := hmac.New(sha256.New, make([]byte, 32)), make([]byte, signedBytes)
	var sum [sha256.Size]byte
	b.ReportAllocs()
	for b.Loop() {
		h.Reset()
		h.Write(message)
		h.Sum(sum[:0])
	}
}

func BenchmarkMint(b *testing.B) {
	b.Run("floor", floor)
	b.Run("ours", func(b *testing.B) {
		r, claims := ring(b, "a"), plain()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Mint(claims); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkVerifyToken(b *testing.B) {
	r := ring(b, "a")
	root := mint(b, r, plain())
	child := attenuate(b, root, nacre.Caveat{ID: "c1", Roles: []string{"reader"}, Uses: ptr(1)})
	run := func(tok nacre.Token) func(b *testing.B) {
		return func(b *testing.B) {
			p := present()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Verify(tok, p); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("floor", floor)
	b.Run("ours", run(root))
	b.Run("ours, handed down once", run(child))
	b.Run("ours, with everything", run(mint(b, r, full())))
}

func BenchmarkAttenuate(b *testing.B) {
	root := mint(b, ring(b, "a"), plain())
	b.Run("floor", floor)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := token.Attenuate(root, nacre.Caveat{ID: "c1", Uses: ptr(1)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSubjectOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = token.SubjectOf(alice)
	}
}

func BenchmarkLedger(b *testing.B) {
	r, l := ring(b, "a"), new(token.Ledger)
	tok := bounded(b, r, "t-1", ptr(1<<30))
	open(b, l, tok)
	e := verify(b, r, tok)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Spend(e, now); err != nil {
			b.Fatal(err)
		}
	}
}
