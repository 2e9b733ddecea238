package redact

import (
	"strconv"
	"strings"
)

// replace writes a string instead of what stands from start up to here.
func (w *walker) replace(start int, with string) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.text)+len(Marker))
	}
	w.out = append(w.out, w.text[w.copied:start]...)
	w.out = appendQuoted(w.out, with)
	w.copied = w.at
}

// tell notes the path from the root to here.
func (w *walker) tell() {
	if len(w.paths) == MaxPaths {
		w.more++
		return
	}
	var b strings.Builder
	for _, s := range w.steps[1 : w.depth+1] {
		switch {
		case s.isIndex:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
		if b.Len() > maxPath {
			break
		}
	}
	path := b.String()
	if len(path) > maxPath {
		path = strings.ToValidUTF8(path[:maxPath], "") + "…"
	}
	w.paths = append(w.paths, path)
}

// appendQuoted writes a JSON string, valid UTF-8 as it is.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b == '\n':
			out = append(out, `\n`...)
		case b == '\t':
			out = append(out, `\t`...)
		case b < ' ':
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		default:
			out = append(out, b)
		}
	}
	return append(out, '"')
}
