package model

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Reason is a stable code for why a call was refused or how it ended.
type Reason string

// The reasons.
const (
	ReasonPath         Reason = "path_not_allowed"
	ReasonToken        Reason = "bad_session_token"
	ReasonMalformed    Reason = "malformed_request"
	ReasonTooLarge     Reason = "too_large"
	ReasonField        Reason = "field_not_allowed"
	ReasonVendorTool   Reason = "vendor_tool"
	ReasonContentBlock Reason = "content_block_not_allowed"
	ReasonRemoteSource Reason = "remote_source"
	// ReasonStored refuses what would be kept at the vendor, or was.
	ReasonStored     Reason = "stored_at_vendor"
	ReasonNoUpstream Reason = "no_upstream"
	ReasonNoPrice    Reason = "model_without_price"
	ReasonBudget     Reason = "budget_exhausted"
	// ReasonBook refuses a call because the account of the day cannot be used.
	ReasonBook          Reason = "budget_unavailable"
	ReasonBusy          Reason = "too_many_calls"
	ReasonAudit         Reason = "audit_failed"
	ReasonUnreachable   Reason = "upstream_unreachable"
	ReasonRedirect      Reason = "upstream_redirected"
	ReasonKeyEchoed     Reason = "key_in_answer"
	ReasonUpstreamError Reason = "upstream_error"
	// ReasonLogin refuses a call because the subscription login gives no token.
	ReasonLogin Reason = "login_unusable"
	// ReasonRevoked refuses a call, and ends one: what the session was granted was taken back.
	ReasonRevoked Reason = "revoked"
	// ReasonCut ends a call whose answer did not come whole: it is charged in full.
	ReasonCut Reason = "cut"
	// ReasonDone ends a call in order.
	ReasonDone Reason = "done"
)

// refusal is an answer of the gateway's own, in the vendor's form, so that a
// brain shows it to a person.
type refusal struct {
	status  int
	kind    string
	reason  Reason
	message string
	// cause is recorded, and not said to the brain: it may name what is on the host.
	cause error
}

func (r *refusal) Error() string { return r.message }

func refuse(reason Reason, format string, args ...any) *refusal {
	r := &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: reason, message: "nacre: " + fmt.Sprintf(format, args...)}
	switch reason {
	case ReasonToken:
		r.status, r.kind = http.StatusUnauthorized, "authentication_error"
	case ReasonPath, ReasonNoUpstream:
		r.status, r.kind = http.StatusNotFound, "not_found_error"
	case ReasonTooLarge:
		r.status, r.kind = http.StatusRequestEntityTooLarge, "request_too_large"
	case ReasonBudget:
		// 402 is not retried by brains, and its message is shown.
		r.status, r.kind = http.StatusPaymentRequired, "billing_error"
	case ReasonBusy:
		r.status, r.kind = http.StatusTooManyRequests, "rate_limit_error"
	case ReasonAudit, ReasonBook, ReasonLogin, ReasonRevoked:
		r.status, r.kind = http.StatusForbidden, "permission_error"
	case ReasonUnreachable, ReasonRedirect, ReasonKeyEchoed:
		r.status, r.kind = http.StatusBadGateway, "api_error"
	}
	return r
}

// body is the vendor's error object.
func (r *refusal) body(d Dialect) []byte {
	said := map[string]any{"type": "error", "error": map[string]any{"type": r.kind, "message": r.message}}
	if d == Responses || d == Chat {
		said = map[string]any{"error": map[string]any{"type": r.openaiType(), "message": r.message, "param": nil, "code": r.reason}}
	}
	b, err := json.Marshal(said)
	if err != nil {
		return nil // strings always marshal
	}
	return b
}

// openaiType is OpenAI's word for the kind of error.
func (r *refusal) openaiType() string {
	switch r.status {
	case http.StatusPaymentRequired:
		return "insufficient_quota"
	case http.StatusTooManyRequests:
		return "requests"
	case http.StatusBadGateway:
		return "server_error"
	}
	return "invalid_request_error"
}

func (r *refusal) write(w http.ResponseWriter, d Dialect) {
	patient(w, DefaultIdle)
	w.Header().Set("Content-Type", "application/json")
	if r.reason == ReasonBusy {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body(d)) // a client that is gone needs no answer
}
