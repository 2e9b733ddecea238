// Package handle promises that the rest of a result can be had page by page, by whom it was given
// to and no further than their grant goes (K-17). The principal, the constraints and the label are
// read from the store's own copy, and the cap on rows counts over all pages. A handle's id is 128
// random bits; one that is unknown, forged or expired gives one and the same error.
//
// The store is bounded in handles and in bytes. It does not redact, and fits
// nothing into an output budget: whoever shows a page does. It does not read
// JSON: the rows it is given do.
package handle

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
)

// The limits of a store (K-17).
const (
	// TTL is how long a handle is good for.
	TTL = time.Hour
	// MaxHandles is how many results are kept, and MaxBytes how many bytes.
	MaxHandles = 10_000
	MaxBytes   = 256 << 20
	// DefaultPage is how many rows a page has where nobody says another number, and
	// MaxPage the most rows of one.
	DefaultPage = 50
	MaxPage     = 1000
	// MaxPath is the most bytes of a query's path.
	MaxPath = 1024
	// MaxNamed is the most fields of a query, MaxFilters the most fields that it
	// filters by, and MaxQuery the most bytes of one.
	MaxNamed   = 100
	MaxFilters = 16
	MaxQuery   = 64 << 10
	// IDBytes is how many random bytes an id has.
	IDBytes = 16
)

// The units that a text is paged in (K-31).
const (
	UnitCharacters = "characters"
	UnitLines      = "lines"
)

// Rows are the rows of a result that a grant's scope and fields leave. They
// are read by several goroutines at once, and must not change.
type Rows interface {
	Len() int
	// Size is how much memory they take, in bytes.
	Size() int
	// Row is the i-th row, with the named fields only; nil names all.
	Row(i int, fields []string) json.RawMessage
	// Matcher reports of a row whether its fields equal these JSON values. An
	// error means that a value is not JSON.
	Matcher(equal map[string]json.RawMessage) (func(i int) bool, error)
}

// Entry is what a handle stands for. The constraints have been applied to
// Rows, but for how many of them may be seen.
type Entry struct {
	// Principal is who alone may expand the handle; it is never empty.
	Principal string
	// Session shares the store with others fairly.
	Session    nacre.SessionKey
	Capability nacre.CapabilityID
	// Grant is the id of the token, by which it can be dropped.
	Grant       string
	Constraints nacre.Constraints
	Label       nacre.Label
	Rows        Rows
	// PageRows is how many rows a page has that no limit is given for; zero means DefaultPage.
	PageRows int
	// Shown is how many rows were already seen in the frame that the handle
	// belongs to: the cap counts them.
	Shown int
}

// Page is a part of the rows that a handle stands for.
type Page struct {
	Rows []json.RawMessage
	// Numbers are those of the rows, of all that the handle stands for.
	Numbers []int
	// Offset is where the page begins among the rows that match.
	Offset int
	// More is set where rows may follow that the grant still allows.
	More       bool
	Label      nacre.Label
	Capability nacre.CapabilityID
	Grant      string
	Handle     nacre.Handle
}

// Error is why a handle gives nothing. Its code is ReasonHandleUnknown,
// ReasonHandlePrincipal, ReasonHandleConstraint or ReasonInvalidConstraint.
type Error struct {
	Code    nacre.ReasonCode
	Message string
}

func (e *Error) Error() string { return e.Message }

func violation(format string, args ...any) error {
	return &Error{Code: nacre.ReasonHandleConstraint, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &Error{Code: nacre.ReasonInvalidConstraint, Message: fmt.Sprintf(format, args...)}
}

func unknown() error {
	return &Error{Code: nacre.ReasonHandleUnknown, Message: "handle is unknown or has expired: call the capability again"}
}
