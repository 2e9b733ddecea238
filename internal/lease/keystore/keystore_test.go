package keystore_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease/keystore"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

const value = "a-value-in-the-key-store"

// bus is a session's D-Bus of its own, which starts no services.
type bus struct {
	conn    *dbus.Conn
	address string
}

func newBus(t *testing.T) bus {
	t.Helper()
	conn, address := testpeer.NewBus(t)
	return bus{conn, address}
}

// start runs a program until the test ends.
func start(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

func (b bus) store() keystore.Store {
	return keystore.Of(func(name string) string {
		return map[string]string{"DBUS_SESSION_BUS_ADDRESS": b.address}[name]
	})
}

// gnome starts GNOME Keyring on the bus, with a password of its own.
func (b bus) gnome(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "keys-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	command := exec.Command(testpeer.Need(t, "gnome-keyring-daemon"), "--foreground", "--unlock", "--components=secrets", "--control-directory="+dir)
	command.Stdin = strings.NewReader("a-password-of-the-key-store")
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CACHE_HOME=" + dir, "DBUS_SESSION_BUS_ADDRESS=" + b.address}
	start(t, command)
	testwait.Until(t, "the key store is open", func() bool {
		var locked dbus.Variant
		err := b.conn.Object("org.freedesktop.secrets", "/org/freedesktop/secrets/collection/login").
			Call("org.freedesktop.DBus.Properties.Get", 0, "org.freedesktop.Secret.Collection", "Locked").Store(&locked)
		return err == nil && locked.Value() == false
	})
}

// M-37: GNOME Keyring keeps, replaces and forgets a value, and once it is locked nothing is
// read, written or removed, and nothing waits for a person.
func TestGNOMEKeyring(t *testing.T) {
	b := newBus(t)
	b.gnome(t)
	s := b.store()
	if _, err := s.Read(t.Context(), "hub"); !errors.Is(err, keystore.ErrMissing) {
		t.Errorf("an entry that is not there: %v", err)
	}
	for _, want := range []string{value, value + "-replaced"} {
		if err := s.Write(t.Context(), "hub", nacre.NewSecret(want)); err != nil {
			t.Fatal(err)
		}
		if have, err := s.Read(t.Context(), "hub"); err != nil || have.Reveal() != want {
			t.Errorf("have %d bytes, %v", len(have.Reveal()), err)
		}
	}
	if err := s.Write(t.Context(), "hubs", nacre.NewSecret("of-another-name")); err != nil {
		t.Fatal(err)
	}
	if since, err := s.Since(t.Context(), "hub"); err != nil || since.IsZero() {
		t.Errorf("since: %v, %v", since, err)
	}
	if err := s.Remove(t.Context(), "hub"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "hub"); !errors.Is(err, keystore.ErrMissing) {
		t.Errorf("removed twice: %v", err)
	}
	lock := b.conn.Object("org.freedesktop.secrets", "/org/freedesktop/secrets")
	if err := lock.Call("org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{"/org/freedesktop/secrets/collection/login"}).Err; err != nil {
		t.Fatal(err)
	}
	_, read := s.Read(t.Context(), "hubs")
	_, missing := s.Read(t.Context(), "hub")
	for what, err := range map[string]error{
		"read": read, "read what is not there": missing,
		"write": s.Write(t.Context(), "hub", nacre.NewSecret(value)), "remove": s.Remove(t.Context(), "hubs"),
	} {
		if !errors.Is(err, keystore.ErrLocked) {
			t.Errorf("%s of a locked store: %v", what, err)
		}
	}
}

// M-37: without a bus, or with one that nobody answers on, there is no value, and what a
// variable names is neither started nor connected to over the network.
func TestAKeyStoreThatIsGone(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "started")
	for name, address := range map[string]string{
		"no address": "", "no socket": "unix:path=/nowhere/bus", "a network": "tcp:host=127.0.0.1,port=1",
		"a program": "unixexec:path=/usr/bin/touch,argv1=" + marker, "autolaunch": "autolaunch:", "nonsense": "bus",
	} {
		s := keystore.Of(func(string) string { return address })
		if _, err := s.Read(t.Context(), "hub"); !errors.Is(err, keystore.ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program was started")
	}
	b := newBus(t)
	if _, err := b.store().Read(t.Context(), "hub"); !errors.Is(err, keystore.ErrGone) {
		t.Errorf("nobody answers: %v", err)
	}
}

// M-37: a store that answers for another entry, asks on a screen, complains with a value
// or says nothing gives no value, and its words are not repeated.
func TestAHostileKeyStore(t *testing.T) {
	own := map[string]string{"service": "nacre", "username": "hub"}
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	for name, c := range map[string]struct {
		store testpeer.KeyStore
		want  error
	}{
		"as it should be":               {testpeer.KeyStore{Open: 1, Attributes: own}, nil},
		"an entry of another name":      {testpeer.KeyStore{Open: 1, Attributes: map[string]string{"service": "nacre", "username": "hubs"}}, keystore.ErrOther},
		"an entry of another program":   {testpeer.KeyStore{Open: 1, Attributes: map[string]string{"service": "browser", "username": "hub"}}, keystore.ErrOther},
		"an entry without a name":       {testpeer.KeyStore{Open: 1}, keystore.ErrOther},
		"an answer of another session":  {testpeer.KeyStore{Open: 1, Attributes: own, Answer: "/other"}, keystore.ErrOther},
		"several entries":               {testpeer.KeyStore{Open: 2, Attributes: own}, keystore.ErrTwice},
		"one open and one locked":       {testpeer.KeyStore{Open: 1, Locked: 1, Attributes: own}, keystore.ErrTwice},
		"a locked entry":                {testpeer.KeyStore{Locked: 1}, keystore.ErrLocked},
		"a complaint":                   {testpeer.KeyStore{Complaint: dbus.MakeFailedError(errors.New(value))}, keystore.ErrGone},
		"a complaint that it is locked": {testpeer.KeyStore{Complaint: dbus.NewError("org.freedesktop.Secret.Error.IsLocked", []any{value})}, keystore.ErrLocked},
		"silence":                       {testpeer.KeyStore{Silent: silent}, keystore.ErrSlow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBus(t)
			c.store.Value = value
			c.store.Serve(t, b.conn)
			ctx := t.Context()
			if c.store.Silent != nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			have, err := b.store().Read(ctx, "hub")
			if !errors.Is(err, c.want) || (have.Reveal() == value) != (c.want == nil) {
				t.Errorf("have %v, want %v", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("the error repeats the value: %v", err)
			}
		})
	}
}

// M-37: an answer that has to be given on a screen is not waited for.
func TestAKeyStoreThatAsks(t *testing.T) {
	b := newBus(t)
	testpeer.KeyStore{Open: 1, Attributes: map[string]string{"service": "nacre", "username": "hub"}, Prompts: true}.Serve(t, b.conn)
	began := time.Now()
	for what, err := range map[string]error{"write": b.store().Write(t.Context(), "hub", nacre.NewSecret(value)), "remove": b.store().Remove(t.Context(), "hub")} {
		if !errors.Is(err, keystore.ErrLocked) {
			t.Errorf("%s: %v after %s", what, err, time.Since(began))
		}
	}
}
