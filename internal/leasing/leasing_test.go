package leasing_test

import (
	"errors"
	"testing"

	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/leasing"
)

// A credential whose first use comes after the session gave back what it holds is not
// leased any more: nobody would give it back.
func TestNothingIsLeasedAfterTheEnd(t *testing.T) {
	credentials := leasing.Unused("late")
	if err := credentials.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := credentials.Use(t.Context()); !errors.Is(err, lease.ErrEnded) {
		t.Errorf("have %v, want %v", err, lease.ErrEnded)
	}
}
