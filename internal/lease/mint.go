package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// longestMint is how long a credential may be good of which nothing came back: the
	// longest life that any issuer takes, and the time to ask for it.
	longestMint = time.Hour + 10*time.Minute
	// revokePatience bounds one revocation.
	revokePatience = 20 * time.Second
	// lateMint is how long a provider is waited for whose asker has left. What it answers may be a credential,
	// and one that nobody heard of could not be taken back.
	lateMint = 15 * time.Second
	// maxHandle is the longest handle, in bytes.
	maxHandle = 32 << 10
)

// renewEvery is how soon a renewal that failed is tried again, while the credential is good.
const renewEvery = 30 * time.Second

// mint is one minted credential, which the ledger knows.
type mint struct {
	entry  entry
	handle nacre.Secret
	// ends is when its lease is over: when its time is, or when it ends by itself.
	ends time.Time
}

// Over reports whether a time is, that a machine may have slept through; the zero time never is.
func Over(now, end time.Time) bool { return !end.IsZero() && deadline.Over(now, end) }

// stale is when a value is replaced. A minted one is while a third of its life is left, so
// that a slow provider stops nobody.
func (l *Lease) stale() time.Time {
	if l.mint == nil {
		return l.read.Add(l.spec.TTL)
	}
	return l.read.Add(l.mint.ends.Sub(l.read) * 2 / 3)
}

// good reports whether what is minted may still be used.
func (l *Lease) good(now time.Time) bool { return l.mint != nil && deadline.Left(now, l.mint.ends) > 0 }

// lasts reports whether what is minted is used on although it is time to renew it. It is where a renewal failed
// a moment ago, or the budget has none, or ends no later than what is minted.
func (l *Lease) lasts(now time.Time) bool {
	if !l.good(now) {
		return false
	}
	if l.spec.Budget != nil && !l.mint.ends.Before(l.spec.Budget.Until) {
		return true
	}
	_, err := l.term(now)
	return err != nil || now.Before(l.again)
}

// term is how long what is minted next is leased. Where a provider's credentials live for less than
// a lease, the rest of the lease is for the next one, and no renewal is used up.
func (l *Lease) term(now time.Time) (time.Duration, error) {
	switch rest := deadline.Left(now, l.ends); {
	case l.spec.Budget == nil:
		return l.spec.TTL, nil
	case l.goesOn(now):
		return rest, nil
	}
	return l.spec.Budget.term(now, l.spec.TTL, l.made)
}

// goesOn reports whether the lease outlasts what was minted for it.
func (l *Lease) goesOn(now time.Time) bool {
	return l.spec.Budget != nil && deadline.Left(now, l.ends) >= shortestTerm && (l.mint == nil || l.mint.ends.Before(l.ends))
}

// next reads the source, or mints a new credential and then takes the earlier one back.
func (l *Lease) next(ctx context.Context) (Material, error) {
	if l.spec.Issuer == nil {
		value, err := l.spec.Source.Read(ctx, l.broker.options.Getenv)
		return Material{Value: value}, err
	}
	now := l.broker.options.Now()
	term, err := l.term(now)
	if err != nil {
		return Material{}, err
	}
	made, given, err := l.mintOne(ctx, term)
	if err != nil {
		return Material{}, err
	}
	if l.mint != nil {
		l.over = append(l.over, *l.mint)
	}
	if !l.goesOn(now) {
		l.made, l.ends = l.made+1, now.Add(term)
	}
	l.mint = made
	_ = l.giveBack(ctx) // what was not taken back is tried again by the next sweep
	return given, nil
}

// mintOne writes that a credential will be minted, mints it and keeps what it is revoked
// with, in this order: a crash in between leaves what the next sweep finds. Whoever asks may leave
// meanwhile, as an agent's client does that waits for a second only: the answer is waited for.
func (l *Lease) mintOne(ctx context.Context, term time.Duration) (*mint, Material, error) {
	ctx, cancel := outlasting(ctx, lateMint)
	defer cancel()
	b := l.broker
	m := &mint{entry: l.entry}
	now := b.options.Now()
	m.entry.Lease, m.entry.Until = newID(), now.Add(longestMint).UTC()
	if err := b.minting(ctx, m.entry); err != nil {
		return nil, Material{}, err
	}
	given, err := l.spec.Issuer.Mint(ctx, term)
	if err != nil {
		if ctx.Err() == nil && (errors.Is(err, ErrRefused) || errors.Is(err, ErrNothing)) { // nothing was minted
			err = errors.Join(err, b.forget(ctx, m.entry, eventReleased))
		}
		return nil, Material{}, err
	}
	m.handle, m.ends = given.Handle, now.Add(term)
	for _, end := range []time.Time{given.Expires, l.spec.Expires} {
		if !end.IsZero() && end.Before(m.ends) {
			m.ends = end
		}
	}
	if err := b.minted(ctx, m.entry, given); err != nil {
		return nil, Material{}, errors.Join(err, b.end(ctx, l.spec.Issuer, *m, eventReleased))
	}
	return m, given.Material, nil
}

// minting says everywhere that a credential is about to be minted.
func (b *Broker) minting(ctx context.Context, e entry) error {
	err := b.write(e, eventMinting)
	if err != nil || b.options.Elsewhere == nil {
		return err
	}
	if err := b.options.Elsewhere.Minting(ctx, e.held(), longestMint); err != nil {
		return errors.Join(err, b.write(e, eventReleased)) // a row whose answer was lost ends by itself
	}
	return nil
}

// minted keeps what a credential is revoked with, here and where other machines find it.
func (b *Broker) minted(ctx context.Context, e entry, given Minted) error {
	err := b.keepHandle(e.Lease, given.Handle)
	if err != nil || b.options.Elsewhere == nil {
		return err
	}
	return b.options.Elsewhere.Minted(ctx, e.held(), given.Handle, deadline.Left(b.options.Now(), given.Expires))
}

// forget says that a credential is not good any more. Where other machines do not hear of it, they take it back
// once more, which changes nothing.
func (b *Broker) forget(ctx context.Context, e entry, event string) error {
	err := errors.Join(b.write(e, event), b.dropHandle(e.Lease))
	if err == nil && b.options.Elsewhere != nil {
		_ = b.options.Elsewhere.Ended(ctx, e.Lease)
	}
	return err
}

// outlasting is a context that ends a while after the given one does.
func outlasting(asker context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(asker))
	stop := context.AfterFunc(asker, func() {
		late := time.AfterFunc(while, cancel)
		context.AfterFunc(ctx, func() { late.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// Lapse takes back what is minted where its time is over and nobody renewed it, since nobody
// uses it, and what could not be taken back before. The next use mints anew, where the budget
// has a renewal left.
func (l *Lease) Lapse(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mint != nil && !l.good(l.broker.options.Now()) {
		l.over = append(l.over, *l.mint)
		l.mint, l.kept = nil, nil
	}
	return l.giveBack(ctx)
}

// giveBack revokes what is over. What cannot be revoked now stays over.
func (l *Lease) giveBack(ctx context.Context) error {
	var errs []error
	l.over = slices.DeleteFunc(l.over, func(m mint) bool {
		err := l.broker.end(ctx, l.spec.Issuer, m, eventReleased)
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// end revokes a credential, and says so in the ledger. Where it cannot be revoked now it
// stays there. One that nobody can revoke is forgotten: nacre alone had it.
func (b *Broker) end(ctx context.Context, by Issuer, m mint, event string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokePatience)
	defer cancel()
	switch err := by.Revoke(ctx, m.handle); {
	case err == nil || errors.Is(err, ErrIrrevocable):
	case errors.Is(err, ErrRefused):
		return fmt.Errorf("credential %s was not taken back: %w; %s", m.entry.Credential, err, byHand)
	default:
		return fmt.Errorf("credential %s was not taken back: %w; the next session, or nacre credentials sweep, tries again", m.entry.Credential, err)
	}
	return b.forget(ctx, m.entry, event)
}

// byHand is what a person does about a provider's no, which does not pass by itself.
const byHand = "this does not pass by itself: take it back at the provider, or give nacre again what it is minted with and run nacre credentials sweep"

// takeBack ends an orphan, or says of it why it could not be. silent says of whose credentials the provider
// did not answer. An error is the ledger's.
func (b *Broker) takeBack(ctx context.Context, e entry, o *Orphan, silent map[string]error) error {
	var err error
	if deadline.Left(b.options.Now(), e.Until) > 0 { // else it has ended by itself
		err = b.revokeOrphan(ctx, e, silent)
	}
	if err == nil {
		return b.forget(ctx, e, eventOrphaned)
	}
	o.Left = err.Error()
	if o.Refused = errors.Is(err, ErrRefused); o.Refused {
		o.Left += "; " + byHand
	}
	o.Left += " · good until " + e.Until.UTC().Format("15:04") + " at the latest"
	return nil
}

// revokeOrphan has an orphan's provider end it.
func (b *Broker) revokeOrphan(ctx context.Context, e entry, silent map[string]error) error {
	handle, err := b.handle(e.Lease)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("nacre does not know it: nacre ended while it was minted, or its provider did not answer")
	case err != nil:
		return errors.New("what it is revoked with cannot be read")
	case silent[e.Credential] != nil:
		return silent[e.Credential]
	}
	err = b.revoke(ctx, e.Credential, handle)
	if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrIrrevocable) {
		silent[e.Credential] = err
	}
	return err
}

// revoke has a credential's provider end one.
func (b *Broker) revoke(ctx context.Context, credential string, handle nacre.Secret) error {
	if b.options.Issuer == nil {
		return errNobody
	}
	by, err := b.options.Issuer(credential)
	if err != nil || by == nil {
		return errNobody
	}
	ctx, cancel := context.WithTimeout(ctx, revokePatience)
	defer cancel()
	return by.Revoke(ctx, handle)
}

var errNobody = errors.New("config.toml no longer says who minted it")

// handles is the folder of what is revoked, beside the ledger.
func (b *Broker) handles() string { return b.options.Path + ".handles" }

// keepHandle puts what a credential is revoked with on disk, for its owner alone.
func (b *Broker) keepHandle(id string, handle nacre.Secret) error {
	if err := os.MkdirAll(b.handles(), 0o700); err != nil {
		return err
	}
	return disk.Write(filepath.Join(b.handles(), id), []byte(handle.Reveal()), 0o600)
}

func (b *Broker) handle(id string) (nacre.Secret, error) {
	if filepath.Base(id) != id {
		return nacre.Secret{}, errors.New("the ledger names a handle that is not one")
	}
	data, err := disk.Read(filepath.Join(b.handles(), id), maxHandle)
	return nacre.NewSecret(string(data)), err
}

func (b *Broker) dropHandle(id string) error {
	err := os.Remove(filepath.Join(b.handles(), filepath.Base(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
