package task

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

const (
	// summarySize is how much of a tool call a record and a progress line show.
	summarySize = 200
	// excerptSize is how much of a tool's result they show.
	excerptSize = 300
)

// converse lets the brain work on a project, sealed, and says how its turn ended. failed
// is what its try before came to; it is empty for the first.
func (r *run) converse(ctx context.Context, base baseline, failed verification) (conversation, error) {
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return conversation{}, err
	}
	// A conversation that was interrupted begins again, on a clone as it was:
	// what it left half-done is not what the next one would expect.
	turn := r.Turn
	turn.Task += again(failed, r.talked)
	if !r.untouched && !r.talked {
		if err := r.fresh(ctx, project); err != nil {
			return conversation{}, err
		}
	}
	r.untouched = false
	talk, err := r.talk(ctx, turn, r.ground.under(r.workDir()))
	r.talked = err == nil
	talk.Delegated = r.Delegated != nil && r.Delegated()
	return talk, err
}

// summarise shows a tool's input as a person would write it: the values of its
// keys, the most telling first.
func summarise(input json.RawMessage) string {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	if decoder.Decode(&fields) != nil {
		return string(input)
	}
	var parts []string
	for _, key := range []string{"command", "method", "url", "file_path", "path", "pattern", "skill"} {
		if text, ok := fields[key].(string); ok {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return string(input)
	}
	return strings.Join(parts, " ")
}
