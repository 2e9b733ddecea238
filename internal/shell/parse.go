package shell

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxOpeners bounds how deep the parser can be made to nest.
const maxOpeners = 4096

// ErrLimit is a command that is too long or too deep to be read.
var ErrLimit = errors.New("over a limit of what is read")

// limitError says which limit a command is over.
type limitError string

func (e limitError) Error() string { return string(e) }

// Is makes every limit an ErrLimit.
func (e limitError) Is(target error) bool { return target == ErrLimit }

// parseScript reads a command of bash of at most so many bytes. What is over a
// limit is an ErrLimit; any other error is of a text that no shell can run.
func parseScript(text string, most int) (*syntax.File, error) {
	if len(text) > most {
		return nil, limitError(fmt.Sprintf("it is over %d bytes long", most))
	}
	if openers(text) > maxOpeners {
		return nil, limitError("it nests too deep to be read")
	}
	return parseGuarded(text)
}

// parseGuarded turns a bug of the parser into an error: bytes from outside
// must not end the reader.
func parseGuarded(text string) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("the parser gave up")
		}
	}()
	file, err = syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("the shell cannot parse it: %w", err)
	}
	return file, nil
}

// openers counts what may nest. Closers do not count against it, since a
// quoted one closes nothing.
func openers(text string) int {
	n := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[', '`':
			n++
		}
	}
	return n
}
