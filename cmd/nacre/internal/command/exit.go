package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// The exit codes (M-01). They are a contract with scripts.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the work failed: refused, not verified, tampering found
	ExitUsage       = 2   // usage or config error
	ExitNotReady    = 3   // something that is needed is missing
	ExitDoctor      = 4   // doctor found a failing check
	ExitTimeout     = 124 // a limit ended it: time, output or disk
	ExitExecFailed  = 125 // exec: nacre failed before the command started
	ExitInterrupted = 130 // Ctrl-C, or nacre sessions stop
)

// exitError ends the program with a code; its message, if any, is printed.
type exitError struct {
	code int
	err  error
}

// Exit ends the program with a code and prints nothing more.
func Exit(code int) error { return &exitError{code: code} }

// ExitWith ends the program with a code, and prints the error.
func ExitWith(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a command line or a config that cannot be acted on.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage refuses a command line, in words of its own.
func Usage(format string, values ...any) error { return &usageError{fmt.Errorf(format, values...)} }

// UsageOf refuses a command line, or what it names, with err.
func UsageOf(err error) error { return &usageError{err} }

// CodeOf is the code that an error ends the program with. What was cancelled with
// nobody asking for it broke off, and was not interrupted.
func (e *Env) CodeOf(err error) int {
	var coded *exitError
	var badUsage *usageError
	var unusable *sqlitefile.UnusableError
	classified, known := e.classify(err)
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &badUsage):
		return ExitUsage
	case known:
		return classified
	case errors.Is(err, context.Canceled) && e.Interrupted():
		return ExitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case errors.As(err, &unusable):
		return ExitNotReady
	default:
		return ExitFailed
	}
}

func (e *Env) classify(err error) (code int, known bool) {
	if e.Classify == nil {
		return 0, false
	}
	return e.Classify(err)
}
