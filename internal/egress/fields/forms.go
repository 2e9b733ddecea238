package fields

import (
	"bytes"
	"strings"
)

const (
	// maxFormName is how much of a field's name in a form is read, in bytes.
	maxFormName = 1 << 10
	// maxPartHeader is the longest header that names a part, in bytes.
	maxPartHeader = 8 << 10
)

// Reader is what looks for such names in a body of a type, which is in small letters, as it comes; nil
// for one that has no fields. JSON that not everybody reads in one way is told like such a name.
func Reader(kind string) func(piece []byte) (found bool) {
	var all []func([]byte) bool
	if strings.Contains(kind, "urlencoded") || strings.Contains(kind, "url-encoded") {
		all = append(all, (&formNames{}).next)
	}
	if strings.Contains(kind, "multipart/") {
		all = append(all, (&partNames{}).next)
	}
	framed := strings.Contains(kind, "grpc") || strings.Contains(kind, "connect+")
	isJSON := strings.Contains(kind, "json")
	if isJSON || strings.Contains(kind, "text/plain") || strings.Contains(kind, "javascript") {
		all = append(all, (&jsonNames{strict: isJSON && !framed}).next)
	}
	if all == nil {
		return nil
	}
	return func(piece []byte) (found bool) {
		for _, look := range all {
			found = look(piece) || found
		}
		return found
	}
}

// formNames reads the names in a=b&c=d.
type formNames struct {
	name  []byte
	value bool
	long  bool // there was more of the name than is kept
}

func (f *formNames) next(piece []byte) (found bool) {
	for _, c := range piece {
		switch {
		case c == '&' || c == ';':
			f.name, f.value, f.long = f.name[:0], false, false
		case f.value:
		case c == '=':
			found = found || Steers(Parameter(string(f.name)))
			f.value = true
		case len(f.name) == 0 && (c == '+' || c == ' ' || c == '\r' || c == '\n'): // some pass over them
		case len(f.name) < maxFormName:
			f.name = append(f.name, c)
		case !f.long:
			f.long = true
			found = found || mayGoOnToSteer(string(f.name))
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
	return strings.Contains(line, disposition) && namesMethod(line) || identified && f.head && Steers(Parameter(strings.Trim(id, "<>\"' \t")))
}

// namesMethod looks for such a name at the parameters of one header, in one piece and in many (RFC 2231).
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
		if strings.Contains(name, "=?") || Steers(Parameter(name)) || Steers(Parameter(joined)) { // some decode a word of a mail's
			return true
		}
	}
	return false
}
