package report

import (
	"fmt"
	"strings"
)

// SeverityField is where a finding says how grave it is.
const SeverityField = "severity"

// The fields of an auditor's report, and the one verdict that lets work land.
const (
	// AuditVerdict is the field that says what the auditor decided.
	AuditVerdict = "verdict"
	// auditPass is what it says where the work may land.
	auditPass = "pass"
)

// Audit reads an auditor's verdict out of its report: empty where the work may land, else why not.
// It may where the verdict is exactly "pass" and nothing in the report is graded CRITICAL or HIGH.
// All else, and what cannot be read, is no pass (S-08).
func Audit(said []byte) (why string) {
	found, err := Read(said)
	if err != nil {
		return err.Error()
	}
	verdict, is := found[AuditVerdict].(string)
	switch {
	case !is:
		return "the report has no " + AuditVerdict
	case verdict != auditPass:
		return fmt.Sprintf("the verdict is %.80q", verdict)
	}
	if worst := grave(found); worst != "" {
		return "the verdict is " + auditPass + ", and a finding is " + worst
	}
	return ""
}

// grave finds a grade that no work with it passes. What is read nests no deeper
// than its reader lets it.
func grave(value any) string {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			grade, is := inner.(string)
			if is && strings.EqualFold(key, SeverityField) && (grade == "CRITICAL" || grade == "HIGH") {
				return grade
			}
			if found := grave(inner); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := grave(inner); found != "" {
				return found
			}
		}
	}
	return ""
}
