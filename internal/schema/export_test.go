package schema

import (
	"encoding/json"
	"maps"
	"slices"
)

// Plain reports whether a schema is not compiled before it is needed.
func Plain(raw json.RawMessage) bool {
	root, err := closed(raw)
	return err == nil && isPlain(root)
}

// Whole is what compiling a schema finds of it: defaults by name, warnings, and
// which of some arguments it has.
func Whole(raw json.RawMessage, paths []string) (found Findings, err error) {
	root, err := closed(raw)
	if err != nil {
		return found, err
	}
	compiled, err := compile(root)
	if err != nil {
		return found, err
	}
	d, warnings := collect(compiled, "")
	for _, path := range paths {
		at := argument(compiled, path)
		found.Has = append(found.Has, at != nil)
	}
	found.Defaults, found.Warnings = flattened(d), warnings
	return found, nil
}

// Seen is the same of a plain schema that was only looked at.
func Seen(s *Schema, paths []string) (found Findings) {
	for _, path := range paths {
		found.Has = append(found.Has, s.Has(path))
	}
	found.Defaults, found.Warnings = flattened(s.defaults), s.warnings
	return found
}

// Findings are what is known of a schema.
type Findings struct {
	Defaults map[string]any
	Warnings []string
	Has      []bool
}

func flattened(d *defaults) map[string]any {
	all := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		all[name] = d.values[name]
	}
	for name, inside := range d.inside {
		for inner, value := range flattened(inside) {
			all[name+"."+inner] = value
		}
	}
	return all
}
