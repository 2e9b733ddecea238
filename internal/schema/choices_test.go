package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/schema"
)

// K-29: of which few texts an argument has to be one is what its schema lists, and nothing else.
func TestChoices(t *testing.T) {
	compiled, err := schema.Compile(json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
		"state":{"type":"string","enum":["open","closed"]},"tags":{"type":"array","items":{"enum":["a","b"]}},
		"count":{"enum":[1,2]},"free":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	have := compiled.Choices([]string{"state", "tags", "count", "free", "missing"})
	want := map[string][]string{"state": {"open", "closed"}, "tags": {"a", "b"}}
	if !maps.EqualFunc(have, want, slices.Equal) {
		t.Errorf("have %v, want %v", have, want)
	}
}
