package brain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ReplayName is the name of the brain that plays a recording.
const ReplayName = "replay"

// Replay plays the choices of a recording: only they are recorded, every tool
// runs for real inside the sandbox. It is what demos, tests and regressions
// of policy use. It is no gate and needs no model.
type Replay struct{}

// NewReplay returns the replay brain.
func NewReplay() Replay { return Replay{} }

// Name is "replay".
func (Replay) Name() string { return ReplayName }

// Detect is always ready: the program is part of nacre.
func (Replay) Detect(context.Context) Status {
	return Status{Installed: true, SignedIn: true, Version: strconv.Itoa(RecordingVersion), Path: Program}
}

// Launch refuses a recording that cannot be played.
func (Replay) Launch(t Turn) (Launch, error) {
	if err := t.validate(); err != nil {
		return Launch{}, fmt.Errorf("replay: %w", err)
	}
	if len(t.Recording) == 0 {
		return Launch{}, errors.New("replay: there is no recording to play")
	}
	if t.Resume != "" {
		return Launch{}, errors.New("replay: a recording cannot be resumed")
	}
	if _, err := ParseRecording(t.Recording); err != nil {
		return Launch{}, fmt.Errorf("replay: %w", err)
	}
	argv := []string{Program, "replay"}
	if t.MaxTurns > 0 {
		argv = append(argv, "--max-turns", strconv.Itoa(t.MaxTurns))
	}
	return Launch{Argv: argv, Files: append(t.gateFiles(), SkillFiles(t.Skills)...)}, nil
}

// Converse hands the recording over and passes on what comes of it.
func (Replay) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	return converse(ctx, p, &ownDialect{input: t.Recording}, emit)
}

// ownDialect reads events as cmd/brain writes them: one JSON object a line.
// The program is given its input once, and then hears no more.
type ownDialect struct {
	input []byte
	last  *Event
}

func (d *ownDialect) begin(s *stream) error {
	err := s.outbox.put(bytes.Clone(d.input))
	s.outbox.close()
	return err
}

func (d *ownDialect) line(s *stream, line []byte) error {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil || len(line) == 0 || line[0] != '{' {
		return s.garbled(line)
	}
	switch e.Kind {
	case Text, ToolCall, ToolResult, Cost, Retry:
		return s.event(e)
	case Done, Error:
		if d.last == nil {
			d.last = &e
			s.finish()
			return nil
		}
	}
	return s.raw(string(e.Kind), line)
}

// interrupt has no word for it: the program is killed.
func (d *ownDialect) interrupt(*stream) bool { return false }

func (d *ownDialect) end(x exit) Event {
	switch {
	case d.last == nil:
		return unfinished(x.code)
	case d.last.Kind == Error:
		return Event{Kind: Error, Class: known(d.last.Class), Text: d.last.Text}
	case x.code != 0 && !x.forced:
		return unfinished(x.code)
	}
	return Event{Kind: Done, Text: d.last.Text, Session: clip(d.last.Session, maxID)}
}

// known keeps the classes of failure closed.
func known(c Class) Class {
	switch c {
	case ClassAuth, ClassRate, ClassOverload, ClassNetwork, ClassBudget, ClassTurns, ClassContext, ClassRefused, ClassKilled:
		return c
	}
	return ClassProtocol
}
