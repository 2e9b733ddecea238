package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/nacre-dev/nacre"
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

// schemaURL stands for a tool's schema while it is compiled; nothing is loaded from it.
const schemaURL = "nacre:arguments"

// formats are those that are really checked; another would pass anything.
var formats = []string{
	"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri",
	"iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex", "semver", "period",
}

// noLoader refuses to fetch: a schema is local to its manifest.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer to itself only", url)
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

// compile compiles a schema that is closed.
func compile(root map[string]any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, root); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// invalid turns the library's findings into one that an agent can act on: the
// first by place, so that the same arguments always get the same answer.
func invalid(err error) *nacre.Refusal {
	var found *jsonschema.ValidationError
	if !errors.As(err, &found) {
		return &nacre.Refusal{Message: "arguments are not valid"}
	}
	return violation(worst(found))
}

// worst is the first finding by place.
func worst(found *jsonschema.ValidationError) *jsonschema.ValidationError {
	var all []*jsonschema.ValidationError
	leaves(found, &all)
	return slices.MinFunc(all, func(a, b *jsonschema.ValidationError) int {
		if c := slices.Compare(place(a), place(b)); c != 0 {
			return c
		}
		return strings.Compare(a.SchemaURL+strings.Join(a.ErrorKind.KeywordPath(), "/"), b.SchemaURL+strings.Join(b.ErrorKind.KeywordPath(), "/"))
	})
}

// place is where a finding is. Of a name that may not be the library does not know
// it: it gives the place of what it looked at afterwards.
func place(e *jsonschema.ValidationError) []string {
	if k, ok := e.ErrorKind.(*kind.PropertyNames); ok {
		return []string{k.Property}
	}
	return e.InstanceLocation
}

// leaves are the findings that have no others as causes. What is wrong with a name
// has no place of its own.
func leaves(e *jsonschema.ValidationError, all *[]*jsonschema.ValidationError) {
	if _, named := e.ErrorKind.(*kind.PropertyNames); named || len(e.Causes) == 0 {
		*all = append(*all, e)
		return
	}
	for _, cause := range e.Causes {
		leaves(cause, all)
	}
}

func violation(e *jsonschema.ValidationError) *nacre.Refusal {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		name := slices.Min(k.Properties)
		return &nacre.Refusal{Field: dotted(at, name), Message: fmt.Sprintf("additionalProperties %.80q not allowed", name)}
	case *kind.Required:
		name := slices.Min(k.Missing)
		return &nacre.Refusal{Field: dotted(at, name), Message: fmt.Sprintf("missing required property %q", name)}
	case *kind.FalseSchema:
		return &nacre.Refusal{Field: dotted(at), Message: fmt.Sprintf("property %.80q not allowed", dotted(at))}
	case *kind.PropertyNames:
		inner := worst(&jsonschema.ValidationError{Causes: e.Causes})
		return &nacre.Refusal{Message: cut(fmt.Sprintf("property name %.80q not allowed: %s", k.Property, said(inner)), maxViolation)}
	case *kind.DependentRequired:
		name := slices.Min(k.Missing)
		return &nacre.Refusal{Field: dotted(at, name), Message: fmt.Sprintf("missing property %q, which %q needs", name, k.Prop)}
	}
	why := said(e)
	if len(at) > 0 {
		why = dotted(at) + ": " + why
	}
	return &nacre.Refusal{Field: dotted(at), Message: cut(why, maxViolation)}
}

func said(e *jsonschema.ValidationError) string {
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// dotted is the path of an argument: due.date, items.2.name.
func dotted(at []string, more ...string) string {
	return cut(strings.Join(append(slices.Clone(at), more...), "."), maxViolation)
}
