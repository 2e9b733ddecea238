package sentence

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/audit"
)

// maxValue is how much of a value a line shows, in characters.
const maxValue = 80

// opaque are digests and ids that only programs compare; --json shows them.
var opaque = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sha256:)?[0-9a-f]{24,}$`) }) //nolint:gochecknoglobals // compiled once, where it is used

// describe sums a record up in a line: who, what, how it ended and why, and what a
// person reads of its detail (F-127). What was written by an agent is escaped by
// whoever prints the line.
func describe(e audit.Entry) string {
	var parts []string
	for _, part := range []string{e.Source, strings.TrimPrefix(e.Topic, "tool.invoke."), e.Outcome, e.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, details(e.Detail)...), "  ")
}

// details are the members of a record's detail that say something to a person.
func details(detail json.RawMessage) []string {
	var members map[string]any
	if json.Unmarshal(detail, &members) != nil {
		return nil // a record without one
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if text := valueText(members[key]); text != "" {
			texts = append(texts, key+"="+text)
		}
	}
	return texts
}

// valueText is a value in as few words as say it; empty says nothing.
func valueText(value any) string {
	switch v := value.(type) {
	case string:
		return stringText(v)
	case bool:
		if v {
			return "yes"
		}
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		return listText(v)
	case map[string]any:
		if n, sized := v["bytes"].(float64); sized {
			return fmt.Sprintf("%.0f bytes", n)
		}
		if len(v) > 0 {
			return "…"
		}
	}
	return ""
}

func stringText(s string) string {
	if s == "" || opaque().MatchString(s) {
		return ""
	}
	if runes := []rune(s); len(runes) > maxValue {
		s = string(runes[:maxValue-1]) + "…"
	}
	if strings.ContainsAny(s, " =\"\n") {
		return strconv.Quote(s)
	}
	return s
}

func listText(list []any) string {
	var texts []string
	for _, one := range list {
		if text := valueText(one); text != "" {
			texts = append(texts, text)
		}
	}
	if text := strings.Join(texts, ","); utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return strconv.Itoa(len(list)) + " entries"
}
