// Package firewall promises that what a brain sees of a result fits a budget:
// a result within it is passed on as it is, a larger one becomes a [Frame]
// that says what there was, shows the first of it, and counts what it left out
// (K-14, D-10). Equal results give equal frames.
//
// It does not find secrets: the redactor it is handed does, and sees whatever
// is shown, and only that.
package firewall

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The largest result that is passed on unchanged.
const (
	MaxBytes = 32 << 10
	MaxRows  = 50
)

// The budgets of a frame (K-14): rows, fields of a row, characters of all of
// it, and how deep a value is shown.
const (
	FrameRows   = 50
	FrameFields = 20
	FrameChars  = 4000
	FrameDepth  = 3
	// maxText is how much of one string is shown, in bytes.
	maxText = 300
	// maxName is how much of one field's name is shown, in bytes.
	maxName = 64
	// reserve is what a frame takes but for its facts and rows, in characters.
	reserve = 700
)

// Redactor replaces secrets in a document, and tells the paths of what it replaced.
type Redactor interface {
	JSON(raw []byte) (out []byte, paths []string, err error)
	String(s string) (string, bool)
}

// View is what may be seen of a result.
type View struct {
	Result json.RawMessage
	// Redacted are the paths of what was replaced, Framed whether Result is a Frame.
	Redacted []string
	Framed   bool
}

// Frame is what is shown of a result beyond the budget.
type Frame struct {
	// Mode is always "summary" for now.
	Mode  string   `json:"mode"`
	Facts []string `json:"facts"`
	// Rows are the first rows, or the fields of an object as one row.
	Rows     []json.RawMessage `json:"rows"`
	Warnings []string          `json:"warnings"`
	Omitted  Omitted           `json:"omitted"`
}

// Omitted counts what a frame left out.
type Omitted struct {
	Rows  int `json:"rows"`
	Bytes int `json:"bytes"`
}

// Show makes the view of a result. fields, when not empty, are the only ones of
// an object, or of the rows of an array, that may be seen. An error means that
// raw is not one JSON value.
func Show(raw json.RawMessage, fields []string, redactor Redactor) (View, error) {
	whole := len(raw) <= MaxBytes && !manyRows(raw)
	if (!whole || len(fields) > 0) && (!utf8.Valid(raw) || !json.Valid(raw)) {
		return View{}, errors.New("result is not JSON")
	}
	dropped := 0
	if len(fields) > 0 {
		var err error
		if raw, dropped, err = only(raw, fields); err != nil {
			return View{}, err
		}
	}
	if whole {
		out, paths, err := redactor.JSON(raw)
		return View{Result: out, Redacted: paths}, err
	}
	frame, err := summarise(raw, redactor)
	if err != nil {
		return View{}, err
	}
	if dropped > 0 {
		frame.Warnings = append(frame.Warnings, fmt.Sprintf("%d fields are not allowed for this capability and were left out", dropped))
	}
	encoded, err := json.Marshal(frame)
	if err != nil {
		return View{}, fmt.Errorf("frame: %w", err)
	}
	out, paths, err := redactor.JSON(encoded)
	return View{Result: out, Redacted: paths, Framed: true}, err
}

// manyRows reports whether raw is an array of more than MaxRows: it counts the
// commas between the outermost elements.
func manyRows(raw json.RawMessage) bool {
	if first(raw) != '[' {
		return false
	}
	depth, commas := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				commas++
			}
		}
	}
	return commas >= MaxRows
}

func summarise(raw json.RawMessage, redactor Redactor) (Frame, error) {
	f := Frame{Mode: "summary", Facts: []string{}, Rows: []json.RawMessage{}, Warnings: []string{}}
	p := printer{redactor: redactor, left: FrameChars - reserve}
	var rows []json.RawMessage
	var err error
	switch first(raw) {
	case '[':
		if rows, err = elements(raw, len(raw)); err != nil {
			return f, err
		}
		f.Facts = append(f.Facts, fmt.Sprintf("Total rows: %d", len(rows)))
		if len(rows) > 0 {
			f.Facts = append(f.Facts, p.keys("Top keys", rows[0])...)
		}
	case '{':
		rows = []json.RawMessage{raw}
		f.Facts = append(f.Facts, p.keys("Fields", raw)...)
	default:
		rows = []json.RawMessage{raw}
		f.Facts = append(f.Facts, fmt.Sprintf("One value of %d bytes", len(raw)))
	}
	for _, row := range rows[:min(len(rows), FrameRows)] {
		shown := p.row(row)
		if len(f.Rows) > 0 && utf8.RuneCount(shown) > p.left {
			break
		}
		p.left -= utf8.RuneCount(shown) + 1
		f.Rows = append(f.Rows, shown)
	}
	f.Omitted.Rows = len(rows) - len(f.Rows)
	f.Omitted.Bytes = len(raw) - size(f.Rows)
	f.Warnings = append(f.Warnings, "The result was larger than what can be shown; the rest was left out. Ask for less, or for one part.")
	return f, nil
}

func size(rows []json.RawMessage) (n int) {
	for _, row := range rows {
		n += len(row)
	}
	return n
}

// printer shows values within what is left of the budget.
type printer struct {
	redactor Redactor
	left     int
}

// keys names the fields of an object, and says nothing of other values.
func (p *printer) keys(label string, raw json.RawMessage) []string {
	fields, err := members(raw, FrameFields)
	if err != nil || len(fields) == 0 {
		return nil
	}
	names := make([]string, 0, len(fields))
	for _, field := range fields {
		names = append(names, p.clip(field.name, maxName))
	}
	fact := p.clip(label+": "+strings.Join(names, ", "), FrameChars/8)
	p.left -= utf8.RuneCountInString(fact)
	return []string{fact}
}

// row shows a row with fewer fields and shorter texts until it fits.
func (p *printer) row(raw json.RawMessage) json.RawMessage {
	for text, fields := maxText, FrameFields; ; text, fields = text/2, (fields+1)/2 {
		shown := p.value(raw, FrameDepth, text, fields)
		if utf8.RuneCount(shown) <= p.left || text < 16 {
			return shown
		}
	}
}

func (p *printer) value(raw json.RawMessage, depth, text, fields int) json.RawMessage {
	switch first(raw) {
	case '{':
		if depth == 0 {
			return quote("[nested data left out]")
		}
		return p.object(raw, depth-1, text, fields)
	case '[':
		if depth == 0 {
			return quote("[nested data left out]")
		}
		return p.list(raw, depth-1, text, fields)
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return quote("")
		}
		return quote(p.clip(s, text))
	}
	if len(raw) > maxText { // a number of many digits
		return quote("[number left out]")
	}
	return raw
}

func (p *printer) object(raw json.RawMessage, depth, text, fields int) json.RawMessage {
	all, err := members(raw, len(raw))
	if err != nil {
		return quote("")
	}
	out := []byte{'{'}
	for i, field := range all[:min(len(all), fields)] {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quote(p.clip(field.name, maxName))...), ':')
		out = append(out, p.value(field.value, depth, text, fields)...)
	}
	if n := len(all) - fields; n > 0 {
		out = append(out, fmt.Sprintf(`,"…":"%d more fields"`, n)...)
	}
	return append(out, '}')
}

func (p *printer) list(raw json.RawMessage, depth, text, fields int) json.RawMessage {
	all, err := elements(raw, len(raw))
	if err != nil {
		return quote("")
	}
	out := []byte{'['}
	for i, value := range all[:min(len(all), fields)] {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.value(value, depth, text, fields)...)
	}
	if n := len(all) - fields; n > 0 {
		out = append(out, fmt.Sprintf(`,"… %d more"`, n)...)
	}
	return append(out, ']')
}

// overlap is how much of a text beyond what is shown is looked at, so that a
// secret at the edge is not cut into something that no longer looks like one.
const overlap = 1024

// clip redacts a text, and cuts it to limit bytes.
func (p *printer) clip(s string, limit int) string {
	if len(s) <= limit {
		return s // redacted with the whole frame
	}
	clean, _ := p.redactor.String(strings.ToValidUTF8(s[:min(len(s), limit+overlap)], ""))
	if len(clean) <= limit {
		return clean
	}
	return strings.ToValidUTF8(clean[:limit], "") + "…"
}
