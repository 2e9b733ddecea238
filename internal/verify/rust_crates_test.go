package verify_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

// crateText is an entry of a Cargo.lock.
func crateText(name, version, source, checksum string) string {
	return "[[package]]\nname = \"" + name + "\"\nversion = \"" + version + "\"\nsource = \"" + source + "\"\nchecksum = \"" + checksum + "\"\n\n"
}

const cratesIO = "registry+https://github.com/rust-lang/crates.io-index"

var (
	sha   = strings.Repeat("0a", 32)
	crate = crateText("dep", "1.0.0", cratesIO, sha)
)

// S-13: what a Cargo.lock of the base pins is fetched where all of it comes from the one registry.
// Everything else is named and not fetched.
func TestWhatACargoLockMayName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree map[string]string
		want string // why nothing is fetched; "" where something is
		have string // the folders and the crates
	}{
		"a project":                    {map[string]string{"Cargo.lock": crate}, "", ". dep-1.0.0"},
		"a registry by its other name": {map[string]string{"Cargo.lock": crateText("dep", "1.0.0-rc.1+x", "sparse+https://index.crates.io/", sha)}, "", ". dep-1.0.0-rc.1+x"},
		"a project of its own alone":   {map[string]string{"Cargo.lock": "[[package]]\nname = \"p\"\nversion = \"0.1.0\"\n"}, "", ""},
		"no lock file":                 {nil, "", ""},
		"crates that it keeps":         {map[string]string{"Cargo.lock": crate, "vendor/dep/Cargo.toml": ""}, "", ""},
		"a member of the workspace":    {map[string]string{"Cargo.lock": crate, "m/Cargo.toml": "", "m/Cargo.lock": crateText("other", "1.0.0", "git+https://x.example/x#0", "")}, "", ". dep-1.0.0"},
		"git":                          {map[string]string{"Cargo.lock": crate + crateText("g", "1.0.0", "git+https://x.example/x#0", "")}, "crates of crates.io", ""},
		"another registry":             {map[string]string{"Cargo.lock": crateText("g", "1.0.0", "registry+https://x.example/index", sha)}, "crates of crates.io", ""},
		"no checksum":                  {map[string]string{"Cargo.lock": crateText("g", "1.0.0", cratesIO, "")}, "not pinned", ""},
		"half a checksum":              {map[string]string{"Cargo.lock": crateText("g", "1.0.0", cratesIO, sha[:63])}, "not pinned", ""},
		"an old form":                  {map[string]string{"Cargo.lock": "[[package]]\nname = \"g\"\nversion = \"1.0.0\"\nsource = \"" + cratesIO + "\"\n[metadata]\n\"checksum g 1.0.0\" = \"" + sha + "\"\n"}, "not pinned", ""},
		"a name that climbs":           {map[string]string{"Cargo.lock": crateText("../g", "1.0.0", cratesIO, sha)}, "is no crate", ""},
		"a version that climbs":        {map[string]string{"Cargo.lock": crateText("g", "1/../../x", cratesIO, sha)}, "is no crate", ""},
		"a pattern":                    {map[string]string{"Cargo.lock": crateText("*", "1", cratesIO, sha)}, "is no crate", ""},
		"no TOML":                      {map[string]string{"Cargo.lock": "["}, "Cargo.lock", ""},
		"depths":                       {map[string]string{"Cargo.lock": strings.Repeat("a.", 1000) + "a = 1\n"}, "nested", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"Cargo.toml": "[package]\n", "src/lib.rs": "secret\n", ".cargo/config.toml": "[source.crates-io]\nreplace-with = \"x\"\n", "rust-toolchain.toml": ""}
			for at, text := range c.tree {
				tree[at] = text
			}
			have := ""
			s := verify.Subject{Base: layOut(t, tree), Tree: layOut(t, map[string]string{"Cargo.toml": "", "Cargo.lock": crateText("work", "1.0.0", cratesIO, sha)})}
			s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
				have = strings.Join(append(p.Folders, p.Crates...), " ")
				for name, data := range p.Files {
					if base := filepath.Base(name); base != "Cargo.toml" && base != "Cargo.lock" || strings.Contains(string(data), "secret") {
						t.Errorf("cargo is given %s", name)
					}
				}
				if !slices.Equal(p.Stubs, []string{"src/lib.rs"}) {
					t.Errorf("it is shown %q", p.Stubs)
				}
				return verify.Fetched{Dir: "/fetched"}, nil
			}
			d, err := s.Dependencies(t.Context())
			if err != nil || have != c.have || (c.want == "") != (d.Absent == "") || !strings.Contains(d.Absent, c.want) {
				t.Errorf("fetched %q, not because of %q, %v", have, d.Absent, err)
			}
			if shown := len(d.Modules) == 1 && d.Modules[0] == (verify.Module{Source: "/fetched", Cache: "rust"}); shown != (c.have != "") {
				t.Errorf("commands see %v", d.Modules)
			}
		})
	}
}

// FuzzCargoLock reads what a hostile repository calls a Cargo.lock.
func FuzzCargoLock(f *testing.F) {
	f.Add(crate)
	f.Add(crateText("../g", "1.0.0", cratesIO, sha))
	f.Fuzz(func(t *testing.T, text string) {
		s := verify.Subject{Base: layOut(t, map[string]string{"Cargo.toml": "", "Cargo.lock": text})}
		s.Tree = s.Base
		s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
			for _, crate := range p.Crates {
				if !filepath.IsLocal(crate) || strings.ContainsAny(crate, "*?[/\\\x00") {
					t.Errorf("the host looks for %q", crate)
				}
			}
			return verify.Fetched{Absent: "not here"}, nil
		}
		if _, err := s.Dependencies(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
