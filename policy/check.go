package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/quantity"
)

// Finding is something about a policy that parses and may not be meant.
type Finding struct {
	Line int `json:"line"`
	// Code is default_allow, never_reached, same_name, no_effect, shallow_pattern,
	// not_compared, never_matches or no_tool.
	Code string `json:"code"`
	Text string `json:"text"`
}

// FindingDefaultAllow is the code of an allow default, which a daemon refuses.
const FindingDefaultAllow = "default_allow"

// maxShadowed bounds the work of looking for rules that are never reached.
const maxShadowed = 2048

// Findings are what the author of a policy should look at again, by line (K-06).
func (p *Policy) Findings() []Finding {
	findings := []Finding{}
	if p.fallback == nacre.Allow {
		findings = append(findings, Finding{p.fallbackLine, FindingDefaultAllow, "what no rule names is allowed; the daemon refuses this"})
	}
	names := map[string]int{}
	for i := range p.rules {
		r := &p.rules[i]
		if line, taken := names[r.name]; taken {
			findings = append(findings, Finding{r.line, "same_name", fmt.Sprintf("rule %q: a rule on line %d has this name", r.name, line)})
		}
		names[r.name] = r.line
		if r.verdict == nacre.Deny && !r.constraints.IsZero() {
			findings = append(findings, Finding{r.line, "no_effect", fmt.Sprintf("rule %q denies, so its constraints narrow nothing", r.name)})
		}
		findings = append(findings, r.shallow()...)
		findings = append(findings, r.uncompared()...)
		findings = append(findings, r.impossible()...)
		if over := p.shadow(i); over != nil {
			text := fmt.Sprintf("rule %q is never reached: all that it matches, rule %q on line %d matches before", r.name, over.name, over.line)
			findings = append(findings, Finding{r.line, "never_reached", text})
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return a.Line - b.Line })
	return findings
}

// shallow finds patterns of paths in a deny that leave the folders below open.
func (r *rule) shallow() []Finding {
	var findings []Finding
	for i := range r.match {
		for _, p := range r.match[i].patterns {
			if r.verdict == nacre.Deny && strings.HasSuffix(p.text, "/*") && !strings.HasSuffix(p.text, "**/*") {
				text := fmt.Sprintf("rule %q denies %q, which leaves the folders below it open; write %q for all of them", r.name, p.text, p.text+"*")
				findings = append(findings, Finding{r.match[i].line, "shallow_pattern", text})
			}
		}
	}
	return findings
}

// uncompared finds patterns that look like comparisons and are none: they match
// the text alone that they are.
func (r *rule) uncompared() []Finding {
	var findings []Finding
	for i := range r.match {
		c := &r.match[i]
		for _, p := range c.patterns {
			if widened(p.text) {
				text := fmt.Sprintf("rule %q: %s %q is written with digits or signs that are not ASCII and matches that text only; write the number with 0 to 9", r.name, c.key, p.text)
				findings = append(findings, Finding{c.line, findingUncompared, text})
				continue
			}
			if !quantity.Compares(p.text) {
				continue
			}
			text := fmt.Sprintf("rule %q: %s %q compares nothing and matches that text only; a comparison is a sign and a number, as in \">100\", \">=1 <=31\", \"< 2027-01-01\" or \"length <= 500\"", r.name, c.key, p.text)
			if _, number := quantity.ParseBound(p.text); number {
				text = fmt.Sprintf("rule %q: %s %q compares nothing and matches that text only; only arguments are compared", r.name, c.key, p.text)
			}
			findings = append(findings, Finding{c.line, findingUncompared, text})
		}
	}
	return findings
}

// widened reports whether a text would be a number or compare with one, if its digits and
// signs were those of ASCII.
func widened(text string) bool {
	plain := strings.Map(func(r rune) rune {
		if r = narrow(r); r >= utf8.RuneSelf && unicode.IsDigit(r) {
			return '1' // any of them: only the shape counts
		}
		return r
	}, text)
	_, number := quantity.ParseNumber(strings.TrimSpace(plain))
	return plain != text && (number || quantity.Compares(plain))
}

// impossible finds comparisons that exclude each other.
func (r *rule) impossible() []Finding {
	var findings []Finding
	for i := range r.match {
		for j := range r.match[i].bounds {
			if b := &r.match[i].bounds[j]; b.Never() {
				text := fmt.Sprintf("rule %q: no value is %q", r.name, b.Text())
				findings = append(findings, Finding{r.match[i].line, findingNever, text})
			}
		}
	}
	return findings
}

// shadow is an earlier rule that matches whenever the i-th does.
func (p *Policy) shadow(i int) *rule {
	if len(p.rules) > maxShadowed {
		return nil
	}
	for j := range p.rules[:i] {
		if p.rules[j].covers(&p.rules[i]) {
			return &p.rules[j]
		}
	}
	return nil
}

func (r *rule) covers(later *rule) bool {
	// An allow reads values more narrowly than the others.
	if r.verdict == nacre.Allow && later.verdict != nacre.Allow && r.readsValues() {
		return false
	}
	for i := range r.match {
		c := &r.match[i]
		if !slices.ContainsFunc(later.match, func(l condition) bool { return c.covers(&l) }) {
			return false
		}
	}
	return true
}

func (r *rule) readsValues() bool {
	return slices.ContainsFunc(r.match, func(c condition) bool { return len(c.patterns)+len(c.scalars)+len(c.bounds) > 0 })
}

// covers reports whether c holds whenever l does.
func (c *condition) covers(l *condition) bool {
	if c.key != l.key || c.name != l.name {
		return false
	}
	if slices.ContainsFunc(c.patterns, func(p pattern) bool { return p.any }) {
		return true
	}
	values := subset(l.scalars, c.scalars) && subset(boundTexts(l.bounds), boundTexts(c.bounds)) && subset(texts(l.patterns), texts(c.patterns)) && c.from == l.from
	names := subset(l.words, c.words) && !slices.ContainsFunc(l.globs, func(g glob) bool { return !globCovered(g, c.globs) })
	return values && names && c.want == l.want && c.count <= l.count && l.bits&^c.bits == 0
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

func boundTexts(bounds []quantity.Bound) []string {
	all := make([]string, len(bounds))
	for i := range bounds {
		all[i] = bounds[i].Text()
	}
	return all
}

func texts(patterns []pattern) []string {
	all := make([]string, len(patterns))
	for i, p := range patterns {
		all[i] = p.text
	}
	return all
}

// globCovered holds the text of a glob against others: a star in it is only
// matched by a star.
func globCovered(g glob, by []glob) bool {
	return slices.ContainsFunc(by, func(b glob) bool { return b == "*" || b == g || b.matches(string(g)) })
}
