package constraint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/corpus"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func ptr[T any](v T) *T { return &v }

// K-10: argument pins, as the seed's vectors have them and as attackers would.
func TestArgumentsAreHeldToTheirLimits(t *testing.T) {
	text, err := os.ReadFile("testdata/arguments.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Limits    json.RawMessage
		Arguments json.RawMessage
		OK        bool
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 80 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		text := `{}` // a grant that names no limits has none
		if string(c.Limits) != "null" {
			text = `{"arguments":` + string(c.Limits) + `}`
		}
		limited, err := constraint.Parse(raw(text))
		if err == nil {
			err = constraint.CheckArguments(limited.Arguments, c.Arguments)
		}
		if (err == nil) != c.OK {
			t.Errorf("%s with %s: have %v, want ok %v", c.Limits, c.Arguments, err, c.OK)
		}
	}
}

func TestArgumentsThatTwoReadersReadDifferentlyAreRefused(t *testing.T) {
	limits := nacre.ArgumentLimits{AllowedKeys: []string{"a"}}
	for _, arguments := range []string{
		``, ` `, `{`, `{"a":1`, `{"a":1}}`, `{"a":1} {}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a":01}`,
		`{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":1e9999999999}`, `{"a":NaN}`, `{"a":tru}`, `{"a":"` + "\x01" + `"}`,
		`{"a":"\x"}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":"\ud800\u0041"}`, `{"a":"` + "\xff" + `"}`, `{"a":[1,]}`, `{"a":[1 2]}`,
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `{"a":"`, `{"a":"\`, `{"a":"\u12"}`, "{\"a\":1}\x00", "\ufeff{\"a\":1}",
	} {
		if have := constraint.CheckArguments(limits, raw(arguments)); !errors.Is(have, constraint.ErrArguments) {
			t.Errorf("%q: have %v, want %v", arguments, have, constraint.ErrArguments)
		}
	}
	for _, arguments := range []string{`{"a":"\ud83d\ude00"}`, `{"a":"\\ud800"}`, ` { "a" : [ 1 , { } , [ ] , "x\"y" , -1.5E+2 ] } `, `{}`} {
		if have := constraint.CheckArguments(limits, raw(arguments)); have != nil {
			t.Errorf("%q: %v", arguments, have)
		}
	}
}

func TestConstraintsAreParsedStrictly(t *testing.T) {
	for _, bad := range []string{
		`"x"`, `[]`, `1`, `{"max_rows":-1}`, `{"max_rows":1.5}`, `{"max_rows":"5"}`, `{"max_rows":null}`, `{"max_rows":true}`, `{"max_rows":1e99}`,
		`{"max_rows":2147483648}`, `{"Max_Rows":5}`, `{"max_row":5}`, `{"max_rows":5,"max_rows":6}`, `{"allowed_fields":"a"}`, `{"allowed_fields":null}`,
		`{"allowed_fields":[1]}`, `{"scope":[]}`, `{"scope":{"a":1}}`, `{"scope":{"a":"1","a":"2"}}`, `{"scope":null}`, `{"arguments":null}`,
		`{"arguments":{"pinned":{"a":1,"a":2}}}`, `{"arguments":{"x":1}}`, `{"arguments":[]}`, `{"max_rows":5} {}`, `{"max_rows":5`,
		`{"arguments":{"prefix":{"p":"/a/../b"}}}`, `{"arguments":{"prefix":{"p":"/a%00"}}}`,
	} {
		if c, err := constraint.Parse(raw(bad)); !errors.Is(err, constraint.ErrInvalid) {
			t.Errorf("%s: have %+v, %v", bad, c, err)
		}
	}
	have, err := constraint.Parse(raw(`{"max_rows":50.0,"allowed_fields":[],"scope":{"a":"b"},"arguments":{"allowed_keys":["k"],"pinned":{"k":1e0},"prefix":{"p":"/s/"}}}`))
	want := nacre.Constraints{
		MaxRows: ptr(50), AllowedFields: []string{}, Scope: map[string]string{"a": "b"},
		Arguments: nacre.ArgumentLimits{
			AllowedKeys: []string{"k"}, Pinned: map[string]json.RawMessage{"k": raw(`1`)}, Prefix: map[string]string{"p": "/s/"},
		},
	}
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v, %v", have, err)
	}
	for _, nothing := range []string{``, `null`, ` null `, `{}`} {
		if c, err := constraint.Parse(raw(nothing)); err != nil || !c.IsZero() {
			t.Errorf("%q: have %+v, %v", nothing, c, err)
		}
	}
}

// K-11: what both allow, and nothing more.
func TestNarrowIsTheIntersection(t *testing.T) {
	parse := func(s string) nacre.Constraints {
		c, err := constraint.Parse(raw(s))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return c
	}
	for _, test := range []struct{ a, b, want string }{
		{`{}`, `{}`, `{}`},
		{`{"max_rows":5}`, `{}`, `{"max_rows":5}`},
		{`{}`, `{"max_rows":0}`, `{"max_rows":0}`},
		{`{"max_rows":5}`, `{"max_rows":6}`, `{"max_rows":5}`},
		{`{"allowed_fields":["a","b","a"]}`, `{"allowed_fields":["c","a"]}`, `{"allowed_fields":["a"]}`},
		{`{"allowed_fields":["a"]}`, `{"allowed_fields":["b"]}`, `{"allowed_fields":[]}`},
		{`{"allowed_fields":[]}`, `{}`, `{"allowed_fields":[]}`},
		{`{"scope":{"a":"1"}}`, `{"scope":{"b":"2"}}`, `{"scope":{"a":"1","b":"2"}}`},
		{`{"scope":{"a":"1"}}`, `{"scope":{"a":"2"}}`, ``},
		{`{"arguments":{"allowed_keys":["a","b"]}}`, `{"arguments":{"allowed_keys":["b"]}}`, `{"arguments":{"allowed_keys":["b"]}}`},
		{`{"arguments":{"pinned":{"a":1}}}`, `{"arguments":{"pinned":{"a":1.0,"b":2}}}`, `{"arguments":{"pinned":{"a":1,"b":2}}}`},
		{`{"arguments":{"pinned":{"a":1}}}`, `{"arguments":{"pinned":{"a":true}}}`, ``},
		{`{"arguments":{"prefix":{"a":"/s/"}}}`, `{"arguments":{"prefix":{"a":"/s/x/"}}}`, `{"arguments":{"prefix":{"a":"/s/x/"}}}`},
		{`{"arguments":{"prefix":{"a":"/s/"}}}`, `{"arguments":{"prefix":{"a":"/t/"}}}`, ``},
	} {
		for _, pair := range [][2]string{{test.a, test.b}, {test.b, test.a}} {
			have, err := constraint.Narrow(parse(pair[0]), parse(pair[1]))
			if test.want == "" {
				if !errors.Is(err, constraint.ErrInvalid) {
					t.Errorf("%v: have %+v, %v, want an error", pair, have, err)
				}
			} else if err != nil || !reflect.DeepEqual(have, parse(test.want)) {
				t.Errorf("%v: have %+v, %v, want %s", pair, have, err, test.want)
			}
		}
	}
	if _, err := constraint.Narrow(nacre.Constraints{}, nacre.Constraints{MaxRows: ptr(-1)}); !errors.Is(err, constraint.ErrInvalid) {
		t.Errorf("less than no rows: %v", err)
	}
}

// K-11: whatever a and b are, arguments that both allow are those that their
// narrowing allows.
func TestNarrowAllowsWhatBothAllow(t *testing.T) {
	names, values := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{`1`, `1.0`, `true`, `"/s/x"`, `"/s/"`, `"/t"`})
	limits := rapid.Custom(func(t *rapid.T) nacre.ArgumentLimits {
		var l nacre.ArgumentLimits
		if rapid.Bool().Draw(t, "keys") {
			l.AllowedKeys = rapid.SliceOfN(names, 0, 3).Draw(t, "allowed")
		}
		for _, name := range rapid.SliceOfN(names, 0, 1).Draw(t, "pinned") {
			l.Pinned = map[string]json.RawMessage{name: raw(values.Draw(t, "value"))}
		}
		for _, name := range rapid.SliceOfN(names, 0, 1).Draw(t, "prefixed") {
			l.Prefix = map[string]string{name: rapid.SampledFrom([]string{"", "/", "/s/", "/s/x"}).Draw(t, "prefix")}
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := limits.Draw(t, "a"), limits.Draw(t, "b")
		arguments, _ := json.Marshal(rapid.Map(rapid.MapOf(names, values), func(m map[string]string) map[string]json.RawMessage {
			out := map[string]json.RawMessage{}
			for k, v := range m {
				out[k] = raw(v)
			}
			return out
		}).Draw(t, "arguments"))
		both := constraint.CheckArguments(a, arguments) == nil && constraint.CheckArguments(b, arguments) == nil
		narrowed, err := constraint.Narrow(nacre.Constraints{Arguments: a}, nacre.Constraints{Arguments: b})
		if err == nil {
			err = constraint.CheckArguments(narrowed.Arguments, arguments)
		}
		if (err == nil) != both {
			t.Fatalf("a %+v, b %+v, %s: both %v, narrowed %v", a, b, arguments, both, err)
		}
	})
}

func FuzzCheckArguments(f *testing.F) {
	f.Add("/safe/", "/safe/../etc")
	f.Add("/safe/", "/safe/%252e%252e%2fetc")
	f.Add("", "..")
	limits := func(prefix string) nacre.ArgumentLimits {
		return nacre.ArgumentLimits{Prefix: map[string]string{"p": prefix}}
	}
	f.Fuzz(func(t *testing.T, prefix, value string) {
		arguments, err := json.Marshal(map[string]string{"p": value})
		if err != nil {
			t.Skip()
		}
		if constraint.CheckArguments(limits(prefix), arguments) != nil {
			return
		}
		var kept struct{ P string }
		_ = json.Unmarshal(arguments, &kept)
		if !strings.HasPrefix(kept.P, prefix) {
			t.Errorf("%q does not begin with %q", kept.P, prefix)
		}
		if depth := climb(kept.P[strings.LastIndexAny(prefix, `/\`)+1:]); depth < 0 {
			t.Errorf("%q climbs out of %q", kept.P, prefix)
		}
	})
}

// climb is how deep the plainest reader gets at the highest point.
func climb(path string) (lowest int) {
	depth := 0
	for _, segment := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch segment {
		case ".":
		case "..":
			depth--
		default:
			depth++
		}
		lowest = min(lowest, depth)
	}
	return lowest
}

func FuzzParse(f *testing.F) {
	corpus.Add(f, []byte(`{"max_rows":5,"arguments":{"pinned":{"a":[1,{"b":2e-3}]}}}`))
	corpus.Add(f, []byte(`{"scope":{"a":"\ud83d\ude00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := constraint.Parse(data)
		if err != nil {
			return
		}
		again, err := constraint.Narrow(c, c)
		if err != nil {
			t.Fatalf("%s: not narrowed to itself: %v", data, err)
		}
		text, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > constraint.MaxJSON { // escapes take more than what they stand for
			return
		}
		if _, err := constraint.Parse(text); err != nil {
			t.Errorf("%s became %s: %v", data, text, err)
		}
	})
}

// K-10: one value has one form, and no two values share it.
func TestOneValueHasOneForm(t *testing.T) {
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for given, want := range map[string]string{
		`1`: `1`, `1.0`: `1`, `1e0`: `1`, `10E-1`: `1`, `-0`: `0`, `0.0e7`: `0`, `-1.50`: `-1.5`, `1e2`: `100`, `100`: `100`, `0.001`: `0.001`, `12.5e-20`: `125e-21`, `1e-20`: `0.00000000000000000001`, `1e-21`: `1e-21`, `123e-2`: `1.23`,
		`9007199254740993`: `9007199254740993`, `1e19`: `10000000000000000000`, `1e20`: `1e20`, `100000000000000000000`: `1e20`, `1e999`: `1e999`,
		`[1.0,true,"1.0\"2.0"]`: `[1,true,"1.0\"2.0"]`, ` { "b" : 1e0 , "a" : [ 2.0 , "\u0061\/" ] } `: `{"a":[2,"a/"],"b":1}`, deep: deep,
		`1e1000`: ``, `10e999`: ``, `0.1e-999`: ``, `1.` + strings.Repeat("1", 510): ``, strings.Repeat("1", 513): ``, `{"a":1,"a":1}`: ``,
		`"\ud800"`: ``, ``: ``, `1 1`: ``, `01`: ``, `nul`: ``, "[" + deep + "]": ``,
	} {
		have, err := constraint.Canonical(raw(given))
		if string(have) != want || (err == nil) != (want != "") {
			t.Errorf("%.80s: have %.80s, %v, want %s", given, have, err, want)
		}
	}
}

func TestAPinOfNothingIsMetByNothing(t *testing.T) {
	for _, pin := range []string{``, ` `, `1 1`, `x`} {
		limits := nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"a": raw(pin)}}
		for _, arguments := range []string{`{}`, `{"a":1}`, `{"a":null}`} {
			if err := constraint.CheckArguments(limits, raw(arguments)); !errors.Is(err, constraint.ErrArguments) {
				t.Errorf("%q and %s: have %v", pin, arguments, err)
			}
		}
	}
	limits := nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"a": nil}}
	if err := constraint.CheckArguments(limits, raw(`{}`)); !errors.Is(err, constraint.ErrArguments) {
		t.Errorf("no pin at all: have %v", err)
	}
}

// FuzzCanonical: the form is its own form, and numbers in it are worth what they were.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`1.50e-3`, `{"a":[1e2,"\u0031"],"b":-0.0}`, `1.5e-999`, `[]`, `"1"`} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := constraint.Canonical(data)
		if err != nil {
			return
		}
		if again, err := constraint.Canonical(once); err != nil || string(again) != string(once) {
			t.Fatalf("%s is %s, which is %s, %v", data, once, again, err)
		}
		if want, ok := new(big.Rat).SetString(strings.TrimSpace(string(data))); ok {
			if have, _ := new(big.Rat).SetString(string(once)); have == nil || have.Cmp(want) != 0 {
				t.Errorf("%s became %s", data, once)
			}
		}
	})
}

// permits is what constraints mean, said in another way than Narrow does.
func permits(c nacre.Constraints, rows int, field string, scope, arguments map[string]string) bool {
	if c.MaxRows != nil && rows > *c.MaxRows || c.AllowedFields != nil && !slices.Contains(c.AllowedFields, field) {
		return false
	}
	for name, value := range c.Scope {
		if scope[name] != value {
			return false
		}
	}
	for name := range arguments {
		if c.Arguments.AllowedKeys != nil && !slices.Contains(c.Arguments.AllowedKeys, name) {
			return false
		}
	}
	for name, pin := range c.Arguments.Pinned {
		if value, ok := arguments[name]; !ok || fmt.Sprintf("%q", value) != string(pin) {
			return false
		}
	}
	for name, prefix := range c.Arguments.Prefix {
		if value, ok := arguments[name]; !ok || !strings.HasPrefix(value, prefix) {
			return false
		}
	}
	return true
}

func drawConstraints(t *rapid.T) nacre.Constraints {
	var c nacre.Constraints
	flag := func() bool { return rapid.Bool().Draw(t, "set") }
	if flag() {
		n := rapid.IntRange(0, 5).Draw(t, "rows")
		c.MaxRows = &n
	}
	some := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3)
	if flag() {
		c.AllowedFields = some.Draw(t, "fields")
	}
	if flag() {
		c.Scope = map[string]string{rapid.SampledFrom([]string{"s", "t"}).Draw(t, "key"): rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")}
	}
	if flag() {
		c.Arguments.AllowedKeys = some.Draw(t, "keys")
	}
	if flag() {
		c.Arguments.Pinned = map[string]json.RawMessage{"a": json.RawMessage(rapid.SampledFrom([]string{`"x"`, `"xy"`}).Draw(t, "pin"))}
	}
	if flag() {
		c.Arguments.Prefix = map[string]string{"a": rapid.SampledFrom([]string{"", "x", "xy", "y"}).Draw(t, "prefix")}
	}
	return c
}

// K-05: what combined constraints let through, both let through, and nothing
// that both let through is lost.
func TestNarrowOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawConstraints(t), drawConstraints(t)
		both, err := constraint.Narrow(a, b)
		word := rapid.SampledFrom([]string{"", "x", "xy", "xyz", "y"})
		arguments := map[string]string{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
			arguments[name] = word.Draw(t, name)
		}
		rows, field := rapid.IntRange(0, 6).Draw(t, "rows"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "field")
		scope := map[string]string{"s": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "s"), "t": "1"}
		want := permits(a, rows, field, scope, arguments) && permits(b, rows, field, scope, arguments)
		if have := err == nil && permits(both, rows, field, scope, arguments); have != want {
			t.Fatalf("%+v and %+v make %+v (%v), which permits %v, want %v", a, b, both, err, have, want)
		}
		if again, err2 := constraint.Narrow(both, both); err == nil && (err2 != nil || !same(again, both)) {
			t.Fatalf("twice: %+v %v, once: %+v", again, err2, both)
		}
	})
}

func same(a, b nacre.Constraints) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
