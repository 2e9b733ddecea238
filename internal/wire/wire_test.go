package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/wire"
)

// D-02: what the strict reading accepts and refuses.
func TestCheck(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	tests := []struct {
		name, in string
		want     string // part of the error; empty accepts
	}{
		{"an object is accepted", ` {"a" : [1, -2.5e+3, true, false, null, "é\u00e9\n"]} `, ""},
		{"empty containers are accepted", `{"a":{},"b":[]}`, ""},
		{"a big integer is accepted", `123456789012345678901234567890`, ""},
		{"a surrogate pair is accepted", `"\ud83d\ude00"`, ""},
		{"an escaped zero is accepted", `"\u0000"`, ""},
		{"the same key in two objects is accepted", `[{"a":1},{"a":{"a":2}}]`, ""},
		{"64 levels are accepted", deep(64), ""},
		{"65 levels are refused", deep(65), "deeper than 64"},
		{"100 KiB of string are accepted", long(100 << 10), ""},
		{"one byte more is refused", long(100<<10 + 1), "longer than 102400"},
		{"a long key is refused", `{` + long(100<<10+1) + `:1}`, "longer than 102400"},
		{"escapes count as what they stand for", `"` + strings.Repeat(`\u0041`, 100<<10) + `"`, ""},
		{"nothing is refused", ``, "have the end"},
		{"white space alone is refused", " \n", "have the end"},
		{"a key twice is refused", `{"a":1,"a":2}`, `duplicate key "a"`},
		{"a key twice in another case is refused", `{"role":1,"Role":2}`, `duplicate key "Role"`},
		{"a key twice under Unicode folding is refused", "{\"session\":1,\"\u017fe\u017fsion\":2}", "duplicate key"},
		{"a key twice, once as Kelvin sign, is refused", `{"k":1,"\u212a":2}`, "duplicate key"},
		{"a key twice, once escaped, is refused", `{"a":1,"\u0061":2}`, `duplicate key "a"`},
		{"a key twice, once escaped in another case, is refused", `{"a":1,"\u0041":2}`, `duplicate key "A"`},
		{"a key twice deep inside is refused", `{"x":[{"y":{"a":1,"a":2}}]}`, `duplicate key "a"`},
		{"a key twice among many is refused", `{"a":0` + manyKeys(500) + `,"K77":1}`, `duplicate key "K77"`},
		{"an empty key twice is refused", `{"":1,"":2}`, `duplicate key ""`},
		{"a second value is refused", `{} {}`, "something follows"},
		{"a byte order mark is refused", "\ufeff{}", "want a JSON value"},
		{"bad UTF-8 in a string is refused", "\"\xff\"", "not valid UTF-8"},
		{"an overlong encoding is refused", "\"\xc0\x80\"", "not valid UTF-8"},
		{"an encoded surrogate is refused", "\"\xed\xa0\x80\"", "not valid UTF-8"},
		{"bad UTF-8 between tokens is refused", "{\xff}", "want a key"},
		{"half a surrogate pair is refused", `"\ud83d"`, "malformed unicode escape"},
		{"two high surrogates are refused", `"\ud83d\ud83d"`, "malformed unicode escape"},
		{"a low surrogate alone is refused", `"\ude00x"`, "malformed unicode escape"},
		{"a short unicode escape is refused", `"\u12"`, "malformed unicode escape"},
		{"an unknown escape is refused", `"\x"`, "unknown escape"},
		{"an escape at the end is refused", `"\`, "without an end"},
		{"a string without an end is refused", `"abc`, "without an end"},
		{"a raw line break in a string is refused", "\"a\nb\"", "control character"},
		{"a leading zero is refused", `01`, "malformed number"},
		{"a minus alone is refused", `-`, "malformed number"},
		{"a plus sign is refused", `+1`, "want a JSON value"},
		{"a number ending in a dot is refused", `1.`, "malformed number"},
		{"an exponent without digits is refused", `1e`, "malformed number"},
		{"an exponent of 999 is accepted", `1e-999`, ""},
		{"an exponent of 1000 is refused", `1e1000`, "exponent over 999"},
		{"an exponent that would overflow is refused", `1e99999999999999999999999`, "exponent over 999"},
		{"a number of 513 digits is refused", strings.Repeat("9", 513), "longer than 512"},
		{"NaN is refused", `NaN`, "want a JSON value"},
		{"a comment is refused", `/**/{}`, "want a JSON value"},
		{"a trailing comma in an object is refused", `{"a":1,}`, "want a key"},
		{"a trailing comma in an array is refused", `[1,]`, "want a JSON value"},
		{"a missing colon is refused", `{"a" 1}`, "want a colon"},
		{"a missing comma is refused", `[1 2]`, "want a comma or ]"},
		{"an unclosed object is refused", `{"a":1`, "want a comma or }"},
		{"a mismatched end is refused", `{"a":1]`, "want a comma or }"},
		{"single quotes are refused", `{'a':1}`, "want a key"},
		{"a word that starts like true is refused", `trux`, "want a JSON value"},
		{"over 1 MiB is refused unread", strings.Repeat(" ", 1<<20) + "1", "over the limit of 1048576"},
		{"exactly 1 MiB is accepted", strings.Repeat(" ", 1<<20-1) + "1", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := wire.Check([]byte(test.in), wire.Limits{})
			var refused *wire.Error
			switch {
			case test.want == "" && err != nil:
				t.Errorf("have %v, want it accepted", err)
			case test.want != "" && !errors.As(err, &refused):
				t.Errorf("have %v, want a *wire.Error", err)
			case test.want != "" && !strings.Contains(err.Error(), test.want):
				t.Errorf("have %q, want %q in it", err, test.want)
			}
		})
	}
}

// manyKeys is n members, each after a comma.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()
}

func TestCheckKeepsCaseWhereToldTo(t *testing.T) {
	in := []byte(`{"ETag":1,"etag":2}`)
	if err := wire.Check(in, wire.Limits{CaseSensitive: true}); err != nil {
		t.Error(err)
	}
	if err := wire.Check([]byte(`{"etag":1,"\u0065tag":2}`), wire.Limits{CaseSensitive: true}); err == nil {
		t.Error("have an exact duplicate accepted")
	}
}

func TestErrorsDoNotRepeatLongKeys(t *testing.T) {
	key := `"` + strings.Repeat("é", 5000) + "\u202e" + `"`
	err := wire.Check([]byte(`{`+key+`:1,`+key+`:2}`), wire.Limits{})
	if err == nil || len(err.Error()) > 600 || strings.Contains(err.Error(), "é") {
		t.Errorf("have %d bytes of %v, want a short error in ASCII", len(err.Error()), err)
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"keys are sorted at every level", `{"b":{"d":1,"c":2},"a":[{"z":1,"y":2}]}`, `{"a":[{"y":2,"z":1}],"b":{"c":2,"d":1}}`},
		{"white space goes", " { \"a\" :\t[ 1 , 2 ] \n} ", `{"a":[1,2]}`},
		{"numbers stay as written", `[1.0,1,1e2,-0,12345678901234567890123]`, `[1.0,1,1e2,-0,12345678901234567890123]`},
		{"escapes take their shortest form", `"\u0041\/\u000a\u001f\u2028\ud83d\ude00\"\\"`, "\"A/\\n\\u001f\u2028😀\\\"\\\\\""},
		{"escaped keys sort by what they stand for", `{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		{"keys sort by UTF-8 bytes", `{"é":1,"z":2,"":3,"aa":4,"a":5}`, `{"":3,"a":5,"aa":4,"z":2,"é":1}`},
		{"empty containers stay", `{ "a" : { } , "b" : [ ] }`, `{"a":{},"b":[]}`},
		{"scalars stand alone", ` null `, `null`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			have, err := wire.Canonical([]byte(test.in))
			if err != nil || string(have) != test.want {
				t.Errorf("have %s, %v, want %s", have, err, test.want)
			}
		})
	}
	for _, in := range []string{``, `{"a":1,"A":2}`, `{} x`, `"\ud800"`} {
		if have, err := wire.Canonical([]byte(in)); err == nil {
			t.Errorf("%s: have %s, want an error", in, have)
		}
	}
}

// FuzzCheck holds the scanner against encoding/json. Nothing is accepted that it would refuse, and
// what the scanner refuses beyond that has a reason of ours. The canonical form means the same and
// is its own canonical form.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"topic":"tool.invoke.x","correlation":"c","arguments":{"a":[1,2.5e3,"\u00e9\ud83d\ude00"]}}`,
		`null`, `[[[[]]]]`, `{"a":1,"A":2}`, `"\ud800"`, `1e1000`, "\"\xff\"", `{"b":{"c":1},"a":[true,false,null]}`, ` {"":{}} `, `-0.0E-0`,
	} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := wire.Check(data, wire.Limits{})
		if err != nil {
			if json.Valid(data) && !strictnessIsOurs(err) {
				t.Fatalf("have %v for valid JSON %q", err, data)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted what is not JSON: %q", data)
		}
		canonical, err := wire.Canonical(data)
		if err != nil {
			t.Fatalf("accepted but not canonical: %v", err)
		}
		if again, err := wire.Canonical(canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("have %s, %v, want %s", again, err, canonical)
		}
		if !reflect.DeepEqual(decode(t, canonical), decode(t, data)) {
			t.Fatalf("%s means something else than %s", canonical, data)
		}
	})
}

func strictnessIsOurs(err error) bool {
	for _, reason := range []string{"duplicate key", "not valid UTF-8", "unicode escape", "exponent over", "longer than", "deeper than"} {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}
	return false
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The worst shapes of 1 MiB must cost what plain shapes cost.
func BenchmarkCheck(b *testing.B) {
	shapes := map[string]string{
		"floor":    `{"a":"` + strings.Repeat("x", 90<<10) + `"}`,
		"keys":     `{"a":0` + manyKeys(60000) + `}`,
		"escapes":  `["` + strings.Repeat(`\u0041`, 90<<10) + `"]`,
		"brackets": `[` + strings.Repeat(`[],`, 300<<10) + `0]`,
		"deep":     strings.Repeat(`{"a":`, 63) + `["` + strings.Repeat("x", 90<<10) + `"]` + strings.Repeat(`}`, 63),
	}
	for name, shape := range shapes {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(shape)))
			for b.Loop() {
				if err := wire.Check([]byte(shape), wire.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Whatever encoding/json writes is read, and its canonical form means the same.
func TestCheckReadsWhatTheStandardLibraryWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := anyValue(3).Draw(t, "value")
		data, err := json.MarshalIndent(value, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := wire.Canonical(data)
		if err != nil {
			t.Fatalf("have %v of %s", err, data)
		}
		var have, want any
		if err := errors.Join(json.Unmarshal(canonical, &have), json.Unmarshal(data, &want)); err != nil || !reflect.DeepEqual(have, want) {
			t.Fatalf("have %s, %v, want what %s means", canonical, err, data)
		}
	})
}

// anyValue generates JSON values with keys that no folding makes equal.
func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(append(scalars,
		rapid.SliceOfN(inner, 0, 5).AsAny(),
		rapid.MapOfN(rapid.StringMatching(`[a-zé"\\0-9]{0,6}`), inner, 0, 20).AsAny())...)
}

func TestWhatIsMeasuredAheadIsMeasured(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 64<<10 - 1, 64 << 10, 1 << 20} {
		value := bytes.Repeat([]byte("a"), size)
		have, want := wire.NewSummary(), wire.NewSummary()
		ahead := wire.MeasureAhead(value)
		ahead(&have, "first")
		ahead(&have, "again")
		wire.Measure(&want, "first", value)
		wire.Measure(&want, "again", value)
		if !bytes.Equal(have, want) {
			t.Errorf("%d bytes: %s, want %s", size, have, want)
		}
	}
}
