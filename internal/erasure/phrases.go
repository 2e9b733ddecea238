package erasure

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// How texts are looked for in files. What is compared is what stands in a text
// between characters that formats escape.
const (
	// longestWord is how much of a text is compared, in bytes, and shortestWord the
	// least that tells it from others.
	longestWord  = 64
	shortestWord = 4
	// longWord is how long a part of a text is that tells enough beside its longest.
	longWord = 16
	// sameBegin is how many texts that begin alike are told apart; of more, the
	// beginning counts.
	sameBegin  = 8
	readAtOnce = 256 << 10
	hashBase   = 0x100000001b3
)

// phrases finds texts in files of any format, in any case, in time linear in the
// file and whatever is looked for. Its zero value finds nothing.
type phrases struct {
	windows []window
	buffer  []byte // of one file after the other
}

// window are the texts that are compared by their first so many bytes.
type window struct {
	size   int
	out    uint64 // what the byte that leaves the window counts
	filter [1 << 16]bool
	rests  map[string][]string // by the first bytes: what follows them
}

func newPhrases(texts []string) *phrases {
	w := &phrases{buffer: make([]byte, readAtOnce)}
	for size := longestWord; size >= shortestWord; size /= 2 {
		one := window{size: size, out: 1, rests: map[string][]string{}}
		for range size - 1 {
			one.out *= hashBase
		}
		for _, text := range texts {
			for _, piece := range pieces(text) {
				if len(piece) >= size && (len(piece) < 2*size || size == longestWord) {
					one.add(piece)
				}
			}
		}
		if len(one.rests) > 0 {
			w.windows = append(w.windows, one)
		}
	}
	return w
}

func (w *window) add(piece string) {
	first, rest := piece[:w.size], piece[w.size:]
	if len(w.rests[first]) >= sameBegin {
		rest = ""
	}
	w.rests[first] = append(w.rests[first], rest)
	var h uint64
	for i := range w.size {
		h = h*hashBase + uint64(first[i])
	}
	w.filter[short16(h)] = true
}

func short16(h uint64) uint64 { return h * 0x9e3779b97f4a7c15 >> 48 }

// pieces are the parts of a text by which it is known, in lower case and cut. They are the longest
// between characters that are escaped somewhere, and the first that is long.
func pieces(text string) []string {
	parts := plainParts(text, true)
	if len(parts) == 0 {
		parts = plainParts(text, false)
	}
	if len(parts) == 0 {
		return nil
	}
	longest := slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
	found := []string{lower(longest)}
	first := slices.IndexFunc(parts, func(part string) bool { return len(part) >= longWord })
	if first >= 0 && parts[first] != longest {
		found = append(found, lower(parts[first]))
	}
	return found
}

func plainParts(text string, ascii bool) []string {
	var parts []string
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool {
		return c < ' ' || c == utf8.RuneError || strings.ContainsRune(escaped, c) || ascii && c >= utf8.RuneSelf
	}) {
		if part = strings.TrimSpace(part); len(part) >= shortestWord {
			parts = append(parts, part[:min(len(part), longestWord)])
		}
	}
	return parts
}

// escaped are characters that JSON, HTML or a shell write in other ways.
const escaped = "\"'\\<>&\u007f\u0085\u2028\u2029"

// lower is lower case as files are compared: of ASCII alone.
func lower(text string) string {
	data := []byte(text)
	lowerBytes(data)
	return string(data)
}

func lowerBytes(data []byte) {
	for i, c := range data {
		if 'A' <= c && c <= 'Z' {
			data[i] = c + 'a' - 'A'
		}
	}
}

// in tells whether one of the texts is in what is read.
func (w *phrases) in(from io.Reader) (bool, error) {
	if len(w.windows) == 0 {
		return false, nil
	}
	buffer, held := w.buffer, 0
	for {
		n, err := io.ReadFull(from, buffer[held:])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return false, err
		}
		lowerBytes(buffer[held : held+n])
		data := buffer[:held+n]
		for i := range w.windows {
			if w.windows[i].in(data) {
				return true, nil
			}
		}
		if last {
			return false, nil
		}
		held = copy(buffer, data[len(data)-longestWord+1:]) // what began there is whole in the next
	}
}

func (w *window) in(data []byte) bool {
	var h uint64
	for i, c := range data {
		if i >= w.size {
			h -= uint64(data[i-w.size]) * w.out
		}
		h = h*hashBase + uint64(c)
		if i+1 < w.size || !w.filter[short16(h)] {
			continue
		}
		for _, rest := range w.rests[string(data[i+1-w.size:i+1])] {
			if bytes.HasPrefix(data[i+1:], []byte(rest)) {
				return true
			}
		}
	}
	return false
}
