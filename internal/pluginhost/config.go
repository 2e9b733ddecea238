package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nacre-dev/nacre/internal/wire"
)

// checkedConfig is what initialize gets: the operator's configuration, with
// the schema's top-level defaults where it says nothing, held against the schema (D-25).
// No schema means that no configuration is taken.
func checkedConfig(schema, config json.RawMessage) (json.RawMessage, error) {
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	members, err := wire.Object(config, wire.Limits{})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if schema == nil {
		if len(members) > 0 {
			return nil, fmt.Errorf("config: %q is set, but the manifest has no config_schema", members[0].Key)
		}
		return config, nil
	}
	compiled, err := compile(schema)
	if err != nil {
		return nil, fmt.Errorf("config_schema: %w", err)
	}
	if config, err = withDefaults(schema, members); err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if err := compiled.Validate(value); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config, nil
}

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource("config_schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("config_schema.json")
}

// noLoader keeps a schema from reading files or the network.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references must stay within the schema")
}

func withDefaults(schema json.RawMessage, members []wire.Member) (json.RawMessage, error) {
	var s struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("config_schema: %w", err)
	}
	config := map[string]json.RawMessage{}
	for name, p := range s.Properties {
		if p.Default != nil && string(p.Default) != "null" {
			config[name] = p.Default
		}
	}
	for _, m := range members {
		config[m.Key] = m.Value
	}
	return json.Marshal(config)
}
