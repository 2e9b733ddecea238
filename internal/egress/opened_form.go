package egress

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"
)

const (
	// maxFormName is how much of a field's name in a form is read, in bytes.
	maxFormName = 128
	// maxPartHeader is the longest header that names a part, in bytes.
	maxPartHeader = 8 << 10
)

// methodParameters make frameworks act on another method than the request's.
var methodParameters = []string{"_method", "x-http-method-override", "$method"}

// guardForm refuses a form whose field would change the method, as a parameter
// of the query would. It is refused where it is read, so that the host never has
// all of it.
func guardForm(r *http.Request) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Body == nil || r.Method != http.MethodPost:
	case kind == "application/x-www-form-urlencoded":
		r.Body = &formBody{ReadCloser: r.Body, look: (&formNames{}).next}
	case strings.HasPrefix(kind, "multipart/"):
		r.Body = &formBody{ReadCloser: r.Body, look: (&partNames{}).next}
	}
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
		return 0, refusal(ReasonRedirecting, "a field of the form would make the host act on another method")
	}
	return n, err
}

// formNames reads the names in a=b&c=d.
type formNames struct {
	name  []byte
	value bool
}

func (f *formNames) next(piece []byte) (found bool) {
	for _, c := range piece {
		switch {
		case c == '&' || c == ';':
			f.name, f.value = f.name[:0], false
		case f.value:
		case c == '=':
			found = found || changesMethod(parameterName(string(f.name)))
			f.value = true
		case len(f.name) < maxFormName:
			f.name = append(f.name, c)
		}
	}
	return found
}

// partNames reads the names in the headers of a form's parts.
type partNames struct{ tail []byte }

// disposition begins the header that names a part.
const disposition = "\ncontent-disposition:"

func (f *partNames) next(piece []byte) (found bool) {
	text := append(f.tail, bytes.ToLower(piece)...)
	for {
		i := bytes.Index(text, []byte(disposition))
		if i < 0 {
			break
		}
		text = text[i+len(disposition)-1:]
		line, _, whole := bytes.Cut(text, []byte("\n"))
		found = found || namesMethod(string(line))
		if !whole {
			f.tail = append([]byte(disposition[:len(disposition)-1]), text...)
			return found || len(f.tail) > maxPartHeader
		}
	}
	f.tail = bytes.Clone(text[max(0, len(text)-len(disposition)):])
	return found
}

// namesMethod looks at the parameters of one header, as far as it came.
func namesMethod(line string) bool {
	for parameter := range strings.SplitSeq(line, ";") {
		key, name, ok := strings.Cut(strings.TrimSpace(parameter), "=")
		if ok && strings.TrimRight(key, "* \t") == "name" && changesMethod(parameterName(strings.Trim(name, "\"' \t\r"))) {
			return true
		}
	}
	return false
}
