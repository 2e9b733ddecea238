package prove

import (
	"context"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
)

// rulesOf are the egress rules of sessions that begin now.
func rulesOf(inst *installation.Installation) ([]nacre.EgressRule, error) {
	reach, err := access.EgressAt(inst, inst.Options.Now())
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	rules, err := reach.Rules(nil)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return rules, nil
}

// CheckEgress tries the egress rules, and one of nobody's where there is none, in a proxy that reaches decoys only
// (M-60). It takes some milliseconds.
func CheckEgress(ctx context.Context, inst *installation.Installation) []installation.Finding {
	rules, err := rulesOf(inst)
	if err != nil {
		return []installation.Finding{installation.Unread(err)}
	}
	rows, err := Rules(ctx, append(slices.Clone(rules), nacre.EgressRule{Host: allowedHost, Port: 443}))
	if err != nil {
		return []installation.Finding{{Name: "egress", Status: "fail", Text: "the proxy could not be tried: " + err.Error(), Fix: "nacre doctor --prove says more"}}
	}
	var findings []installation.Finding
	for _, row := range rows {
		if !row.Outcome.Holds() {
			findings = append(findings, installation.Finding{Name: "egress", Status: "fail", Text: row.Probe + ": " + row.Reason, Fix: "do not rely on this installation: nacre doctor --prove says more"})
		}
	}
	if findings == nil {
		text := fmt.Sprintf("the proxy let through what is listed, and refused what lies beside it and what it could not record · %d listed", len(rules))
		findings = append(findings, installation.Finding{Name: "egress", Status: "ok", Text: text})
	}
	return findings
}
