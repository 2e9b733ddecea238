package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// bumps holds the manifests that a task lets change against the base's: what
// they say of dependencies may differ, and nothing else, because the same files
// say how tests are run. It returns "" or what is wrong.
func (t trees) bumps(p part) (string, error) {
	for _, name := range t.work.names() {
		if classOf(p.language, name) != manifest || borrowed(name) || !t.base.has(name) {
			continue
		}
		equal, err := same(t.base, t.work, name)
		if err != nil {
			return "", err
		}
		if equal {
			continue
		}
		was, err := t.base.read(name)
		if err != nil {
			return "", err
		}
		is, err := t.work.read(name)
		if err != nil {
			return "", err
		}
		if !sameButDependencies(path.Base(name), was, is) {
			return fmt.Sprintf("%s differs from the base in more than its dependencies: a person has to land that", name), nil
		}
	}
	return "", nil
}

func sameButDependencies(name string, was, is []byte) bool {
	switch path.Ext(name) {
	case ".mod", ".work":
		return slices.Equal(directives(was), directives(is))
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

// directives are the lines of a go.mod that are no requirement.
func directives(data []byte) []string {
	var list []string
	block := ""
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block != "":
			fields = append([]string{block}, fields...)
		}
		switch fields[0] {
		case "require", "exclude", "go", "toolchain", "retract":
		default:
			list = append(list, strings.Join(fields, " "))
		}
	}
	return list
}
