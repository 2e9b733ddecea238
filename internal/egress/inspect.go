package egress

import (
	"io"
	"net/http"
	"strings"
)

// inspect shows a request on an opened host to whoever looks for what must not
// leave: its head now, its body in pieces as it is sent.
func (o *opened) inspect(r *http.Request) error {
	if o.proxy.opts.Inspect == nil {
		return nil
	}
	look := o.proxy.opts.Inspect()
	var head strings.Builder
	head.WriteString(r.Method + " " + r.RequestURI + "\n")
	for name, values := range r.Header {
		for _, value := range values {
			head.WriteString(name + ": " + value + "\n")
		}
	}
	if err := look([]byte(head.String())); err != nil {
		return refusal(ReasonStopped, "what the request holds ended the session")
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &inspectedBody{r.Body, look}
	}
	return nil
}

// inspectedBody gives nothing of a piece that is not to leave.
type inspectedBody struct {
	io.ReadCloser
	look func(piece []byte) error
}

// Read implements io.Reader.
func (b *inspectedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if err := b.look(p[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}
