package provenance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

var (
	operator  = nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}
	trusted   = nacre.Source{Provenance: nacre.SeenTrusted, Name: "result of contacts.list"}
	untrusted = nacre.Source{Provenance: nacre.SeenUntrusted, Name: "result of mail.read"}
)

func arguments(t testing.TB, value any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"v": value})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// seen is where a value was seen by a session that read text from source.
func seen(t testing.TB, source nacre.Source, text string, value any) nacre.Provenance {
	t.Helper()
	l := provenance.New()
	l.Observe(source, []byte(text))
	origins := l.Origins(arguments(t, value), []string{"v"})
	if len(origins) != 1 {
		t.Fatalf("have %d origins, want 1", len(origins))
	}
	return origins[0].Provenance
}

// K-26: the whole normalised value.
func TestAValueThatStandsInTheTaskIsTheOperators(t *testing.T) {
	for name, c := range map[string]struct {
		task  string
		value any
	}{
		"an address":                     {"Write to bob@example.com, please.", "bob@example.com"},
		"an address in upper case":       {"Write to Bob@Example.COM", "bob@example.com"},
		"an address with its name":       {"Write to bob@example.com", "Bob <bob@example.com>"},
		"an address in angles":           {"Write to Bob <bob@example.com>.", "bob@example.com"},
		"an address behind a label":      {"mailto:bob@example.com", "bob@example.com"},
		"an address with a scheme":       {"Write to bob@example.com", "mailto:bob@example.com"},
		"a list of addresses":            {"to: bob@example.com,eve@example.com", "eve@example.com"},
		"a name":                         {"Invite Ada Lovelace to lunch", "Ada Lovelace"},
		"a name over two lines":          {"Invite Ada\n  Lovelace to lunch", "ada  lovelace"},
		"a name in the genitive":         {"pay Bob's invoice", "bob"},
		"a name in quotes":               {`the file "report final" now`, "report final"},
		"a name in curly quotes":         {"the file “report final” now", "report final"},
		"a name with a mark":             {"Mail Zoe\u0308 Ångström", "zoë ÅNGSTRÖM"},
		"a name in wide letters":         {"Invite Ｂｏｂｂｙ", "bobby"},
		"a word with a joiner in it":     {"pay acme", "ac\u200bme"},
		"an order to turn the direction": {"pay acme", "\u202eacme\u202c"},
		"a Chinese name in quotes":       {"请付款给「张三丰」。", "张三丰"},
		"a number":                       {"pay 1500 today", 1500},
		"a number with groups":           {"pay 1,500 today", 1500},
		"a number with cents":            {"pay $1,500.00.", 1500},
		"a German number":                {"zahle 1.500,50 €", 1500.5},
		"a Swiss number":                 {"pay 1'500'000 CHF", 1500000},
		"a number as text":               {"pay 1,500.00", "1500"},
		"a number with groups as text":   {"pay 1500", "1,500.00"},
		"a number with an exponent":      {"pay 1500", json.Number("1.5e3")},
		"a negative number":              {"move by -12.50", -12.5},
		"a small number":                 {"add 5 apples", 5},
		"a telephone number":             {"call +49 (170) 123-4567 now", "+491701234567"},
		"a telephone number in groups":   {"call +491701234567 now", "+49 170 1234567"},
		"an account":                     {"account 1234 5678 9012 3456", "1234567890123456"},
		"an IBAN":                        {"to DE89 3704 0044 0532 0130 00, today", "DE89370400440532013000"},
		"an IBAN before a word":          {"to AT61 1904 3002 3457 3201 now", "AT611904300234573201"},
		"an IBAN in groups":              {"to DE89370400440532013000", "DE89 3704 0044 0532 0130 00"},
		"a URL":                          {"fetch https://example.com/a/b?x=1.", "https://example.com/a/b?x=1"},
		"a URL in brackets":              {"see [it](https://example.com/a/b).", "https://example.com/a/b"},
		"a URL without its scheme":       {"fetch example.com/a/b", "https://example.com/a/b"},
		"the root of a host":             {"fetch example.com", "https://example.com/"},
		"the root of a URL's host":       {"fetch https://example.com/a/b", "https://example.com"},
		"a URL with its port":            {"fetch https://example.com/a", "https://example.com:443/a"},
		"a URL in upper case":            {"fetch https://example.com/a", "HTTPS://EXAMPLE.com/a"},
		"a URL with a dot at its host":   {"fetch https://example.com/a", "https://example.com./a"},
		"a URL with dots in its path":    {"fetch https://example.com/b/c", "https://example.com/a/../b/./c"},
		"a URL without its fragment":     {"fetch https://example.com/a#top", "https://example.com/a"},
		"a foreign host":                 {"fetch https://münchen.example/a", "https://xn--mnchen-3ya.example/a"},
		"an IPv6 host":                   {"fetch http://[2001:db8:0::1]/a", "http://[2001:db8::1]/a"},
		"a host":                         {"fetch https://example.com/a/b", "example.com"},
		"a host with a port":             {"fetch https://example.com:8443/a", "example.com:8443"},
		"a host with a dot":              {"ping example.com now", "example.com."},
		"a path":                         {"read ./src//main.go", "src/main.go"},
		"a path with dots":               {"read src/main.go", "./src/./main.go"},
		"a path that turns back":         {"read src/main.go", "src/x/../main.go"},
		"a folder":                       {"list src/ now", "src"},
		"an absolute path":               {"read /etc/hosts", "/etc//hosts"},
		"a text in JSON":                 {`{"to":"b\u006fb@example.com"}`, "bob@example.com"},
		"a text in JSON in JSON":         {`"{\"to\":\"bob@example.com\"}"`, "bob@example.com"},
		"a text in lines of JSON":        {"{\"a\":1}\n{\"to\":\"bo\\u0062@example.com\"}", "bob@example.com"},
		"a key in JSON":                  {`{"user-17":{}}`, "user-17"},
		"a number in JSON":               {`{"amount":1.50e3}`, 1500},
		"one letter that is all":         {`["x","y"]`, "x"},
		"a whole text of JSON":           {`{"a": [1, "b"]}`, `{"a": [1, "b"]}`},
		"a text in quotes of its own":    {`"hello world"`, `"hello world"`},
		"a whole sentence":               {"Say: Dear all, the meeting is at 5. Thanks!", "dear all, the meeting is at 5. thanks"},
	} {
		if have := seen(t, operator, c.task, c.value); have != nacre.SeenOperator {
			t.Errorf("%s: %v in %q: have %v, want operator", name, c.value, c.task, have)
		}
	}
}

// K-26: seen nowhere counts as untrusted.
func TestAValueThatStandsInPartsIsSeenNowhere(t *testing.T) {
	for name, c := range map[string]struct {
		task  string
		value any
	}{
		"the tail of a host":                {"fetch notevil.com", "evil.com"},
		"the head of a host":                {"fetch evil.com.au", "evil.com"},
		"the parent of a host":              {"fetch https://www.evil.com/", "evil.com"},
		"the host of an address":            {"write to bob@evil.com", "evil.com"},
		"the tail of an address":            {"write to notbob@example.com", "bob@example.com"},
		"the tail of a dotted address":      {"write to not.bob@example.com", "bob@example.com"},
		"an address with another behind":    {"write to bob@example.com@evil.com", "bob@example.com"},
		"an address in userinfo":            {"fetch https://git:bob@example.com", "bob@example.com"},
		"an address with a tag":             {"write to bob@example.com", "bob+evil@example.com"},
		"an address without its tag":        {"write to bob+evil@example.com", "bob@example.com"},
		"a digit of a number":               {"pay 1,500", 5},
		"a group of a number":               {"pay 1,500", 500},
		"the fraction of a number":          {"pay 1.5", 5},
		"the whole of a number":             {"pay 1.5", 1},
		"a number with its sign lost":       {"move by -5", 5},
		"a number with a sign":              {"move by 5", -5},
		"ten times a number":                {"pay 150.00", 15000},
		"a number in a word":                {"open x5y", 5},
		"a part of a date":                  {"on 2025-01-05", 2025},
		"a part of an address on the net":   {"ping 10.0.0.15", "0.0.15"},
		"a part of a telephone number":      {"call +49-170-1234567", "1234567"},
		"a part of a version":               {"use 1.2.3", 1.2},
		"a name with zeros":                 {"open 007", 7},
		"a relative path from an absolute":  {"read /etc/hosts", "etc/hosts"},
		"a file in a folder":                {"list /home/bob", "/home/bob/.ssh/id_rsa"},
		"a path that climbs out":            {"list /home/bob", "/home/bob/../../etc/passwd"},
		"a folder above":                    {"read src/../etc/hosts", "src"},
		"a part of a path":                  {"read /srv/data/reports", "/data/reports"},
		"a hidden file":                     {"read x.ssh", ".ssh"},
		"a path in a URL":                   {"fetch https://example.com/etc/passwd", "/etc/passwd"},
		"a URL with another query":          {"fetch https://example.com/a", "https://example.com/a?leak=1"},
		"a URL with another path":           {"fetch https://example.com/a", "https://example.com/a/b"},
		"a URL with its query cut":          {"fetch https://example.com/a?b=c", "https://example.com/a"},
		"a URL with another scheme":         {"fetch https://example.com/a", "ftp://example.com/a"},
		"a URL with its safety lost":        {"fetch https://example.com/a", "http://example.com/a"},
		"a URL with another port":           {"fetch https://example.com/a", "https://example.com:8443/a"},
		"a URL with a fragment":             {"fetch https://example.com/a", "https://example.com/a#evil"},
		"a trusted host as userinfo":        {"fetch https://example.com", "https://example.com@evil.com"},
		"a trusted host as user":            {"fetch https://example.com", "https://example.com:443@evil.com/"},
		"a backslash":                       {"fetch https://example.com", `https://example.com\@evil.com`},
		"a host behind a backslash":         {"fetch https://example.com", `https://evil.com\example.com`},
		"a trusted host as a path":          {"fetch https://example.com", "https://evil.com/example.com"},
		"a trusted host as a query":         {"fetch https://example.com", "https://evil.com/?https://example.com"},
		"a trusted host as a label":         {"fetch https://example.com", "https://example.com.evil.com"},
		"a host in a query":                 {"fetch https://example.com/?to=https://evil.com/x", "https://evil.com/x"},
		"an escaped host":                   {"fetch https://example.com", "https://example%2ecom"},
		"a host as a number":                {"fetch http://10.0.0.1/", "http://167772161/"},
		"a Cyrillic a":                      {"fetch https://apple.com", "https://аpple.com"},
		"a Cyrillic a as punycode":          {"fetch https://apple.com", "https://xn--pple-43d.com"},
		"a dotted I":                        {"fetch https://github.com", "https://gİthub.com"},
		"a dotless i":                       {"fetch https://github.com", "https://gıthub.com"},
		"a Greek letter":                    {"pay acme", "αcme"},
		"an address as a shown name":        {"write to bob@example.com", `"bob@example.com" <evil@example.org>`},
		"a name of two addresses":           {"write to bob@example.com", "bob@example.com <evil@example.org>"},
		"an address in a comment":           {"write to bob@example.com", "evil@example.org (bob@example.com)"},
		"a list with another address":       {"write to bob@example.com", "bob@example.com, evil@example.org"},
		"a list with a semicolon":           {"write to bob@example.com", "bob@example.com;evil@example.org"},
		"a header behind an address":        {"write to bob@example.com", "bob@example.com\r\nBcc: evil@example.org"},
		"a zero byte behind an address":     {"write to bob@example.com", "bob@example.com\x00.evil.org"},
		"base64":                            {"Ym9iQGV4YW1wbGUuY29t", "bob@example.com"},
		"percent":                           {"bob%40example.com", "bob@example.com"},
		"hex":                               {"626f62406578616d706c652e636f6d", "bob@example.com"},
		"an escape in a text":               {`say bo\u0062@example.com`, "bob@example.com"},
		"pieces":                            {"write to bob or to eve at example.com", "bob@example.com"},
		"words in another order":            {"Ada Lovelace", "Lovelace Ada"},
		"words with one left out":           {"Ada King Lovelace", "Ada Lovelace"},
		"two values of JSON":                {`["Ada","Lovelace"]`, "Ada Lovelace"},
		"a key and its value":               {`{"ada":"lovelace"}`, "ada lovelace"},
		"letters of a Chinese name":         {"请付款给「张三丰」。", "张三"},
		"a word between two that touch":     {"a_secret_b", "secret"},
		"two numbers of a list":             {"take [1,500] now", 1500},
		"two numbers of JSON":               {"[1,500]", 1500},
		"two numbers of JSON, as text":      {"[1,500]", "1,500"},
		"two accounts of JSON":              {"[1234,5678]", "12345678"},
		"a path as a host":                  {"read /example/x", "//example/x"},
		"a query in mailto":                 {"write to bob@example.com", "mailto:bob@example.com?bcc=evil%40example.org"},
		"a tab in a URL":                    {"fetch https://example.com", "https://example.com\t.evil.com"},
		"a URL in wide letters":             {"fetch https://example.com", "https://example.com／＠evil.com"},
		"an empty text":                     {"anything", ""},
		"blanks":                            {"any thing", "  "},
		"a dot":                             {"read ./x", "."},
		"the root":                          {"read / now", "/"},
		"a star":                            {"delete * now", "*"},
		"null":                              {"null", nil},
		"true":                              {"true", true},
		"one letter":                        {"take a train", "a"},
		"two letters":                       {"go to bed", "to"},
		"not UTF-8":                         {"say bob\xff", "bob"},
		"the mark of what is not UTF-8":     {"say b\xffb", "b\ufffdb"},
		"an empty list":                     {"anything", []any{}},
		"an empty object":                   {"anything", map[string]any{}},
		"a file that is kept of another":    {"delete notes~", "notes"},
		"a language":                        {"learn foo++", "foo"},
		"an IBAN with a digit changed":      {"to DE89 3704 0044 0532 0130 00", "DE89370400440532013001"},
		"an account that begins like it":    {"account 1234 5678 9012 3456", "123456789012"},
		"an address on the net, regrouped":  {"ping 192.168.1.200", "192.16.81.200"},
		"a number over the limit":           {"pay 1", json.Number("1e999")},
		"a mark that changes the letter":    {"pay ace", "acé"},
		"a number with a unit of thousands": {"pay 5k", 5},
	} {
		if have := seen(t, operator, c.task, c.value); have != nacre.SeenNowhere {
			t.Errorf("%s: %v in %q: have %v, want nowhere", name, c.value, c.task, have)
		}
	}
}

func origin(t *testing.T, l *provenance.Ledger, value any) nacre.Origin {
	t.Helper()
	origins := l.Origins(arguments(t, value), []string{"v"})
	if len(origins) != 1 {
		t.Fatalf("have %d origins, want 1", len(origins))
	}
	return origins[0]
}

func TestTheHighestProvenanceWinsAndAllSourcesAreNamed(t *testing.T) {
	l := provenance.New()
	l.Observe(untrusted, []byte("please write to bob@example.com"))
	if have := origin(t, l, "bob@example.com"); have.Provenance != nacre.SeenUntrusted || !slices.Equal(have.Sources, []string{untrusted.Name}) {
		t.Errorf("have %+v", have)
	}
	l.Observe(trusted, []byte(`[{"email":"bob@example.com"}]`))
	l.Observe(operator, []byte("write to bob@example.com"))
	for i := range 5 {
		l.Observe(nacre.Source{Provenance: nacre.SeenUntrusted, Name: fmt.Sprint("page ", i)}, []byte("bob@example.com"))
	}
	have := origin(t, l, "bob@example.com")
	if have.Provenance != nacre.SeenOperator || len(have.Sources) != provenance.MaxSources || have.Sources[0] != operator.Name || have.Sources[1] != trusted.Name {
		t.Errorf("have %+v", have)
	}
}

func TestAValueOfPiecesFromTwoTextsIsSeenNowhere(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("fetch https://example.com/a"))
	l.Observe(operator, []byte("the end of it"))
	l.Observe(trusted, []byte("?leak=secret"))
	for _, value := range []string{"https://example.com/a?leak=secret", "https://example.com/athe end of it", "example.com/a the end"} {
		if have := origin(t, l, value); have.Provenance != nacre.SeenNowhere {
			t.Errorf("%q: have %+v, want nowhere", value, have)
		}
	}
}

// M-52
func TestWhatIsNotTrustedTaintsAndTheProjectDoesNot(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("a"))
	l.Observe(trusted, []byte("b"))
	l.ObserveProject(nacre.Source{Provenance: nacre.SeenUntrusted, Name: "README.md"}, []byte("write to eve@example.org"))
	l.ObserveModelRequest([]byte(`{"messages":[{"role":"tool","content":"x"}]}`), nacre.SeenUntrusted)
	if l.Tainted() || l.TaintedBy() != nil {
		t.Fatalf("tainted by %q", l.TaintedBy())
	}
	if have := origin(t, l, "eve@example.org"); have.Provenance != nacre.SeenUntrusted {
		t.Errorf("have %+v", have)
	}
	l.Observe(untrusted, nil)
	for i := range 9 {
		l.Taint(fmt.Sprint("page ", i%5))
	}
	if have := l.TaintedBy(); !l.Tainted() || !slices.Equal(have, []string{untrusted.Name, "page 0", "page 1", "page 2"}) {
		t.Errorf("have %q", have)
	}
	l = provenance.New()
	l.Observe(nacre.Source{Name: "who knows"}, []byte("text"))
	l.Observe(nacre.Source{Provenance: 77, Name: strings.Repeat("ü", 100)}, []byte("text"))
	if !l.Tainted() || len(l.TaintedBy()[1]) != 128 {
		t.Errorf("tainted by %q", l.TaintedBy())
	}
}

func TestSinksAreNamesAndPathsAndEveryValueBelow(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("to bob@example.com and eve@example.com"))
	for name, c := range map[string]struct {
		arguments string
		sinks     []string
		want      string
	}{
		"a name":                      {`{"to":"bob@example.com","x":"y"}`, []string{"to"}, "to=operator"},
		"an absent name":              {`{"x":"y"}`, []string{"to"}, ""},
		"no sinks":                    {`{"x":"y"}`, nil, ""},
		"a list":                      {`{"to":["bob@example.com","mallory@example.org"]}`, []string{"to"}, "to.0=operator to.1=nowhere"},
		"an object":                   {`{"to":{"a":"bob@example.com","b":{"c":"x@y.z"}}}`, []string{"to"}, "to.a=operator to.b.c=nowhere"},
		"a path":                      {`{"to":{"a":"bob@example.com","b":"x@y.z"}}`, []string{"to.a"}, "to.a=operator"},
		"a path through a list":       {`{"to":[{"a":"bob@example.com"},{"a":"x@y.z"}]}`, []string{"to.a"}, "to.0.a=operator to.1.a=nowhere"},
		"a path through lists":        {`{"to":[[["a",["bob@example.com"]]]]}`, []string{"to.0.1.0"}, "to.0.0.1.0=operator"},
		"a path to one of a list":     {`{"to":["bob@example.com","x@y.z"]}`, []string{"to.1"}, "to.1=nowhere"},
		"a name with a dot":           {`{"to.a":"bob@example.com"}`, []string{"to.a"}, "to.a=operator"},
		"a sink within a sink":        {`{"to":{"a":"bob@example.com"}}`, []string{"to", "to.a"}, "to.a=operator"},
		"an escaped name":             {`{"t\u006f":"x@y.z"}`, []string{"to"}, "to=nowhere"},
		"a name twice":                {`{"to":"bob@example.com","to":"x@y.z"}`, []string{"to"}, "to=operator to=nowhere"},
		"what is not JSON":            {`{"to":"bob@example.com"`, []string{"to"}, "to=nowhere"},
		"nothing":                     {``, []string{"to"}, "to=nowhere"},
		"no object":                   {`"bob@example.com"`, []string{"to"}, ""},
		"a name that begins like one": {`{"tom":"x@y.z"}`, []string{"to"}, ""},
	} {
		var have []string
		for _, o := range l.Origins(json.RawMessage(c.arguments), c.sinks) {
			have = append(have, o.Argument+"="+o.Provenance.String())
		}
		if strings.Join(have, " ") != c.want {
			t.Errorf("%s: have %q, want %q", name, have, c.want)
		}
	}
}

func TestTooMuchIsSeenNowhere(t *testing.T) {
	l := provenance.New()
	long := strings.Repeat("word ", 20_000) + "end"
	l.Observe(operator, []byte("bob@example.com "+long))
	if have := origin(t, l, long); have.Provenance != nacre.SeenOperator {
		t.Errorf("a long text: have %+v", have)
	}
	if have := origin(t, l, long+" evil"); have.Provenance != nacre.SeenNowhere {
		t.Errorf("a long text with a tail: have %+v", have)
	}
	if have := origin(t, l, strings.Repeat("x", provenance.MaxValue)); have.Provenance != nacre.SeenNowhere {
		t.Errorf("a value over the limit: have %+v", have)
	}
	many := arguments(t, slices.Repeat([]string{"bob@example.com"}, 100_000))
	origins := l.Origins(many, []string{"v"})
	if last := origins[len(origins)-1]; len(origins) != provenance.MaxOrigins || last.Provenance != nacre.SeenNowhere {
		t.Errorf("a list over the limit: %d origins, the last %+v", len(origins), last)
	}
	deep := `{"v":` + strings.Repeat("[", 5000) + `"bob@example.com"` + strings.Repeat("]", 5000) + `}`
	origins = l.Origins(json.RawMessage(deep), []string{"v"})
	if len(origins) != 1 || origins[0].Provenance != nacre.SeenNowhere {
		t.Errorf("deep JSON: have %d origins", len(origins))
	}
	lists := `{"v":` + strings.Repeat("[", 120) + `"bob@example.com"` + strings.Repeat("]", 120) + `}`
	if have := l.Origins(json.RawMessage(lists), []string{"v" + strings.Repeat(".0", 200)}); len(have) != 0 {
		t.Errorf("a long path: have %+v", have)
	}
	if have := l.Origins(nil, slices.Repeat([]string{"v"}, 1000)); len(have) != provenance.MaxOrigins {
		t.Errorf("sinks over the limit: %d origins", len(have))
	}
}

func TestAFloodOfOneClassLetsGoOfNoOther(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("to bob@example.com"))
	l.Observe(trusted, []byte("to eve@example.com"))
	l.Observe(untrusted, []byte("to mallory@example.org"))
	flood := []byte(strings.Repeat("flood ", 200_000))
	for range 8 {
		l.Observe(untrusted, flood)
	}
	for value, want := range map[string]nacre.Provenance{
		"bob@example.com": nacre.SeenOperator, "eve@example.com": nacre.SeenTrusted, "mallory@example.org": nacre.SeenNowhere,
	} {
		if have := origin(t, l, value); have.Provenance != want {
			t.Errorf("%s: have %v, want %v", value, have.Provenance, want)
		}
	}
	for range 8 {
		l.Observe(trusted, flood)
	}
	if have := origin(t, l, "eve@example.com"); have.Provenance != nacre.SeenNowhere {
		t.Errorf("what was let go: have %v, want nowhere", have.Provenance)
	}
}

func TestATextLongerThanASegmentMakesNoWholesOfHalves(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("first@example.com "+strings.Repeat("evil.com.au ", provenance.MaxOperator/16)+"last@example.com"))
	for value, want := range map[string]nacre.Provenance{
		"last@example.com": nacre.SeenOperator, "evil.com.au": nacre.SeenOperator, "evil.com": nacre.SeenNowhere, "com.au": nacre.SeenNowhere,
	} {
		if have := origin(t, l, value); have.Provenance != want {
			t.Errorf("%s: have %v, want %v", value, have.Provenance, want)
		}
	}
	l.Observe(operator, []byte(strings.Repeat("evil.com.", provenance.MaxOperator)))
	l.Observe(operator, []byte(strings.Repeat("a-", provenance.MaxOperator)))
	if have := origin(t, l, "evil.com"); have.Provenance != nacre.SeenNowhere {
		t.Errorf("one long word: have %v", have.Provenance)
	}
}

func TestManySourcesKeepTheirBounds(t *testing.T) {
	l := provenance.New()
	for i := range 5000 {
		l.Observe(nacre.Source{Provenance: nacre.SeenUntrusted, Name: fmt.Sprint("page ", i)}, fmt.Appendf(nil, "value-%d", i))
	}
	if have := origin(t, l, "value-4999"); have.Provenance != nacre.SeenUntrusted || !slices.Equal(have.Sources, []string{"other sources"}) {
		t.Errorf("have %+v", have)
	}
	if have := origin(t, l, "value-17"); !slices.Equal(have.Sources, []string{"page 17"}) {
		t.Errorf("have %+v", have)
	}
}

func TestALedgerMayBeUsedConcurrently(t *testing.T) {
	l := provenance.New()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := fmt.Appendf(nil, "to user%d@example.com", i)
			for range 50 {
				l.Observe(operator, text)
				l.ObserveModelRequest(fmt.Appendf(nil, `{"messages":[{"role":"tool","content":"c%d"}]}`, i), nacre.SeenTrusted)
				l.Taint("x")
				if o := l.Origins(fmt.Appendf(nil, `{"v":"user%d@example.com"}`, i), []string{"v"}); o[0].Provenance != nacre.SeenOperator {
					t.Errorf("have %+v", o)
				}
				_, _ = l.Tainted(), l.TaintedBy()
			}
		})
	}
	wg.Wait()
}

// F-38: a sentence that begins right after a host ends it. What an argument says is never cut so,
// for there it is another host.
func TestASentenceGluedToAHostEndsIt(t *testing.T) {
	for name, c := range map[string]struct {
		text, value string
		want        nacre.Provenance
	}{
		"the finding's":                {"see www.our-shop.com.They want more", "www.our-shop.com", nacre.SeenOperator},
		"an address":                   {"mail ada@our-shop.com.Then call her", "ada@our-shop.com", nacre.SeenOperator},
		"the end of the text":          {"go to our-shop.com.Thanks", "our-shop.com", nacre.SeenOperator},
		"a host in capitals":           {"go to Our-Shop.Com now", "our-shop.com", nacre.SeenOperator},
		"a longer host":                {"go to our-shop.com.evil now", "our-shop.com", nacre.SeenNowhere},
		"what a sentence would make":   {"go to our-shop.com. Best regards", "our-shop.com.Best", nacre.SeenNowhere},
		"the same, glued":              {"go to our-shop.com.Best regards", "our-shop.com.best", nacre.SeenNowhere},
		"a file":                       {"read main.Test now", "main", nacre.SeenNowhere},
		"a name with capitals further": {"use our-shop.com.TheName here", "our-shop.com", nacre.SeenNowhere},
	} {
		if have := seen(t, operator, c.text, c.value); have != c.want {
			t.Errorf("%s: have %v, want %v", name, have, c.want)
		}
	}
}
