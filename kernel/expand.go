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
	"github.com/nacre-dev/nacre/internal/token"
)

// carriedOut marks the context of a call that is carried out.
type carriedOut struct{}

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
	_, r.inside = ctx.Value(carriedOut{}).(bool)
	if err := wanted(ctx, r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := k.enter(r); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	if err := r.afford(); err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	asked, err := k.piece(r, id, q)
	if err != nil {
		return nacre.Frame{}, k.rejected(ctx, r, err)
	}
	s, failure := k.show(r, asked.raw, nil, asked.view)
	if failure != nil {
		return nacre.Frame{}, k.rejected(ctx, r, failure.err())
	}
	k.handles.Return(id, asked.rows-len(s.frame.Rows))
	if err := k.recordExpand(ctx, r, id, s); err != nil {
		return nacre.Frame{}, err
	}
	k.counters.count(func(s *Stats) { s.Expansions++ })
	return s.frame, nil
}

// piece is what a query shows of what a handle stands for.
type piece struct {
	raw  json.RawMessage
	view view
	// rows are how many of the handle's rows were counted for it.
	rows int
}

// rowsOf is a piece of rows; pathOf says where each of them stands.
func rowsOf(rows []json.RawMessage, h nacre.Handle, pathOf func(i int) string) piece {
	return piece{raw: joined(rows), view: func(page *firewall.Result, q firewall.Request, redactor firewall.Redactor) (firewall.View, error) {
		q.Handle, q.PathOf = &h, pathOf // the same handle goes on
		return page.Frame(q, redactor)
	}}
}

// piece reads what is asked for, and makes r a call of the capability that it came from.
func (k *Kernel) piece(r *run, id string, q nacre.Query) (piece, error) {
	if field := k.hidden(q.Filter); field != "" {
		return piece{}, &nacre.Refusal{
			Code: nacre.CodeUnauthorized, Stage: stageAuthorize, Reason: nacre.ReasonHandleConstraint,
			Message: fmt.Sprintf("filter on %.40q would tell what is redacted there: filter by another field", field),
		}
	}
	entry, ticket, err := k.handles.Read(id, holder(r.call.Principal), r.now)
	if err != nil {
		return piece{}, refuseHandle(err)
	}
	if err := k.mayRead(r, entry); err != nil {
		return piece{}, err
	}
	path, err := firewall.ParsePath(q.Path)
	if err != nil {
		return piece{}, refusePath(err)
	}
	result, ok := entry.Rows.(*firewall.Result)
	if !ok {
		return piece{}, refusePath(fmt.Errorf("%w: this result has no parts", firewall.ErrPath))
	}
	row, rows := result.Reaches(path)
	if rows || len(path) == 0 && !ofText(q) {
		return k.page(r, id, q, result)
	}
	if err := handle.CheckQuery(q, entry.Constraints); err != nil {
		return piece{}, refuseHandle(err)
	}
	if row >= 0 && !result.One() {
		if err := k.handles.Charge(id, row); err != nil {
			return piece{}, refuseHandle(err)
		}
	}
	return k.inside(r, result, path, q, ticket)
}

// mayRead checks that the grant of a handle still holds.
func (k *Kernel) mayRead(r *run, entry handle.Entry) error {
	if r.tool = k.capability(entry.Capability); r.tool != nil {
		r.call.Tool, r.label, r.grant = r.tool.capability.Tool, entry.Label, entry.Grant
	}
	gone, err := k.revocations.Revoked(entry.Grant, r.call.Principal.ID, r.now)
	switch {
	case err != nil:
		return refuseHandle(fmt.Errorf("whether its grant was revoked cannot be told: %w", err))
	case gone:
		return refuseHandle(fmt.Errorf("its grant: %w", token.ErrRevoked))
	case r.tool == nil:
		return unknown(string(entry.Capability))
	}
	return nil
}

// page reads rows.
func (k *Kernel) page(r *run, id string, q nacre.Query, result *firewall.Result) (piece, error) {
	if ofText(q) {
		return piece{}, refusePath(fmt.Errorf("%w: from and unit are for a text, and rows stand there: use offset and limit", firewall.ErrPath))
	}
	page, err := k.handles.Expand(id, q, holder(r.call.Principal), r.now)
	if err != nil {
		return piece{}, refuseHandle(err)
	}
	p := rowsOf(page.Rows, page.Handle, func(i int) string { return result.PathOf(page.Numbers[i]) })
	p.rows = len(page.Rows)
	return p, nil
}

// ofText reports whether a query asks for a part of a text.
func ofText(q nacre.Query) bool { return q.From > 0 || q.Unit != "" }

// inside reads what stands inside of a result (K-31). The result is redacted whole
// before, because a value alone does not tell the name that it stands under, and half
// of a secret does not look like one.
func (k *Kernel) inside(r *run, result *firewall.Result, path firewall.Path, q nacre.Query, ticket *nacre.Handle) (piece, error) {
	clean, _, err := k.redactorFor(r).JSON(result.Raw())
	if err != nil {
		return piece{}, crashed(fmt.Errorf("result: %w", err)).err()
	}
	value, err := firewall.At(clean, path)
	if err != nil {
		return piece{}, refusePath(err)
	}
	r.narrowed = true
	switch {
	case value[0] == '"':
		return textOf(value, q, *ticket), nil
	case ofText(q):
		return piece{}, refusePath(fmt.Errorf("%w: from and unit are for a text, and there is none", firewall.ErrPath))
	case value[0] != '[':
		return rowsOf([]json.RawMessage{value}, *ticket, func(int) string { return q.Path }), nil
	}
	list, err := firewall.Read(value, nacre.Constraints{})
	if err != nil {
		return piece{}, refusePath(err)
	}
	page, err := handle.PageOf(list, q, r.limits().Rows)
	if err != nil {
		return piece{}, refuseHandle(err)
	}
	return rowsOf(page.Rows, *ticket, func(i int) string { return q.Path + list.PathOf(page.Numbers[i]) }), nil
}

// textOf is a piece of a text.
func textOf(text json.RawMessage, q nacre.Query, h nacre.Handle) piece {
	part := firewall.Part{From: q.From, Limit: -1, Lines: q.Unit == handle.UnitLines}
	if q.Limit != nil {
		part.Limit = *q.Limit
	}
	return piece{raw: text, view: func(_ *firewall.Result, q firewall.Request, redactor firewall.Redactor) (firewall.View, error) {
		q.Handle = &h
		return firewall.Text(text, part, q, redactor), nil
	}}
}

// refusePath says why nothing stands at a path.
func refusePath(err error) error {
	return &nacre.Refusal{
		Code: nacre.CodeValidationFailed, Stage: stagePayload, Field: "query", Reason: nacre.ReasonInvalidConstraint, Message: err.Error(),
	}
}

// hidden is a field of a filter whose value would be redacted where it is shown:
// who may ask for it until a row comes back has read it.
func (k *results) hidden(filter map[string]json.RawMessage) string {
	for _, field := range slices.Sorted(maps.Keys(filter)) { // one request has one answer
		name, _ := json.Marshal(field) // of a string: never fails
		asked := slices.Concat([]byte{'{'}, name, []byte{':'}, filter[field], []byte{'}'})
		if _, paths, err := k.log.redactor.JSON(asked); err == nil && len(paths) > 0 { // what is no JSON is refused as such
			return field
		}
	}
	return ""
}

// holder is who a handle is kept for: one principal in one session.
func holder(p nacre.Principal) string {
	return strconv.Itoa(len(p.ID)) + ":" + p.ID + "/" + strconv.Itoa(len(p.Group)) + ":" + string(p.SessionKey())
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
func (k *results) keep(r *run, result *firewall.Result, constraints nacre.Constraints) *nacre.Handle {
	var random [handle.IDBytes]byte
	if k.ids.draw(&random) != nil {
		return nil
	}
	kept, err := k.handles.Put(handle.Entry{
		Principal: holder(r.call.Principal), Session: r.call.Principal.SessionKey(), Capability: r.tool.capability.ID,
		Grant: r.grant, Constraints: constraints, Label: r.label, Rows: result, Shown: r.limits().Rows,
		PageRows: r.limits().Rows,
	}, random, r.now)
	if err != nil {
		return nil // the frame says that there is no more of it
	}
	k.log.counters.count(func(s *Stats) { s.HandleStores++ })
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
