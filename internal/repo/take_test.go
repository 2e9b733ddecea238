package repo_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"io"
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
	z := zlib.NewWriter(&pack)
	_, err := io.WriteString(z, text)
	mega := bytes.Repeat([]byte("x"), 1<<20)
	for range megabytes {
		_, failed := z.Write(mega)
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(pack.Bytes())
	return append(pack.Bytes(), sum[:]...)
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
