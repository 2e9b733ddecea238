package egress

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/nacre-dev/nacre/internal/leak"
)

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
	begin := make([]byte, a.scan.Longest())
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
