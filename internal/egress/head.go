package egress

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/egress/fields"
)

// maxHeaders is how many header lines a request has.
const maxHeaders = 128

// maxDigits bounds a Content-Length: under a million terabytes.
const maxDigits = 15

// errNoRequest says that the client closed without asking for anything.
var errNoRequest = errors.New("no request")

type header struct {
	// name is in lower case.
	name, value string
}

// head is a request's first line and headers, read so that no two readers can
// disagree on them.
type head struct {
	method, target string
	// old says that the client speaks HTTP/1.0.
	old     bool
	headers []header
	// length of the body; -1 when it is chunked.
	length int64
}

// get returns the value of a header that occurs at most once.
func (h *head) get(name string) (string, bool) {
	for _, f := range h.headers {
		if f.name == name {
			return f.value, true
		}
	}
	return "", false
}

// readHead reads one request head of at most limit bytes. Line ends other than
// CRLF, folded lines, white space around names, control characters, repeated
// framing headers and two framings at once are refused.
func readHead(r *bufio.Reader, limit int) (*head, error) {
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return nil, errNoRequest
	}
	line, err := readLine(r, &limit)
	if err != nil {
		return nil, err
	}
	h, err := parseRequestLine(line)
	if err != nil {
		return nil, err
	}
	for {
		line, err := readLine(r, &limit)
		if err != nil {
			return nil, err
		}
		if line == "" {
			return h, h.frame()
		}
		f, err := parseHeader(line)
		if err != nil {
			return nil, err
		}
		if h.headers = append(h.headers, f); len(h.headers) > maxHeaders {
			return nil, refusal(ReasonTooLarge, "too many headers")
		}
	}
}

// readLine reads up to CRLF and takes what it read from limit.
func readLine(r *bufio.Reader, limit *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *limit -= len(part); *limit < 0 || (*limit == 0 && errors.Is(err, bufio.ErrBufferFull)) {
			return "", refusal(ReasonTooLarge, "the request head is too large")
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return "", refusal(ReasonMalformed, "a line ends with CRLF")
	}
	line = line[:len(line)-2]
	for _, c := range line {
		if (c < ' ' && c != '\t') || c == 0x7f {
			return "", refusal(ReasonMalformed, "control character in the request head")
		}
	}
	return string(line), nil
}

func parseRequestLine(line string) (*head, error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") {
		return nil, refusal(ReasonMalformed, "want METHOD TARGET HTTP/1.1")
	}
	if parts[0] == "" || len(parts[0]) > maxMethod || strings.Trim(parts[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return nil, refusal(ReasonMalformed, "the method is a word in capital letters")
	}
	for i := range len(parts[1]) {
		if c := parts[1][i]; c <= ' ' || c > '~' {
			return nil, refusal(ReasonTarget, "the target is in visible ASCII")
		}
	}
	return &head{method: parts[0], target: parts[1], old: parts[2] == "HTTP/1.0"}, nil
}

func parseHeader(line string) (header, error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return header{}, refusal(ReasonMalformed, "a header is NAME: VALUE")
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return header{}, refusal(ReasonMalformed, "a header's name is a token, with nothing before the colon")
		}
	}
	return header{lowerASCII(name), strings.Trim(value, " \t")}, nil
}

func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// framing are the headers that say where a request ends.
var framing = []string{"content-length", "transfer-encoding"}

// frame works out the body's length, and refuses what could be framed in two ways.
func (h *head) frame() error {
	count := map[string]int{}
	for _, f := range h.headers {
		count[f.name]++
		if slices.Contains(framing, fields.Spelled(f.name)) && !slices.Contains(framing, f.name) {
			return refusal(ReasonMalformed, "a header with an underscore that some servers take for the one with a dash: "+f.name)
		}
	}
	for _, name := range []string{"host", "content-length", "transfer-encoding", "expect", "upgrade"} {
		if count[name] > 1 {
			return refusal(ReasonMalformed, "repeated header: "+name)
		}
	}
	length, sized := h.get("content-length")
	coding, coded := h.get("transfer-encoding")
	switch {
	case sized && coded:
		return refusal(ReasonMalformed, "Content-Length and Transfer-Encoding together")
	case coded && (h.old || lowerASCII(coding) != "chunked"):
		return refusal(ReasonMalformed, "the one transfer coding is chunked, in HTTP/1.1")
	case coded:
		h.length = -1
	case sized:
		if length == "" || len(length) > maxDigits || strings.Trim(length, "0123456789") != "" {
			return refusal(ReasonMalformed, "Content-Length is a number")
		}
		h.length, _ = strconv.ParseInt(length, 10, 64) // digits only, and few
	}
	return nil
}
