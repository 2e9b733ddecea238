package nacre

// Denial explains why a request is denied, and what would have to change
// (K-08). It is computed beside the decision and never in place of it.
type Denial struct {
	Denied bool       `json:"denied"`
	Code   ReasonCode `json:"code"`
	// Rule is the rule that decided, or that came closest to allowing.
	Rule        string            `json:"rule,omitempty"`
	Failed      []FailedCondition `json:"failed_conditions"`
	Remediation []string          `json:"remediation"`
	Narrative   string            `json:"narrative"`
}

// FailedCondition is one thing that was required and is not so.
type FailedCondition struct {
	Condition  string     `json:"condition"`
	Required   string     `json:"required"`
	Actual     string     `json:"actual"`
	Suggestion string     `json:"suggestion"`
	Code       ReasonCode `json:"code"`
}

// DecisionTrace is how a decision was reached (K-09): names and codes only,
// never the value of an argument, an attribute or a scope.
type DecisionTrace struct {
	Engine     string       `json:"engine"`
	Capability CapabilityID `json:"capability"`
	Principal  string       `json:"principal"`
	Intent     string       `json:"intent,omitempty"`
	ScopeKeys  []string     `json:"scope_keys,omitempty"`
	Steps      []TraceStep  `json:"steps"`
}

// TraceStep is one rule that was looked at.
type TraceStep struct {
	Rule string `json:"rule"`
	// Outcome is matched, skipped, denied, allowed, asked or constraint_applied.
	Outcome string `json:"outcome"`
	// Detail names the condition that did not hold, for a person.
	Detail string     `json:"detail,omitempty"`
	Code   ReasonCode `json:"code,omitempty"`
}
