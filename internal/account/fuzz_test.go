package account_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/account"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// M-68: nothing that nobody signed is a receipt, whatever its form.
func FuzzCheck(f *testing.F) {
	corpus.Add(f, []byte("{}\n"))
	corpus.Add(f, []byte(`{"chains":[{"head":{"chain":"../x","genesis":"","public_key":"","record_hash":"","seq":0,"state":"closed","time":"","v":1},"records":["\n"]}],"links":{},"receipt":{},"v":1}`+"\n"))
	corpus.Add(f, []byte(`{"chains":[{}],"links":{"calls":null},"receipt":{"facts":{"chains":""}},"v":1}`+"\n"))
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := account.Check(data, key); !errors.Is(err, audit.ErrTampered) {
			t.Errorf("have %v", err)
		}
	})
}
