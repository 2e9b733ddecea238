package fields_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/egress/fields"
)

// In which pieces a form comes makes no difference, and little of it is kept.
func TestAFormReadsTheSameInEveryPiece(t *testing.T) {
	const whole = 1 << 20
	long := strings.Repeat("y", 200_000)
	for name, c := range map[string]struct {
		form string
		want bool
	}{
		"a part":             {"--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT", true},
		"folded":             {"--b\r\nA: b\r\nContent-Disposition:\r\n\tform-data;\r\n name=_method\r\n\r\nPUT", true},
		"behind a long text": {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n" + long + "\r\n--b\r\nContent-Disposition: form-data; name=_method\r\n\r\n", true},
		"a long header":      {"--b\r\nContent-Disposition: form-data; x=" + long + "\r\n\r\nPUT", true},
		"a long text":        {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\ncontent-disposition: " + long + "\r\n--b--\r\n", false},
		"a text of returns":  {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n" + strings.Repeat("\r\n", 50_000) + "--b--\r\n", false},
	} {
		for _, piece := range []int{1, 2, 7, 4096, whole} {
			if have, most := fields.PartNamesMethod(c.form, piece); have != c.want || most > 16<<10 {
				t.Errorf("%s in pieces of %d: %v, %d bytes kept", name, piece, have, most)
			}
		}
	}
}

// In which pieces a JSON document comes makes no difference either.
func TestJSONReadsTheSameInEveryPiece(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200_000)
	for name, c := range map[string]struct {
		kind, text string
		want       bool
	}{
		"a member":             {"application/json", `{"a":[{"_method":1}],"_method":"PUT"}`, true},
		"escaped":              {"application/json", `{"\u005fm\u0065thod" : "PUT"}`, true},
		"behind a long text":   {"application/json", `{"` + long + `":"` + long + `\"","sudo":1}`, true},
		"of a member's member": {"application/json", `{"a":{"_method":1},"b":"_method"}`, false},
		"with zeros behind it": {"application/json", `{"_method` + strings.Repeat(`\u0000`, 1000) + `":"PUT"}`, true},
		"a long other name":    {"application/json", `{"_methods` + strings.Repeat(`\u0000`, 1000) + `":"PUT"}`, false},
		"a comment":            {"application/json", `{/*"*/"a":1}`, true},
		"a comment in a text":  {"text/plain", `{/*"*/"_method":1}`, false},
		"a framed message":     {"application/connect+json", "\x00\x00\x00\x00\x05{\"a\":1}", false},
		"a picture":            {"image/png", `{"_method":1}`, false},
	} {
		for _, piece := range []int{1, 2, 7, 4096, 1 << 20} {
			look, found := fields.Reader(c.kind), false
			for text := []byte(c.text); look != nil && len(text) > 0; text = text[min(piece, len(text)):] {
				found = look(text[:min(piece, len(text))]) || found
			}
			if found != c.want {
				t.Errorf("%s in pieces of %d: %v", name, piece, found)
			}
		}
	}
}

// M-35: of a name that is longer than what is kept of it, everything that a server passes over may follow.
func TestALongNameIsReadAsServersReadIt(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"escaped spaces behind it":    {"_method" + strings.Repeat("%20", 2000) + "=PUT", true},
		"spaces escaped twice":        {"_method" + strings.Repeat("%2520", 2000) + "=PUT", true},
		"escaped zeros behind it":     {"_method" + strings.Repeat("%00", 2000) + "=PUT", true},
		"spaces and zeros in turn":    {"sudo" + strings.Repeat("%00+", 2000) + "=root", true},
		"brackets":                    {"_method[" + strings.Repeat("a", 2000) + "]=PUT", true},
		"escaped brackets":            {"_method%5B" + strings.Repeat("a", 2000) + "%5D=PUT", true},
		"spaces before it":            {strings.Repeat("%20", 2000) + "_method=PUT", true},
		"another name":                {"_method" + strings.Repeat("a", 2000) + "=PUT", false},
		"JSON that is said to be one": {`{"text": "` + strings.Repeat("a", 2000) + `="}`, false},
		"a list in JSON":              {`["` + strings.Repeat(`a"],["`, 1000) + `="]`, false},
	} {
		for _, piece := range []int{1, 1000, 1 << 20} {
			look, found := fields.Reader(form), false
			for text := []byte(c.text); len(text) > 0; text = text[min(piece, len(text)):] {
				found = look(text[:min(piece, len(text))]) || found
			}
			if found != c.want {
				t.Errorf("%s in pieces of %d: %v", name, piece, found)
			}
		}
	}
}
