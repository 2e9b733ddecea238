package cockpit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
)

// kindUnpaired records that an identity was taken from an operator, kindCopied that a passkey was
// refused for good, because two authenticators have it.
const (
	kindUnpaired nacre.Kind = "operator.unpair"
	kindCopied   nacre.Kind = "operator.copied"
)

// Passkey is a key that is kept, and whose it is; Owner is empty where it is nobody's.
type Passkey struct {
	passkey.Key
	Owner string
}

func keysOf(inst *installation.Installation) passkey.Store {
	return passkey.Store{State: inst.Registry.Paths().State}
}

// Passkeys are all keys that sign persons in to the web page.
func Passkeys(inst *installation.Installation) ([]Passkey, error) {
	keys, err := keysOf(inst).All()
	if err != nil {
		return nil, err
	}
	directory, err := Roster(inst).Directory()
	var all []Passkey
	for _, k := range keys {
		who, _ := directory.Who(k.Identity()) // a key that is nobody's is shown as that
		all = append(all, Passkey{k, who.Name})
	}
	return all, err
}

// SignsIn tells whom a passkey signs in now: nobody, where it was removed, is no operator's any
// more or its owner may not see all that the page shows.
func SignsIn(inst *installation.Installation, id person.Identity) (name string, err error) {
	if _, err := keysOf(inst).Find(id); err != nil {
		return "", err
	}
	who, err := known(inst, id)
	if err != nil {
		return "", err
	}
	return who.Name, who.Watch()
}

// UsePasskey takes the counter that a passkey has shown at a sign-in. One that was copied is
// refused from then on, and that is recorded.
func UsePasskey(ctx context.Context, inst *installation.Installation, id person.Identity, count uint32) error {
	err := keysOf(inst).Use(ctx, id, count, inst.Options.Now().UTC())
	if !errors.Is(err, passkey.ErrCopied) {
		return err
	}
	who, _ := known(inst, id) // whose it was is recorded where it was somebody's
	return errors.Join(err, record(ctx, inst, nacre.Record{Kind: kindCopied, Source: "core", Outcome: nacre.OutcomeDenied, Detail: pairedDetail(who.Name, id, id)}))
}

// PasskeyOwners are those whom a person may add passkeys for, by name. Who may is whoever changes the
// configuration, and signed in as a user of this machine: with a passkey nobody makes another one.
func PasskeyOwners(inst *installation.Installation, by person.Identity) ([]string, error) {
	directory, err := Roster(inst).Directory()
	if err != nil {
		return nil, err
	}
	who, err := directory.Who(by)
	if err != nil {
		return nil, err
	}
	if by.Passkey() {
		return nil, fmt.Errorf("%w: a passkey is added by whoever signed in with the code of nacre web", person.ErrFace)
	}
	if err := who.Configure(); err != nil {
		return nil, err
	}
	if len(directory.Operators) == 0 {
		return []string{person.Implicit}, nil
	}
	return slices.Sorted(maps.Keys(directory.Operators)), nil
}

// AddPasskey makes a passkey an identity of an operator's.
func AddPasskey(ctx context.Context, inst *installation.Installation, by person.Identity, owner string, key passkey.Key) error {
	owners, err := PasskeyOwners(inst, by)
	if err != nil {
		return err
	}
	if !slices.Contains(owners, owner) {
		return fmt.Errorf("%.64q is not an operator: write [operators.NAME] into config.toml first", owner)
	}
	key.Since = inst.Options.Now().UTC()
	if err := keysOf(inst).Add(ctx, key); err != nil {
		return err
	}
	if err := Roster(inst).Pair(ctx, owner, key.Identity()); err != nil {
		return errors.Join(err, keysOf(inst).Remove(ctx, key.Identity()))
	}
	return record(ctx, inst, nacre.Record{Kind: kindPaired, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: pairedDetail(owner, key.Identity(), by)})
}

// Unpair takes an identity from the operator who was paired with it, and forgets it where it is a
// passkey. Whoever has the identity may, and whoever changes the configuration.
func Unpair(ctx context.Context, inst *installation.Installation, by, id person.Identity) error {
	directory, err := Roster(inst).Directory()
	if err != nil {
		return err
	}
	who, err := directory.Who(by)
	if err != nil {
		return err
	}
	owner, _ := directory.Who(id) // an identity that is nobody's is taken back as well
	if owner.Name == "" || owner.Name != who.Name {
		if err := who.Configure(); err != nil {
			return err
		}
	}
	forgotten := passkey.ErrUnknown
	if id.Passkey() {
		forgotten = keysOf(inst).Remove(ctx, id)
	}
	if forgotten != nil && !errors.Is(forgotten, passkey.ErrUnknown) {
		return forgotten
	}
	// An identity of config.toml was paired with nobody: with its key forgotten it signs nobody in.
	if _, err := Roster(inst).Unpair(ctx, id); err != nil && forgotten != nil {
		return err
	}
	return record(ctx, inst, nacre.Record{Kind: kindUnpaired, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: pairedDetail(owner.Name, id, by)})
}
