package config

import "fmt"

// Error says that the operator's config or a request cannot be acted on (exit 2).
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error] with a cause.
func Errorf(format string, values ...any) error {
	return &Error{fmt.Errorf(format, values...)}
}
