package nacre

import (
	"fmt"
	"time"
)

// Verdict is what a decider says of a call. The zero value refuses.
type Verdict uint8

// The verdicts, from the strictest.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{"deny", "ask", "allow"}

func (v Verdict) String() string { return enumName(verdictNames[:], uint8(v), "deny") }

// And combines two verdicts: the stricter wins.
func (v Verdict) And(w Verdict) Verdict { return min(v, w) }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText accepts exactly "deny", "ask" or "allow".
func (v *Verdict) UnmarshalText(text []byte) error {
	i, err := enumIndex("verdict", verdictNames[:], string(text))
	*v = Verdict(i)
	return err
}

// ReasonCode is a stable code for why a verdict was reached (K-07). Tests and
// programs compare codes, never text.
type ReasonCode string

// The reason codes of the default rules and of nacre's own layers.
const (
	ReasonDefaultAllow       ReasonCode = "default_policy_allow"
	ReasonRuleAllow          ReasonCode = "rule_allow"
	ReasonRuleAsk            ReasonCode = "rule_ask"
	ReasonHighRisk           ReasonCode = "high_risk_ask"
	ReasonGroupNotAllowed    ReasonCode = "group_not_allowed"
	ReasonNoSession          ReasonCode = "no_session"
	ReasonNoMatchingRule     ReasonCode = "no_matching_rule"
	ReasonExplicitDeny       ReasonCode = "explicit_deny_rule"
	ReasonMissingRole        ReasonCode = "missing_role"
	ReasonInsufficientReason ReasonCode = "insufficient_justification"
	ReasonRateLimited        ReasonCode = "rate_limited"
	ReasonUnknownTool        ReasonCode = "unknown_tool"
	ReasonInvalidArguments   ReasonCode = "invalid_arguments"
	ReasonMalformed          ReasonCode = "malformed_request"
	ReasonApproved           ReasonCode = "approved"
	ReasonDenied             ReasonCode = "denied_by_person"
	ReasonUnanswered         ReasonCode = "approval_unanswered"
	ReasonInterrupted        ReasonCode = "interrupted" // the call or its session ended before a person answered
	ReasonNoApprover         ReasonCode = "no_approver"
	ReasonAuditFailed        ReasonCode = "audit_failed"

	ReasonDefaultFallthrough ReasonCode = "default_fallthrough_allow" // an allow that no rule gave
	ReasonDefaultAsk         ReasonCode = "default_fallthrough_ask"   // a question that no rule asked for
	ReasonTokenVerified      ReasonCode = "token_verified"
	ReasonMissingTenant      ReasonCode = "missing_tenant_attribute"
	ReasonMissingAttribute   ReasonCode = "missing_attribute"
	ReasonInvalidConstraint  ReasonCode = "invalid_constraint"
	ReasonArgumentConstraint ReasonCode = "arg_constraint_violation"
	ReasonIntentNotAllowed   ReasonCode = "intent_not_allowed"
	ReasonScopeNotAllowed    ReasonCode = "scope_not_allowed"
	ReasonHandleConstraint   ReasonCode = "handle_constraint_violation"
	ReasonHandlePrincipal    ReasonCode = "handle_principal_mismatch"
	ReasonHandleUnknown      ReasonCode = "handle_unknown"
	ReasonMemoryWriter       ReasonCode = "memory_write_requires_writer"
	ReasonMemorySensitive    ReasonCode = "memory_sensitive_read_denied"
	ReasonTainted            ReasonCode = "tainted_session_ask" // a session that has read untrusted text
	ReasonBudgetExhausted    ReasonCode = "output_budget_exhausted"
	ReasonTokenRefused       ReasonCode = "token_refused"
	ReasonTokenRevoked       ReasonCode = "token_revoked"
	ReasonTokenExpired       ReasonCode = "token_expired"
	ReasonTokenSpent         ReasonCode = "token_spent"
	ReasonInternal           ReasonCode = "internal_failure"  // nobody refused: something that a call needs does not work
	ReasonConditionNotMet    ReasonCode = "condition_not_met" // of a rule, where no other code fits
)

// Decision is a verdict with the rule and the stable code behind it.
type Decision struct {
	Verdict Verdict    `json:"verdict"`
	Code    ReasonCode `json:"code"`
	// Rule is where the decision came from, such as `policy.toml: rule "chat is read only"`.
	Rule string `json:"rule,omitempty"`
	// Message says to a person what happened and what would change it.
	Message string `json:"message,omitempty"`
	// Constraints are what an allow or an ask is narrowed to.
	Constraints Constraints `json:"constraints,omitzero"`
	// Approvers is how many persons have to approve what is asked; 0 means one.
	Approvers int `json:"approvers,omitempty"`
	// RetryAfter is set on ReasonRateLimited, rounded up to a second.
	RetryAfter time.Duration `json:"-"`
}

func enumName(names []string, i uint8, strictest string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return strictest
}

func enumIndex(noun string, names []string, s string) (uint8, error) {
	for i, name := range names {
		if name == s {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %.40q: one of %v", noun, s, names)
}
