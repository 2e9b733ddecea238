package assembly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

// maxRemembered is how many values of credentials a stage keeps, to take them
// out of what handlers say.
const maxRemembered = 256

// remember keeps a value that a handler has read, so that what handlers say
// goes on without it, whatever it looks like.
func (g *stage) remember(value nacre.Secret) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.values) < maxRemembered {
		g.values[value.Reveal()] = true
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
	for value := range g.values {
		text = strings.ReplaceAll(text, value, redact.Marker)
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

// result takes values out of JSON, as they are and as a JSON string spells them.
// They are visible ASCII, and the marker needs no escape.
func (g *stage) result(raw json.RawMessage) json.RawMessage {
	g.mu.Lock()
	defer g.mu.Unlock()
	for value := range g.values {
		spelled, err := json.Marshal(value)
		if err != nil {
			continue // a string always marshals
		}
		for _, form := range [][]byte{spelled[1 : len(spelled)-1], plainly(value)} {
			raw = bytes.ReplaceAll(raw, form, []byte(redact.Marker))
		}
	}
	return raw
}

// plainly is how a value stands in a JSON string that escapes no more than it must.
func plainly(value string) []byte {
	return []byte(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
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
