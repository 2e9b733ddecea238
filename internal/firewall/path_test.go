package firewall_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
)

// K-31: a path that cannot be read, or leads to nothing, is an error, and no other.
func TestPaths(t *testing.T) {
	const doc = `{"a":{"b.c":[1,{"é":[[2]]}]},"":{"x":3},"a-b":4}`
	for path, want := range map[string]string{
		"": doc, "a[\"b.c\"][0]": "1", `a["b.c"][1].é[0][0]`: "2", `[""].x`: "3", "a-b": "4",
		"a.b.c": "", "a[0]": "", "a..b": "", "a.": "", "[": "", "[x]": "", "[-1]": "", "[99999999999]": "", `["a`: "", "a b": "", ".a": "", "a]": "", `a["b.c"]0`: "",
	} {
		parsed, err := firewall.ParsePath(path)
		var have json.RawMessage
		if err == nil {
			have, err = firewall.At(json.RawMessage(doc), parsed)
		}
		if string(have) != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, firewall.ErrPath) {
			t.Errorf("%q: have %s, %v", path, have, err)
		}
	}
}

// FuzzPath holds that any path ends in a value or in ErrPath, and that the paths which a
// frame names lead somewhere.
func FuzzPath(f *testing.F) {
	f.Add("data.issues[3].title", `{"data":{"issues":[1,2,3,{"title":"x"}]}}`)
	f.Add(`["a"][0]`, `[{"a":[[[[{"b":1}]]]]}]`)
	f.Fuzz(func(t *testing.T, path, doc string) {
		r, err := firewall.Read(json.RawMessage(doc), nacre.Constraints{})
		if err != nil {
			return
		}
		if parsed, err := firewall.ParsePath(path); err == nil {
			if value, err := firewall.At(json.RawMessage(doc), parsed); err == nil && !json.Valid(value) {
				t.Fatalf("%q leads to %q", path, value)
			}
		}
		q := firewall.Request{Mode: nacre.ModeTable, Limits: firewall.DefaultLimits(), Handle: &nacre.Handle{ID: "h"}}
		v, err := r.Frame(q, bees{})
		if err != nil || v.Frame == nil {
			return
		}
		for _, cut := range v.Frame.Cut {
			parsed, err := firewall.ParsePath(cut.Path)
			if err == nil {
				_, err = firewall.At(json.RawMessage(doc), parsed)
			}
			if err != nil {
				t.Fatalf("the frame of %q names %q: %v", doc, cut.Path, err)
			}
		}
	})
}
