package testpeer

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// NewBus starts a session's D-Bus that starts no services, and gives a connection to it and its address. The
// test is skipped by name where there is no dbus-daemon.
func NewBus(t testing.TB) (conn *dbus.Conn, address string) {
	t.Helper()
	program := Need(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address = "unix:path=" + filepath.Join(dir, "bus")
	config := filepath.Join(dir, "bus.conf")
	text := fmt.Sprintf(`<busconfig><type>session</type><listen>%s</listen><policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), program, "--nofork", "--print-address", "--config-file="+config)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	// Its address is printed when it listens.
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, address) {
		t.Fatalf("the bus says %q: %v", line, err)
	}
	if conn, err = dbus.Connect(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, address
}

// KeyStore is a key store (D-Bus Secret Service) that answers as a test says.
type KeyStore struct {
	// Open and Locked are how many entries it has of each kind, with Attributes.
	Open, Locked int
	Attributes   map[string]string
	Value        string
	// Answer is the session that it answers for; empty means the one that it was asked in.
	Answer string
	// Prompts says that it would ask on a screen, Complaint is all that it says, and while Silent is open
	// it says nothing.
	Prompts   bool
	Complaint *dbus.Error
	Silent    chan struct{}
}

// The places of what it has.
const (
	keyStore   = dbus.ObjectPath("/org/freedesktop/secrets")
	collection = keyStore + "/collection/login"
	item       = collection + "/1"
	asked      = keyStore + "/session/1"
)

// OpenSession begins a session, as the bus asks.
func (h KeyStore) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	if h.Silent != nil {
		<-h.Silent
	}
	return dbus.MakeVariant(""), asked, h.Complaint
}

// SearchItems finds entries, as the bus asks.
func (h KeyStore) SearchItems(map[string]string) (open, locked []dbus.ObjectPath, err *dbus.Error) {
	return slices.Repeat([]dbus.ObjectPath{item}, h.Open), slices.Repeat([]dbus.ObjectPath{item}, h.Locked), nil
}

// ReadAlias names the collection, as the bus asks.
func (h KeyStore) ReadAlias(string) (dbus.ObjectPath, *dbus.Error) {
	return collection, nil
}

// given is how the Secret Service writes a value.
type given struct {
	Session    dbus.ObjectPath
	Parameters []byte
	Value      []byte
	Type       string
}

// GetSecret gives the value, as the bus asks.
func (h KeyStore) GetSecret(dbus.ObjectPath) (given, *dbus.Error) {
	return given{cmp.Or(dbus.ObjectPath(h.Answer), asked), nil, []byte(h.Value), "text/plain"}, nil
}

// Delete takes an entry away, as the bus asks.
func (h KeyStore) Delete() (dbus.ObjectPath, *dbus.Error) { return h.prompt(), nil }

// CreateItem makes an entry, as the bus asks.
func (h KeyStore) CreateItem(map[string]dbus.Variant, given, bool) (item, prompt dbus.ObjectPath, err *dbus.Error) {
	return "/", h.prompt(), nil
}

func (h KeyStore) prompt() dbus.ObjectPath {
	if h.Prompts {
		return keyStore + "/prompt/1"
	}
	return "/"
}

// Get gives a property, as the bus asks.
func (h KeyStore) Get(_, name string) (dbus.Variant, *dbus.Error) {
	if name == "Attributes" {
		return dbus.MakeVariant(h.Attributes), nil
	}
	return dbus.MakeVariant(false), nil
}

// Serve has it answer on a bus.
func (h KeyStore) Serve(t testing.TB, conn *dbus.Conn) {
	t.Helper()
	for _, path := range []dbus.ObjectPath{keyStore, collection, item} {
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
