package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/report"
)

// reportFormat is the verifier of output::report-format: the fields that the
// task names are there, under exactly those names, each with a value.
func reportFormat(_ context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	found, err := report.Read(s.Report)
	if err != nil {
		return failed(err.Error(), ""), nil
	}
	var findings []string
	for _, field := range s.Task.ReportFields {
		value, ok := found[field]
		switch {
		case !ok:
			findings = append(findings, fmt.Sprintf("%q is missing", field))
		case !present(value):
			findings = append(findings, fmt.Sprintf("%q has no value", field))
		}
	}
	return verdict("the report lacks what the task asks for", findings), nil
}

// present tells a value from a place for one. An empty list says "none".
func present(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		return len(v) > 0
	case string:
		v = strings.ToLower(strings.TrimSpace(v))
		switch strings.Trim(v, ".…-_?*") {
		case "", "todo", "tbd", "fixme":
			return false
		}
		return !strings.HasPrefix(v, "<") || !strings.HasSuffix(v, ">")
	default:
		return true
	}
}

// isSeverity tells the words of the closed list.
func isSeverity(value any) bool {
	switch value {
	case "CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO":
		return true
	}
	return false
}

// severityGrade is the verifier of output::severity-grade: every finding, and
// whatever else of the report has a severity, has one of the closed list.
func severityGrade(_ context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	found, err := report.Read(s.Report)
	if err != nil {
		return failed(err.Error(), ""), nil
	}
	g := &grader{}
	g.object("", found)
	if len(g.wrong) == 0 && !g.graded {
		g.wrong = []string{"there is neither a list of findings nor a severity"}
	}
	return verdict("findings need a severity of CRITICAL, HIGH, MEDIUM, LOW or INFO", g.wrong), nil
}

// grader walks a report.
type grader struct {
	// graded says that there was something to grade, if only an empty list.
	graded bool
	wrong  []string
}

func (g *grader) object(at string, o map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		place := at + "." + key
		switch {
		case strings.EqualFold(key, report.SeverityField):
			g.graded = true
			if key != report.SeverityField || !isSeverity(o[key]) {
				g.wrong = append(g.wrong, fmt.Sprintf("%s: %.40q", shorten(place), fmt.Sprint(o[key])))
			}
		case isFindings(key):
			g.findings(place, o[key])
		default:
			g.value(place, o[key])
		}
	}
}

func isFindings(key string) bool {
	switch strings.ToLower(key) {
	case "findings", "issues", "vulnerabilities":
		return true
	}
	return false
}

// findings must be objects, each with a severity.
func (g *grader) findings(at string, value any) {
	list, ok := value.([]any)
	if !ok {
		if table, isTable := value.(map[string]any); isTable && len(table) > 0 {
			for _, key := range slices.Sorted(maps.Keys(table)) {
				list = append(list, table[key])
			}
		} else {
			g.wrong = append(g.wrong, shorten(at)+": write a list, an empty one if there are none")
			return
		}
	}
	g.graded = true
	g.list(at, list, true)
}

func (g *grader) value(at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		g.object(at, v)
	case []any:
		g.list(at, v, slices.ContainsFunc(v, hasSeverity))
	}
}

// list holds each entry to what one of them has.
func (g *grader) list(at string, list []any, graded bool) {
	for i, entry := range list {
		place := fmt.Sprintf("%s[%d]", at, i)
		if graded && !hasSeverity(entry) {
			g.wrong = append(g.wrong, shorten(place)+": no field "+report.SeverityField)
		}
		g.value(place, entry)
	}
}

// hasSeverity tells an object with a severity, however it is written.
func hasSeverity(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for key := range object {
		if strings.EqualFold(key, report.SeverityField) {
			return true
		}
	}
	return false
}

// shorten keeps the end of a place in a report.
func shorten(place string) string {
	const most = 120
	place = strings.TrimPrefix(place, ".")
	if len(place) > most {
		place = "…" + strings.ToValidUTF8(place[len(place)-most:], "")
	}
	return fmt.Sprintf("%q", place)
}

// ledgerRow is the verifier of output::ledger-row-required.
func ledgerRow(_ context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	if !s.Ledger {
		return failed("the run has no row in the ledger", ""), nil
	}
	return passed(), nil
}
