package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
)

// Expand shows a page of what a handle stands for. Who may see it, and how much
// in all, is what the kernel kept when the result came, never what the caller
// says of it (K-17). The page is redacted, cut to the budgets, and recorded
// before it is returned.
func (k *Kernel) Expand(ctx context.Context, id string, q nacre.Query, p nacre.Principal) (nacre.Frame, error) {
	r, err := k.begin(nacre.Call{Principal: p})
	if err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	r.mode, r.handle = nacre.ModeTable, k.word(id)
	if err := wanted(ctx, r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.enter(r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.afford(r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	page, err := k.page(r, id, q)
	if err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	s, failure := k.show(r, joined(page.Rows), nil, func(rows *firewall.Result, q firewall.Request, redactor firewall.Redactor) (firewall.View, error) {
		q.Handle = &page.Handle // the same one goes on
		return rows.Frame(q, redactor)
	})
	if failure != nil {
		return nacre.Frame{}, k.rejected(ctx, r, failure.err())
	}
	k.handles.Return(id, len(page.Rows)-len(s.frame.Rows))
	if err := k.recordExpand(ctx, r, id, s); err != nil {
		return nacre.Frame{}, err
	}
	k.counters.count(func(s *Stats) { s.Expansions++ })
	return s.frame, nil
}

// page reads the rows, and makes r a call of the capability that they came from.
func (k *Kernel) page(r *run, id string, q nacre.Query) (handle.Page, error) {
	if field := k.hidden(q.Filter); field != "" {
		return handle.Page{}, &nacre.Refusal{
			Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonHandleConstraint,
			Message: fmt.Sprintf("filter on %.40q would tell what is redacted there: filter by another field", field),
		}
	}
	page, err := k.handles.Expand(id, q, holder(r.call.Principal), r.now)
	if r.tool = k.capability(page.Capability); r.tool != nil {
		r.call.Tool, r.label, r.grant = r.tool.capability.Tool, page.Label, page.Grant
	}
	if err != nil {
		return page, refuseHandle(err)
	}
	gone, err := k.revocations.Revoked(page.Grant, r.call.Principal.ID, r.now)
	if err != nil || gone {
		return page, refuseHandle(fmt.Errorf("its grant was revoked, or nobody can tell: %w", errors.Join(err)))
	}
	if r.tool == nil {
		return page, unknown(string(page.Capability))
	}
	return page, nil
}

// hidden is a field of a filter whose value would be redacted where it is shown:
// who may ask for it until a row comes back has read it.
func (k *Kernel) hidden(filter map[string]json.RawMessage) string {
	for _, field := range slices.Sorted(maps.Keys(filter)) { // one request has one answer
		name, _ := json.Marshal(field) // of a string: never fails
		asked := slices.Concat([]byte{'{'}, name, []byte{':'}, filter[field], []byte{'}'})
		if _, paths, err := k.redactor.JSON(asked); err == nil && len(paths) > 0 { // what is no JSON is refused as such
			return field
		}
	}
	return ""
}

// holder is who a handle is kept for: one principal in one session.
func holder(p nacre.Principal) string {
	return strconv.Itoa(len(p.ID)) + ":" + p.ID + "/" + string(p.Group) + "/" + string(p.Session)
}

func joined(rows []json.RawMessage) json.RawMessage {
	list := make([][]byte, len(rows))
	for i, row := range rows {
		list[i] = row
	}
	return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']')
}

// keep stores a result for later pages, under the constraints that hold for it.
// The rows that its frame may show count as seen.
func (k *Kernel) keep(r *run, result *firewall.Result, constraints nacre.Constraints) *nacre.Handle {
	var random [handle.IDBytes]byte
	if k.draw(&random) != nil {
		return nil
	}
	kept, err := k.handles.Put(handle.Entry{
		Principal: holder(r.call.Principal), Session: r.call.Principal.Session, Capability: r.tool.capability.ID,
		Grant: r.grant, Constraints: constraints, Label: r.label, Rows: result, Shown: firewall.FrameRows,
	}, random, r.now)
	if err != nil {
		return nil // the frame says that there is no more of it
	}
	k.counters.count(func(s *Stats) { s.HandleStores++ })
	return kept
}

// refuseHandle says no more of a handle than who asked may know.
func refuseHandle(err error) error {
	refusal := &nacre.Refusal{
		Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonHandleUnknown,
		Message: "there is no such handle, or it has expired: call the tool again",
	}
	var known *handle.Error
	if errors.As(err, &known) {
		refusal.Reason, refusal.Message = known.Code, known.Message
		return refusal
	}
	return fmt.Errorf("%w: %w", refusal, err)
}
