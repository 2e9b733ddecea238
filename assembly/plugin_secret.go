package assembly

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

// maxRemembered is how many values of credentials a stage keeps, to take them
// out of what handlers say.
const maxRemembered = 256

// minSpelling is the shortest spelling that is looked for: a shorter one stands in
// what has nothing to do with the value.
const minSpelling = 8

// remember keeps a value that a handler has read, so that what handlers say
// goes on without it, whatever it looks like.
func (g *stage) remember(value nacre.Secret) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.values) < maxRemembered && g.values[value.Reveal()] == nil {
		g.values[value.Reveal()] = spellings(value.Reveal())
	}
}

// clean takes secrets out of a text: those that look like one, and those that
// were handed out here.
func (g *stage) clean(text string) string {
	text, _ = g.runtime.redact.String(g.withoutValues(text))
	return text
}

func (g *stage) withoutValues(text string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, all := range g.values {
		for _, spelling := range all {
			text = strings.ReplaceAll(text, spelling, redact.Marker)
		}
	}
	return text
}

// discreet are tools whose results and errors go on without the credentials
// that were handed out: a handler's own must not reach the agent by mistake.
func (g *stage) discreet(tools []nacre.Tool) []nacre.Tool {
	for i := range tools {
		tools[i].Driver = discreet{tools[i].Driver, g}
	}
	return tools
}

// discreet is one such driver. A handler that wants to tell the agent finds a
// way; this is against those that do not.
type discreet struct {
	driver nacre.Driver
	stage  *stage
}

// Do implements nacre.Driver.
func (d discreet) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	result, err := d.driver.Do(ctx, in)
	return d.stage.result(result), d.stage.failure(err)
}

// result takes values out of JSON, however they are spelled there. They are
// visible ASCII, and the marker needs no escape.
func (g *stage) result(raw json.RawMessage) json.RawMessage {
	g.mu.Lock()
	defer g.mu.Unlock()
	clean := raw
	for _, all := range g.values {
		for _, spelling := range all {
			clean = bytes.ReplaceAll(clean, []byte(spelling), []byte(redact.Marker))
		}
	}
	if !bytes.Equal(clean, raw) && !json.Valid(clean) { // it stood there as a number
		return json.RawMessage(`"` + redact.Marker + `"`)
	}
	return clean
}

// spellings are how a value stands in what a careless handler says: as it is, in
// a JSON string, in base64 wherever it begins in what was encoded, such as in an
// Authorization header, in hexadecimal digits and in an address. The longest is first.
func spellings(value string) []string {
	quoted, _ := json.Marshal(value) // a string always marshals
	all := []string{
		value, string(quoted[1 : len(quoted)-1]), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))), url.QueryEscape(value), url.PathEscape(value),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// The characters at both ends hold bits of what stands beside the value.
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			text = text[(before*8+5)/6 : (before+len(value))*8/6]
			all = append(all, text, strings.ReplaceAll(text, "/", `\/`))
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < minSpelling && s != value })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// failure takes values out of what an error says. It stays what it was.
func (g *stage) failure(err error) error {
	if err == nil || g.withoutValues(err.Error()) == err.Error() {
		return err
	}
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) {
		clean := *refusal
		clean.Message, clean.Original = g.withoutValues(refusal.Message), g.withoutValues(refusal.Original)
		return &clean
	}
	return errors.New(g.withoutValues(err.Error()))
}
