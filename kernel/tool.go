package kernel

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxDescription is the longest description of a capability, in bytes.
const maxDescription = 8 << 10

// tool is a capability that was checked, with its schema compiled once.
type tool struct {
	capability nacre.Capability
	driver     nacre.Driver
	source     string
	deadline   time.Duration

	schema       *jsonschema.Schema
	schemaDigest string
	defaults     *defaults
}

// newTool checks all that is declared of a tool. What it keeps is its own copy.
func newTool(t nacre.Tool) (*tool, []string, error) {
	c := cloneCapability(t.Capability)
	if err := checkCapability(c); err != nil {
		return nil, nil, err
	}
	if t.Driver == nil {
		return nil, nil, errors.New("no driver")
	}
	schema, err := compile(c.Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	canonical, err := wire.Canonical(c.Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	for _, sink := range c.Sinks {
		if _, ok := schema.Properties[sink]; !ok {
			return nil, nil, fmt.Errorf("sink %q is no argument", sink)
		}
	}
	found, warnings := collect(schema, "")
	digest := token.Sum("nacre.schema.1", string(canonical))
	source := string(c.ID)
	if dot := strings.LastIndexByte(source, '.'); dot > 0 {
		source = source[:dot]
	}
	deadline := c.Deadline
	if deadline == 0 {
		deadline = DefaultDeadline
	}
	return &tool{
		capability: c, driver: t.Driver, source: source, deadline: deadline,
		schema: schema, schemaDigest: hex.EncodeToString(digest[:]), defaults: found,
	}, warnings, nil
}

func checkCapability(c nacre.Capability) error {
	if _, err := nacre.ParseCapabilityID(string(c.ID)); err != nil {
		return err
	}
	if _, err := nacre.ParseToolName(string(c.Tool)); err != nil {
		return err
	}
	switch {
	case c.Safety > nacre.Read:
		return fmt.Errorf("unknown safety class %d", c.Safety)
	case c.Sensitivity > nacre.SensitiveNone:
		return fmt.Errorf("unknown sensitivity %d", c.Sensitivity)
	case c.Returns > nacre.Trusted:
		return fmt.Errorf("unknown label %d", c.Returns)
	case len(c.Description) > maxDescription:
		return fmt.Errorf("description of %d bytes, the limit is %d", len(c.Description), maxDescription)
	case c.Deadline < 0 || c.Deadline > MaxDeadline:
		return fmt.Errorf("deadline of %v: use up to %v", c.Deadline, MaxDeadline)
	case c.Rate.Calls < 0 || c.Rate.Window < 0 || (c.Rate.Calls == 0) != (c.Rate.Window == 0):
		return fmt.Errorf("rate of %d calls in %v: both must be positive", c.Rate.Calls, c.Rate.Window)
	}
	return nil
}

func cloneCapability(c nacre.Capability) nacre.Capability {
	c.Schema = slices.Clone(c.Schema)
	c.AllowedFields = slices.Clone(c.AllowedFields)
	c.Tags = slices.Clone(c.Tags)
	c.Sinks = slices.Clone(c.Sinks)
	return c
}

// arguments returns the canonical form of valid arguments with defaults
// inserted, or why they are not valid. Nothing at all stands for {}.
func (t *tool) arguments(raw json.RawMessage) (json.RawMessage, *nacre.Refusal) {
	if len(raw) > MaxArguments {
		return nil, &nacre.Refusal{Message: fmt.Sprintf("arguments of %d bytes, the limit is %d", len(raw), MaxArguments)}
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments are not usable JSON: " + err.Error()}
	}
	value, err := decode(canonical)
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments are not usable JSON: " + err.Error()}
	}
	if err := t.schema.Validate(value); err != nil {
		return nil, invalid(err)
	}
	if !t.defaults.insert(value) {
		return canonical, nil
	}
	if err := t.schema.Validate(value); err != nil { // a driver never sees what its schema refuses
		return nil, invalid(err)
	}
	filled, err := json.Marshal(value)
	if err == nil {
		filled, err = wire.Canonical(filled)
	}
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments cannot be completed: " + err.Error()}
	}
	return filled, nil
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// defaults are the values to insert into an object, and into the objects in it.
type defaults struct {
	names  []string
	values map[string]any
	inside map[string]*defaults
}

// collect finds the defaults of an object's properties. One that violates its
// own schema is left out, with a warning (D-11).
func collect(schema *jsonschema.Schema, path string) (*defaults, []string) {
	found := &defaults{values: map[string]any{}, inside: map[string]*defaults{}}
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		if value := defaultOf(property); value != nil {
			if err := property.Validate(*value); err != nil {
				warnings = append(warnings, fmt.Sprintf("the default of %s%s violates its own schema and is ignored", path, name))
			} else {
				found.values[name] = *value
			}
		}
		if len(property.Properties) > 0 {
			inside, more := collect(property, path+name+".")
			warnings = append(warnings, more...)
			if len(inside.names) > 0 {
				found.inside[name] = inside
			}
		}
		if _, ok := found.values[name]; ok || found.inside[name] != nil {
			found.names = append(found.names, name)
		}
	}
	return found, warnings
}

// defaultOf is a property's own default, or that of what it refers to.
func defaultOf(property *jsonschema.Schema) *any {
	for range maxSchemaDepth {
		if property.Default != nil || property.Ref == nil {
			break
		}
		property = property.Ref
	}
	return property.Default
}

// insert adds what is absent, and reports whether anything was.
func (d *defaults) insert(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	changed := false
	for _, name := range d.names {
		if _, present := object[name]; !present {
			if value, ok := d.values[name]; ok {
				object[name] = copyOf(value)
				changed = true
			}
		}
		if inside := d.inside[name]; inside != nil {
			changed = inside.insert(object[name]) || changed
		}
	}
	return changed
}

// copyOf keeps calls from sharing the containers of a default.
func copyOf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, inner := range v {
			c[name] = copyOf(inner)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, inner := range v {
			c[i] = copyOf(inner)
		}
		return c
	}
	return value
}
