package verify

import (
	"context"

	"github.com/nacre-dev/nacre/internal/atom"
)

// handler forms one atom's verdict; Judge fills in whose it is. An error says
// that the host failed, and that there is no verdict. A verdict of which the
// strength is empty counts as weak.
type handler func(ctx context.Context, s Subject, a atom.Atom, run Runner) (Verdict, error)

// verifier is a handler and what it needs.
type verifier struct {
	judge handler
	// runs says that commands of the code under test are run: such verifiers come
	// after those that only read, and not at all where one of those failed.
	runs bool
}

// verifiers are all there are, by the name in an atom's Verify.Handler. An atom
// that names another has failed (S-14).
func verifiers() map[string]verifier {
	return map[string]verifier{
		"no-git-ops":          {judge: noGitOps},
		"files-whitelist":     {judge: filesWhitelist},
		"files-denylist":      {judge: filesDenylist},
		"no-rule-edits":       {judge: noRuleEdits},
		"no-dep-bump":         {judge: noDepBump},
		"no-mass-delete":      {judge: noMassDelete},
		"deny-tools":          {judge: unchanged},
		"constructor-pattern": {judge: constructorPattern},
		"report-format":       {judge: reportFormat},
		"severity-grade":      {judge: severityGrade},
		"ledger-row-required": {judge: ledgerRow},
		"tests-green":         {judge: testsGreen, runs: true},
		"no-warnings":         {judge: noWarnings, runs: true},
		"go-check-green":      {judge: checked(golang, goChecks), runs: true},
		"cargo-check-green":   {judge: cargoOrOwn, runs: true},
		"node-check-green":    {judge: checked(node, nodeChecks), runs: true},
		"python-check-green":  {judge: checked(python, pythonChecks), runs: true},
	}
}

// Exists says whether there is a verifier of this name.
func Exists(name string) bool {
	_, ok := verifiers()[name]
	return ok
}

// passed is a verdict formed by reading alone, which the code under test
// cannot forge.
func passed() Verdict { return Verdict{Passed: true, Strength: Strong} }

// failed is its opposite.
func failed(reason, detail string) Verdict {
	return Verdict{Strength: Strong, Reason: reason, Detail: detail}
}
