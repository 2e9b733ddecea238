package redact

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

// scan reads a string and returns what it says.
func (w *walker) scan() (string, bool) {
	if !w.take('"') {
		return "", false
	}
	start, escaped, ascii := w.at, false, true
	at, text := encoded.Plain(w.text, w.at), w.text
	if w.at = at; at < len(text) && text[at] == '"' {
		w.at++
		return text[start:at], true
	}
	for w.at < len(w.text) {
		b := w.text[w.at]
		switch {
		case b == '"':
			s := w.text[start:w.at]
			w.at++
			return w.said(s, escaped, ascii)
		case b == '\\':
			escaped = true
			w.at++
		case b < ' ':
			w.bad = true
			return "", false
		case b >= utf8.RuneSelf:
			ascii = false
		}
		w.at++
	}
	w.bad = true
	return "", false
}

func (w *walker) said(s string, escaped, ascii bool) (string, bool) {
	if !ascii && !utf8.ValidString(s) {
		w.bad = true
		return "", false
	}
	if !escaped {
		return s, true
	}
	var plain string
	if err := json.Unmarshal([]byte(w.text[w.at-len(s)-2:w.at]), &plain); err != nil {
		w.bad = true
		return "", false
	}
	return plain, true
}
