package verify

import (
	"bytes"
	"encoding/json"
)

// event is a line of the reports that the host's own reporters write: the
// run's nonce, a space and this.
type event struct {
	// Kind is "start" or "end" for runners that nest tests, and empty for others.
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	File   string `json:"file"`
	Depth  int    `json:"depth"`
	Status string `json:"status"`
	Text   string `json:"text"`
}

// maxTestDepth is how deep tests may be nested.
const maxTestDepth = 64

// events reads the lines that begin with the nonce; all other output is the
// tests' own.
func events(out Output, nonce string, r *results, each func(event)) {
	for line := range bytes.Lines(out.Stdout) {
		line, ok := bytes.CutPrefix(line, []byte(nonce+" "))
		if !ok || nonce == "" {
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			r.strange("a line of the report is none: %s", clip(string(line)))
			continue
		}
		each(e)
	}
}

// parseEvents reads the report of a runner that does not nest its tests.
func parseEvents(out Output, nonce string) *results {
	r := newResults()
	events(out, nonce, r, func(e event) {
		if e.Kind == "build" {
			r.says(building, e.Text)
			return
		}
		r.says(e.Name, e.Text)
		r.end(e.Name, statusOf(e.Status))
	})
	return r
}

func statusOf(word string) status {
	switch word {
	case "passed":
		return green
	case "skipped", "pending", "todo", "disabled":
		return skipped
	}
	return red
}
