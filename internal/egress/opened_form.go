package egress

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/egress/fields"
	"github.com/nacre-dev/nacre/internal/unpack"
)

// guardForm refuses a form, or a JSON document, whose field would change the method or for whom
// the request is, as a parameter of the query would. It is refused where it is read, so that the
// host never has all of it.
func guardForm(method string, body io.ReadCloser, headers http.Header) (io.ReadCloser, error) {
	// What is not written as it should be, frameworks read all the same, and what is said to
	// be nothing, some take for a form.
	kind := strings.ToLower(strings.Join(headers["Content-Type"], ","))
	if kind == "" && method == http.MethodPost {
		kind = untyped
	}
	if body == nil || body == http.NoBody || fields.Reader(kind) == nil {
		return body, nil
	}
	if charset := charsetOf(kind); !slices.ContainsFunc(plainCharsets, func(plain string) bool { return strings.HasPrefix(charset, plain) }) {
		return nil, refusal(ReasonRedirecting, "the names of a form's fields cannot be read in the character set "+charset)
	}
	codings := codingsOf(headers, "Content-Encoding")
	if len(codings) == 0 {
		return &formBody{ReadCloser: body, look: fields.Reader(kind)}, nil
	}
	if err := searchableBody(headers); err != nil && kind != untyped {
		return nil, err
	} else if err != nil {
		return body, nil //nolint:nilerr // whoever unpacks such a body wants its type as well
	}
	inspect := func() (func([]byte) error, func()) {
		look := fields.Reader(kind)
		return func(piece []byte) error {
			if look(piece) {
				return refusal(ReasonRedirecting, steering)
			}
			return nil
		}, func() {}
	}
	return &inspectedBody{from: body, search: &unpack.Search{Inspect: inspect, Refuse: unsearchable, Deflated: slices.Contains(codings, "deflate")}}, nil
}

// untyped is what a body may be that is posted without a type.
const untyped = "application/x-www-form-urlencoded, text/plain"

// steering says why a field is refused.
const steering = "a field of the form would make the host act on another method, or for another user"

// plainCharsets are what names in ASCII are themselves in.
var plainCharsets = []string{"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "iso8859-", "latin1", "windows-125"}

// charsetOf is the last one that a type names; UTF-8 where it names none.
func charsetOf(kind string) string {
	at := strings.LastIndex(kind, "charset")
	_, value, ok := strings.Cut(kind[max(at, 0):], "=")
	if at < 0 || !ok {
		return "utf-8"
	}
	value, _, _ = strings.Cut(value, ";")
	return strings.Trim(value, "\"' \t")
}

// formBody gives nothing of a piece in which such a field is named.
type formBody struct {
	io.ReadCloser
	look func(piece []byte) (found bool)
}

// Read implements io.Reader.
func (b *formBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.look(p[:n]) {
		return 0, refusal(ReasonRedirecting, steering)
	}
	return n, err
}
