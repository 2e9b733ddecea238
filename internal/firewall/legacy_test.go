package firewall_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
)

func show(t testing.TB, raw string, fields ...string) firewall.View {
	t.Helper()
	v, err := firewall.Show(json.RawMessage(raw), fields, bees{})
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(v.Result) {
		t.Fatalf("not JSON: %s", v.Result)
	}
	return v
}

// D-10: within budget a result is passed on as it is.
func TestWithinBudgetAResultIsUnchanged(t *testing.T) {
	for name, raw := range map[string]string{
		"a number as it is spelled": `1.00e+2`,
		"fields in their order":     ` { "b" : 1, "a": [ ] } `,
		"the most rows":             array(firewall.MaxRows, `{"a,b":"],[,\""}`),
		"rows inside of an object":  `{"rows":` + array(firewall.MaxRows+1, "1") + `}`,
		"the most bytes":            `"` + strings.Repeat("a", firewall.MaxBytes-2) + `"`,
		"null":                      `null`,
	} {
		v := show(t, raw)
		if v.Framed || string(v.Result) != raw || len(v.Redacted) > 0 {
			t.Errorf("%s: have %.80s", name, v.Result)
		}
	}
	if v := show(t, `{"a":"SECRET"}`); string(v.Result) != `{"a":"[R]"}` || v.Redacted[0] != "somewhere" {
		t.Errorf("have %s", v.Result)
	}
}

func frame(t testing.TB, v firewall.View) nacre.Frame {
	t.Helper()
	var f nacre.Frame
	if err := json.Unmarshal(v.Result, &f); err != nil || !v.Framed {
		t.Fatalf("no frame: %.80s %v", v.Result, err)
	}
	return f
}

// K-14: beyond it there is a frame, within all budgets, that counts the rest.
func TestBeyondBudgetThereIsAFrame(t *testing.T) {
	wide := func() string {
		var fields []string
		for i := range 40 {
			fields = append(fields, fmt.Sprintf(`"field%d":%d`, i, i))
		}
		return "{" + strings.Join(fields, ",") + "}"
	}()
	tests := map[string]struct {
		raw   string
		facts string
		rows  int
		of    int
	}{
		"one row too many":        {array(51, `{"id":1,"s":"x"}`), "Total rows: 51 Top keys: id, s", 50, 51},
		"many rows":               {array(5000, `{"id":1,"status":"unpaid","note":"a row of some length, as they are"}`), "Total rows: 5000 Top keys: id, status, note", 40, 5000},
		"rows of long texts":      {array(60, `{"id":1,"s":"`+strings.Repeat("x", 5000)+`"}`), "Total rows: 60 Top keys: id, s", 10, 60},
		"wide rows":               {array(60, wide), "Total rows: 60 Top keys: field0", 5, 60},
		"a long text":             {`"` + strings.Repeat("x", 40_000) + `"`, "xxx", 1, 1},
		"a large object":          {`{"files":` + array(20_000, `"a.go"`) + `,"n":7}`, "Keys: files, n files: list of 20000 items n: 7", 1, 1},
		"a deep object":           {`{"a":{"b":{"c":{"d":"` + strings.Repeat("x", 40_000) + `"}}}}`, "Keys: a a: dict with keys [b]", 1, 1},
		"numbers":                 {array(100, "12345"), "List of 100 items 12345", 10, 100},
		"a number of many digits": {array(60, strings.Repeat("1", 5000)), "List of 60 items", 50, 60},
		"names of many letters":   {array(60, `{"`+strings.Repeat("n", 3000)+`":1}`), "Total rows: 60 Top keys: nnn", 30, 60},
		"letters of many bytes":   {array(60, `{"s":"`+strings.Repeat("é😀", 2000)+`"}`), "Total rows: 60 Top keys: s", 10, 60},
		"an escaped text":         {array(60, `{"s":"`+strings.Repeat(`\u0000`, 2000)+`"}`), "Total rows: 60 Top keys: s", 1, 60},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := show(t, test.raw)
			f := frame(t, v)
			if !strings.HasPrefix(strings.Join(f.Facts, " "), test.facts) || f.Mode != nacre.ModeSummary {
				t.Errorf("facts %q\nwant %q", f.Facts, test.facts)
			}
			if len(f.Rows) > firewall.FrameRows || len(f.Rows) < min(test.rows, 1) || f.Omitted.Rows != test.of-len(f.Rows) {
				t.Errorf("%d rows, %d left out, of %d", len(f.Rows), f.Omitted.Rows, test.of)
			}
			if n := utf8.RuneCount(v.Result); n > firewall.FrameChars {
				t.Errorf("%d characters", n)
			}
			if len(f.Warnings) == 0 || f.Omitted.Bytes <= 0 && test.of > 60 {
				t.Errorf("warnings %q, %d bytes left out", f.Warnings, f.Omitted.Bytes)
			}
			if again := show(t, test.raw); string(again.Result) != string(v.Result) {
				t.Error("not the same twice")
			}
		})
	}
}

// K-15: a secret at the edge of what is shown is not cut into something that looks harmless.
func TestASecretAtTheEdgeIsNotCut(t *testing.T) {
	for n := 280; n < 305; n++ {
		v := show(t, array(60, `{"s":"`+strings.Repeat("x", n)+"SECRET"+strings.Repeat("y", 600)+`"}`))
		if strings.Contains(string(v.Result), "xS") {
			t.Errorf("%d: half a secret in %.400s", n, v.Result)
		}
	}
}

// K-02: fields that are not allowed are left out, and what has no fields too.
func TestOnlyAllowedFieldsAreShown(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"an object":          {`{"a":1,"b":2,"c":{"b":3}}`, `{"a":1,"c":{"b":3}}`},
		"rows":               {`[{"b":1},{"a":2,"b":1}]`, `[{},{"a":2}]`},
		"rows of other kind": {`[7,null,{"a":1}]`, `["[left out: not an object, so its fields cannot be checked]",null,{"a":1}]`},
		"rows in rows":       {`[[{"b":1}]]`, `["[left out: not an object, so its fields cannot be checked]"]`},
		"a text":             {`"b=1"`, `"[left out: not an object, so its fields cannot be checked]"`},
		"nothing":            {`null`, `null`},
		"another spelling":   {`{"A":1,"\u0061":2}`, `{"\u0061":2}`},
	}
	for name, test := range tests {
		if v := show(t, test.raw, "a", "c"); string(v.Result) != test.want {
			t.Errorf("%s: have %s, want %s", name, v.Result, test.want)
		}
	}
	f := frame(t, show(t, array(51, `{"a":1,"hidden":2}`), "a"))
	if strings.Contains(fmt.Sprintf("%s", f.Rows), "hidden") || !strings.Contains(strings.Join(f.Warnings, " "), "not allowed") {
		t.Errorf("have %s %q", f.Rows, f.Warnings)
	}
}

func TestWhatIsNoJSONIsRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "an open object": `{"a":`, "a large open array": "[" + strings.Repeat("1,", 40_000),
		"a large text with bad bytes": `"` + strings.Repeat("\xff", 40_000) + `"`, "two values": strings.Repeat("1 ", 20_000),
	} {
		for _, fields := range [][]string{nil, {"a"}} {
			if v, err := firewall.Show(json.RawMessage(raw), fields, bees{}); err == nil {
				t.Errorf("%s: have %.80s", name, v.Result)
			}
		}
	}
}

// Whatever the bytes: an error, or JSON within the budget.
func FuzzShow(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"SECRET"}]}`), true)
	f.Add([]byte(array(60, `{"a":"x"}`)), false)
	f.Add([]byte(`[`), false)
	f.Fuzz(func(t *testing.T, raw []byte, some bool) {
		var fields []string
		if some {
			fields = []string{"a"}
		}
		v, err := firewall.Show(raw, fields, bees{})
		if err == nil && (!json.Valid(v.Result) || v.Framed && utf8.RuneCount(v.Result) > firewall.FrameChars) {
			t.Errorf("have %q", v.Result)
		}
	})
}
