package keystore_test

import (
	"context"
	"errors"
	"fmt"
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
	dir, address string
}

func newBus(t *testing.T) bus {
	t.Helper()
	program := testpeer.Need(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := bus{dir, "unix:path=" + filepath.Join(dir, "bus")}
	config := filepath.Join(dir, "bus.conf")
	text := fmt.Sprintf(`<busconfig><type>session</type><listen>%s</listen><policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`, b.address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(program, "--nofork", "--config-file="+config))
	testwait.Until(t, "the bus listens", func() bool {
		conn, err := dbus.Connect(b.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return b
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

func (b bus) connect(t *testing.T) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(b.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// gnome starts GNOME Keyring on the bus, with a password of its own.
func (b bus) gnome(t *testing.T) {
	t.Helper()
	command := exec.Command(testpeer.Need(t, "gnome-keyring-daemon"), "--foreground", "--unlock", "--components=secrets", "--control-directory="+b.dir)
	command.Stdin = strings.NewReader("a-password-of-the-key-store")
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "XDG_RUNTIME_DIR=" + b.dir, "XDG_DATA_HOME=" + b.dir, "XDG_CACHE_HOME=" + b.dir, "DBUS_SESSION_BUS_ADDRESS=" + b.address}
	start(t, command)
	conn := b.connect(t)
	testwait.Until(t, "the key store is open", func() bool {
		var locked dbus.Variant
		err := conn.Object("org.freedesktop.secrets", "/org/freedesktop/secrets/collection/login").
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
	lock := b.connect(t).Object("org.freedesktop.secrets", "/org/freedesktop/secrets")
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

// hostile is a key store that answers as a test says.
type hostile struct {
	open, locked []dbus.ObjectPath
	attributes   map[string]string
	answer       string // the session that it answers for
	prompts      bool
	complaint    *dbus.Error
	silent       chan struct{}
}

const item = dbus.ObjectPath("/org/freedesktop/secrets/collection/login/1")

func (h hostile) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	if h.silent != nil {
		<-h.silent
	}
	return dbus.MakeVariant(""), "/org/freedesktop/secrets/session/1", h.complaint
}

func (h hostile) SearchItems(map[string]string) (open, locked []dbus.ObjectPath, err *dbus.Error) {
	return h.open, h.locked, nil
}

func (h hostile) ReadAlias(string) (dbus.ObjectPath, *dbus.Error) {
	return "/org/freedesktop/secrets/collection/login", nil
}

// given is how the Secret Service writes a value.
type given struct {
	Session    dbus.ObjectPath
	Parameters []byte
	Value      []byte
	Type       string
}

func (h hostile) GetSecret(dbus.ObjectPath) (given, *dbus.Error) {
	return given{dbus.ObjectPath(h.answer), nil, []byte(value), "text/plain"}, nil
}

func (h hostile) Delete() (dbus.ObjectPath, *dbus.Error) { return h.prompt(), nil }

func (h hostile) CreateItem(map[string]dbus.Variant, given, bool) (item, prompt dbus.ObjectPath, err *dbus.Error) {
	return "/", h.prompt(), nil
}

func (h hostile) prompt() dbus.ObjectPath {
	if h.prompts {
		return "/org/freedesktop/secrets/prompt/1"
	}
	return "/"
}

func (h hostile) Get(_, name string) (dbus.Variant, *dbus.Error) {
	if name == "Attributes" {
		return dbus.MakeVariant(h.attributes), nil
	}
	return dbus.MakeVariant(false), nil
}

func (h hostile) serve(t *testing.T, b bus) {
	t.Helper()
	conn := b.connect(t)
	for _, path := range []dbus.ObjectPath{"/org/freedesktop/secrets", "/org/freedesktop/secrets/collection/login", item} {
		for _, of := range []string{"org.freedesktop.Secret.Service", "org.freedesktop.Secret.Collection", "org.freedesktop.Secret.Item", "org.freedesktop.DBus.Properties"} {
			if err := conn.Export(h, path, of); err != nil {
				t.Fatal(err)
			}
		}
	}
	if reply, err := conn.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
}

// M-37: a store that answers for another entry, asks on a screen, complains with a value
// or says nothing gives no value, and its words are not repeated.
func TestAHostileKeyStore(t *testing.T) {
	own := map[string]string{"service": "nacre", "username": "hub"}
	const session = "/org/freedesktop/secrets/session/1"
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	for name, c := range map[string]struct {
		store hostile
		want  error
	}{
		"as it should be":               {hostile{open: []dbus.ObjectPath{item}, attributes: own, answer: session}, nil},
		"an entry of another name":      {hostile{open: []dbus.ObjectPath{item}, attributes: map[string]string{"service": "nacre", "username": "hubs"}, answer: session}, keystore.ErrOther},
		"an entry of another program":   {hostile{open: []dbus.ObjectPath{item}, attributes: map[string]string{"service": "browser", "username": "hub"}, answer: session}, keystore.ErrOther},
		"an entry without a name":       {hostile{open: []dbus.ObjectPath{item}, answer: session}, keystore.ErrOther},
		"an answer of another session":  {hostile{open: []dbus.ObjectPath{item}, attributes: own, answer: "/other"}, keystore.ErrOther},
		"several entries":               {hostile{open: []dbus.ObjectPath{item, item}, attributes: own, answer: session}, keystore.ErrTwice},
		"one open and one locked":       {hostile{open: []dbus.ObjectPath{item}, locked: []dbus.ObjectPath{item}, attributes: own, answer: session}, keystore.ErrTwice},
		"a locked entry":                {hostile{locked: []dbus.ObjectPath{item}}, keystore.ErrLocked},
		"a complaint":                   {hostile{complaint: dbus.MakeFailedError(errors.New(value))}, keystore.ErrGone},
		"a complaint that it is locked": {hostile{complaint: dbus.NewError("org.freedesktop.Secret.Error.IsLocked", []any{value})}, keystore.ErrLocked},
		"silence":                       {hostile{silent: silent}, keystore.ErrSlow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBus(t)
			c.store.serve(t, b)
			ctx := t.Context()
			if c.store.silent != nil {
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
	hostile{open: []dbus.ObjectPath{item}, attributes: map[string]string{"service": "nacre", "username": "hub"}, prompts: true}.serve(t, b)
	began := time.Now()
	for what, err := range map[string]error{"write": b.store().Write(t.Context(), "hub", nacre.NewSecret(value)), "remove": b.store().Remove(t.Context(), "hub")} {
		if !errors.Is(err, keystore.ErrLocked) {
			t.Errorf("%s: %v after %s", what, err, time.Since(began))
		}
	}
}
