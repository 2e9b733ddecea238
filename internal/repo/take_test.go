package repo_test

import (
	"bytes"
	"compress/flate"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// packOf is a pack with one object of a type: a text, and then so many megabytes of x.
func packOf(t *testing.T, kind byte, text string, megabytes int) []byte {
	t.Helper()
	var pack bytes.Buffer
	pack.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	size := len(text) + megabytes<<20
	head := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		pack.WriteByte(head | 0x80)
		head = byte(size & 0x7f)
	}
	pack.WriteByte(head)
	pack.Write(zlibOf(t, text, megabytes))
	sum := sha1.Sum(pack.Bytes())
	return append(pack.Bytes(), sum[:]...)
}

// zlibOf is a text and so many megabytes of x as zlib has them. One megabyte is compressed, and repeated as it is:
// to compress hundreds takes minutes with the race detector.
func zlibOf(t *testing.T, text string, megabytes int) []byte {
	t.Helper()
	mega := bytes.Repeat([]byte("x"), 1<<20)
	begin, again, end := deflated(t, []byte(text), false), deflated(t, mega, false), deflated(t, nil, true)
	stream := slices.Concat([]byte{0x78, 0x9c}, begin, bytes.Repeat(again, megabytes), end)
	// its sum (RFC 1950): a adds up the bytes, and b each a
	const modulus, size, x = 65521, 1 << 20, 'x'
	a, b := uint64(1), uint64(0)
	for _, c := range []byte(text) {
		a = (a + uint64(c)) % modulus
		b = (b + a) % modulus
	}
	for range megabytes {
		b = (b + size*a + x*size*(size+1)/2) % modulus
		a = (a + x*size) % modulus
	}
	return binary.BigEndian.AppendUint32(stream, uint32(b<<16|a))
}

// deflated is data as a part of a stream that refers to no other part.
func deflated(t *testing.T, data []byte, last bool) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(data)
	finish := z.Flush
	if last {
		finish = z.Close
	}
	if err := errors.Join(err, finish()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// U-04: a small pack that stands for an object of gigabytes does not take the host's memory. A
// large file is taken, since it is never held as a whole. What is larger than was agreed, what ends
// early and what is no pack are refused.
func TestAPackOfMoreThanTheHostHoldsIsRefused(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"a": "a\n"})
	tree := u.git("rev-parse", "HEAD^{tree}")
	commit := "tree " + tree + "\nauthor a <a@b.c> 1 +0000\ncommitter a <a@b.c> 1 +0000\n\n"
	whole := packOf(t, 1, commit, 0)
	for name, c := range map[string]struct {
		pack []byte
		most int64
		says string // "" where it is taken
	}{
		"a commit":                   {whole, 1 << 20, ""},
		"a large file":               {packOf(t, 3, "", 260), 1 << 20, ""},
		"a commit beyond all memory": {packOf(t, 1, commit, 260), 1 << 20, "over limit"},
		"more than was agreed":       {whole, int64(len(whole)) - 1, "exceeds maximum allowed size"},
		"an early end":               {whole[:len(whole)-30], 1 << 20, "index-pack"},
		"another sum":                {append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), 1 << 20, "index-pack"},
		"a tree that is not there":   {packOf(t, 1, strings.Replace(commit, tree, strings.Repeat("1", 40), 1), 0), 1 << 20, "index-pack"},
		"billions of objects":        {append([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), whole[12:]...), 1 << 20, "index-pack"},
		"no pack":                    {[]byte("what an agent prints\n"), 1 << 20, "index-pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := repo.Open(t.Context(), u.dir, repo.Options{StateDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			err = repo.Take(t.Context(), p, bytes.NewReader(c.pack), c.most)
			if refused := err != nil; refused != (c.says != "") || refused && !strings.Contains(err.Error(), c.says) {
				t.Errorf("have %v, want %q", err, c.says)
			}
		})
	}
}
