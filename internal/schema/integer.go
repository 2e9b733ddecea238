package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/constraint"
)

// spellIntegers writes 1e1 and 10.0 as 10 where a schema wants an integer, which
// they are: few readers of integers take them. It reports whether it did.
func spellIntegers(at *rules, value any) (spelled any, changed bool) {
	for range maxSchemaDepth {
		if at == nil || at.ref == nil {
			break
		}
		at = at.ref
	}
	if at == nil {
		return value, false
	}
	switch v := value.(type) {
	case json.Number:
		return spellInteger(at, v)
	case map[string]any:
		for name, inner := range v {
			var did bool
			v[name], did = spellIntegers(at.object.properties[name], inner)
			changed = changed || did
		}
	case []any:
		for i, inner := range v {
			var did bool
			v[i], did = spellIntegers(at.array.items, inner)
			changed = changed || did
		}
	}
	return value, changed
}

// spellInteger leaves alone what has more digits than anybody writes.
func spellInteger(at *rules, n json.Number) (any, bool) {
	if len(at.kinds) == 0 || !strings.ContainsAny(string(n), ".eE") {
		return n, false
	}
	plain, err := constraint.Canonical([]byte(n))
	if !slices.Contains(at.kinds, "integer") || slices.Contains(at.kinds, "number") || err != nil || strings.ContainsAny(string(plain), ".eE") {
		return n, false
	}
	return json.Number(plain), true
}
