package verify_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

var h1 = "h1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))

// sumText is a go.sum with lines of its own before those of one module.
func sumText(lines string) string {
	return lines + "example.test/Dep v1.0.0 " + h1 + "\nexample.test/Dep v1.0.0/go.mod " + h1 + "\n"
}

// S-13: what go.sum pin is fetched for each module of the base. What is none of Go's pins is named
// and nothing is fetched.
func TestWhatAGoSumMayName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree map[string]string
		want string // why nothing is fetched; "" where something is
		have string // the folders of modules, and how much each pins
	}{
		"a module":                       {map[string]string{"go.sum": sumText("")}, "", ".:2"},
		"a module in a folder":           {map[string]string{"m/go.mod": "module m\n", "m/a.go": "package m\n", "m/go.sum": sumText("")}, "", "m:2"},
		"two modules":                    {map[string]string{"go.sum": sumText(""), "m/go.mod": "module m\n", "m/a.go": "package m\n", "m/go.sum": sumText("")}, "", ".:2 m:2"},
		"a workspace":                    {map[string]string{"go.work": "go 1.24\nuse (\n\t.\n\t\"./m\" // both\n)\n", "go.work.sum": sumText("a.test/x v1.0.0 " + h1 + "\n"), "m/go.mod": "module m\n", "m/go.sum": sumText("a.test/y v1.0.0/go.mod " + h1 + "\n")}, "", ".:6"},
		"a workspace that climbs":        {map[string]string{"go.work": "use ../../x\n", "go.sum": sumText("")}, "", ".:2"},
		"the same twice":                 {map[string]string{"go.sum": sumText(sumText(""))}, "", ".:2"},
		"a pseudo-version":               {map[string]string{"go.sum": "example.test/a/v2 v2.0.0-20200101000000-abcdefabcdef+incompatible " + h1 + "\n"}, "", ".:1"},
		"a digest of another time":       {map[string]string{"go.sum": "a.test/x v1.0.0 h2:AAAA\n"}, "", ""},
		"no go.sum":                      {nil, "", ""},
		"a module that keeps its own":    {map[string]string{"go.sum": sumText(""), "vendor/modules.txt": ""}, "", ""},
		"a module that only lists tools": {map[string]string{"go.sum": "", "tools/go.mod": "module t\n", "tools/go.sum": sumText("")}, "", ""},
		"somebody else's":                {map[string]string{"testdata/m/go.mod": "module m\n", "testdata/m/a.go": "package m\n", "testdata/m/go.sum": sumText("")}, "", ""},
		"a digest that is none":          {map[string]string{"go.sum": "a.test/x v1.0.0 h1:AAAA\n"}, "line 1 has the digest", ""},
		"a line that is none":            {map[string]string{"go.sum": sumText("") + "a.test/x v1.0.0\n"}, "go.sum: line 3 is no pin", ""},
		"a path that climbs":             {map[string]string{"go.sum": "a.test/../../x v1.0.0 " + h1 + "\n"}, "which is no module", ""},
		"an absolute path":               {map[string]string{"go.sum": "/etc v1.0.0 " + h1 + "\n"}, "which is no module", ""},
		"a flag":                         {map[string]string{"go.sum": "-modfile=x v1.0.0 " + h1 + "\n"}, "which is no module", ""},
		"a version that is a path":       {map[string]string{"go.sum": "a.test/x v1/../../../y " + h1 + "\n"}, "which is no module", ""},
		"a query for a version":          {map[string]string{"go.sum": "a.test/x latest " + h1 + "\n"}, "which is no module", ""},
		"too much":                       {map[string]string{"go.sum": strings.Repeat("a", 33<<20)}, "is over", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"go.mod": "module p\n", "a.go": "package p\n"}
			for at, text := range c.tree {
				tree[at] = text
			}
			have := ""
			s := verify.Subject{Base: layOut(t, tree), Tree: layOut(t, map[string]string{"go.mod": "module p\n", "a.go": "package p\n", "go.sum": "work.test/x v1.0.0 " + h1 + "\n"})}
			s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
				for _, m := range p.Modules {
					have += fmt.Sprintf(" %s:%d", m.Dir, len(m.Pins))
				}
				return verify.Fetched{Dir: "/fetched"}, nil
			}
			d, err := s.Dependencies(t.Context())
			if err != nil || strings.TrimSpace(have) != c.have || (c.want == "") != (d.Absent == "") || !strings.Contains(d.Absent, c.want) {
				t.Errorf("fetched %q, not because of %q, %v", have, d.Absent, err)
			}
			if shown := len(d.Modules) == 1 && d.Modules[0] == (verify.Module{Source: "/fetched", Cache: "go"}); shown != (c.have != "") {
				t.Errorf("commands see %v", d.Modules)
			}
		})
	}
}

// FuzzSum reads what a hostile repository calls a go.sum.
func FuzzSum(f *testing.F) {
	f.Add(sumText(""))
	f.Add("a.test/../x v1.0.0 " + h1 + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := verify.Subject{Base: layOut(t, map[string]string{"go.mod": "module p\n", "a.go": "package p\n", "go.sum": text})}
		s.Tree = s.Base
		s.Fetch = func(_ context.Context, p verify.Packages) (verify.Fetched, error) {
			for _, pin := range p.Modules[0].Pins {
				if !filepath.IsLocal(pin.Path) || !filepath.IsLocal(pin.Version) || strings.HasPrefix(pin.Path, "-") || strings.ContainsAny(pin.Path+pin.Version, "@ ,\x00") {
					t.Errorf("Go is given %+v", pin)
				}
			}
			return verify.Fetched{Absent: "not here"}, nil
		}
		if _, err := s.Dependencies(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
