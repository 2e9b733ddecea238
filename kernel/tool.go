package kernel

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/internal/token"
)

// maxDescription is the longest description of a capability, in bytes.
const maxDescription = 8 << 10

// tool is a capability that was checked, with its schema compiled once.
type tool struct {
	capability nacre.Capability
	routes     []route
	source     string
	deadline   time.Duration
	shownWhole int

	// topic and resultOf name it in records, and its results to a person.
	topic, resultOf string

	schema *schema.Schema
	// choices are the few values of arguments in which a wrong one does harm.
	choices      map[string][]string
	schemaDigest string
}

// content is which code a tool is of, and what it takes.
func (t *tool) content() [2]string { return [2]string{t.capability.ContentHash, t.schemaDigest} }

// route is a driver under the name that records call it by.
type route struct {
	id     string
	driver nacre.Driver
}

// newTool checks all that is declared of a tool. What it keeps is its own copy.
func newTool(t nacre.Tool) (*tool, []string, error) {
	c := cloneCapability(t.Capability)
	if err := checkCapability(c); err != nil {
		return nil, nil, err
	}
	if t.Driver == nil {
		return nil, nil, errors.New("no driver")
	}
	if t.ShownWhole < 0 || t.ShownWhole > MaxShownWhole {
		return nil, nil, fmt.Errorf("%d characters shown whole: use up to %d", t.ShownWhole, MaxShownWhole)
	}
	compiled, err := schema.Compile(c.Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	if err := checkValues(c, compiled); err != nil {
		return nil, nil, err
	}
	digest := token.Sum("nacre.schema.1", string(compiled.Canonical()))
	source := string(c.ID)
	if dot := strings.LastIndexByte(source, '.'); dot > 0 {
		source = source[:dot]
	}
	deadline := c.Deadline
	if deadline == 0 {
		deadline = DefaultDeadline
	}
	return &tool{
		capability: c, routes: []route{{string(c.ID), t.Driver}}, source: source, deadline: deadline, shownWhole: t.ShownWhole,
		topic: topicOf(c.Tool), resultOf: "result of " + string(c.ID), schema: compiled, choices: compiled.Choices(c.Sinks), schemaDigest: hex.EncodeToString(digest[:]),
	}, compiled.Warnings(), nil
}

// checkValues refuses what is declared of arguments that there are not: it
// would silently guard nothing.
func checkValues(c nacre.Capability, compiled *schema.Schema) error {
	for _, sink := range c.Sinks {
		if !compiled.Has(sink) {
			return fmt.Errorf("sink %q is not declared in the input schema", sink)
		}
	}
	for _, text := range c.Text {
		if !compiled.Has(text) {
			return fmt.Errorf("text %q is not declared in the input schema", text)
		}
	}
	for sink := range c.Kinds {
		if !slices.Contains(c.Sinks, sink) {
			return fmt.Errorf("the kind of %q is declared, and it is no sink", sink)
		}
	}
	return nil
}

// risky reports whether the tool has arguments in which a wrong value does harm.
func (t *tool) risky() bool { return len(t.capability.Sinks) > 0 || len(t.capability.Text) > 0 }

// annotated reports whether a tool that changes nothing says of itself what matters. Then a word
// for a value weighs no more in one of its arguments than the value itself.
func (t *tool) annotated() bool {
	c := &t.capability
	return c.Safety == nacre.Read && (c.Returns == nacre.Trusted || len(c.Mints)+len(c.Authors)+len(c.Senders) > 0)
}

// declared is what the tool says of its arguments.
func (t *tool) declared() provenance.Declared {
	c := &t.capability
	return provenance.Declared{
		Tool: c.Tool, Sinks: c.Sinks, Kinds: c.Kinds, Text: c.Text, Reads: c.Safety == nacre.Read,
		Choices: t.choices,
	}
}

func checkCapability(c nacre.Capability) error {
	if _, err := nacre.ParseCapabilityID(string(c.ID)); err != nil {
		return err
	}
	if _, err := nacre.ParseToolName(string(c.Tool)); err != nil {
		return err
	}
	switch {
	case c.Safety > nacre.Read:
		return fmt.Errorf("unknown safety class %d", c.Safety)
	case c.Sensitivity > nacre.SensitiveNone:
		return fmt.Errorf("unknown sensitivity %d", c.Sensitivity)
	case c.Returns > nacre.Trusted:
		return fmt.Errorf("unknown label %d", c.Returns)
	case len(c.Description) > maxDescription:
		return fmt.Errorf("description of %d bytes, the limit is %d", len(c.Description), maxDescription)
	case c.Deadline < 0 || c.Deadline > MaxDeadline:
		return fmt.Errorf("deadline of %v: use up to %v", c.Deadline, MaxDeadline)
	case c.Rate.Calls < 0 || c.Rate.Window < 0 || (c.Rate.Calls == 0) != (c.Rate.Window == 0):
		return fmt.Errorf("rate of %d calls in %v: both must be positive", c.Rate.Calls, c.Rate.Window)
	}
	return nil
}

func cloneCapability(c nacre.Capability) nacre.Capability {
	c.Schema = slices.Clone(c.Schema)
	c.AllowedFields = slices.Clone(c.AllowedFields)
	c.Tags = slices.Clone(c.Tags)
	c.Files = slices.Clone(c.Files)
	c.Values = cloneValues(c.Values)
	return c
}

func cloneValues(v nacre.Values) nacre.Values {
	return nacre.Values{
		Sinks: slices.Clone(v.Sinks), Kinds: maps.Clone(v.Kinds), Text: slices.Clone(v.Text), Mints: slices.Clone(v.Mints), Authors: slices.Clone(v.Authors),
		Senders: slices.Clone(v.Senders),
	}
}

// ownAll makes copies of all that capabilities share with others, as
// cloneCapability does of one, in two places for all of them.
func ownAll(all []nacre.Capability) {
	schemas, words := 0, 0
	for i := range all {
		c := &all[i]
		schemas += len(c.Schema)
		words += len(c.AllowedFields) + len(c.Tags) + len(c.Files)
	}
	bytes, texts := make([]byte, 0, schemas), make([]string, 0, words)
	for i := range all {
		c := &all[i]
		bytes, c.Schema = moved(bytes, c.Schema)
		texts, c.AllowedFields = moved(texts, c.AllowedFields)
		texts, c.Tags = moved(texts, c.Tags)
		texts, c.Files = moved(texts, c.Files)
		c.Values = cloneValues(c.Values)
	}
}

// moved appends a slice to room, and returns what stands there; nil stays nil.
func moved[S ~[]E, E any](room []E, s S) ([]E, S) {
	if s == nil {
		return room, nil
	}
	start := len(room)
	room = append(room, s...)
	return room, room[start:len(room):len(room)]
}
