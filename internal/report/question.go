package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// questionField is where an agent asks instead of returning work.
const questionField = "question"

// Question is what an agent asks in its report, wherever the report stands in
// what it said (S-18); empty where it asks nothing. A question that is no text,
// such as a list of them, is given as JSON: it is one all the same.
func Question(said []byte) string {
	found, err := Read(said)
	if err != nil {
		return ""
	}
	var asked []string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if !strings.EqualFold(key, questionField) {
			continue
		}
		switch v := found[key].(type) {
		case nil:
		case bool:
			if v {
				asked = append(asked, "true")
			}
		case string:
			asked = append(asked, strings.TrimSpace(v))
		default:
			if text, err := json.Marshal(v); err != nil || len(text) > len("[]") {
				asked = append(asked, string(text))
			}
		}
	}
	return strings.TrimSpace(strings.Join(asked, "\n"))
}
