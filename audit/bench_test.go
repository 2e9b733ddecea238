package audit_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// benchDir is where the benchmarks write: a real disk says more than a tmpfs.
func benchDir(b *testing.B) string {
	b.Helper()
	return b.TempDir()
}

// BenchmarkAppend commits records from 1, 16 and 64 writers. The floor writes
// the same bytes in groups of as many, each with one write and one fsync.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("floor/%d", writers), func(b *testing.B) { benchFloor(b, writers) })
		b.Run(fmt.Sprintf("ours/%d", writers), func(b *testing.B) { benchCommit(b, writers) })
	}
}

// lineBytes is about the length of a call's begin record in a chain.
const lineBytes = 600

func benchFloor(b *testing.B, writers int) {
	f, err := os.Create(filepath.Join(benchDir(b), "floor"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	line := append(bytes.Repeat([]byte("x"), lineBytes-1), '\n')
	for n := 0; b.Loop(); n++ {
		if n%writers != 0 {
			continue
		}
		if _, err := f.Write(bytes.Repeat(line, writers)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	rate(b)
}

func benchCommit(b *testing.B, writers int) {
	o := options(b, filepath.Join(benchDir(b), "audit"), "a")
	o.SegmentBytes, o.QuotaBytes = 0, 1<<40
	c := openChain(b, o)
	work := make(chan nacre.Record)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for r := range work {
				if err := c.Commit(context.Background(), r); err != nil {
					b.Error(err)
				}
			}
		})
	}
	r := call(nacre.KindCallBegin, "0123456789abcdef")
	for b.Loop() {
		work <- r
	}
	close(work)
	wg.Wait()
	rate(b)
	closeChain(b, c)
}

func rate(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkVerify reads back and checks a chain of 1000 records.
func BenchmarkVerify(b *testing.B) {
	o := options(b, filepath.Join(benchDir(b), "audit"), "a")
	o.SegmentBytes = 0
	c := openChain(b, o)
	for range 1000 {
		if err := c.Append(context.Background(), call(nacre.KindCallBegin, "0123456789abcdef")); err != nil {
			b.Fatal(err)
		}
	}
	closeChain(b, c)
	for b.Loop() {
		if _, err := audit.Verify(o.Root, "a", audit.VerifyOptions{PublicKey: testKeys(b).Public()}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a chain: two entries in the index.
func BenchmarkOpen(b *testing.B) {
	root := filepath.Join(benchDir(b), "audit")
	for n := 0; b.Loop(); n++ {
		closeChain(b, openChain(b, options(b, root, fmt.Sprint("s", n))))
	}
}

// BenchmarkEncode is what a record costs before the disk: its canonical form,
// its hash and its MAC. The floor hashes and authenticates as many bytes.
func BenchmarkEncode(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		line, mac := bytes.Repeat([]byte("x"), lineBytes), hmac.New(sha256.New, make([]byte, 32))
		b.ReportAllocs()
		for b.Loop() {
			sum := sha256.Sum256(line)
			mac.Reset()
			mac.Write(sum[:])
			mac.Sum(sum[:0])
		}
	})
	b.Run("ours", func(b *testing.B) {
		seal, r := audit.Sealing(testKeys(b)), benchRecord()
		b.ReportAllocs()
		for b.Loop() {
			if err := seal(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchRecord is about what a call's begin record holds.
func benchRecord() nacre.Record {
	r := call(nacre.KindCallBegin, "0123456789abcdef")
	r.Time = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Detail = json.RawMessage(`{"args":{"path":{"bytes":12,"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}},"capability":"reminders.create","decision":"allow","id":"0123456789abcdef","policy":"shipped","rule":3}`)
	return r
}
