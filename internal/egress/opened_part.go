package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/nacre-dev/nacre/internal/leak"
)

// isPart reports whether an answer is said to be a part of a text, by its status or by what
// stands in it. One with a change to another text (226) is read by nobody here.
func (a *answering) isPart() bool {
	return !a.bodiless && (a.resp.StatusCode == http.StatusPartialContent || a.resp.StatusCode == http.StatusIMUsed || len(a.resp.Header["Content-Range"]) > 0)
}

// part gives a body that is a part of a text, unless it is cut in the middle of a secret. Otherwise
// the agent could ask for all of a secret in parts.
func (a *answering) part(body io.Reader) (io.Reader, Reason) {
	kind, ranges := lowerASCII(strings.Join(a.resp.Header["Content-Type"], ",")), a.resp.Header["Content-Range"]
	if strings.Contains(kind, "multipart/") || a.resp.StatusCode == http.StatusIMUsed {
		return nil, ReasonEncoded // one end of a part is another's beginning
	}
	if a.resp.StatusCode >= http.StatusBadRequest {
		return body, ReasonDone // it says which parts there are (416)
	}
	first := len(ranges) == 1 && strings.HasPrefix(ranges[0], "bytes 0-")
	if !first && isArchive(a.resp) {
		return nil, ReasonEncoded // nobody can unpack it from its middle
	}
	begin := make([]byte, a.scan.Reach())
	n, err := io.ReadFull(body, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ReasonReset
	}
	begin = begin[:n]
	if !first {
		if n < leak.LeastPart {
			return nil, ReasonEncoded
		}
		if a.scan.Continues(begin) {
			return nil, ReasonLeak
		}
	}
	return io.MultiReader(bytes.NewReader(begin), body), ReasonDone
}
