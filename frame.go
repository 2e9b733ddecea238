package nacre

import (
	"cmp"
	"encoding/json"
	"time"
)

// Mode is how much of a result is shown (K-14). The zero value is summary.
type Mode uint8

// The modes; ModeHandleOnly shows the least, ModeRaw the most.
const (
	ModeSummary Mode = iota
	ModeTable
	ModeHandleOnly
	// ModeRaw needs the role admin.
	ModeRaw
)

var modeNames = [...]string{"summary", "table", "handle_only", "raw"}

func (m Mode) String() string { return enumName(modeNames[:], uint8(m), "summary") }

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText accepts exactly "summary", "table", "handle_only" or "raw".
func (m *Mode) UnmarshalText(text []byte) error {
	i, err := enumIndex("mode", modeNames[:], string(text))
	*m = Mode(i)
	return err
}

// Frame is what may be seen of a result (K-14): redacted, within a budget that
// counts all of it, and the same for the same result.
type Frame struct {
	Mode  Mode     `json:"mode"`
	Facts []string `json:"facts"`
	// Rows are the first rows, or an object as one row.
	Rows []json.RawMessage `json:"rows"`
	// Raw is the whole result, in ModeRaw only.
	Raw      json.RawMessage `json:"raw,omitempty"`
	Warnings []string        `json:"warnings"`
	// Handle is the ticket for the rest; nil where there is none.
	Handle  *Handle `json:"handle,omitempty"`
	Omitted Omitted `json:"omitted"`
	// Cut names texts, lists and objects that Rows shows in part, each with the path
	// that a [Query] shows it whole by: the first of them where there are many.
	Cut   []Cut `json:"cut,omitempty"`
	Label Label `json:"label"`
}

// Cut is a value that is shown in part.
type Cut struct {
	// Path leads to it from the whole result, such as data.issues[3].title; empty
	// where it is the whole result.
	Path string `json:"path"`
}

// ResultLimits are how much of one result is shown (K-14, K-31). They bound rows, fields of an
// object, characters of all that is shown, and containers inside of each other in a row. A field
// that is zero stands for the default: 50, 20, 4,000 and 3.
type ResultLimits struct {
	Rows   int `json:"rows,omitempty"`
	Fields int `json:"fields,omitempty"`
	Chars  int `json:"chars,omitempty"`
	Depth  int `json:"depth,omitempty"`
}

// MaxResultLimits are the largest that a kernel takes.
func MaxResultLimits() ResultLimits {
	return ResultLimits{Rows: 1000, Fields: 1000, Chars: 256 << 10, Depth: 100}
}

// Over fills the fields that are zero from more general limits.
func (l ResultLimits) Over(general ResultLimits) ResultLimits {
	return ResultLimits{
		Rows: cmp.Or(l.Rows, general.Rows), Fields: cmp.Or(l.Fields, general.Fields),
		Chars: cmp.Or(l.Chars, general.Chars), Depth: cmp.Or(l.Depth, general.Depth),
	}
}

// Omitted counts what a frame left out.
type Omitted struct {
	Rows  int `json:"rows"`
	Bytes int `json:"bytes"`
}

// Handle is a ticket for a result that the kernel keeps (K-17). Only its ID
// counts: who may use it and for what is read from the kernel's own store.
type Handle struct {
	ID      string    `json:"id"`
	Rows    int       `json:"rows"`
	Expires time.Time `json:"expires"`
	// Label is the trust of the rows (K-25).
	Label Label `json:"label"`
}

// Query asks for a page of what a handle stands for.
type Query struct {
	Offset int `json:"offset,omitempty"`
	// Limit is the most rows of the page; nil means what the grant and the
	// frame's budget allow.
	Limit *int `json:"limit,omitempty"`
	// Fields to show; nil means all that the grant allows.
	Fields []string `json:"fields,omitempty"`
	// Filter keeps the rows whose fields equal these JSON values.
	Filter map[string]json.RawMessage `json:"filter,omitempty"`
	// Path selects a value inside of the result, such as data.issues[3].title. What
	// is not a plain name stands in brackets and quotes: ["a.b"]. Empty means the whole.
	Path string `json:"path,omitempty"`
	// From is where the page of a text begins, counted in Unit from 0; Limit counts
	// in Unit as well then. A page that ends says where the next one begins.
	From int `json:"from,omitempty"`
	// Unit of a text: "characters", also where it is empty, or "lines".
	Unit string `json:"unit,omitempty"`
}
