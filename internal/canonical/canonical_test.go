package canonical_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/canonical"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// K-20: the canonical form is the one that other implementations of such
// chains hash, whatever order and spacing a value comes in.
func TestCanonicalFormIsTheVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Value     json.RawMessage
		Canonical string
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) == 0 {
		t.Fatal(len(vectors), err)
	}
	for _, v := range vectors {
		if have, err := canonical.JSON(v.Value); err != nil || string(have) != v.Canonical {
			t.Errorf("have %s, %v\nwant %s", have, err, v.Canonical)
		}
	}
}

func TestCanonicalFormSortsAndRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":{"z":1,"a":[{"y":2,"x":3}]},"a":0}`: `{"a":0,"b":{"a":[{"x":3,"y":2}],"z":1}}`,
		`{"é":1,"z":2,"":3,"\u0000":4}`:           `{"":3,"\u0000":4,"z":2,"\u00e9":1}`,
		`{"c":1,"b":2,"a":{"b":1,"a":2},"aa":3}`:  `{"a":{"a":2,"b":1},"aa":3,"b":2,"c":1}`,
		"[\"\\b\\f\\n\\r\\t\\u000b\\u007f/\\/\"]": `["\b\f\n\r\t\u000b\u007f//"]`,
		`[0,-1,9007199254740991]`:                 `[0,-1,9007199254740991]`,
		`{"a":1,"b":2,"a":3}`:                     "", `{"b":1,"a":1,"\u0062":2}`: "", `{"a":{"x":1,"x":2}}`: "",
		`01`: "", `-`: "", `-0`: "", `00`: "", `99999999999999999999`: "", `-9007199254740992`: "", `1.0`: "", `1E2`: "", `+1`: "",
		`{"a":1,}`: "", `[1,]`: "", `{"a"}`: "", `nul`: "", `"a`: "", `"\x"`: "", `"\ud83d"`: "", ``: "",
	} {
		have, err := canonical.JSON([]byte(in))
		if (err == nil) != (want != "") || err == nil && string(have) != want {
			t.Errorf("%s: have %s, %v, want %s", in, have, err, want)
		}
	}
}

// K-20: what is passed on as it is because it is canonical already is what
// Canonical makes of it, byte by byte, and most of what Canonical writes is.
func FuzzWhatIsPassedOnIsCanonical(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `{"a":1,"b":[true,false,null,-7,0,"x"]}`, `{"a":{"a":1},"b":"q\"\\\b\t\n\f\r"}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`,
		`"abcdefgh"`, "\"abcdefg\x7f\"", "\"abcdefgh\x1f\"", `"abcdefghijklmno\\"`, `{"abcdefghi":1,"abcdefghj":2}`, `"abcdefghé"`, `"abcdefgh`,
		`{"a": 1}`, `{"a":1}x`, `{"a":1,}`, `[1,]`, `[01]`, `[-0]`, `[1.0]`, `[9007199254740992]`, `"\/"`, `"\u0041"`, `"é"`, "\"\x7f\"",
		`{"\n":1}`, `{"":1,"a":2}`, `tru`, `nulll`, `-`, `"`, `"\`, `{"a"`, `{"a":`, ``, ` {}`, "{}\n",
		strings.Repeat(`[`, canonical.MaxDepth) + strings.Repeat(`]`, canonical.MaxDepth),
		strings.Repeat(`[`, canonical.MaxDepth+1) + strings.Repeat(`]`, canonical.MaxDepth+1),
	} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		have, err := canonical.JSON(src)
		if canonical.Is(src) && (err != nil || !bytes.Equal(have, src)) {
			t.Errorf("%q is passed on, and is canonical as %q, %v", src, have, err)
		}
		if err == nil && !bytes.Contains(have, []byte(`\`)) && !canonical.Is(have) {
			t.Errorf("%q is canonical, and is not seen to be", have)
		}
	})
}
