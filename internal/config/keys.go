package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// unknownKey says where a key stands that means nothing, which key was probably meant,
// and which keys its table may have (F-131).
func unknownKey(data []byte, key toml.Key) error {
	table := reflect.TypeFor[Config]()
	for i, part := range key {
		keys := KeysOf(table)
		next, known := keys[part]
		if !known && table.Kind() == reflect.Struct {
			return fmt.Errorf("%sunknown key %q%s", atom.LineOf(data, key), key, besides(key[:i], part, keys))
		}
		if table.Kind() == reflect.Map { // of which the operator chooses the names
			next = table.Elem()
		}
		table = element(next)
	}
	return fmt.Errorf("%sunknown key %q", atom.LineOf(data, key), key)
}

// besides is the nearest of a table's keys to an unknown one, and all of them.
func besides(table toml.Key, part string, keys map[string]reflect.Type) string {
	meant := ";"
	if key := cmp.Or(atom.Nearest(part, maps.Keys(keys)), elsewhere(part)); key != "" {
		meant = fmt.Sprintf("; did you mean %q?", key)
	}
	where := "config.toml"
	if len(table) > 0 {
		where = "[" + table.String() + "]"
	}
	return fmt.Sprintf("%s %s may have the keys %s (docs/config.md)", meant, where, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
}

// elsewhere is the one key of that name that another table may have, dotted.
func elsewhere(name string) string {
	named := slices.DeleteFunc(Keys(), func(key string) bool { return !strings.HasSuffix(key, "."+name) })
	if len(named) != 1 {
		return ""
	}
	return named[0]
}

// KeysOf are the keys of a table, with the types of their values.
func KeysOf(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	keys := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name := field.Tag.Get("toml")
		switch {
		case field.Anonymous && name == "":
			for k, v := range KeysOf(field.Type) {
				keys[k] = v
			}
		case name != "" && name != "-":
			keys[name] = field.Type
		}
	}
	return keys
}

// element is the table that a value is, or that a list of tables is made of.
func element(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	return t
}

// Keys are all keys that config.toml may have, dotted, with * for a name that the operator
// chooses.
func Keys() []string {
	keys := below(reflect.TypeFor[Config](), "")
	slices.Sort(keys)
	return keys
}

func below(t reflect.Type, prefix string) []string {
	t = element(t)
	if t.Kind() == reflect.Map {
		return append([]string{prefix + "*"}, below(t.Elem(), prefix+"*.")...)
	}
	var all []string
	for name, value := range KeysOf(t) {
		all = append(append(all, prefix+name), below(value, prefix+name+".")...)
	}
	return all
}
