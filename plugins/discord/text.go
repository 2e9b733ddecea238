package main

import (
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Limits of one message.
const (
	// maxText is the longest text, in UTF-16 units. Its markup taken away, it fits where Discord
	// shows the longest texts, whatever it is.
	maxText    = 1900
	maxContent = 2000
	maxEmbed   = 4096
	fence      = "```"
)

// markup is a text in Discord's markup, of which nothing but code is any: no address is made a
// link, and nobody is called. Where the marks of its code take too much room, code is text.
func markup(text chat.Text) string {
	var b, bare strings.Builder
	for _, s := range text {
		bare.WriteString(s.Text)
		switch {
		case s.Kind == chat.InlineCode:
			b.WriteString("`" + s.Text + "`")
		case s.Kind == chat.CodeBlock && !strings.Contains(s.Text, fence):
			b.WriteString(fence + "\n" + s.Text + "\n" + fence)
		default:
			b.WriteString(escaped(s.Text))
		}
	}
	if utf8.RuneCountInString(b.String()) > maxEmbed {
		return escaped(bare.String())
	}
	return b.String()
}

// escaped is a text as it stands: what would be markup wherever it stands, and what would be at
// the beginning of a line.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, `|`, `\|`, "`", "\\`", `<`, `\<`, `@`, `\@`, `:`, `\:`, `[`, `\[`, `]`, `\]`).Replace(text)
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimLeft(line, " \t")
		b.WriteString(line[:len(line)-len(bare)])
		number := bare[:len(bare)-len(strings.TrimLeft(bare, "0123456789"))]
		rest := bare[len(number):]
		switch {
		case number == "" && strings.ContainsAny(bare[:min(1, len(bare))], "#>-+"), number != "" && strings.ContainsAny(rest[:min(1, len(rest))], ".)"):
			b.WriteString(number + `\` + rest)
		default:
			b.WriteString(bare)
		}
	}
	return b.String()
}
