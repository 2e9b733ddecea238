// Package keystore keeps values in the key store of the person's desktop, by the Secret
// Service of D-Bus, which GNOME Keyring, KWallet and KeePassXC answer to (M-37).
//
// It never asks for a password and waits for none. A store that is locked, is not there, asks
// something or answers slowly is an error that says what to do. An entry is used only where it is
// the one whose attributes are exactly those that were asked for. No error holds a value.
package keystore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/nacre-dev/nacre"
)

const (
	// Service is the attribute "service" of all entries; "username" is the entry's name.
	Service = "nacre"
	// patience bounds everything that is asked of a store.
	patience = 10 * time.Second
	// maxValue is the longest value that is taken, in bytes.
	maxValue = 16 << 10

	busName    = "org.freedesktop.secrets"
	root       = dbus.ObjectPath("/org/freedesktop/secrets")
	ofService  = "org.freedesktop.Secret.Service."
	ofItem     = "org.freedesktop.Secret.Item."
	ofCollect  = "org.freedesktop.Secret.Collection."
	properties = "org.freedesktop.DBus.Properties.Get"
	nothing    = dbus.ObjectPath("/")
)

// The ways in which a key store gives no value. Each says what to do.
var (
	ErrGone    = errors.New("no key store answers on the session's D-Bus: log in to a desktop or start gnome-keyring-daemon, or keep the value with value_age")
	ErrLocked  = errors.New("the key store is locked: unlock it, for example by logging in to the desktop, and try again")
	ErrMissing = errors.New("the key store has no such entry: nacre credentials add puts it there")
	ErrTwice   = errors.New("the key store has several such entries: remove all but one in the desktop's program for passwords")
	ErrOther   = errors.New("the key store answered for another entry: its answer is not used")
	ErrSlow    = fmt.Errorf("the key store did not answer within %s: it may be asking on a screen", patience)
)

// Store is the key store of the person whose environment it is.
type Store struct{ getenv func(string) string }

// Of is the key store that an environment leads to. It opens nothing.
func Of(getenv func(string) string) Store { return Store{getenv} }

// secret is how the Secret Service writes a value.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// session is one connection to the store's present owner.
type session struct {
	conn  *dbus.Conn
	owner string
	path  dbus.ObjectPath
}

// Read gives the value of an entry.
func (s Store) Read(ctx context.Context, name string) (value nacre.Secret, err error) {
	err = s.with(ctx, func(ctx context.Context, to session) error {
		item, err := to.find(ctx, name)
		if err == nil {
			value, err = to.value(ctx, item)
		}
		return err
	})
	return value, err
}

// Since is when an entry was last changed; the zero time where the store does not say.
func (s Store) Since(ctx context.Context, name string) (since time.Time, err error) {
	err = s.with(ctx, func(ctx context.Context, to session) error {
		item, err := to.find(ctx, name)
		if err == nil {
			since = to.modified(ctx, item)
		}
		return err
	})
	return since, err
}

// Write puts a value there, in place of an earlier one of that name.
func (s Store) Write(ctx context.Context, name string, value nacre.Secret) error {
	return s.with(ctx, func(ctx context.Context, to session) error { return to.create(ctx, name, value) })
}

// Remove takes an entry away.
func (s Store) Remove(ctx context.Context, name string) error {
	return s.with(ctx, func(ctx context.Context, to session) error {
		item, err := to.find(ctx, name)
		if err != nil {
			return err
		}
		var prompt dbus.ObjectPath
		if err := to.call(ctx, item, ofItem+"Delete").Store(&prompt); err != nil {
			return err
		}
		return unasked(prompt)
	})
}

// with connects to the store, and tells what went wrong in words of this room: what a
// store says itself may hold anything.
func (s Store) with(ctx context.Context, do func(context.Context, session) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	to, err := s.open(ctx)
	if err == nil {
		err = do(ctx, to)
	}
	if to.conn != nil {
		_ = to.conn.Close() // what was asked is answered
	}
	return plain(ctx, err)
}

// plain is an error of this room for whatever a bus or a store said.
func plain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{ErrGone, ErrLocked, ErrMissing, ErrTwice, ErrOther} {
		if errors.Is(err, known) {
			return known
		}
	}
	if ctx.Err() != nil {
		return ErrSlow
	}
	var said dbus.Error
	if errors.As(err, &said) && said.Name == "org.freedesktop.Secret.Error.IsLocked" {
		return ErrLocked
	}
	return ErrGone
}

func (s Store) open(ctx context.Context) (session, error) {
	address, err := s.address()
	if err != nil {
		return session{}, err
	}
	conn, err := dbus.Dial(address, dbus.WithContext(ctx))
	if err != nil {
		return session{}, err
	}
	to := session{conn: conn}
	if err := errors.Join(conn.Auth(nil), conn.Hello()); err != nil {
		return to, err
	}
	if err := to.own(ctx); err != nil {
		return to, err
	}
	var user uint32
	if err := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionUnixUser", 0, to.owner).Store(&user); err != nil {
		return to, err
	}
	if int64(user) != int64(os.Getuid()) {
		return to, ErrOther
	}
	var ignored dbus.Variant
	return to, to.call(ctx, root, ofService+"OpenSession", "plain", dbus.MakeVariant("")).Store(&ignored, &to.path)
}

// own finds who answers to the store's name, whom the bus starts where nobody does.
func (to *session) own(ctx context.Context) error {
	bus := to.conn.BusObject()
	find := func() error {
		return bus.CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, busName).Store(&to.owner)
	}
	if find() == nil {
		return nil
	}
	if err := bus.CallWithContext(ctx, "org.freedesktop.DBus.StartServiceByName", 0, busName, uint32(0)).Err; err != nil {
		return err
	}
	return find()
}

// address is where the session's bus listens: a socket of this machine, and no program
// that a variable names.
func (s Store) address() (string, error) {
	address := s.getenv("DBUS_SESSION_BUS_ADDRESS")
	if dir := s.getenv("XDG_RUNTIME_DIR"); address == "" && filepath.IsAbs(dir) {
		address = "unix:path=" + filepath.Join(dir, "bus")
	}
	if !strings.HasPrefix(address, "unix:path=") && !strings.HasPrefix(address, "unix:abstract=") {
		return "", ErrGone
	}
	return address, nil
}

func (to session) call(ctx context.Context, at dbus.ObjectPath, method string, arguments ...any) *dbus.Call {
	return to.conn.Object(to.owner, at).CallWithContext(ctx, method, dbus.FlagNoAutoStart, arguments...)
}

func attributes(name string) map[string]string {
	return map[string]string{"service": Service, "username": name}
}

// find is the one entry of a name that is open.
func (to session) find(ctx context.Context, name string) (dbus.ObjectPath, error) {
	var open, locked []dbus.ObjectPath
	if err := to.call(ctx, root, ofService+"SearchItems", attributes(name)).Store(&open, &locked); err != nil {
		return "", err
	}
	switch {
	case len(open)+len(locked) > 1:
		return "", ErrTwice
	case len(locked) == 1:
		return "", ErrLocked
	case len(open) == 0:
		return "", to.missing(ctx)
	}
	var have map[string]string
	if err := to.property(ctx, open[0], ofItem, "Attributes", &have); err != nil {
		return "", err
	}
	for key, value := range attributes(name) {
		if have[key] != value {
			return "", ErrOther
		}
	}
	return open[0], nil
}

// missing tells a store that has no such entry from one that shows none while it is locked.
func (to session) missing(ctx context.Context) error {
	_, err := to.collection(ctx)
	if err != nil {
		return err
	}
	return ErrMissing
}

// collection is where entries are put, which is open.
func (to session) collection(ctx context.Context) (dbus.ObjectPath, error) {
	var at dbus.ObjectPath
	if err := to.call(ctx, root, ofService+"ReadAlias", "default").Store(&at); err != nil {
		return "", err
	}
	if at == nothing {
		return "", ErrLocked // a desktop makes its first one when the person logs in
	}
	locked := true
	if err := to.property(ctx, at, ofCollect, "Locked", &locked); err != nil {
		return "", err
	}
	if locked {
		return "", ErrLocked
	}
	return at, nil
}

func (to session) property(ctx context.Context, at dbus.ObjectPath, of, name string, into any) error {
	var v dbus.Variant
	if err := to.call(ctx, at, properties, strings.TrimSuffix(of, "."), name).Store(&v); err != nil {
		return err
	}
	return v.Store(into)
}

func (to session) value(ctx context.Context, item dbus.ObjectPath) (nacre.Secret, error) {
	var given secret
	if err := to.call(ctx, item, ofItem+"GetSecret", to.path).Store(&given); err != nil {
		return nacre.Secret{}, err
	}
	if given.Session != to.path || len(given.Parameters) > 0 || len(given.Value) > maxValue {
		return nacre.Secret{}, ErrOther
	}
	return nacre.NewSecret(string(given.Value)), nil
}

// modified is when an entry was last changed.
func (to session) modified(ctx context.Context, item dbus.ObjectPath) time.Time {
	var at uint64
	if err := to.property(ctx, item, ofItem, "Modified", &at); err != nil || at == 0 || at > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(at), 0)
}

func (to session) create(ctx context.Context, name string, value nacre.Secret) error {
	at, err := to.collection(ctx)
	if err != nil {
		return err
	}
	var item, prompt dbus.ObjectPath
	err = to.call(ctx, at, ofCollect+"CreateItem", map[string]dbus.Variant{
		ofItem + "Label":      dbus.MakeVariant("nacre: " + name),
		ofItem + "Attributes": dbus.MakeVariant(attributes(name)),
	}, secret{to.path, nil, []byte(value.Reveal()), "text/plain"}, true).Store(&item, &prompt)
	if err != nil {
		return err
	}
	return unasked(prompt)
}

// unasked refuses what waits for an answer on a screen, which nobody may see.
func unasked(prompt dbus.ObjectPath) error {
	if prompt != nothing {
		return ErrLocked
	}
	return nil
}
