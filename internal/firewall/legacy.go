package firewall

import (
	"encoding/json"

	"github.com/nacre-dev/nacre"
)

// The largest result that Show passes on unchanged.
const (
	MaxBytes = 32 << 10
	MaxRows  = 50
)

// Show is [Result.Forward] for a kernel without handles: what is passed on as
// it is may be larger, for there is no other way to the rest of it.
func Show(raw json.RawMessage, fields []string, redactor Redactor) (View, error) {
	var c nacre.Constraints
	if len(fields) > 0 {
		c.AllowedFields = fields
	}
	r, err := Read(raw, c)
	if err != nil {
		return View{}, err
	}
	whole := Limits{Rows: MaxRows, Fields: MaxBytes, Chars: MaxBytes, Depth: maxRawDepth}
	if len(raw) <= MaxBytes && r.Whole(whole) {
		return r.Forward(Request{Limits: whole}, redactor)
	}
	return r.Frame(Request{Limits: DefaultLimits()}, redactor)
}
