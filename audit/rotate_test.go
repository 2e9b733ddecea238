package audit_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// rotated is an installation with a chain and a receipt under each of its keys.
type rotated struct {
	sample
	keysDir  string
	keys     []audit.Keys // the oldest first
	receipts []string
}

func newRotated(t testing.TB, rotations int) *rotated {
	t.Helper()
	dir := t.TempDir()
	r := &rotated{sample: sample{t: t, root: filepath.Join(dir, "audit")}, keysDir: filepath.Join(dir, "keys")}
	keys, err := audit.LoadKeys(r.keysDir)
	for n := 0; ; n++ {
		if err != nil {
			t.Fatal(err)
		}
		r.keys = append(r.keys, keys)
		r.write(string(rune('a'+n)), keys)
		if n == rotations {
			return r
		}
		keys, err = audit.RotateKeys(t.Context(), r.root, r.keysDir, testClock())
	}
}

// write makes a closed chain and its receipt with the keys.
func (r *rotated) write(chain string, keys audit.Keys) {
	r.t.Helper()
	o := options(r.t, r.root, chain)
	o.Keys = keys
	c := openChain(r.t, o)
	writeCalls(r.t, c, 4)
	head, err := c.Head(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	closeChain(r.t, c)
	index, err := audit.ReadHead(r.root, audit.IndexChain, keys.Public())
	if err != nil {
		r.t.Fatal(err)
	}
	receipt, err := audit.SignReceipt(testReceipt(head, index), keys)
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(r.root), chain+".receipt")
	if err := audit.WriteReceipt(path, receipt); err != nil {
		r.t.Fatal(err)
	}
	r.receipts = append(r.receipts, path)
}

// agree has both verifiers check all chains and one receipt, trusting one key.
func (r *rotated) agree(t *testing.T, trusted audit.Keys, receipt string, chains, good bool) {
	t.Helper()
	python := testpeer.Need(t, "python3")
	key := hex.EncodeToString(trusted.Public())
	_, err := audit.VerifyAll(r.root, audit.VerifyOptions{PublicKey: trusted.Public(), MACKey: r.keys[len(r.keys)-1].MAC()})
	check(t, "chains", err, chains)
	runPython(t, python, exitOf(chains), "--root", r.root, "--public-key", key, "--mac-key", filepath.Join(r.keysDir, "audit.mac"))
	have, err := audit.ReadReceipt(receipt)
	if err == nil {
		_, err = audit.VerifyReceipt(have, r.root, trusted.Public())
	}
	check(t, "receipt", err, good)
	runPython(t, python, exitOf(good), "--root", r.root, "--public-key", key, "--receipt", receipt)
}

// K-20: old keys stay trusted for what they signed, and whoever trusts any key
// of the succession verifies everything.
func TestRotatedKeysVerifyFromAnyOfThem(t *testing.T) {
	r := newRotated(t, 2)
	for i, keys := range r.keys {
		r.agree(t, keys, r.receipts[(i+1)%3], true, true)
	}
	public, err := audit.ReadPublicKey(filepath.Join(r.keysDir, audit.PublicKeyFile))
	if err != nil || !public.Equal(r.keys[2].Public()) {
		t.Errorf("have %x, %v", public, err)
	}
	r.agree(t, stranger(t), r.receipts[0], false, false)
}

func stranger(t testing.TB) audit.Keys {
	t.Helper()
	keys, err := audit.NewKeys([]byte(strings.Repeat("x", 32)), []byte(strings.Repeat("y", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestReceiptOfAnIntroducedKeyIsRefused(t *testing.T) {
	r := newRotated(t, 1)
	path := filepath.Join(filepath.Dir(r.root), "forged.receipt")
	for name, c := range map[string]struct {
		signer audit.Keys
		of     int
		good   bool
	}{
		"an attacker's key":                {stranger(t), 1, false},
		"a retired key, for a newer chain": {r.keys[0], 1, false},
		"a newer key, for an older chain":  {r.keys[1], 0, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			receipt, err := audit.ReadReceipt(r.receipts[c.of])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, receipt.SignedWith(c.signer), 0o600); err != nil {
				t.Fatal(err)
			}
			r.agree(t, r.keys[0], path, true, c.good)
		})
	}
}

func TestRotationIsPartOfTheEvidence(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*rotated)
	}{
		{"the introduced key is changed", func(r *rotated) { r.edit("index/000001.jsonl", `"next":"`, `"next":"0`) }},
		{"the statement is dropped", func(r *rotated) {
			r.lines("index/000001.jsonl", func(l [][]byte) [][]byte { return append(l[:3:3], l[4:]...) })
		}},
		{"the index ends before it", func(r *rotated) {
			r.lines("index/000001.jsonl", func(l [][]byte) [][]byte { return l[:3] })
		}},
		{"a retired key signs a head of a newer chain", func(r *rotated) { r.resign("b", r.keys[0]) }},
		{"a retired key signs the index", func(r *rotated) { r.resign("index", r.keys[0]) }},
		{"an attacker's key signs the index", func(r *rotated) { r.resign("index", stranger(r.t)) }},
		{"an attacker's key signs a chain", func(r *rotated) { r.resign("a", stranger(r.t)) }},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := newRotated(t, 1)
			c.do(r)
			for _, keys := range r.keys {
				r.agree(t, keys, r.receipts[1], false, c.name == "an attacker's key signs a chain")
			}
		})
	}
}

// resign signs a chain's head anew.
func (r *rotated) resign(chain string, keys audit.Keys) {
	r.t.Helper()
	h, err := audit.ParseHead(r.get(filepath.Join(chain, "head.json")))
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(filepath.Join(chain, "head.json"), h.SignedWith(keys))
}

// A chain that was left under the old keys is sealed under the new ones.
func TestAbandonedChainIsSealedAfterARotation(t *testing.T) {
	root, keysDir := filepath.Join(t.TempDir(), "audit"), filepath.Join(t.TempDir(), "keys")
	abandon(t, root)
	if err := os.MkdirAll(keysDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, letter := range map[string]string{"audit.mac": "m", "audit.key": "s"} {
		if err := os.WriteFile(filepath.Join(keysDir, name), []byte(hex.EncodeToString([]byte(strings.Repeat(letter, 32)))+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := audit.LoadKeys(keysDir); err != nil {
		t.Fatal(err)
	}
	keys, err := audit.RotateKeys(t.Context(), root, keysDir, testClock())
	if err != nil {
		t.Fatal(err)
	}
	if names, err := audit.Abandoned(root, keys.Public()); err != nil || len(names) != 1 {
		t.Fatalf("have %v, %v", names, err)
	}
	o := options(t, root, "a")
	if err := audit.Seal(t.Context(), o); err == nil || !strings.Contains(err.Error(), "rotated") {
		t.Errorf("with the old keys: have %v", err)
	}
	o.Keys = keys
	if err := audit.Seal(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r := rotated{sample: sample{t: t, root: root}, keysDir: keysDir, keys: []audit.Keys{keys}}
	r.write("after", keys)
	r.agree(t, testKeys(t), r.receipts[0], true, true)
	r.agree(t, keys, r.receipts[0], true, true)
}

func TestRotationWaitsForWriters(t *testing.T) {
	r := newRotated(t, 0)
	o := options(t, r.root, "living")
	o.Keys = r.keys[0]
	c := openChain(t, o)
	if _, err := audit.RotateKeys(t.Context(), r.root, r.keysDir, testClock()); !errors.Is(err, audit.ErrLocked) {
		t.Errorf("have %v", err)
	}
	if _, err := audit.LoadKeys(r.keysDir); err == nil || !strings.Contains(err.Error(), "rotate-key") {
		t.Errorf("loading keys that are being rotated: have %v", err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	keys, err := audit.RotateKeys(t.Context(), r.root, r.keysDir, testClock())
	if err != nil {
		t.Fatal(err)
	}
	r.keys = append(r.keys, keys)
	r.agree(t, r.keys[0], r.receipts[0], true, true)
	o.Chain = "late"
	if _, err := audit.Open(t.Context(), o); err == nil {
		t.Error("a process with the old keys went on")
	}
}

// A rotation that ended between any two of its files goes on with the same keys.
func TestInterruptedRotationGoesOn(t *testing.T) {
	full := newRotated(t, 0)
	before := filepath.Join(t.TempDir(), "keys")
	if err := os.CopyFS(before, os.DirFS(full.keysDir)); err != nil {
		t.Fatal(err)
	}
	keys, err := audit.RotateKeys(t.Context(), full.root, full.keysDir, testClock())
	if err != nil {
		t.Fatal(err)
	}
	full.keys = append(full.keys, keys)
	key, _ := os.ReadFile(filepath.Join(full.keysDir, "audit.key"))
	next := string(key) + strings.SplitAfter(hexLinesOf(keys.MAC()), "\n")[0]
	order := []string{"audit.mac", "audit.pub", "audit.key"}
	for swapped := range len(order) + 1 {
		dir := filepath.Join(t.TempDir(), "keys")
		if err := errors.Join(os.CopyFS(dir, os.DirFS(before)), os.Chmod(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		for _, name := range order[:swapped] {
			data, _ := os.ReadFile(filepath.Join(full.keysDir, name))
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"audit.mac", "audit.key"} {
			if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "audit.next"), []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
		have, err := audit.RotateKeys(t.Context(), full.root, dir, testClock())
		if err != nil || !have.Public().Equal(keys.Public()) || string(have.MAC()) != string(keys.MAC()) {
			t.Errorf("after %d files: have %x, %v", swapped, have.Public(), err)
		}
	}
	full.agree(t, full.keys[0], full.receipts[0], true, true)
}

func hexLinesOf(keys []byte) string {
	text := ""
	for ; len(keys) > 0; keys = keys[32:] {
		text += hex.EncodeToString(keys[:32]) + "\n"
	}
	return text
}
