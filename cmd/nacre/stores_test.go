package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

const (
	keptValue    = "value-of-the-hub-1"
	rotatedValue = "value-of-the-hub-2"
)

// M-37: a value is typed at a terminal and is not shown there, nor in what nacre says.
func TestAValueThatIsTypedIsNotShown(t *testing.T) {
	t.Parallel()
	i := install(t)
	screen, wait := i.terminal("credentials", "add", "hub", "--store", "file", "--host", "api.hub.example", "--path", "/", "--standing-secret")
	screen.until("value: ")
	eventually(t, "the terminal shows nothing that is typed", func() bool {
		state, err := unix.IoctlGetTermios(int(screen.master.Fd()), unix.TCGETS)
		check(t, err)
		return state.Lflag&unix.ECHO == 0
	})
	screen.typeIn(keptValue + "\n")
	r := wait()
	r.want(t, 0, "kept in the file")
	r.hasNoSecret(t, keptValue)
	if kept := i.read("home/.config/nacre/credentials/hub"); kept != keptValue+"\n" {
		t.Errorf("kept %q", kept)
	}
}

// inAKeyring is what a person does with a key store, which is locked after a while, and then gone.
const inAKeyring = `
printf a-password-of-the-key-store | gnome-keyring-daemon --foreground --unlock --components=secrets --control-directory="$XDG_RUNTIME_DIR" >/dev/null 2>&1 &
store=$!
login=/org/freedesktop/secrets/collection/login
until dbus-send --print-reply --dest=org.freedesktop.secrets $login org.freedesktop.DBus.Properties.Get string:org.freedesktop.Secret.Collection string:Locked 2>/dev/null | grep -q false; do sleep 0.05; done
echo ` + keptValue + ` | nacre credentials add hub --store keyring --host api.hub.example --path / --standing-secret
nacre credentials list
echo ` + rotatedValue + ` | nacre credentials rotate hub
nacre credentials test; echo tested $?
nacre exec --egress api.hub.example:443 -- true; echo opened $?
dbus-send --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets org.freedesktop.Secret.Service.Lock array:objpath:$login >/dev/null
nacre credentials test; echo locked, tested $?
echo ` + keptValue + ` | nacre credentials rotate hub; echo locked, rotated $?
nacre credentials remove hub; echo locked, removed $?
nacre exec --egress api.hub.example:443 -- true; echo locked, opened $?
kill $store; wait $store
nacre credentials test; echo gone, tested $?
nacre exec --egress api.hub.example:443 -- true; echo gone, opened $?
nacre exec -- echo a session without the host opens
`

// M-37: a value is kept in the key store of a desktop, which is GNOME's here. Once that is locked or gone
// nothing is read, replaced or removed, no session opens that needs it, and nothing is looked for elsewhere.
func TestAValueIsInTheKeyStoreOfADesktopOrNowhere(t *testing.T) {
	t.Parallel()
	session := testpeer.Need(t, "dbus-run-session")
	testpeer.Need(t, "gnome-keyring-daemon")
	testpeer.Need(t, "dbus-send")
	i := install(t)
	i.config("[egress]\nallow = []\n")
	bus := i.write("bus.conf", `<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`) // which starts no services
	text, err := i.command(session, "--config-file="+bus, "--", "sh", "-c", inAKeyring).CombinedOutput()
	r := result{exitCode(err), string(text), ""}
	r.want(t, 0, "kept in the key store's entry hub", "hub   keyring", "hub has its new value in the key store's entry hub", "tested 0", "opened 0", "locked, tested 3", "locked, rotated 3", "locked, removed 3", "locked, opened 125",
		"gone, tested 3", "gone, opened 125", "a session without the host opens", "is locked", "no key store answers")
	r.hasNoSecret(t, keptValue, rotatedValue)
	for _, value := range []string{keptValue, rotatedValue} {
		hasNoSecret(t, filepath.Join(i.work, "home"), value)
	}
	if config := i.configured(); !strings.Contains(config, `value_keyring = "hub"`) {
		t.Errorf("the config has\n%s", config)
	}
}
