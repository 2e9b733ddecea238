package assembly_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// M-61: the documented file is one that loads, and it has every key there is.
func TestTheDocumentedConfigLoadsAndIsComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```toml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/config.md has no example in TOML")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := assembly.LoadConfig(dir); err != nil {
		t.Errorf("the example does not load: %v", err)
	}
	for _, key := range keysOf(reflect.TypeFor[assembly.Config]()) {
		if !strings.Contains(string(page), key) {
			t.Errorf("docs/config.md does not name %q", key)
		}
	}
}

// keysOf are the names of a struct's fields in TOML, at any depth.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Map || t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasSuffix(t.PkgPath(), "/assembly") {
		return nil
	}
	var keys []string
	for i := range t.NumField() {
		field := t.Field(i)
		keys = append(append(keys, field.Tag.Get("toml")), keysOf(field.Type)...)
	}
	return keys
}
