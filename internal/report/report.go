// Package report promises the report that an agent ends with, out of all that it said last. It is
// one JSON object, or front matter of plain keys and values, which can be read in one way. What is
// malformed, ambiguous or over a limit is an error that says what to do.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	yamllexer "github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/nacre-dev/nacre/internal/wire"
)

// The limits of an agent's report.
const (
	// Max is the longest text that a report is looked for in, in bytes.
	Max = 1 << 20
	// maxFront is the longest front matter, in bytes.
	maxFront = 64 << 10
	// maxDepth is how deep a report's values nest.
	maxDepth = 64
	// maxStarts is how many lines are tried as the beginning of a report.
	maxStarts = 64
)

const reportAdvice = "end with a report as one JSON object, or as front matter between --- lines"

// Read finds the report in what an agent said last: all of it, a block at
// its end (fenced or not), or front matter at its beginning or end.
func Read(said []byte) (map[string]any, error) {
	if len(said) > Max {
		return nil, fmt.Errorf("the report is over %d bytes", Max)
	}
	if !utf8.Valid(said) {
		return nil, errors.New("the report is not UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(said), "\ufeff"), "\r\n", "\n")
	text = strings.TrimSpace(text)
	lines := strings.Split(text, "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	switch {
	case text == "":
		return nil, errors.New("there is no report: " + reportAdvice)
	case text[0] == '{':
		return readObject(text)
	case strings.TrimSpace(lines[0]) == "---":
		return readFront(between(lines[1:]))
	case len(last) >= 3 && strings.Trim(last, "`") == "":
		return readFenced(lines[:len(lines)-1])
	case last == "---":
		return readFront(above(lines[:len(lines)-1]))
	case text[len(text)-1] == '}':
		return readTail(lines)
	default:
		return nil, errors.New("no report was found: " + reportAdvice)
	}
}

func readObject(text string) (map[string]any, error) {
	if err := wire.Check([]byte(text), wire.Limits{Message: Max, String: Max}); err != nil {
		return nil, fmt.Errorf("the report's JSON: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var report map[string]any
	if err := decoder.Decode(&report); err != nil || report == nil {
		return nil, errors.New("the report is not one JSON object: " + reportAdvice)
	}
	return report, nil
}

// between are the lines up to the next ---, or nil where there is none.
func between(lines []string) []string {
	for i, line := range lines {
		if strings.TrimRight(line, " \t") == "---" {
			return lines[:i]
		}
	}
	return nil
}

// above are the lines from the last --- on, or nil where there is none.
func above(lines []string) []string {
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.TrimRight(lines[i], " \t") == "---" {
			return lines[i+1:]
		}
	}
	return nil
}

// readFenced reads the last fenced block, of which the end was cut off.
func readFenced(lines []string) (map[string]any, error) {
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(strings.TrimSpace(lines[i]), "```") {
			continue
		}
		block := strings.TrimSpace(strings.Join(lines[i+1:], "\n"))
		if strings.HasPrefix(block, "{") {
			return readObject(block)
		}
		inner := strings.Split(block, "\n")
		if strings.TrimSpace(inner[0]) == "---" {
			return readFront(between(inner[1:]))
		}
		break
	}
	return nil, errors.New("the block at the end is no report: " + reportAdvice)
}

// readTail reads an object that begins a line and goes on to the end. An object
// inside it does not: its text ends too early.
func readTail(lines []string) (map[string]any, error) {
	tried := 0
	for i := len(lines) - 1; i >= 0 && tried < maxStarts; i-- {
		if !strings.HasPrefix(lines[i], "{") {
			continue
		}
		tried++
		if report, err := readObject(strings.Join(lines[i:], "\n")); err == nil {
			return report, nil
		}
	}
	return nil, errors.New("the text at the end is no JSON object: " + reportAdvice)
}

// readFront reads YAML in which a value stands where it is meant: no anchors,
// merged keys or tags.
func readFront(lines []string) (report map[string]any, err error) {
	if lines == nil {
		return nil, errors.New("the front matter has one --- line only: " + reportAdvice)
	}
	text := strings.Join(lines, "\n")
	if len(text) > maxFront {
		return nil, fmt.Errorf("the front matter is over %d bytes", maxFront)
	}
	defer func() { // the library is not ours, and what is not understood is no report
		if recover() != nil {
			report, err = nil, errors.New("the front matter cannot be read")
		}
	}()
	if err := plainYAML(text); err != nil {
		return nil, err
	}
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&report); err != nil || report == nil {
		return nil, errors.New("the front matter is not keys with values, each key once")
	}
	return report, nil
}

func plainYAML(text string) error {
	depth, dashes, line := 0, 0, 0
	for _, t := range yamllexer.Tokenize(text) {
		if t.Position.Line != line {
			if line, dashes = t.Position.Line, 0; t.Position.Column > 2*maxDepth {
				return fmt.Errorf("line %d of the front matter: indented too far", line)
			}
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType, token.InvalidType, token.DocumentHeaderType, token.DocumentEndType:
			return fmt.Errorf("line %d of the front matter: write keys and values only, without anchors, aliases, tags or a second document", line)
		case token.SequenceEntryType:
			dashes++
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if depth > maxDepth || dashes > maxDepth {
			return fmt.Errorf("line %d of the front matter: nested too deep", line)
		}
	}
	return nil
}
