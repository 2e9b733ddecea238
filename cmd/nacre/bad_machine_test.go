package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-60: in a container without privileges nothing runs, whatever the engine took: root's rights, the right
// to make namespaces, or parts of /proc. What is said is that, and what to do. Below a home that is read-only
// nothing runs either.
func TestMachinesWithoutPrivileges(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root takes its own rights and mounts")
	}
	testpeer.Need(t, "unshare")
	testpeer.Need(t, "setpriv")
	const namespaces = "this machine does not let this user create the namespaces that the native sandbox needs"
	for name, c := range map[string]struct{ script, want string }{
		"no rights":                        {`setpriv --bounding-set -all --inh-caps -all "$0" "$@"`, namespaces},
		"no rights, and none to be had":    {`setpriv --no-new-privs --bounding-set -all --inh-caps -all "$0" "$@"`, namespaces},
		"a root of its own, by chroot":     {`mkdir "$HOME/root" && mount --rbind / "$HOME/root" && chroot "$HOME/root" "$0" "$@"`, namespaces},
		"parts of /proc are covered":       {`for f in keys timer_list sysrq-trigger kcore; do [ ! -e /proc/$f ] || mount --bind /dev/null /proc/$f; done; "$0" "$@"`, namespaces},
		"a home that can only be read":     {`mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME" && "$0" "$@"`, "read-only file system: make it yours (chown) and writable, with room on its disk, or set XDG_STATE_HOME"},
		"a state that turned into a mount": {`mkdir -p "$HOME/.local/state" && mount -t tmpfs -o ro none "$HOME/.local/state" && "$0" "$@"`, "read-only file system: make it yours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			out, err := i.command("unshare", "-m", "sh", "-c", c.script, filepath.Join(bin, "nacre"), "exec", "-q", "--", "echo", "it ran").CombinedOutput()
			if exitCode(err) != 125 {
				t.Errorf("%v", err)
			}
			has(t, string(out), c.want)
			hasNo(t, string(out), "it ran\n")
		})
	}
}

// Bad input of a WSL: the PATH holds folders of Windows, with spaces and shims of agents that run there. The
// environment names the socket by which programs of Windows are started, outside of every sandbox. No session
// gets that, and no shim is taken for an agent.
func TestOnWSL(t *testing.T) {
	t.Parallel()
	i := install(t)
	windows := filepath.Dir(i.write("mnt/c/Program Files/nodejs/claude.cmd", "@echo off\r\n"))
	i.tool("mnt/c/Program Files/nodejs/claude", "#!/bin/sh\r\nexec cmd.exe /c claude.cmd\r\n")
	i.env = append(i.env, "PATH=/usr/bin:/bin:"+windows, "WSL_DISTRO_NAME=Debian", "WSL_INTEROP="+i.write("interop", ""), "WSLENV=X/p", "ANTHROPIC_API_KEY=key-of-the-test")
	r := i.nacre("exec", "-q", "--", "env")
	r.want(t, 0, "PATH=")
	hasNo(t, r.stdout, "WSL", "/mnt/c", "Program Files")
	i.nacre("doctor", "--no-turns").want(t, 0, "claude is a script or a shim, and the native program is not beside it")
}
