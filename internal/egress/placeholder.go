package egress

import (
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/leak"
	"github.com/nacre-dev/nacre/internal/unpack"
)

// substituted refuses a request that still holds a placeholder after the credential was put where its host
// reads it (M-35). The target and headers are searched now, and the body where it is sent, as it is and
// unpacked.
func (o *opened) substituted(r *http.Request, path, query string, headers http.Header) error {
	if len(o.proxy.opts.Inspect.Placeholders) == 0 {
		return nil
	}
	look := func() func([]byte) error {
		scan := leak.New(o.proxy.opts.Inspect.Placeholders)
		return func(piece []byte) error {
			if _, found := scan.Feed(piece); found {
				return refusal(ReasonPlaceholder, "it holds a placeholder where no credential is put: its program sends it elsewhere than in the header or parameter that the credential is for")
			}
			return nil
		}
	}
	var head strings.Builder
	head.WriteString(path + "?" + query + "\n")
	for name, values := range headers {
		head.WriteString(name + ": " + strings.Join(values, "\n") + "\n")
	}
	if err := look()([]byte(head.String())); err != nil {
		return err
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &inspectedBody{from: r.Body, search: &unpack.Search{
			Inspect: func() (func([]byte) error, func()) { return look(), func() {} }, Look: look(), Refuse: unsearchable,
			Deflated: slices.Contains(codingsOf(r.Header, "Content-Encoding"), "deflate"),
		}}
	}
	return nil
}
