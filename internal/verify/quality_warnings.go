package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

// noWarnings builds every project that the work touches, and wants no warning
// on what it touched. Go's compiler gives none; there its vetter is asked.
func noWarnings(ctx context.Context, s Subject, a atom.Atom, run Runner) (Verdict, error) {
	t, err := readTrees(s)
	if err != nil {
		return Verdict{}, err
	}
	list, err := parts(t.base, s.Task.Language, s.Changes)
	if err != nil {
		return failed("the language is not known", err.Error()), nil
	}
	weak, seen := "", map[string]bool{}
	for _, p := range list {
		if seen[p.language] {
			continue
		}
		seen[p.language] = true
		v, err := checked(p.language, warnings(p.language))(ctx, s, a, run)
		if err != nil || !v.Passed {
			return v, err
		}
		if v.Strength == Weak {
			weak = v.Detail
		}
	}
	if weak != "" {
		return Verdict{Passed: true, Strength: Weak, Detail: weak}, nil
	}
	return passed(), nil
}

func warnings(language string) func(trees, part, Subject) ([]check, error) {
	switch language {
	case golang:
		return goChecks
	case rust:
		return cargoWarnings
	case node:
		return nodeChecks
	default:
		return pythonWarnings
	}
}

// pythonWarnings compile what was touched with warnings as errors.
func pythonWarnings(t trees, p part, s Subject) ([]check, error) {
	list, err := pythonChecks(t, p, s)
	touched := written(s.Changes, p)
	var files []string
	for _, name := range sources(t.work, p, ".py") {
		if touched[strings.TrimPrefix(name, "./")] {
			files = append(files, name)
		}
	}
	return append(list, pythonCompile("warnings", files)), err
}

// cargoWarnings read the compiler's own report, file by file.
func cargoWarnings(t trees, p part, s Subject) ([]check, error) {
	list, err := cargoChecks(t, p, s)
	touched := written(s.Changes, p)
	for i := range list {
		list[i].argv = append(list[i].argv, "--message-format=json")
		list[i].read = func(out Output) []string { return cargoMessages(out.Stdout, touched) }
	}
	return list, err
}

// cargoMessage is a line of cargo's JSON.
type cargoMessage struct {
	Reason  string
	Message struct {
		Level, Message string
		Rendered       string
		Spans          []struct {
			FileName  string `json:"file_name"`
			LineStart int    `json:"line_start"`
		}
	}
}

// cargoMessages are the warnings in touched files.
func cargoMessages(data []byte, touched map[string]bool) []string {
	var list []string
	for line := range bytes.Lines(data) {
		var m cargoMessage
		if json.Unmarshal(line, &m) != nil || m.Reason != "compiler-message" || m.Message.Level != "warning" {
			continue
		}
		for _, span := range m.Message.Spans {
			if touched[path.Clean(span.FileName)] {
				list = append(list, fmt.Sprintf("%s:%d: %s", clip(span.FileName), span.LineStart, printable(m.Message.Message)))
				break
			}
		}
	}
	return list
}
