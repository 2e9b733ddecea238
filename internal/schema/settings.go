package schema

import (
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre/internal/wire"
)

// Settings is the schema of what an operator sets. It need not be closed (D-25).
type Settings struct{ whole *rules }

// CompileSettings checks a schema of JSON Schema 2020-12, or of draft 6, 7 or 2019-09
// where it says so. It refers to itself only.
func CompileSettings(raw json.RawMessage) (*Settings, error) {
	if err := wire.Check(raw, wire.Limits{Message: maxSchema, String: maxSchema, CaseSensitive: true}); err != nil {
		return nil, err
	}
	document, err := decode(raw)
	if err != nil {
		return nil, err
	}
	root, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is not an object")
	}
	version, given := root["$schema"]
	if err := modern(root); err != nil {
		return nil, err
	}
	b := &builder{root: root, open: true, older: given && version != draft, made: map[string]*rules{}}
	whole, err := b.schema(root, "")
	if err != nil {
		return nil, err
	}
	return &Settings{whole}, nil
}

// Check says what is wrong with settings.
func (s *Settings) Check(settings json.RawMessage) error {
	if err := wire.Check(settings, wire.Limits{CaseSensitive: true}); err != nil {
		return err
	}
	value, err := decode(settings)
	if err != nil {
		return err
	}
	if refusal := judged(s.whole, value); refusal != nil {
		return errors.New(refusal.Message)
	}
	return nil
}

// olderWord compiles a word that newer drafts say in another way.
func (b *builder) olderWord(r *rules, s map[string]any, name string) (err error) {
	switch list, tuple := s["items"].([]any); name {
	case "items":
		r.array.prefix, err = b.parts(r, name, list)
	case "additionalItems":
		made, failed := b.part(r, s[name], name)
		if err = failed; tuple { // of one schema for all there are no others
			r.array.items = made
		}
	case "dependencies":
		err = b.dependencies(r, s[name])
	}
	return err
}

// dependencies compiles what 2020-12 calls dependentRequired and dependentSchemas.
func (b *builder) dependencies(r *rules, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return r.wrong("dependencies", "an object")
	}
	names, schemas := map[string]any{}, map[string]any{}
	for key, one := range object {
		if list, is := one.([]any); is {
			names[key] = list
		} else {
			schemas[key] = one
		}
	}
	if err := r.dependentRequired(names); err != nil {
		return err
	}
	return b.dependentSchemas(r, schemas)
}
