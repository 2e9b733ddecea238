//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Replay plays the recording on w.Stdin. It goes on after failing tools, as a
// model would: the choices are fixed, what comes of them is not. maxTurns
// limits the tool calls; zero means all.
func Replay(ctx context.Context, w World, maxTurns int) error {
	out := json.NewEncoder(w.Stdout)
	out.SetEscapeHTML(false)
	rec, err := readRecording(w.Stdin)
	if err != nil {
		return errors.Join(err, out.Encode(failed(brain.ClassProtocol, err)))
	}
	last, err := play(ctx, out, Tools{Dir: w.Dir, Getenv: w.Getenv, Gates: gates(w.Gates), Refusals: w.Refusals}, limit(rec, maxTurns))
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), out.Encode(failed(brain.ClassKilled, ctx.Err())))
	case maxTurns > 0 && calls(rec) > maxTurns:
		err := fmt.Errorf("the recording has %d tool calls, more than the limit of %d", calls(rec), maxTurns)
		return errors.Join(err, out.Encode(failed(brain.ClassTurns, err)))
	}
	return out.Encode(brain.Event{Kind: brain.Done, Text: last})
}

func readRecording(r io.Reader) (brain.Recording, error) {
	data, err := io.ReadAll(io.LimitReader(r, brain.MaxRecording+1))
	if err != nil {
		return brain.Recording{}, fmt.Errorf("recording: %w", err)
	}
	return brain.ParseRecording(data)
}

func failed(class brain.Class, err error) brain.Event {
	return brain.Event{Kind: brain.Error, Class: class, Text: err.Error()}
}

func calls(rec brain.Recording) int {
	n := 0
	for _, c := range rec.Choices {
		if c.Tool != "" {
			n++
		}
	}
	return n
}

// limit cuts the choices before the first call over the limit.
func limit(rec brain.Recording, maxTurns int) []brain.Choice {
	n := 0
	for i, c := range rec.Choices {
		if c.Tool == "" {
			continue
		}
		if n++; maxTurns > 0 && n > maxTurns {
			return rec.Choices[:i]
		}
	}
	return rec.Choices
}

// play carries the choices out one after the other and returns what was said last.
func play(ctx context.Context, out *json.Encoder, tools Tools, choices []brain.Choice) (last string, err error) {
	for _, c := range choices {
		if ctx.Err() != nil {
			return last, nil //nolint:nilerr // an interrupted turn ends with what was said
		}
		if c.Tool == "" {
			last = c.Say
			if err := out.Encode(brain.Event{Kind: brain.Text, Text: c.Say}); err != nil {
				return last, fmt.Errorf("event: %w", err)
			}
			continue
		}
		call := brain.Event{Kind: brain.ToolCall, ID: c.ID, Name: c.Tool, Input: c.Input}
		if err := out.Encode(call); err != nil {
			return last, fmt.Errorf("event: %w", err)
		}
		r := tools.Do(ctx, c.Tool, c.Input)
		result := brain.Event{Kind: brain.ToolResult, ID: c.ID, Name: c.Tool, Text: r.Text, IsError: r.IsError, ExitCode: r.ExitCode, Denied: r.Denied}
		if err := out.Encode(result); err != nil {
			return last, fmt.Errorf("event: %w", err)
		}
	}
	return last, nil
}
