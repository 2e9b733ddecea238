package toolchain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/toolchain"
)

// S-13: a lock file names the registry that the operator's cargo asks. What cannot be asked
// is refused, and never taken for crates.io.
func TestTheIndexInThePlaceOfCratesIO(t *testing.T) {
	for name, c := range map[string]struct{ config, want, refused string }{
		"there is no config":                       {},
		"a config says nothing of sources":         {config: "[build]\njobs = 2\n"},
		"another registry is asked":                {config: "[source.crates-io]\nreplace-with = \"own\"\n[source.own]\nregistry = \"sparse+https://crates.example.com/index/\"\n", want: "https://crates.example.com/index/"},
		"the other is replaced as well":            {config: "[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nregistry = \"sparse+https://a.example.com/\"\nreplace-with = \"b\"\n", refused: `has "a" in the place of crates.io`},
		"the other is a git repository":            {config: "[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nregistry = \"https://a.example.com/index.git\"\n", refused: `has "a" in the place of crates.io`},
		"its address holds a password":             {config: "[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nregistry = \"sparse+https://u:p@a.example.com/\"\n", refused: "without a password"},
		"what stands in its place is not declared": {config: "[source.crates-io]\nreplace-with = \"a\"\n", refused: `has "a" in the place of crates.io`},
		"the config is no TOML":                    {config: "[source", refused: "cannot be read"},
		"the config is too long":                   {config: strings.Repeat("#\n", 1<<20), refused: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if c.config != "" {
				if err := os.WriteFile(filepath.Join(home, toolchain.CargoConfig), []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			index, err := toolchain.ReplacedIndex(func(name string) string { return map[string]string{"CARGO_HOME": home}[name] })
			have := ""
			if index != nil {
				have = index.String()
			}
			if have != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("index %q, error %v; want %q, refused with %q", have, err, c.want, c.refused)
			}
		})
	}
}
