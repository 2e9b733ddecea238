package kernel

import (
	"strings"

	"github.com/nacre-dev/nacre"
)

// explained is a refusal with its cause, which the host sees: each is said once.
type explained struct {
	refusal *nacre.Refusal
	cause   error
}

// refused joins a refusal and why the host could not but refuse.
func refused(refusal *nacre.Refusal, cause error) error {
	if cause == nil {
		return refusal
	}
	return &explained{refusal, cause}
}

func (e *explained) Error() string {
	said, why := e.refusal.Error(), e.cause.Error()
	if rest, same := strings.CutPrefix(why, e.refusal.Message); same {
		return said + rest
	}
	return said + ": " + why
}

// Unwrap lets errors.Is and errors.As find both.
func (e *explained) Unwrap() []error { return []error{e.refusal, e.cause} }
