package recall_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/nacre-dev/nacre/internal/recall"
)

// manyWays are texts that use what Put knows.
func manyWays() *recall.Index {
	x := recall.New()
	for i := range 300 {
		for _, text := range []string{
			fmt.Sprintf("the build of project %d fails when the parser of module%d opens socket %d", i, i%7, i*791), "Überraschung für Zoë?", "call parseHTTPRequest first, user_agent v1.24.3",
			"we sold mice, and the women went to 東京 🎉", "don't: C++ and c# are os.ReadFile's", "",
		} {
			x.Put(recall.Doc{Text: text, Tags: []string{"a tag", fmt.Sprint(i % 5)}, Thread: fmt.Sprint("s", i%3)})
		}
	}
	return x
}

// P-09: an index that was kept ranks as the one that was built, and goes on like it.
func TestAnIndexThatWasKept(t *testing.T) {
	built := manyWays()
	data, err := recall.Append([]byte("head"), built)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := recall.Restore(recall.ReadKept(data[4:]))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, query := range []string{"project 17", "uberraschung", "parse http", "mouse", "sockt 791", "c#", "who fails", "tag 3", "京"} {
			have, want := kept.Rank(recall.Query{Text: query, Limit: 50}), built.Rank(recall.Query{Text: query, Limit: 50})
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Errorf("%q: have %v, want %v", query, have, want)
			}
		}
		for _, x := range []*recall.Index{built, kept} { // both go on
			x.Drop(4)
			x.Put(recall.Doc{Text: "project 17 has mice", Thread: "s1"})
			x.Link(1, 8, 0.5)
		}
	}
	if _, err := recall.Append(nil, built); err == nil {
		t.Error("what was dropped is kept")
	}
}

// P-09: an index is kept under the version of what Put makes of a text. Where this fails,
// texts become other words than before: Version counts up, and the sum follows.
func TestTheVersionOfWords(t *testing.T) {
	data, err := recall.Append(nil, manyWays())
	sum := sha256.Sum256(data)
	if have := fmt.Sprintf("%d %s", recall.Version, hex.EncodeToString(sum[:8])); err != nil || have != "1 3cf18c38d6db9a4a" {
		t.Errorf("have %s, %v", have, err)
	}
}

// P-09: bytes that are no index are refused, wherever they end and whatever they say.
func FuzzRestore(f *testing.F) {
	x := recall.New()
	for _, text := range []string{"the build fails", "a build", "?"} {
		x.Put(recall.Doc{Text: text, Thread: "s"})
	}
	data, err := recall.Append(nil, x)
	if err != nil {
		f.Fatal(err)
	}
	for i := range data {
		f.Add(data[:i])
		changed := append([]byte{}, data...)
		changed[i] ^= 0xff
		f.Add(changed)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		kept, err := recall.Restore(recall.ReadKept(data))
		if err != nil {
			if !errors.Is(err, recall.ErrKept) {
				t.Error(err)
			}
			return
		}
		kept.Rank(recall.Query{Text: "build fails a", Limit: 5})
		kept.Put(recall.Doc{Text: "the build", Thread: "s"})
	})
}
