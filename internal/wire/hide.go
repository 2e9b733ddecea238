package wire

import (
	"encoding/json"
	"slices"
	"strings"
)

// Hide is JSON with marker in the place of each member of such a name, in lower case, however
// deep; null where it cannot be read.
func Hide(raw json.RawMessage, names []string, marker string) json.RawMessage {
	var value any
	unread := json.Unmarshal(raw, &value)
	hide(value, names, marker)
	clean, err := json.Marshal(value)
	if unread != nil || err != nil {
		return json.RawMessage("null")
	}
	return clean
}

func hide(value any, names []string, marker string) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if slices.Contains(names, strings.ToLower(key)) {
				v[key] = marker
				continue
			}
			hide(inner, names, marker)
		}
	case []any:
		for _, inner := range v {
			hide(inner, names, marker)
		}
	}
}
