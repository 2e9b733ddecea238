package manifest

import (
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// SameButDependencies tells whether two versions of a manifest of that name differ in
// nothing but the dependencies that they declare. One that cannot be read differs.
func SameButDependencies(name string, was, is []byte) bool {
	switch path.Ext(name) {
	case ".mod", ".work":
		return slices.Equal(Directives(was), Directives(is))
	case ".toml":
		a, b := map[string]any{}, map[string]any{}
		if errors.Join(atom.CheckShape(was), atom.CheckShape(is)) != nil { // the reader is not linear in every TOML
			return false
		}
		if toml.Unmarshal(was, &a) != nil || toml.Unmarshal(is, &b) != nil {
			return false
		}
		return reflect.DeepEqual(strip(a), strip(b))
	case ".json":
		if name != "package.json" {
			return true
		}
		a, b := map[string]any{}, map[string]any{}
		if json.Unmarshal(was, &a) != nil || json.Unmarshal(is, &b) != nil {
			return false
		}
		return reflect.DeepEqual(strip(a), strip(b))
	case ".sum", ".lock", ".yaml":
		return true
	}
	return false
}

// strip takes the tables of dependencies out of a manifest, at every depth.
func strip(table map[string]any) map[string]any {
	for key, value := range table {
		switch key {
		case "dependencies", "dev-dependencies", "build-dependencies", "devDependencies", "peerDependencies", "optionalDependencies",
			"optional-dependencies", "dependency-groups":
			delete(table, key)
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			strip(inner)
		}
	}
	return table
}
