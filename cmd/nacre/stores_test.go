package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
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

// storedHub is a credential for one host, whose value is where the next lines say.
const storedHub = "[[credential]]\nname = %q\nhost = \"%s.example\"\npaths = [\"/\"]\ngroups = [\"main\"]\nstanding_secret = true\n%s\n"

// fed is a command of nacre's that reads a line.
func (i *installation) fed(line string, args ...string) result {
	i.t.Helper()
	r := &running{Cmd: i.command(filepath.Join(bin, "nacre"), args...)}
	r.Stdin, r.Stdout, r.Stderr = strings.NewReader(line+"\n"), &r.stdout, &r.stderr
	check(i.t, r.Start())
	return finish(i.t, r)
}

// aged is a file that age encrypted for an identity, which is in another one.
func (i *installation) aged(name, value string) (sealed, identity string) {
	i.t.Helper()
	identity, sealed = filepath.Join(i.work, name+".identity"), filepath.Join(i.work, name+".age")
	_, err := lease.MakeIdentity(identity)
	check(i.t, err)
	check(i.t, lease.Source{Age: sealed, Identity: identity}.Keep(i.t.Context(), os.Getenv, nacre.NewSecret(value)))
	return sealed, identity
}

// M-37: of every store a credential is listed, read, used, rotated and removed, and no value is said. A
// store that nacre only reads from keeps its value, and a person is told so. For a key store, see
// TestAValueIsInTheKeyStoreOfADesktopOrNowhere.
func TestEveryCommandOfEveryStore(t *testing.T) {
	t.Parallel()
	for store, c := range map[string]struct {
		named   func(i *installation) string
		written bool
	}{
		"env":  {func(*installation) string { return `value_env = "HUB_TOKEN"` }, false},
		"file": {func(i *installation) string { return fmt.Sprintf("value_file = %q", i.write("kept", keptValue)) }, true},
		"cmd": {func(i *installation) string {
			return fmt.Sprintf("value_cmd = [\"cat\", %q]", i.write("kept", keptValue))
		}, false},
		"credential": {func(i *installation) string { i.write("systemd/hub", keptValue); return `value_credential = "hub"` }, false},
		"age": {func(i *installation) string {
			sealed, identity := i.aged("kept", keptValue)
			return fmt.Sprintf("value_age = %q\nvalue_age_identity = %q", sealed, identity)
		}, true},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.env = append(i.env, "HUB_TOKEN="+keptValue, "CREDENTIALS_DIRECTORY="+filepath.Join(i.work, "systemd"))
			i.config(fmt.Sprintf(storedHub, "hub", "api.hub", c.named(i)))
			said := []result{i.nacre("credentials", "list"), i.nacre("credentials", "list", "--json"), i.nacre("credentials", "test", "hub"), i.nacre("exec", "--egress", "api.hub.example", "--", "env")}
			said[0].want(t, 0, "hub   "+store)
			said[1].want(t, 0, `"store":"`+store+`"`)
			said[2].want(t, 0, "hub for api.hub.example")
			said[3].want(t, 0)
			rotated, read := i.fed(rotatedValue, "credentials", "rotate", "hub"), i.nacre("credentials", "test", "hub")
			rotated.want(t, map[bool]int{true: 0, false: 2}[c.written], map[bool]string{true: "hub has its new value", false: "nacre only reads it"}[c.written])
			read.want(t, 0)
			removed := i.nacre("credentials", "remove", "hub")
			removed.want(t, 0, "config.toml no longer names hub", map[bool]string{true: "gone from", false: "nacre only reads it"}[c.written])
			if kept := isThere(filepath.Join(i.work, "kept")) || isThere(filepath.Join(i.work, "kept.age")) || isThere(filepath.Join(i.work, "systemd/hub")); kept == c.written && store != "env" {
				t.Errorf("its value is there: %t", kept)
			}
			for _, r := range append(said, rotated, read, removed) {
				r.hasNoSecret(t, keptValue, rotatedValue)
			}
			hasNoSecret(t, filepath.Join(i.work, "home"), keptValue)
			hasNoSecret(t, filepath.Join(i.work, "home"), rotatedValue)
		})
	}
}

// M-37, bad input: a store that has no value, another one, or lies gives nothing, and no other store is
// looked at. A person is told what to do, and nothing of a value.
func TestAStoreThatHasNoValueGivesNone(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.env = append(i.env, "EMPTY=", "SHORT=tiny", "BROKEN="+keptValue+"\t"+keptValue, "CREDENTIALS_DIRECTORY="+filepath.Join(i.work, "systemd"))
	open := i.write("open", keptValue)
	check(t, os.Chmod(open, 0o644))
	check(t, unix.Mkfifo(filepath.Join(i.work, "pipe"), 0o600))
	i.write("systemd/other", keptValue)
	sealed, identity := i.aged("one", keptValue)
	_, others := i.aged("two", keptValue)
	shared := i.write("shared.identity", "x")
	check(t, os.Chmod(shared, 0o644))
	inAge := func(sealed, identity string) string {
		return fmt.Sprintf("value_age = %q\nvalue_age_identity = %q", sealed, identity)
	}
	stores := map[string]struct{ named, says string }{
		"env-empty":     {`value_env = "EMPTY"`, "the variable EMPTY is empty or missing: put the value there"},
		"env-short":     {`value_env = "SHORT"`, "shorter than 8 bytes"},
		"env-broken":    {`value_env = "BROKEN"`, "characters that are not visible ASCII"},
		"file-gone":     {`value_file = "/nowhere/at/all"`, "no such file or directory"},
		"file-open":     {fmt.Sprintf("value_file = %q", open), "others may read or write it: chmod 600"},
		"file-folder":   {fmt.Sprintf("value_file = %q", i.work), "it is not a regular file"},
		"file-pipe":     {fmt.Sprintf("value_file = %q", filepath.Join(i.work, "pipe")), "it is not a regular file"},
		"cmd-silent":    {`value_cmd = ["true"]`, "the command true is empty or missing"},
		"age-others":    {inAge(sealed, others), "none of the identities opens it"},
		"age-plain":     {inAge(i.write("plain.age", keptValue), identity), "none of the identities opens it"},
		"age-shared":    {inAge(sealed, shared), "its identity file: others may read or write it"},
		"systemd-gone":  {`value_credential = "hub"`, "no such file or directory"},
		"keyring-other": {`value_keyring = "hub"`, "the key store answered for another entry: its answer is not used"},
	}
	var config strings.Builder
	for name, c := range stores {
		fmt.Fprintf(&config, storedHub, name, name, c.named)
	}
	i.config(config.String())
	conn, bus := testpeer.NewBus(t)
	testpeer.KeyStore{Open: 1, Attributes: map[string]string{"service": "nacre", "username": "another"}, Value: keptValue}.Serve(t, conn)
	i.env = append(i.env, "DBUS_SESSION_BUS_ADDRESS="+bus)
	i.nacre("credentials", "list").want(t, 0)
	tested := i.nacre("credentials", "test")
	tested.want(t, 3)
	for name, c := range stores {
		told := ""
		for line := range strings.Lines(tested.stdout) {
			if strings.Contains(line, name+": ") {
				told = line
			}
		}
		if !strings.Contains(told, c.says) {
			t.Errorf("%s: have %q, want %q", name, told, c.says)
		}
	}
	opened := i.nacre("exec", "--egress", "keyring-other.example", "--", "true")
	opened.want(t, 125, "answered for another entry")
	rotated := i.fed(rotatedValue, "credentials", "rotate", "keyring-other")
	rotated.want(t, 3, "answered for another entry")
	i.nacre("credentials", "remove", "keyring-other").want(t, 3)
	i.nacre("exec", "--", "true").want(t, 0)
	for _, r := range []result{tested, opened, rotated} {
		r.hasNoSecret(t, keptValue, rotatedValue)
	}
	hasNoSecret(t, filepath.Join(i.work, "home"), keptValue)
}

// M-37, bad input: a program that hangs is ended after half a minute, with what it started, and a person is
// told that it may be asking.
func TestAProgramThatHangsGivesNoValue(t *testing.T) {
	t.Parallel()
	if testpeer.Size(0, 1) == 0 {
		t.Skip("it waits for half a minute: at the large sizes alone")
	}
	i := install(t)
	mark := marker()
	i.config(fmt.Sprintf(storedHub, "hub", "api.hub", fmt.Sprintf(`value_cmd = ["sh", "-c", "echo %s; sleep 300%s & wait"]`, keptValue, mark)))
	r := i.nacre("credentials", "test")
	r.want(t, 3, "it did not end within 30s: it may be asking something, and has no terminal to ask on")
	r.hasNoSecret(t, keptValue)
	eventually(t, "the end of what it started", func() bool { return len(processes(t, "sleep\x00300"+mark)) == 0 })
}
