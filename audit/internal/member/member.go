// Package member promises that a text member of a record has one form and at most so many bytes:
// a longer one is cut, and says so.
package member

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/canonical"
)

// Max is the longest text of a member in bytes.
const Max = 1 << 10

// Append appends a text member with a comma before it, or nothing if it is empty.
func Append(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, ',', '"'), key...), '"', ':')
	if len(value) <= Max && isPlainText(value) { // as nearly all are
		return append(append(append(dst, '"'), value...), '"')
	}
	return canonical.AppendText(dst, Cut(strings.ToValidUTF8(value, "\uFFFD")))
}

func isPlainText(s string) bool {
	for i := range len(s) {
		if !canonical.IsPlain(s[i]) {
			return false
		}
	}
	return true
}

// Cut shortens a text to Max bytes and says so in its end. An agent's long
// words must not be able to keep what it did out of the chain.
func Cut(s string) string {
	if len(s) <= Max {
		return s
	}
	mark := fmt.Sprintf(" [cut: %d bytes]", len(s))
	end := Max - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
