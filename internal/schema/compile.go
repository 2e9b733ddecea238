package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/wire"
)

// The limits of a tool's schema.
const (
	maxSchema      = 256 << 10
	maxSchemaDepth = 32
	maxSchemaSteps = 20_000
	maxViolation   = 300
)

// draft is the one version of JSON Schema that is spoken (D-11).
const draft = "https://json-schema.org/draft/2020-12/schema"

// formats are those that are really checked; another would pass anything.
var formats = []string{
	"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri",
	"iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex", "semver", "period",
}

// closed reads the schema of a tool's arguments, and refuses one that is open.
func closed(raw json.RawMessage) (map[string]any, error) {
	switch {
	case len(raw) == 0:
		return nil, errors.New(`missing; a tool without arguments declares {"type":"object","additionalProperties":false}`)
	case len(raw) > maxSchema:
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(raw), maxSchema)
	}
	if err := wire.Check(raw, wire.Limits{Message: maxSchema, String: maxSchema}); err != nil {
		return nil, err
	}
	document, err := decode(raw)
	if err != nil {
		return nil, err
	}
	root, ok := document.(map[string]any)
	if !ok || !slices.Equal(typesOf(root), []string{"object"}) {
		return nil, errors.New(`arguments are an object: declare "type":"object"`)
	}
	if version, ok := root["$schema"]; ok && version != draft {
		return nil, fmt.Errorf("$schema %v: only %s is spoken", version, draft)
	}
	return root, newCloser(root).value(root, "arguments", 0)
}

// dotted is the path of an argument: due.date, items.2.name.
func dotted(at []string, more ...string) string {
	return cut(strings.Join(append(slices.Clone(at), more...), "."), maxViolation)
}
