// Package urlpath reads the paths of URLs in the one way that all servers share: what two
// of them could take for two places is refused. It is pure.
package urlpath

import (
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDecodings is how often a path is decoded until it stays the same.
	MaxDecodings = 4
	// plain are the bytes of a path besides escapes (RFC 3986, 3.3), without ";", which
	// servers cut in different ways.
	plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,=:@/"
)

// Check refuses dot segments, empty segments, parameters and backslashes,
// plain and under each layer of percent signs.
func Check(path string) error {
	for i := range len(path) {
		if path[i] != '%' && strings.IndexByte(plain, path[i]) < 0 {
			return errors.New("a path has no backslash, no ; and no byte that must be escaped")
		}
	}
	layer := path
	for depth := range MaxDecodings {
		if err := checkLayer(layer); err != nil {
			return err
		}
		next, ok := Unescape(layer)
		if !ok && depth == 0 {
			return errors.New("an escape in a path is % and two hexadecimal digits")
		}
		if next == layer {
			return nil
		}
		layer = next
	}
	return errors.New("a path is escaped too often")
}

// checkLayer looks at one reading of a path.
func checkLayer(path string) error {
	if !utf8.ValidString(path) {
		return errors.New("a path is UTF-8")
	}
	for _, c := range path {
		if c < ' ' || c == 0x7f || c == '\\' || isLookalike(c) {
			return errors.New("a path has no control characters, no backslash and nothing that looks like a slash or a dot")
		}
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments[1:] {
		name, _, _ := strings.Cut(segment, ";")
		name = strings.Trim(name, " ")
		if name == "." || name == ".." {
			return errors.New("a path has no dot segments")
		}
		if segment == "" && i < len(segments)-2 {
			return errors.New("a path has no empty segments")
		}
	}
	return nil
}

// isLookalike knows the characters that servers fold into / \ and . (Unicode
// compatibility forms).
func isLookalike(c rune) bool {
	switch c {
	case 0x2024, 0x2025, 0x2044, 0x2215, 0x2216, 0x29f5, 0x29f8, 0xfe52, 0xfe68, 0xff0e, 0xff0f, 0xff3c:
		return true
	}
	return false
}

// Unescape decodes one layer of percent signs; false says that one of them is
// no escape, and stays.
func Unescape(s string) (decoded string, ok bool) {
	b, ok := make([]byte, 0, len(s)), true
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		digits, err := hex.DecodeString(s[i+1 : min(i+3, len(s))])
		if err != nil || len(digits) != 1 {
			b, ok = append(b, '%'), false
			continue
		}
		b = append(b, digits[0])
		i += 2
	}
	return string(b), ok
}

// Below reports whether a path lies at or below a prefix, which has no
// escapes: so it does as it is written and as a server decodes it. A prefix
// without a slash at its end stands for whole segments.
func Below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/"))
}
