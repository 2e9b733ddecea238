package command

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide the text of a help page is, in columns: that of a terminal that nobody made wider.
const helpWidth = 80

// Told gives the help pages of a command, and of all below it, one form: each begins with full sentences, in lines that
// every terminal shows whole.
func Told(c *cobra.Command) {
	if c.Long == "" && c.Short != "" {
		first, size := utf8.DecodeRuneInString(c.Short)
		c.Long = string(unicode.ToUpper(first)) + c.Short[size:] + "."
	}
	c.Long = folded(c.Long)
	for _, below := range c.Commands() {
		Told(below)
	}
}

// folded is a text with its paragraphs in lines of helpWidth; a line that begins with a space stays as it is.
func folded(text string) string {
	var b strings.Builder
	column := 0
	for line := range strings.Lines(text) {
		if line == "\n" || line[0] == ' ' {
			if column > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line)
			column = 0
			continue
		}
		for _, word := range strings.Fields(line) {
			width := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+width > helpWidth:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += width
		}
	}
	return b.String()
}
