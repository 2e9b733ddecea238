package grant

import (
	"time"

	"github.com/nacre-dev/nacre/internal/revocation"
)

// Revocations are a list in a folder, for kernel.Config: what was revoked stays
// revoked across restarts and in every process that has the list open, from when
// Revoke returns (K-12). Safe for concurrent use.
type Revocations struct {
	list *revocation.List
}

// OpenRevocations opens the list in the folder dir, which must be the user's alone,
// or starts an empty one where none ever was. A list that is damaged or gone is an
// error; while it is open, one that becomes so revokes everything. Close lets go of it.
func OpenRevocations(dir string) (*Revocations, error) {
	list, err := revocation.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Revocations{list}, nil
}

// Revoke implements kernel.Revocations: it is on disk when it returns nil.
func (r *Revocations) Revoke(id, principal string, until time.Time) error {
	return r.list.Revoke(id, principal, until)
}

// Revoked implements kernel.Revocations. An error means that nobody can tell.
func (r *Revocations) Revoked(id, principal string, now time.Time) (bool, error) {
	return r.list.Revoked(id, principal, now)
}

// Sweep implements kernel.Revocations; a kernel calls it by itself once an hour.
func (r *Revocations) Sweep(now time.Time) error { return r.list.Sweep(now) }

// Close lets go of the file. A closed list revokes everything.
func (r *Revocations) Close() error { return r.list.Close() }
