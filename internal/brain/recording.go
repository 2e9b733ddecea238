package brain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre/internal/wire"
)

// Limits of a recording.
const (
	// MaxRecording is the longest recording, in bytes.
	MaxRecording = 16 << 20
	// MaxChoices is how many choices a recording may hold.
	MaxChoices = 10_000
	// maxToolName is the longest name of a tool, in bytes.
	maxToolName = 64
	// maxNesting is how deep JSON may go.
	maxNesting = 64
)

// RecordingVersion is the version of the format in docs/recording.md.
const RecordingVersion = 1

// Recording is a model's side of a session: what it said and which tools it
// chose, and nothing of what came of it.
type Recording struct {
	Name    string
	Task    string
	Choices []Choice
}

// Choice is one thing a model chose: to say something, or to use a tool.
type Choice struct {
	Say string
	// ID names the call; where the recording has none it is "c" and a number.
	ID    string
	Tool  string
	Input json.RawMessage
}

// ParseRecording reads a recording strictly: an unknown, missing or duplicate
// key, or a line that is not JSON, is an error that names the line. What a
// tool would refuse is not checked here: a model may choose it.
func ParseRecording(data []byte) (Recording, error) {
	if len(data) > MaxRecording {
		return Recording{}, fmt.Errorf("recording of %d bytes: at most %d", len(data), MaxRecording)
	}
	var rec Recording
	header := false
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fields, err := object(line)
		if err == nil && !header {
			err = rec.header(fields)
			header = true
		} else if err == nil {
			err = rec.choice(fields)
		}
		if err != nil {
			return Recording{}, fmt.Errorf("recording, line %d: %w", i+1, err)
		}
	}
	if !header {
		return Recording{}, errors.New(`recording is empty: it starts with {"v":1,"name":"…"}`)
	}
	return rec, rec.distinct()
}

func (r *Recording) header(fields map[string]json.RawMessage) error {
	var version int
	err := decode(fields, map[string]any{"v": &version, "name": &r.Name, "task": &r.Task})
	switch {
	case err != nil:
		return fmt.Errorf("header: %w", err)
	case version != RecordingVersion:
		return fmt.Errorf("header: version %d is not known; this program reads version %d", version, RecordingVersion)
	case r.Name == "" || len(r.Name) > maxID:
		return fmt.Errorf("header: name has %d bytes: use 1–%d", len(r.Name), maxID)
	}
	return nil
}

func (r *Recording) choice(fields map[string]json.RawMessage) error {
	var c Choice
	if err := decode(fields, map[string]any{"say": &c.Say, "id": &c.ID, "tool": &c.Tool, "input": &c.Input}); err != nil {
		return err
	}
	_, says := fields["say"]
	_, uses := fields["tool"]
	switch {
	case says == uses:
		return errors.New(`use one of "say" and "tool"`)
	case says && len(fields) > 1:
		return errors.New(`"say" stands alone`)
	case uses && (c.Tool == "" || len(c.Tool) > maxToolName):
		return fmt.Errorf("tool of %d bytes: use 1–%d", len(c.Tool), maxToolName)
	case uses && len(c.Input) == 0:
		return errors.New(`"tool" needs an "input"`)
	case len(c.ID) > maxID:
		return fmt.Errorf("id of %d bytes: use 1–%d", len(c.ID), maxID)
	case len(r.Choices) >= MaxChoices:
		return fmt.Errorf("more than %d choices", MaxChoices)
	}
	if uses && c.ID == "" {
		c.ID = fmt.Sprintf("c%d", len(r.Choices)+1)
	}
	r.Choices = append(r.Choices, c)
	return nil
}

func (r *Recording) distinct() error {
	seen := map[string]bool{}
	for _, c := range r.Choices {
		if c.ID != "" && seen[c.ID] {
			return fmt.Errorf("recording: two calls have the id %.80q", c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

// Fields decodes a flat JSON object into the variables named by want, all
// optional. Unknown keys, duplicate keys at any depth, and null are errors.
func Fields(data json.RawMessage, want map[string]any) error {
	fields, err := object(data)
	if err != nil {
		return err
	}
	return decode(fields, want)
}

func decode(fields map[string]json.RawMessage, want map[string]any) error {
	for key, value := range fields {
		target, known := want[key]
		if !known {
			return fmt.Errorf("unknown key %.80q", key)
		}
		if bytes.Equal(value, []byte("null")) {
			return fmt.Errorf("%q is null", key)
		}
		if err := json.Unmarshal(value, target); err != nil {
			return fmt.Errorf("%q: %w", key, plain(err))
		}
	}
	return nil
}

// plain says what type was wanted without Go's words for it.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("a %s where %s is wanted", wrong.Value, wrong.Type)
	}
	return err
}

// object splits a JSON object into its members, no key twice.
func object(data []byte) (map[string]json.RawMessage, error) {
	limits := wire.Limits{Message: MaxRecording, String: MaxRecording, Depth: maxNesting}
	members, err := wire.Object(data, limits)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		fields[m.Key] = m.Value
	}
	return fields, nil
}
