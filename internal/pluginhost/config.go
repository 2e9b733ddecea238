package pluginhost

import (
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/internal/wire"
)

// checkedConfig is what initialize gets: the operator's configuration, with
// the schema's top-level defaults where it says nothing, held against the schema (D-25).
// No schema means that no configuration is taken.
func checkedConfig(declared, config json.RawMessage) (json.RawMessage, error) {
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	members, err := wire.Object(config, wire.Limits{})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if declared == nil {
		if len(members) > 0 {
			return nil, fmt.Errorf("config: %q is set, but the manifest has no config_schema", members[0].Key)
		}
		return config, nil
	}
	settings, err := schema.CompileSettings(declared)
	if err != nil {
		return nil, fmt.Errorf("config_schema: %w", err)
	}
	if config, err = withDefaults(declared, members); err != nil {
		return nil, err
	}
	if err := settings.Check(config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config, nil
}

func withDefaults(declared json.RawMessage, members []wire.Member) (json.RawMessage, error) {
	var s struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(declared, &s); err != nil {
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
