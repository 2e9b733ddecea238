package hosting

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
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

// maxRemembered is how many values of credentials are kept, to take them
// out of what handlers say.
const maxRemembered = 256

// minSpelling is the shortest spelling that is looked for: a shorter one stands in
// what has nothing to do with the value.
const minSpelling = 8

// handedOut are the credentials that handlers have read, to take them out of what
// handlers say.
type handedOut struct {
	redact *redact.Engine

	mu     sync.Mutex
	values map[string][]string // with their spellings
}

// remember keeps a value that a handler has read, so that what handlers say
// goes on without it, whatever it looks like.
func (h *handedOut) remember(value nacre.Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.values) < maxRemembered && h.values[value.Reveal()] == nil {
		h.values[value.Reveal()] = spellings(value.Reveal())
	}
}

// clean takes secrets out of a text: those that look like one, and those that
// were handed out here.
func (h *handedOut) clean(text string) string {
	text, _ = h.redact.String(h.withoutValues(text))
	return text
}

func (h *handedOut) withoutValues(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.values {
		for _, spelling := range all {
			text = strings.ReplaceAll(text, spelling, redact.Marker)
		}
	}
	return text
}

// discreet are tools whose results and errors go on without the credentials
// that were handed out: a handler's own must not reach the agent by mistake.
func (h *handedOut) discreet(tools []nacre.Tool) []nacre.Tool {
	for i := range tools {
		tools[i].Driver = discreet{tools[i].Driver, h}
	}
	return tools
}

// discreet is one such driver. A handler that wants to tell the agent finds a
// way; this is against those that do not.
type discreet struct {
	driver nacre.Driver
	handed *handedOut
}

// Do implements nacre.Driver.
func (d discreet) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	result, err := d.driver.Do(ctx, in)
	return d.handed.result(result), d.handed.failure(err)
}

// Prompt implements nacre.PromptDriver.
func (d discreet) Prompt() bool {
	driver, ok := d.driver.(nacre.PromptDriver)
	return ok && driver.Prompt()
}

// result takes values out of JSON, however they are spelled there. They are
// visible ASCII, and the marker needs no escape.
func (h *handedOut) result(raw json.RawMessage) json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	clean := raw
	for _, all := range h.values {
		for _, spelling := range all {
			clean = bytes.ReplaceAll(clean, []byte(spelling), []byte(redact.Marker))
		}
	}
	if !bytes.Equal(clean, raw) && !json.Valid(clean) { // it stood there as a number
		return json.RawMessage(`"` + redact.Marker + `"`)
	}
	return clean
}

// spellings are how a value stands in what a careless handler says. It stands there as it is, in a
// JSON string, in hexadecimal digits and in an address. It stands there in base64, too, wherever it
// begins in what was encoded, such as in an Authorization header. The longest is first.
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
func (h *handedOut) failure(err error) error {
	if err == nil || h.withoutValues(err.Error()) == err.Error() {
		return err
	}
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) {
		clean := *refusal
		clean.Message, clean.Original = h.withoutValues(refusal.Message), h.withoutValues(refusal.Original)
		return &clean
	}
	return errors.New(h.withoutValues(err.Error()))
}
