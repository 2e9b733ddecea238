package egress

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxDecodings is how often a path is decoded until it stays the same.
	maxDecodings = 4
	// plainPath are the bytes of a path besides letters, digits and escapes (RFC
	// 3986, 3.3), without ";", which servers cut in different ways.
	plainPath = "-._~!$&'()*+,=:@/"
)

// splitTarget reads the origin-form of a request's target, and refuses a path
// that two servers could take for two places.
func splitTarget(s string) (path, query string, err error) {
	path, query, _ = strings.Cut(s, "?")
	if path == "" || path[0] != '/' {
		return "", "", refusal(ReasonTarget, "a request in the tunnel names a path that begins with /")
	}
	if err := checkPath(path); err != nil {
		return "", "", err
	}
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c > '~' || c == '#' {
			return "", "", refusal(ReasonTarget, "a query on the wire is visible ASCII without #")
		}
	}
	return path, query, nil
}

// checkPath refuses dot segments, empty segments, parameters and backslashes,
// plain and under each layer of percent signs.
func checkPath(path string) error {
	for i := range len(path) {
		if !isLetterOrDigit(path[i]) && path[i] != '%' && strings.IndexByte(plainPath, path[i]) < 0 {
			return refusal(ReasonPath, "a path has no backslash, no ; and no byte that must be escaped")
		}
	}
	layer := path
	for depth := range maxDecodings {
		if err := checkLayer(layer); err != nil {
			return err
		}
		next, ok := unescape(layer)
		if !ok && depth == 0 {
			return refusal(ReasonPath, "an escape in a path is % and two hexadecimal digits")
		}
		if next == layer {
			return nil
		}
		layer = next
	}
	return refusal(ReasonPath, "a path is escaped too often")
}

// checkLayer looks at one reading of a path.
func checkLayer(path string) error {
	if !utf8.ValidString(path) {
		return refusal(ReasonPath, "a path is UTF-8")
	}
	for _, c := range path {
		if c < ' ' || c == 0x7f || c == '\\' || isLookalike(c) {
			return refusal(ReasonPath, "a path has no control characters, no backslash and nothing that looks like a slash or a dot")
		}
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments[1:] {
		name, _, _ := strings.Cut(segment, ";")
		name = strings.Trim(name, " ")
		if name == "." || name == ".." {
			return refusal(ReasonPath, "a path has no dot segments")
		}
		if segment == "" && i < len(segments)-2 {
			return refusal(ReasonPath, "a path has no empty segments")
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

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// unescape decodes one layer of percent signs; false says that one of them is
// no escape, and stays.
func unescape(s string) (decoded string, ok bool) {
	b, ok := make([]byte, 0, len(s)), true
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '%':
			b = append(b, s[i])
		case i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			b = append(b, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
		default:
			b, ok = append(b, '%'), false
		}
	}
	return string(b), ok
}

// hexDigit is the value of a digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// below reports whether a path lies at or below a prefix, which has no
// escapes: so it does as it is written and as a server decodes it. A prefix
// without a slash at its end stands for whole segments.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/"))
}
