package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// What the eight default rules want (K-04).
const (
	MinJustification  = 15
	DefaultMaxRows    = 50
	ServiceMaxRows    = 500
	builtinVersion    = "default-rules/1"
	tenantAttribute   = "tenant"
	memoryScope       = "memory_scope"
	sensitiveMemory   = "sensitive"
	roleAdmin         = "admin"
	roleWriter        = "writer"
	rolePII           = "pii_reader"
	roleSecrets       = "secrets_reader"
	roleMemory        = "memory_writer"
	roleMemoryReading = "memory_reader_sensitive"
)

// builtin is the default policy: rules that are code.
type builtin struct{}

// Default is the engine of the seed's eight rules (K-04). READ is allowed; WRITE wants the role
// writer or admin and DESTRUCTIVE admin, each with a justification. Personal and card data want a
// tenant and show the allowed fields only. Secrets and memory want roles of their own, and results
// are capped in rows. The eighth rule, the rate, is a Limiter's: see RateOf.
func Default() Explainer { return builtin{} }

// Version changes when the rules of the code do.
func (builtin) Version() string { return builtinVersion }

// check is one condition of a default rule.
type check struct {
	rule                  string
	ok                    bool
	required, actual, fix string
	code                  nacre.ReasonCode
}

// checks are all conditions for a request, in the order of the rules.
func checks(r *Request) []check {
	all := safetyChecks(r)
	if tag := r.Capability.Sensitivity; tag == nacre.SensitivePII || tag == nacre.SensitivePCI {
		ok := strings.TrimSpace(r.Principal.Attributes[tenantAttribute]) != ""
		all = append(all, check{
			"tenant", ok, "attribute tenant", "none", "give the principal the attribute tenant", nacre.ReasonMissingTenant,
		})
	}
	switch r.Capability.Sensitivity {
	case nacre.SensitiveMemory:
		return append(all, memoryCheck(r)...)
	case nacre.SensitiveNone, nacre.SensitivePII, nacre.SensitivePCI:
		return all
	case nacre.SensitiveSecrets:
	}
	// What nobody knows counts as secret.
	return append(all, roleCheck("secrets", r, nacre.ReasonMissingRole, roleAdmin, roleSecrets), justifiedCheck("secrets", r))
}

func safetyChecks(r *Request) []check {
	const rule = "safety_class"
	switch r.Capability.Safety {
	case nacre.Read:
		return nil
	case nacre.Write:
		return []check{roleCheck(rule, r, nacre.ReasonMissingRole, roleWriter, roleAdmin), justifiedCheck(rule, r)}
	case nacre.Destructive:
	}
	return []check{roleCheck(rule, r, nacre.ReasonMissingRole, roleAdmin), justifiedCheck(rule, r)}
}

func memoryCheck(r *Request) []check {
	if r.Capability.Safety != nacre.Read {
		return []check{roleCheck("memory", r, nacre.ReasonMemoryWriter, roleMemory, roleAdmin)}
	}
	if !strings.EqualFold(strings.TrimSpace(r.Principal.Scope[memoryScope]), sensitiveMemory) {
		return nil
	}
	return []check{roleCheck("memory", r, nacre.ReasonMemorySensitive, roleMemoryReading, roleAdmin)}
}

func roleCheck(rule string, r *Request, code nacre.ReasonCode, roles ...string) check {
	has := slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(r.Principal.Roles, role) })
	want := "role " + strings.Join(roles, " or ")
	return check{rule, has, want, "roles " + orNone(strings.Join(r.Principal.Roles, ", ")), "give the principal the " + want, code}
}

func justifiedCheck(rule string, r *Request) check {
	n := justificationOf(r.Principal)
	return check{
		rule, n >= MinJustification, fmt.Sprintf("a justification of at least %d characters", MinJustification),
		fmt.Sprintf("%d characters", n), fmt.Sprintf("write the task in at least %d characters", MinJustification), nacre.ReasonInsufficientReason,
	}
}

// caps are the constraints that the rules add.
func caps(r *Request) nacre.Constraints {
	rows := DefaultMaxRows
	if slices.Contains(r.Principal.Roles, ServiceRole) {
		rows = ServiceMaxRows
	}
	c := nacre.Constraints{MaxRows: &rows}
	personal := r.Capability.Sensitivity == nacre.SensitivePII || r.Capability.Sensitivity == nacre.SensitivePCI
	if personal && len(r.Capability.AllowedFields) > 0 && !slices.Contains(r.Principal.Roles, rolePII) {
		c.AllowedFields = r.Capability.AllowedFields
	}
	return c
}

func placed(rule string) string { return "default policy: " + rule }

// Decide denies with the first rule that is not met, else allows, narrowed.
func (builtin) Decide(r Request) nacre.Decision {
	for _, c := range checks(&r) {
		if !c.ok {
			return nacre.Decision{
				Verdict: nacre.Deny, Code: c.code, Rule: placed(c.rule),
				Message: fmt.Sprintf("%s (%s) wants %s", r.Capability.ID, r.Capability.Safety, c.required),
			}
		}
	}
	allow := nacre.Decision{Verdict: nacre.Allow, Code: nacre.ReasonDefaultAllow, Rule: placed("all rules")}
	return narrowed(allow, r.Constraints, caps(&r))
}

// Explain collects every condition that is not met.
func (b builtin) Explain(r Request) nacre.Denial {
	d := b.Decide(r)
	switch {
	case d.Verdict != nacre.Deny:
		return granted(d)
	case d.Code == nacre.ReasonInvalidConstraint:
		return conflicting(d)
	}
	denial := nacre.Denial{Denied: true, Code: d.Code, Rule: d.Rule, Narrative: d.Message}
	for _, c := range checks(&r) {
		if !c.ok {
			denial.Failed = append(denial.Failed, nacre.FailedCondition{
				Condition: c.rule, Required: c.required, Actual: c.actual, Suggestion: c.fix, Code: c.code,
			})
			denial.Remediation = append(denial.Remediation, c.fix)
		}
	}
	return denial
}

// Trace names the conditions up to the first that is not met.
func (b builtin) Trace(r Request) nacre.DecisionTrace {
	t := traced("default policy", &r)
	for _, c := range checks(&r) {
		if !c.ok {
			break
		}
		t.Steps = append(t.Steps, nacre.TraceStep{Rule: placed(c.rule), Outcome: stepMatched, Detail: c.required})
	}
	return concluded(t, b.Decide(r))
}
