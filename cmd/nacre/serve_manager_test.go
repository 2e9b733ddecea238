package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// M-62: a service manager is told when nacre serves, and when it is about to end.
func TestServeTellsTheServiceManager(t *testing.T) {
	t.Parallel()
	i := install(t)
	address := filepath.Join(i.work, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	told := func() string {
		var text [256]byte
		n, err := manager.Read(text[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
	i.env = append(i.env, "NOTIFY_SOCKET="+address)
	_, stop := i.serve()
	if have := told(); have != "READY=1" {
		t.Errorf("have %q", have)
	}
	stop()
	if have := told(); have != "STOPPING=1" {
		t.Errorf("have %q", have)
	}
}

// M-62: systemd takes the unit that is shipped for a person's own manager.
func TestTheUnitIsOneOfSystemds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../tools/release/nacre.service")
	if err != nil {
		t.Fatal(err)
	}
	const program = "ExecStart=/usr/bin/nacre serve\n"
	has(t, string(text), program, "Type=notify\n")
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	home := t.TempDir()
	unit := filepath.Join(home, "nacre.service")
	check(t, os.WriteFile(unit, []byte(strings.Replace(string(text), "/usr/bin/nacre", filepath.Join(bin, "nacre"), 1)), 0o600))
	command := exec.CommandContext(t.Context(), verify, "verify", "--user", unit)
	command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + home}
	if said, err := command.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}
