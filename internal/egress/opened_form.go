package egress

import (
	"bytes"
	"io"
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
	if r.Body == nil || r.Method != http.MethodPost {
		return
	}
	// What is not written as it should be, frameworks read all the same.
	kind := strings.ToLower(strings.Join(r.Header["Content-Type"], ","))
	if strings.Contains(kind, "x-www-form-urlencoded") {
		r.Body = &formBody{ReadCloser: r.Body, look: (&formNames{}).next}
	}
	if strings.Contains(kind, "multipart/") {
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

// partNames reads the names in the headers of a form's parts, line by line: a
// line that begins with a space or a tab goes on the one before. It reads every
// byte once, and keeps one line.
//
// A part's headers begin behind a line that begins with two dashes, whatever the
// boundary is, and end with an empty one. Elsewhere a header that names a part is
// one too, because servers disagree on where a boundary may stand.
type partNames struct {
	// line is the line as far as it came, in small letters, up to maxPartHeader.
	line []byte
	// long says that there was more of it.
	long bool
	// ended says that the line is whole, unless the next one goes on; last is the
	// byte that ended it.
	ended bool
	last  byte
	// head says that the line is of a part's headers.
	head bool
}

// disposition is the header that names a part; where it has none, some take
// the identity.
const disposition, identity = "content-disposition", "content-id:"

func (f *partNames) next(piece []byte) (found bool) {
	for len(piece) > 0 {
		if f.ended {
			c := piece[0]
			if c == '\n' && f.last == '\r' {
				f.last, piece = c, piece[1:]
				continue
			}
			if c != ' ' && c != '\t' || len(f.line) == 0 {
				found = f.read() || found
				f.line, f.long = f.line[:0], false
			}
			f.ended = false
		}
		end := bytes.IndexAny(piece, "\r\n")
		if end < 0 {
			f.add(piece)
			return found
		}
		f.add(piece[:end])
		f.ended, f.last, piece = true, piece[end], piece[end+1:]
	}
	return found
}

// add keeps a piece of a line, where it may matter.
func (f *partNames) add(piece []byte) {
	if !f.head && len(f.line) > len(disposition) && !f.names() && !bytes.HasPrefix(f.line, []byte("--")) {
		return
	}
	if room := maxPartHeader - len(f.line); len(piece) > room {
		f.long, piece = true, piece[:max(room, 0)]
	}
	f.line = append(f.line, bytes.ToLower(piece)...)
}

// names reports whether the line is a header that names a part.
func (f *partNames) names() bool {
	name, _, _ := bytes.Cut(f.line, []byte(":"))
	return bytes.HasSuffix(bytes.TrimSpace(name), []byte(disposition))
}

// read looks at a line that is whole, and reports whether it must not leave.
func (f *partNames) read() bool {
	switch {
	case len(f.line) == 0:
		f.head = f.head && f.last != '\n'
		return false
	case bytes.HasPrefix(f.line, []byte("--")):
		f.head = true
	case f.long && f.head && f.names():
		return true // its name may be behind what was kept
	case !f.head && !f.names():
		return false
	}
	line := string(f.line)
	_, id, identified := strings.Cut(line, identity)
	return strings.Contains(line, disposition) && namesMethod(line) || identified && f.head && changesMethod(parameterName(strings.Trim(id, "<>\"' \t")))
}

// namesMethod looks at the parameters of one header, in one piece and in many (RFC 2231).
func namesMethod(line string) bool {
	joined := ""
	for parameter := range strings.SplitSeq(line, ";") {
		key, name, ok := strings.Cut(parameter, "=")
		words := strings.FieldsFunc(key, func(r rune) bool { return r == ' ' || r == '\t' || r == ':' })
		if !ok || len(words) == 0 {
			continue
		}
		key, number, _ := strings.Cut(words[len(words)-1], "*")
		if key != "name" {
			continue
		}
		name = strings.ReplaceAll(strings.Trim(name, "\"' \t"), `\`, "")
		name = name[strings.LastIndexByte(name, '\'')+1:] // behind charset and language
		if number != "" {
			joined += name
		}
		if changesMethod(parameterName(name)) || changesMethod(parameterName(joined)) {
			return true
		}
	}
	return false
}
