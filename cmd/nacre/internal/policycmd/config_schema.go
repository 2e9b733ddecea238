package policycmd

import (
	"encoding"
	"reflect"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/config"
)

// configSchema is the JSON Schema (draft 2020-12) of config.toml, for editors: each key with
// the type of its value, and no other key. That values make sense together is for
// [config.Read] to say.
func configSchema() map[string]any {
	schema := schemaOf(reflect.TypeFor[config.Config]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "config.toml of nacre"
	return schema
}

// schemaOf describes the values of a type.
func schemaOf(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem())
	}
	if t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() { //nolint:exhaustive // a config has no other kinds, which its test holds
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[toml.Unmarshaler]()) { // a name stands for the table, too
			return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, tableOf(t)}}
		}
		return tableOf(t)
	}
	return map[string]any{} // anything: a plugin's own
}

// tableOf describes a table with its keys, and no others.
func tableOf(t reflect.Type) map[string]any {
	properties := map[string]any{}
	for name, value := range config.KeysOf(t) {
		properties[name] = schemaOf(value)
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}
