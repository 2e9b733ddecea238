package nacre

import (
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
	Label   Label   `json:"label"`
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
}
