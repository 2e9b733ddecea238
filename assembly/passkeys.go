package assembly

import (
	"context"

	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
)

// Passkey is a key that signs a person in to the web page, and whose it is.
type Passkey = cockpit.Passkey

// PasskeyKey is the public half of one.
type PasskeyKey = passkey.Key

// Passkeys are all that are kept.
func Passkeys(r *Runtime) ([]Passkey, error) { return cockpit.Passkeys(r.inst) }

// SignsIn tells whom a passkey signs in now, by name; with an error, nobody.
func SignsIn(r *Runtime, identity string) (name string, err error) {
	return cockpit.SignsIn(r.inst, person.Identity(identity))
}

// UsePasskey takes the counter that a passkey has shown at a sign-in.
func UsePasskey(ctx context.Context, r *Runtime, identity string, count uint32) error {
	return cockpit.UsePasskey(ctx, r.inst, person.Identity(identity), count)
}

// PasskeyOwners are those whom the user of the Runtime may add passkeys for, by name.
func PasskeyOwners(r *Runtime) ([]string, error) { return cockpit.PasskeyOwners(r.inst, r.by) }

// AddPasskey makes a passkey an identity of an operator's.
func AddPasskey(ctx context.Context, r *Runtime, owner string, key PasskeyKey) error {
	return cockpit.AddPasskey(ctx, r.inst, r.by, owner, key)
}

// Unpair takes an identity from the operator who was paired with it, and forgets it where it is a
// passkey.
func Unpair(ctx context.Context, r *Runtime, identity string) error {
	return cockpit.Unpair(ctx, r.inst, r.by, person.Identity(identity))
}
