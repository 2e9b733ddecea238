package main

import (
	"context"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/web"
)

// keys are what persons sign in with.
type keys struct{ *assembly.Runtime }

func (k keys) Keys() ([]web.Passkey, error) {
	list, err := assembly.Passkeys(k.Runtime)
	var all []web.Passkey
	for _, one := range list {
		all = append(all, web.Passkey(one))
	}
	return all, err
}

func (k keys) SignsIn(id person.Identity) (name string, err error) {
	return assembly.SignsIn(k.Runtime, string(id))
}

func (k keys) Use(ctx context.Context, id person.Identity, count uint32) error {
	return assembly.UsePasskey(ctx, k.Runtime, string(id), count)
}

func (k keys) Owners(ctx context.Context) ([]string, error) {
	return assembly.PasskeyOwners(as(ctx, k.Runtime))
}

func (k keys) Add(ctx context.Context, owner string, key assembly.PasskeyKey) error {
	return assembly.AddPasskey(ctx, as(ctx, k.Runtime), owner, key)
}

func (k keys) Remove(ctx context.Context, id person.Identity) error {
	return assembly.Unpair(ctx, as(ctx, k.Runtime), string(id))
}
