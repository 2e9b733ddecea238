package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/kernel"
)

// Told is whom a session had listened to, by the records of its openings: the label of
// what was least to be trusted. A call whose end is not there may have shown what its
// tool returns. A chain that is not there told nothing.
func Told(inst *installation.Installation, chains []string) (nacre.Label, error) {
	least := nacre.Trusted
	for _, chain := range chains {
		var heard Hearing
		err := audit.Read(inst.AuditRoot(), chain, heard.Add)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nacre.Untrusted, err
		}
		least = least.And(heard.Least())
	}
	return least, nil
}

// Hearing is whom a session had listened to up to some record of one of its openings. Its
// zero value has heard nobody.
type Hearing struct {
	open  map[string]unended
	least nacre.Label
}

// Add hears the opening's next record.
func (h *Hearing) Add(e audit.Entry) error {
	if h.open == nil {
		h.open, h.least = map[string]unended{}, nacre.Trusted
	}
	label, err := toldBy(e, h.open)
	h.least = h.least.And(label)
	return err
}

// Least is the label of what was least to be trusted, with what calls return that have
// begun and not ended.
func (h *Hearing) Least() nacre.Label {
	if h.open == nil {
		return nacre.Trusted
	}
	least := h.least
	for _, calls := range h.open {
		least = least.And(calls.returns)
	}
	return least
}

// unended are calls of one id that began and did not all end. An agent chooses the ids,
// so that several calls may have the same.
type unended struct {
	calls   int
	returns nacre.Label
}

// toldBy is what one record says that the session has been told. open has the calls that began and
// did not end, by their ids.
func toldBy(e audit.Entry, open map[string]unended) (nacre.Label, error) {
	switch e.Kind {
	case nacre.KindCallBegin, nacre.KindCallReject, nacre.KindCallHandler, nacre.KindCallEnd, kernel.KindExpand, kernel.KindDryRun:
	default:
		return nacre.Trusted, nil
	}
	var d struct {
		Call      string
		Label     *nacre.Label
		Unvouched bool
		Returns   nacre.Label
		Request   struct {
			Tainted       bool
			ReadUntrusted bool `json:"read_untrusted"`
		}
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return nacre.Untrusted, fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
	}
	least := nacre.Trusted
	switch calls, begun := open[d.Call]; {
	case e.Kind == nacre.KindCallBegin && !begun:
		open[d.Call] = unended{1, d.Returns}
	case e.Kind == nacre.KindCallBegin:
		open[d.Call] = unended{calls.calls + 1, calls.returns.And(d.Returns)}
	case e.Kind == nacre.KindCallHandler && begun: // its own words were shown
		least = calls.returns
	case e.Kind == nacre.KindCallEnd && calls.calls > 1:
		open[d.Call] = unended{calls.calls - 1, calls.returns}
	case e.Kind == nacre.KindCallEnd:
		delete(open, d.Call)
	}
	switch {
	case d.Request.Tainted:
		return nacre.Untrusted, nil
	case d.Request.ReadUntrusted, d.Unvouched:
		return least.And(nacre.Unvouched), nil
	case d.Label != nil:
		return least.And(*d.Label), nil
	}
	return least, nil
}
