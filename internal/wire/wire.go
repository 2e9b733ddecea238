// Package wire promises one strict reading of the JSON that crosses the door. It is valid UTF-8,
// and bounded in bytes, depth and string length. No key is twice in an object, in another case or
// escape neither, and nothing comes after the value. What it refuses is refused before anything is
// decoded, in time linear in the input (D-02). It does not decide what a request may do, and it
// performs no effect.
package wire

import (
	"encoding/json"
	"fmt"
)

// The limits of a message on the wire (D-02).
const (
	// MaxMessage is the largest message, in bytes.
	MaxMessage = 1 << 20
	// MaxDepth is how deep arrays and objects may nest; the outermost counts as 1.
	MaxDepth = 64
	// MaxString is the longest string or key, in bytes after unescaping.
	MaxString = 100 << 10
	// MaxNumber is the longest number, in bytes as written.
	MaxNumber = 512
	// MaxExponent is the largest exponent of a number, either way: a decoder
	// that computes exactly would otherwise need memory for 1e999999999.
	MaxExponent = 999
)

// maxRecursion is the largest depth that a caller may ask for.
const maxRecursion = 2 * MaxDepth

// Limits bound what Check accepts. A zero field means the constant above.
type Limits struct {
	Message int
	// Depth of at most twice MaxDepth.
	Depth  int
	String int
	// CaseSensitive lets keys that differ in case only stand side by side, for
	// data in which keys are not names, such as a tool's result.
	CaseSensitive bool
}

func (l Limits) withDefaults() Limits {
	if l.Message <= 0 {
		l.Message = MaxMessage
	}
	if l.Depth <= 0 {
		l.Depth = MaxDepth
	}
	l.Depth = min(l.Depth, maxRecursion)
	if l.String <= 0 {
		l.String = MaxString
	}
	return l
}

// Error says where and why bytes were refused. Its text never quotes a value.
type Error struct {
	// Offset is the byte at which reading stopped.
	Offset int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Member is one key of an object with its value as written.
type Member struct {
	Key string
	// Value aliases the bytes that were read.
	Value json.RawMessage
}

// Check accepts exactly one JSON value within the limits, and nothing after
// it. Every error is an *Error.
func Check(data []byte, l Limits) error {
	s := scanner{data: data, limits: l.withDefaults()}
	return s.whole()
}

// Object is Check for a value that must be an object, and returns its members
// in the order written. With an error come the members that were whole before
// it, so that an answer can still be addressed.
func Object(data []byte, l Limits) ([]Member, error) {
	s := scanner{data: data, limits: l.withDefaults(), members: 1}
	if err := s.whole(); err != nil {
		return s.top, err
	}
	if first := firstByte(data); first != '{' {
		return nil, &Error{Reason: "not a JSON object"}
	}
	return s.top, nil
}

// whole reads the one value that data must be.
func (s *scanner) whole() error {
	if len(s.data) > s.limits.Message {
		return &Error{Reason: fmt.Sprintf("%d bytes are over the limit of %d", len(s.data), s.limits.Message)}
	}
	if err := s.value(0); err != nil {
		return err
	}
	if s.space(); s.pos < len(s.data) {
		return s.fail("something follows the JSON value")
	}
	return nil
}

func firstByte(data []byte) byte {
	s := scanner{data: data}
	s.space()
	return s.peek()
}
