package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// JSON writes v on a line of its own. What a terminal would act on is escaped
// there too, since JSON leaves most of it as it is.
func JSON(w io.Writer, v any) error {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	text := strings.TrimSuffix(line.String(), "\n")
	if strings.IndexFunc(text, hidden) >= 0 { // in a string: JSON has no such characters elsewhere
		var safe strings.Builder
		for _, r := range text {
			writeSafe(&safe, r)
		}
		text = safe.String()
	}
	_, err := io.WriteString(w, text+"\n")
	return err
}

func writeSafe(b *strings.Builder, r rune) {
	switch {
	case !hidden(r):
		b.WriteRune(r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		_, _ = fmt.Fprintf(b, `\u%04x\u%04x`, high, low) // a builder takes everything
	default:
		_, _ = fmt.Fprintf(b, `\u%04x`, r)
	}
}
