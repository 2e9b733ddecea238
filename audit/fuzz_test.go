package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// FuzzRead feeds a segment of any bytes: it is refused or read, and what was
// read links from record to record.
func FuzzRead(f *testing.F) {
	root := closedChain(f)
	data, err := os.ReadFile(filepath.Join(root, "k3f9.1", "000001.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(bytes.ReplaceAll(data, []byte(`"n":1`), []byte(`"n":1e9`)))
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n"))
	f.Add([]byte(nil))
	f.Add(bytes.Repeat([]byte("["), audit.MaxLine+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := filepath.Join(t.TempDir(), "a")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "000001.jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		var last *audit.Entry
		err := audit.Read(filepath.Dir(dir), "a", func(e audit.Entry) error {
			if last != nil && (e.Seq != last.Seq+1 || e.PrevHash != last.RecordHash) {
				t.Errorf("record %d was given after %d", e.Seq, last.Seq)
			}
			last = &e
			return nil
		})
		if err == nil && last == nil && bytes.Contains(data, []byte("\n")) {
			t.Error("lines were passed over in silence")
		}
	})
}

func FuzzParseSigned(f *testing.F) {
	s := newSample(f)
	corpus.Add(f, s.get("k3f9.1/head.json"))
	corpus.Add(f, s.get("../k3f9.receipt"))
	corpus.Add(f, []byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := audit.ParseReceipt(data); err == nil && !bytes.Equal(r.Bytes(), data) {
			t.Error("a receipt was accepted that is not in canonical form")
		}
		if h, err := audit.ParseHead(data); err == nil {
			h.Seq++
			if h.Verify(testKeys(t).Public()) == nil {
				t.Error("a head was accepted that nobody signed")
			}
		}
	})
}
