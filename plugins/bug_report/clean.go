package main

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/nacre-dev/nacre"
)

// gap is a character without width: it parts what a server would act on.
const gap = "\u200b"

const (
	hidden     = "[removed]"
	hiddenPath = "[path]"
)

// secretForms are the forms of secrets that are known; each match goes whole.
var secretForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{15,})`,
		`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`,
		`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_-]{30,}`, `\bxox[a-z]-[A-Za-z0-9-]{10,}`, `\bnpm_[A-Za-z0-9]{30,}`,
		`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
		`\b[0-9a-fA-F]{40,}\b`,
	}, "|"))
})

// labelledForms are values that what stands before them calls a secret.
var labelledForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((?:pass(?:word|wd|phrase)?|secret|token|api[-_ ]?key|authorization|credentials?|cookie)["']?\s*(?:[:=]|\bis\b)\s*(?:bearer\s+|basic\s+|token\s+)?["']?)[^\s"'&,;]{3,}`)
})

var bearerForms = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`) })

// userinfoForms are addresses with a password in them.
var userinfoForms = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(://)[^/\s@]+@`) })

// pathForms are paths of the host. Those of an agent's sandbox (/workspace,
// /project) stay: they tell of no person's machine.
var pathForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:file:/{1,3})?(?:/(?:home|root|Users|tmp|var|etc|opt|srv|mnt|media|usr|proc|sys|private|data|run/user)\b(?:/[^\s"'` + "`" + `<>|:,;)\]}]*)?|\b[A-Za-z]:\\[^\s"'<>|,;]+|~/[^\s"'` + "`" + `<>|,;]+)`)
})

// cleaned is an agent's text with what it knows to be a secret or a path taken out. Nothing is in
// it that a server acts on: mentions, links, comments and characters that do not show.
func cleaned(text string, token nacre.Secret) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	text = strings.Map(visible, text)
	if v := token.Reveal(); v != "" {
		text = strings.ReplaceAll(text, v, hidden)
	}
	text = secretForms().ReplaceAllString(text, hidden)
	text = userinfoForms().ReplaceAllString(text, "${1}"+hidden+"@")
	text = bearerForms().ReplaceAllString(text, "${1} "+hidden)
	text = labelledForms().ReplaceAllString(text, "${1}"+hidden)
	text = pathForms().ReplaceAllString(text, hiddenPath)
	return inert(text)
}

// inert parts what makes a mention, a link or a comment.
func inert(text string) string {
	return strings.NewReplacer("@", "@"+gap, "://", ":"+gap+"//", "www.", "www"+gap+".", "mailto:", "mailto"+gap+":",
		"<!--", "<"+gap+"!--").Replace(text)
}

func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d', unicode.Is(unicode.Co, r):
		return -1
	}
	return r
}
