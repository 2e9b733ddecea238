package token_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

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
		limits, err := token.ParseArgumentLimits(c.Limits)
		if err == nil {
			err = token.CheckArguments(limits, c.Arguments)
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
		if have := token.CheckArguments(limits, raw(arguments)); !errors.Is(have, token.ErrArguments) {
			t.Errorf("%q: have %v, want %v", arguments, have, token.ErrArguments)
		}
	}
	for _, arguments := range []string{`{"a":"\ud83d\ude00"}`, `{"a":"\\ud800"}`, ` { "a" : [ 1 , { } , [ ] , "x\"y" , -1.5E+2 ] } `, `{}`} {
		if have := token.CheckArguments(limits, raw(arguments)); have != nil {
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
		if c, err := token.ParseConstraints(raw(bad)); !errors.Is(err, token.ErrConstraint) {
			t.Errorf("%s: have %+v, %v", bad, c, err)
		}
	}
	have, err := token.ParseConstraints(raw(`{"max_rows":50.0,"allowed_fields":[],"scope":{"a":"b"},"arguments":{"allowed_keys":["k"],"pinned":{"k":1e0},"prefix":{"p":"/s/"}}}`))
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
		if c, err := token.ParseConstraints(raw(nothing)); err != nil || !c.IsZero() {
			t.Errorf("%q: have %+v, %v", nothing, c, err)
		}
	}
}

// K-11: what both allow, and nothing more.
func TestNarrowIsTheIntersection(t *testing.T) {
	parse := func(s string) nacre.Constraints {
		c, err := token.ParseConstraints(raw(s))
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
			have, err := token.Narrow(parse(pair[0]), parse(pair[1]))
			if test.want == "" {
				if !errors.Is(err, token.ErrConstraint) {
					t.Errorf("%v: have %+v, %v, want an error", pair, have, err)
				}
			} else if err != nil || !reflect.DeepEqual(have, parse(test.want)) {
				t.Errorf("%v: have %+v, %v, want %s", pair, have, err, test.want)
			}
		}
	}
	if _, err := token.Narrow(nacre.Constraints{}, nacre.Constraints{MaxRows: ptr(-1)}); !errors.Is(err, token.ErrConstraint) {
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
		both := token.CheckArguments(a, arguments) == nil && token.CheckArguments(b, arguments) == nil
		narrowed, err := token.Narrow(nacre.Constraints{Arguments: a}, nacre.Constraints{Arguments: b})
		if err == nil {
			err = token.CheckArguments(narrowed.Arguments, arguments)
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
		if token.CheckArguments(limits(prefix), arguments) != nil {
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

func FuzzParseConstraints(f *testing.F) {
	f.Add([]byte(`{"max_rows":5,"arguments":{"pinned":{"a":[1,{"b":2e-3}]}}}`))
	f.Add([]byte(`{"scope":{"a":"\ud83d\ude00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := token.ParseConstraints(data)
		if err != nil {
			return
		}
		again, err := token.Narrow(c, c)
		if err != nil {
			t.Fatalf("%s: not narrowed to itself: %v", data, err)
		}
		text, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.ParseConstraints(text); err != nil {
			t.Errorf("%s became %s: %v", data, text, err)
		}
	})
}
