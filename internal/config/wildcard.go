package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
)

// Wildcard confirms a pattern of hosts, so that [egress] allow and
// --egress may name it (M-20). It allows nothing by itself.
type Wildcard struct {
	// Host is "*.example.com": the star stands for exactly one label.
	Host string `toml:"host"`
	// Confirmed says when and by whom, such as "2026-11-21 by ada".
	Confirmed string `toml:"confirmed"`
}

func (w Wildcard) check() error {
	rule, err := posture.ParseWildcard(w.Host)
	if err != nil {
		return fmt.Errorf("[[egress.wildcard]]: %w", err)
	}
	if rule.Host != w.Host {
		return fmt.Errorf("[[egress.wildcard]] host = %q: write %q, without a port", w.Host, rule.Host)
	}
	day, who, found := strings.Cut(w.Confirmed, " by ")
	if _, err := time.Parse(time.DateOnly, day); err != nil || !found || strings.TrimSpace(who) == "" {
		return fmt.Errorf("[[egress.wildcard]] %s: confirmed = %q: write the day and who, such as \"2026-11-21 by ada\"", w.Host, w.Confirmed)
	}
	return nil
}

// Rule reads one host, or a pattern of hosts that the config confirms.
func (e Egress) Rule(text string) (nacre.EgressRule, error) {
	if !posture.IsWildcard(text) {
		return posture.ParseEgress(text)
	}
	rule, err := posture.ParseWildcard(text)
	if err != nil {
		return nacre.EgressRule{}, err
	}
	if !e.confirms(rule) {
		return nacre.EgressRule{}, fmt.Errorf("egress %q: wildcards are refused until config.toml confirms them: [[egress.wildcard]] host = %q, confirmed = \"DAY by NAME\"", text, rule.Host)
	}
	return rule, nil
}

func (e Egress) confirms(rule nacre.EgressRule) bool {
	return slices.ContainsFunc(e.Wildcards, func(w Wildcard) bool { return w.Host == rule.Host })
}

// Explained adds to the texts of rules who confirmed their pattern, and when.
func (e Egress) Explained(texts []string) []string {
	for i, text := range texts {
		for _, w := range e.Wildcards {
			if strings.HasPrefix(text, w.Host+":") {
				texts[i] += " (any one label for the *; confirmed " + w.Confirmed + ")"
			}
		}
	}
	return texts
}
