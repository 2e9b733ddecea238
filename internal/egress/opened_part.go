package egress

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"
)

// leastPart is the fewest characters of a secret that are known at the edge of a
// part of a text, and the fewest bytes that a part has which begins in its middle.
const leastPart = 4

// least is leastPart as a view writes it: two digits are one character.
func least(v view) int {
	if v == viewHex {
		return 2 * leastPart
	}
	return leastPart
}

// part gives a body that is a part of a text (206), unless it is cut in the
// middle of a secret: in parts, the agent could ask for all of it.
func (a *answering) part(body io.Reader) (io.Reader, Reason) {
	if kind, _, err := mime.ParseMediaType(a.resp.Header.Get("Content-Type")); err == nil && strings.HasPrefix(kind, "multipart/") {
		return nil, ReasonEncoded // one end of a part is another's beginning
	}
	first := strings.HasPrefix(a.resp.Header.Get("Content-Range"), "bytes 0-")
	if !first && isArchive(a.resp) {
		return nil, ReasonEncoded // nobody can unpack it from its middle
	}
	begin := make([]byte, a.scan.longest())
	n, err := io.ReadFull(body, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ReasonReset
	}
	begin = begin[:n]
	if !first {
		if n < leastPart {
			return nil, ReasonEncoded
		}
		if a.scan.continues(begin) {
			return nil, ReasonLeak
		}
	}
	return io.MultiReader(bytes.NewReader(begin), body), ReasonDone
}

// longest is the length of the longest pattern.
func (s *leakScan) longest() int {
	most := 0
	s.each(func(_ view, m *matcher) { most = max(most, len(m.pattern)) })
	return most
}

// each gives every matcher, once or more often.
func (s *leakScan) each(see func(view, *matcher)) {
	for v := range viewCount {
		for _, list := range s.begins[v] {
			for _, m := range list {
				see(v, m)
			}
		}
	}
}

// continues reports whether a text begins with what a pattern ends with, or is
// the middle of one.
func (s *leakScan) continues(text []byte) (found bool) {
	s.each(func(v view, m *matcher) {
		if found {
			return
		}
		folded := make([]byte, len(text))
		for i, c := range text {
			folded[i] = fold(v, c)
		}
		found = len(folded) < len(m.pattern) && strings.Contains(m.pattern, string(folded))
		for n := least(v); n <= min(len(folded), len(m.pattern)) && !found; n++ {
			found = strings.HasSuffix(m.pattern, string(folded[:n]))
		}
	})
	return found
}

// begun reports whether the text that was fed ends in the middle of a pattern.
func (s *leakScan) begun() bool {
	for v, open := range s.open {
		for _, m := range open {
			if m.state >= least(view(v)) {
				return true
			}
		}
	}
	return false
}
