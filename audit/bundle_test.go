package audit_test

import (
	"bytes"
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

func export(t testing.TB, root string, chains ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := audit.Export(t.Context(), root, chains, trust(t), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// K-20: a bundle is checked on another machine, with the public key alone.
func TestBundleIsVerifiedElsewhere(t *testing.T) {
	s := newSample(t)
	whole := export(t, s.root, "k3f9.1")
	if !bytes.Equal(whole, export(t, s.root, "k3f9.1")) {
		t.Error("equal chains gave other bytes")
	}
	cut := func(mark string) []byte { return bytes.Clone(whole[:bytes.Index(whole, []byte(mark))]) }
	for _, c := range []struct {
		name string
		data []byte
		good bool
	}{
		{"whole", whole, true},
		{"two chains", export(t, s.root, "k3f9.1", "other"), true},
		{"empty", nil, false},
		{"a byte too few", whole[:len(whole)-1], false},
		{"a byte too many", append(bytes.Clone(whole), 'x'), false},
		{"a value is changed", bytes.Replace(whole, []byte(`"n":1`), []byte(`"n":2`), 1), false},
		{"a segment is missing", append(cut("k3f9.1/000002.jsonl "), audit.BundleEnd...), false},
		{"the chain is missing", append(cut("k3f9.1/head.json "), audit.BundleEnd...), false},
		{"only the beginning", []byte(audit.BundleBegin + audit.BundleEnd), false},
		{"a name leaves the folder", []byte(audit.BundleBegin + "../head.json 0\n" + audit.BundleEnd), false},
		{"a name is hidden", []byte(audit.BundleBegin + "./head.json 0\n" + audit.BundleEnd), false},
		{"a file is too large", []byte(audit.BundleBegin + "a/head.json 9999999999\n"), false},
		{"a size has a nought before it", []byte(audit.BundleBegin + "a/head.json 00\n" + audit.BundleEnd), false},
		{"a file stands there twice", []byte(audit.BundleBegin + "a/head.json 0\na/head.json 0\n" + audit.BundleEnd), false},
		{"a line without an end", []byte(audit.BundleBegin + strings.Repeat("a", 1<<20)), false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			_, err := audit.VerifyBundle(bytes.NewReader(c.data), t.TempDir(), trust(t))
			check(t, "bundle", err, c.good)
			path := filepath.Join(t.TempDir(), "bundle")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			runPython(t, testpeer.Need(t, "python3"), exitOf(c.good), "--bundle", path, "--public-key", hex.EncodeToString(testKeys(t).Public()))
		})
	}
	if _, err := audit.VerifyBundle(bytes.NewReader(whole), t.TempDir(), audit.VerifyOptions{PublicKey: stranger(t).Public()}); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("another key: have %v", err)
	}
}

func TestOnlyProvenChainsAreExported(t *testing.T) {
	s := newPruned(t)
	var out bytes.Buffer
	living := openChain(t, options(t, s.root, "living"))
	for _, chains := range [][]string{nil, {"old"}, {"living"}, {"nobody"}, {"../x"}} {
		if err := audit.Export(t.Context(), s.root, chains, trust(t), &out); err == nil || out.Len() > 0 {
			t.Errorf("%v: have %v and %d bytes", chains, err, out.Len())
		}
	}
	if err := living.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	pruned := export(t, s.root, "long")
	if _, err := audit.VerifyBundle(bytes.NewReader(pruned), t.TempDir(), trust(t)); err != nil {
		t.Errorf("a chain whose beginning was pruned: have %v", err)
	}
}

func FuzzVerifyBundle(f *testing.F) {
	f.Add(export(f, closedChain(f), "k3f9.1"))
	f.Add([]byte(audit.BundleBegin + "a/head.json 3\nabc" + audit.BundleEnd))
	f.Add([]byte(audit.BundleBegin + "index/head.json 0\nindex/000001.jsonl 1\n\n" + audit.BundleEnd))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		_, _ = audit.VerifyBundle(bytes.NewReader(data), filepath.Join(dir, "in"), trust(t)) // refused or not, it stays inside
		if names, err := os.ReadDir(dir); err != nil || len(names) > 1 {
			t.Errorf("have %v, %v", names, err)
		}
	})
}
