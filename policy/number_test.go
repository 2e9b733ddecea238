package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

func onArgument(t *testing.T, action, fallback, condition string) func(value string) nacre.Verdict {
	t.Helper()
	p := parse(t, fmt.Sprintf("default = %q\n[[rules]]\naction = %q\nmatch = { arguments = { v = %s } }", fallback, action, condition))
	return func(value string) nacre.Verdict {
		return p.Decide(policy.Request{Arguments: json.RawMessage(`{"v":` + value + `}`)}).Verdict
	}
}

// F-27: a number is denied in each way in which it can be read: to the last digit, as the nearest
// double, and as text. It is allowed where all of them are.
func TestANumberIsHeldAgainstAllItsReadings(t *testing.T) {
	for _, c := range []struct {
		condition, value string
		denied, allowed  bool
	}{
		{"1", "1", true, true},
		{"1", "1.0", true, true},
		{"1", "1.00000000000000000001", true, false},
		{"1", "0.99999999999999999999999", true, false},
		{"1", `"1"`, true, false},
		{"1", `" 1.0 "`, true, false},
		{"1", `"+1"`, true, false},
		{"1", "\"\uff11\"", true, false},
		{`">100"`, "\"\u0665\u0660\u0660\u0660\"", true, false},
		{"1", "1.1", false, false},
		{"1", `"chapter 1"`, false, false},
		{"9007199254740992", "9007199254740993", true, false},
		{"9007199254740992", "9007199254740992", true, true},
		{"9007199254740993", "9007199254740992", true, false},
		{"0", "-0", true, true},
		{"0", "1e-400", true, false},
		{"0", `"0"`, true, false},
		{"true", `"true"`, true, false},
		{"true", `"True"`, true, false},
		{"true", "true", true, true},
		{"true", "1", false, false},
		{"1", "[2,1.00000000000000000001]", true, false},
		{"1", "[1,1]", true, true},
		{`">100"`, "100.00000000000000000001", true, false},
		{`">100"`, "100", false, false},
		{`">100"`, "101", true, true},
		{`">100"`, "5e3", true, true},
		{`">100"`, `"5000"`, true, false},
		{`">100"`, `"5,000"`, true, false},
		{`">100"`, `"0x64"`, true, false},
		{`">100"`, `"Infinity"`, true, false},
		{`">100"`, `"lots"`, false, false},
		{`">100"`, "-101", false, false},
		{`">100"`, "1e999999999999999999999", true, true},
		{`">100"`, "true", false, false},
		{`"< 0.5"`, "0.49999999999999999999999999", true, false},
		{`"< 0.5"`, "-7", true, true},
		{`"<=0.5"`, "0.5", true, true},
		{`"<=0.5"`, "0.50000000000000000001", true, false},
		{`">=-3"`, "-3", true, true},
		{`">=-3"`, "-3.1", false, false},
		{`["<1", ">9"]`, "10", true, true},
		{`["<1", ">9"]`, "5", false, false},
		{`["<1", 5]`, "5", true, true},
		{`">1e400"`, "1e500", true, false}, // a double reads both as infinite
		{`">100"`, strings.Repeat("9", 5000), true, false},
		// K-32: ranges
		{`">=1 <=31"`, "31", true, true},
		{`">=1 <=31"`, "32", false, false},
		{`">=1 <=31"`, "0.99999999999999999999999", true, false},
		{`"> 1 < 2"`, "1.5", true, true},
		{`[">=1 <=3", ">=7 <=9"]`, "5", false, false},
		{`[">=1 <=3", ">=7 <=9"]`, "8", true, true},
		// days, as they are written and as they are in Greenwich
		{`"< 2027-01-01"`, `"2026-12-31"`, true, true},
		{`"< 2027-01-01"`, `"2027-01-01"`, false, false},
		{`">= 2026-01-01 < 2027-01-01"`, `"2026-05-18T10:00:00Z"`, true, true},
		{`"< 2027-01-01"`, `"2026-12-31T23:30:00-05:00"`, true, false},
		{`"< 2027-01-01"`, `"2027-01-01T01:00:00+05:00"`, true, false},
		{`"< 2027-01-01"`, `"31.12.2099"`, true, false},
		{`"< 2027-01-01"`, `"tomorrow"`, true, false},
		{`"< 2027-01-01"`, `""`, false, false},
		{`"< 2027-01-01"`, "4102444800", true, false},
		{`"< 2027-01-01"`, `"2026-02-30"`, true, false},
		{`"< 2027-01-01"`, "true", false, false},
		{`"> 1969-12-30 < 1970-01-01"`, `"1969-12-31"`, true, true},
		// lengths of texts, in characters, and of lists
		{`"length <= 3"`, `"abc"`, true, true},
		{`"length <= 3"`, `"abcd"`, false, false},
		{`"length <= 3"`, "\"\u00e4\u00f6\u00fc\"", true, true},
		{`"length > 3"`, `"\u0061\u0062\u0063"`, false, false},
		{`"length <= 2"`, `["abcd","e"]`, true, true},
		{`"length <= 2"`, `["a","b","c"]`, true, false},
		{`"length > 2"`, `["abcd"]`, true, false},
		{`"length > 2"`, `{"a":"abcd"}`, true, false},
		{`"length <= 3"`, "12", false, false},
	} {
		if have := onArgument(t, "deny", "allow", c.condition)(c.value) == nacre.Deny; have != c.denied {
			t.Errorf("deny v = %s of %.60s: have %v, want %v", c.condition, c.value, have, c.denied)
		}
		if have := onArgument(t, "ask", "allow", c.condition)(c.value) == nacre.Ask; have != c.denied {
			t.Errorf("ask v = %s of %.60s: have %v, want %v", c.condition, c.value, have, c.denied)
		}
		if have := onArgument(t, "allow", "deny", c.condition)(c.value) == nacre.Allow; have != c.allowed {
			t.Errorf("allow v = %s of %.60s: have %v, want %v", c.condition, c.value, have, c.allowed)
		}
	}
}

// F-29: what begins like a comparison and is none is reported, for it matches
// that text alone.
func TestAPatternThatComparesNothingIsReported(t *testing.T) {
	for condition, want := range map[string]bool{
		`arguments = { v = ">100" }`: false, `arguments = { v = "<= -0.5e3" }`: false, `arguments = { v = ">x" }`: true, `arguments = { v = "<" }`: true,
		`arguments = { v = "> 1 and < 5" }`: true, `arguments = { v = "> 1 < 5" }`: false, `arguments = { v = "> 1 < 2027-01-01" }`: true,
		`arguments = { v = "length < 2027-01-01" }`: true, `arguments = { v = "length of it" }`: false, `arguments = { v = "> 2026-13-01" }`: true,
		`arguments = { v = ">1 <2 <3 <4 <5" }`: true, `attributes = { level = ">5" }`: true, `scope = { level = ["a", "<5"] }`: true, `arguments = { v = "a>5" }`: false,
		`arguments = { v = "１００" }`: true, `arguments = { v = "＞100" }`: true, `arguments = { v = "<= １００" }`: true, `arguments = { v = "-١٠.5" }`: true,
		`arguments = { v = "100" }`: false, `arguments = { v = "１００円" }`: false, `arguments = { v = "ａ" }`: false,
	} {
		p := parse(t, "[[rules]]\naction = \"ask\"\nmatch = { "+condition+" }")
		have := false
		for _, f := range p.Findings() {
			have = have || f.Code == "not_compared" && f.Line > 0
		}
		if have != want {
			t.Errorf("%s: reported %v, want %v", condition, have, want)
		}
	}
}

// K-06: of a comparison a record tells nothing, and of a number that two read
// in two ways neither.
func TestAReplayDoesNotGuessWhatANumberWas(t *testing.T) {
	for condition, undecided := range map[string]bool{`">100"`: true, "100": false} {
		p := parse(t, "[[rules]]\nname = \"big\"\naction = \"ask\"\nmatch = { arguments = { v = "+condition+" } }")
		rec := policy.RecordedOf(policy.Request{Arguments: json.RawMessage(`{"v":5000}`)})
		if _, why := p.Replay(rec); (why != "") != undecided {
			t.Errorf("%s: undecided %q, want %v", condition, why, undecided)
		}
	}
	p := parse(t, "[[rules]]\naction = \"ask\"\nmatch = { arguments = { v = 1 } }")
	for value, undecided := range map[string]bool{"1.00000000000000000001": true, `"1"`: true, "2": false, `"one"`: false} {
		rec := policy.RecordedOf(policy.Request{Arguments: json.RawMessage(`{"v":` + value + `}`)})
		if _, why := p.Replay(rec); (why != "") != undecided {
			t.Errorf("%s: undecided %q, want %v", value, why, undecided)
		}
	}
}

// K-32: what can never match is refused by a check, with the argument's type.
func TestWhatCanNeverMatchIsRefused(t *testing.T) {
	tools := []nacre.Capability{
		{ID: "bank.pay", Tool: "pay", Safety: nacre.Write, Schema: json.RawMessage(`{"type":"object","properties":{
			"amount":{"type":"string"},"cents":{"type":"integer"},"to":{"type":"object","properties":{"name":{"type":"string"}}},
			"tags":{"type":"array","items":{"type":"string"}},"either":{"type":["string","integer"]},"any":{"anyOf":[{"type":"string"}]}}}`)},
		{ID: "bank.list", Tool: "list", Safety: nacre.Read, Schema: json.RawMessage(`{"type":"object","properties":{"page":{"type":"integer"}},"additionalProperties":false}`)},
	}
	for rule, want := range map[string]string{
		`action = "allow"|match = { tool = ["pay"], arguments = { amount = ">100" } }`:        `"amount" is string`,
		`action = "deny"|match = { tool = ["pay"], arguments = { amount = ">100" } }`:         "",
		`action = "allow"|match = { tool = ["pay"], arguments = { cents = ">100" } }`:         "",
		`action = "allow"|match = { tool = ["pay"], arguments = { either = ">100" } }`:        "",
		`action = "deny"|match = { tool = ["pay"], arguments = { cents = "100*" } }`:          `"cents" is integer`,
		`action = "allow"|match = { tool = ["pay"], arguments = { cents = "< 2027-01-01" } }`: `"cents" is integer`,
		`action = "allow"|match = { tool = ["pay"], arguments = { cents = "length < 3" } }`:   `"cents" is integer`,
		`action = "allow"|match = { tool = ["pay"], arguments = { amount = true } }`:          `"amount" is string`,
		`action = "allow"|match = { tool = ["pay"], arguments = { "to.name" = "a*" } }`:       "",
		`action = "allow"|match = { tool = ["pay"], arguments = { "tags.0" = "a*" } }`:        "",
		`action = "allow"|match = { tool = ["pay"], arguments = { any = 5 } }`:                "",
		`action = "deny"|match = { tool = ["pay"], arguments = { sum = "*" } }`:               "",
		`action = "deny"|match = { tool = ["list"], arguments = { size = "*" } }`:             `none of its tools has an argument "size"`,
		`action = "ask"|match = { arguments = { page = ">10" } }`:                             "",
		`action = "ask"|match = { tool = ["pya"] }`:                                           "none of the 2 tools",
		`action = "ask"|match = { tool = ["pay"], safety_class = ["READ"] }`:                  "none of the 2 tools",
		`action = "ask"|match = { tool = ["pay"], arguments = { cents = ">5 <3" } }`:          "no value is",
		`action = "ask"|match = { tool = ["pay"], arguments = { cents = ">5 <=5" } }`:         "no value is",
		`action = "ask"|match = { tool = ["pay"], arguments = { cents = ">=5 <=5" } }`:        "",
		`action = "ask"|match = { tool = ["pay"], arguments = { amount = "length < 0" } }`:    "no value is",
		`action = "ask"|match = { arguments = { page = ">= 2027-01-01 < 2026-01-01" } }`:      "no value is",
		`action = "ask"|match = { tool = ["pay"], arguments = { amount = ">lots" } }`:         "compares nothing",
	} {
		p := parse(t, "[[rules]]\n"+strings.Replace(rule, "|", "\n", 1))
		var have []string
		for _, f := range p.FindingsFor(tools) {
			if f.Refused() {
				have = append(have, f.Text)
			}
		}
		said := strings.Join(have, "; ")
		if (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s:\nhave %q\nwant %q", rule, said, want)
		}
	}
}
