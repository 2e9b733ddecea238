package model

import (
	"slices"
	"strconv"
	"strings"
)

// betaList is what one brain asks for from a version on.
type betaList struct {
	brain, from string
	names       []string
}

// betaLists are, for each brain, in the order of versions, the beta features
// that it asks for with an API key. None of them lets the vendor act for the
// model. Others are left out of what is sent on, and recorded: a brain goes on
// without them, where a refusal would end it at its first call.
var betaLists = []betaList{
	{"claude", "0", []string{"claude-code-20250219", "interleaved-thinking-2025-05-14"}},
	{"claude", "2.1.329", []string{
		"claude-code-20250219",
		"interleaved-thinking-2025-05-14",
		"context-management-2025-06-27",
		"per-turn-control-2026-07-01",
		"mid-conversation-tool-changes-2026-07-01",
		"thinking-token-count-2026-05-13",
		"advanced-tool-use-2025-11-20",
		"effort-2025-11-24",
		"thinking-display-updates-2026-08-18",
	}},
	// Agents of the Agent Client Protocol that speak Anthropic are built on Claude
	// Code, of a version that they do not tell.
	{"acp", "0", []string{
		"claude-code-20250219",
		"interleaved-thinking-2025-05-14",
		"context-management-2025-06-27",
		"effort-2025-11-24",
	}},
}

// betasOf is the list for a brain with its version, such as "claude 2.1.329";
// nil for one that is not known.
func betasOf(agent string) []string {
	brain, version, _ := strings.Cut(agent, " ")
	var names []string
	for _, l := range betaLists {
		if l.brain == brain && (l.from == "0" || !older(version, l.from)) {
			names = l.names
		}
	}
	return names
}

// older compares versions number by number. What is no version is older than all.
func older(version, than string) bool {
	have, ok := numbers(version)
	want, _ := numbers(than)
	return !ok || slices.Compare(have, want) < 0
}

func numbers(version string) (parts []int, ok bool) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, false
		}
		parts = append(parts, n)
	}
	return parts, true
}
