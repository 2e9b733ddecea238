// Package naming promises that a chain, a segment of one and what a crash tore off have one form of
// name each, which leads nowhere else.
package naming

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxChain is the longest name of a chain, in bytes.
	maxChain = 80
	// tornPrefix is before the number of a record, of at most maxNumber digits, whose line a crash tore off.
	tornPrefix, maxNumber = "torn-", 16
)

// IsChain says that a name is 1–80 of [a-z0-9._-], beginning with a letter or digit.
func IsChain(name string) bool {
	if name == "" || len(name) > maxChain || strings.ContainsRune("._-", rune(name[0])) {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// IsSegment says that a name is six digits and .jsonl.
func IsSegment(name string) bool {
	number, ok := strings.CutSuffix(name, ".jsonl")
	return ok && len(number) == 6 && strings.Trim(number, "0123456789") == ""
}

// Segment is the name of a chain's n-th segment.
func Segment(n int) string { return fmt.Sprintf("%06d.jsonl", n) }

// Torn is where a torn line is kept that stood at a record's place.
func Torn(seq uint64) string { return tornPrefix + strconv.FormatUint(seq, 10) }

// IsTorn says that a name is one of a torn line, or of one that is being written.
func IsTorn(name string) bool {
	number, ok := strings.CutPrefix(strings.TrimSuffix(name, ".tmp"), tornPrefix)
	return ok && number != "" && len(number) <= maxNumber && strings.Trim(number, "0123456789") == ""
}
