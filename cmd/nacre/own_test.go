package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-02: nacre's configuration cannot be written from inside, wherever the project
// lies and whatever links lead there.
func TestAnAgentCannotWriteTheConfiguration(t *testing.T) {
	t.Parallel()
	const attack = `printf '[egress]\nallow=["evil.test:443"]\n' >>%; mkdir -p new; mv new/.. x; d=$(dirname %); mv $d moved && mkdir -p $d && echo 'x' >%; rm -rf $d; true`
	for name, c := range map[string]struct {
		// lay puts the configuration somewhere and gives the project and the file in it.
		lay     func(t *testing.T, i *installation) (project, file string)
		refused bool
	}{
		"the project holds it": {func(t *testing.T, i *installation) (string, string) {
			return filepath.Join(i.work, "home/.config"), "nacre/config.toml"
		}, false},
		"the project holds its place": {func(t *testing.T, i *installation) (string, string) {
			check(t, os.RemoveAll(filepath.Join(i.work, "home/.config/nacre")))
			return filepath.Join(i.work, "home/.config"), "nacre/config.toml"
		}, false},
		"the project is it": {func(t *testing.T, i *installation) (string, string) {
			return filepath.Join(i.work, "home/.config/nacre"), "config.toml"
		}, true},
		"its file is linked from a project": {func(t *testing.T, i *installation) (string, string) {
			file := i.write("dots/a/b/config.toml", "")
			check(t, os.Remove(filepath.Join(i.work, "home/.config/nacre/config.toml")))
			check(t, os.Symlink(file, filepath.Join(i.work, "home/.config/nacre/config.toml")))
			return filepath.Join(i.work, "dots"), "a/b/config.toml"
		}, false},
		"its folder is linked from a project": {func(t *testing.T, i *installation) (string, string) {
			i.write("dots/conf/nacre/config.toml", "")
			check(t, os.RemoveAll(filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Symlink("../../dots/conf/nacre", filepath.Join(i.work, "home/.config/nacre")))
			return filepath.Join(i.work, "dots/../dots"), "conf/nacre/config.toml"
		}, false},
		"its folder is linked from elsewhere, its file from a project": {func(t *testing.T, i *installation) (string, string) {
			file := i.write("dots/a/b/config.toml", "")
			i.write("elsewhere/x", "")
			check(t, os.RemoveAll(filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Symlink("../../elsewhere", filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Symlink(file, filepath.Join(i.work, "elsewhere/config.toml")))
			return filepath.Join(i.work, "dots"), "a/b/config.toml"
		}, false},
		"its folder is linked from elsewhere, its file has another name": {func(t *testing.T, i *installation) (string, string) {
			i.write("dots/deep/x", "")
			file := i.write("elsewhere/config.toml", "")
			check(t, os.RemoveAll(filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Symlink("../../elsewhere", filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Link(file, filepath.Join(i.work, "dots/deep/hard")))
			return filepath.Join(i.work, "dots"), "deep/hard"
		}, false},
		"a link on the way lies in a project": {func(t *testing.T, i *installation) (string, string) {
			i.write("elsewhere/config.toml", "")
			i.write("dots/x", "")
			check(t, os.RemoveAll(filepath.Join(i.work, "home/.config/nacre")))
			check(t, os.Symlink("../elsewhere", filepath.Join(i.work, "dots/nacre")))
			check(t, os.Symlink(filepath.Join(i.work, "dots/nacre"), filepath.Join(i.work, "home/.config/nacre")))
			return filepath.Join(i.work, "dots"), "nacre/config.toml"
		}, true},
		"its file has another name": {func(t *testing.T, i *installation) (string, string) {
			i.write("dots/x", "")
			check(t, os.Mkdir(filepath.Join(i.work, "dots/deep"), 0o700))
			check(t, os.Link(filepath.Join(i.work, "home/.config/nacre/config.toml"), filepath.Join(i.work, "dots/deep/hard")))
			return filepath.Join(i.work, "dots"), "deep/hard"
		}, false},
		"its folder is mounted in a project": {func(t *testing.T, i *installation) (string, string) {
			at := filepath.Join(i.work, "dots/mnt/c")
			check(t, os.MkdirAll(at, 0o700))
			if err := unix.Mount(filepath.Join(i.work, "home/.config"), at, "", unix.MS_BIND, ""); errors.Is(err, unix.EPERM) {
				t.Skip("only root may mount")
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
			return filepath.Join(i.work, "dots"), "mnt/c/nacre/config.toml"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.config("")
			project, file := c.lay(t, i)
			config := filepath.Join(i.work, "home/.config/nacre/config.toml")
			_, missing := os.Stat(config)
			r := i.nacre("exec", "--project", project, "--", "sh", "-c", strings.ReplaceAll(attack, "%", file))
			if c.refused && (r.code != 125 || !strings.Contains(r.stderr, "nacre's configuration")) || !c.refused && r.code != 0 {
				t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
			}
			if _, err := os.Stat(config); missing == nil && err != nil {
				t.Errorf("it was taken away: %v", err)
			}
			if text := fileText(config); strings.Contains(text, "evil") || strings.Contains(text, "x") {
				t.Errorf("it was written: %q", text)
			}
			if next := i.nacre("exec", "--", "true"); next.code != 0 || strings.Contains(next.stderr, "evil") {
				t.Errorf("the next command: %d %s", next.code, next.stderr)
			}
		})
	}
}

// F-02: what nacre run lands does not change the configuration either.
func TestARunDoesNotLandTheConfiguration(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	file := i.write("p/conf/nacre/config.toml", "")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "dots")
	check(t, os.MkdirAll(filepath.Join(i.work, "home/.config"), 0o700))
	check(t, os.Symlink(filepath.Join(i.work, "p/conf/nacre"), filepath.Join(i.work, "home/.config/nacre")))
	recording := i.write("r.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"echo '[egress]' >>conf/nacre/config.toml"}}`+"\n")
	r := i.nacre("run", "t", "--brain", "replay", "--recording", recording, "--check", "true", "--project", "p")
	if r.code == 0 || !strings.Contains(r.stdout+r.stderr, "nacre's own configuration") || fileText(file) != "" {
		t.Errorf("exit %d, %q: %s%s", r.code, fileText(file), r.stdout, r.stderr)
	}
}

// F-03: the programs of the nacre that runs cannot be replaced from inside.
func TestAnAgentCannotReplaceThePrograms(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a", "a\n")
	for _, dir := range []string{"p", "p/tools/bin"} {
		for _, program := range []string{"nacre", "ipc", "sandbox-init"} {
			data, err := os.ReadFile(filepath.Join(bin, program))
			check(t, err)
			check(t, os.MkdirAll(filepath.Join(i.work, dir), 0o755)) //nolint:gosec // as people have it
			check(t, testpeer.WriteProgram(filepath.Join(i.work, dir, program), string(data)))
		}
		own := filepath.Join(i.work, dir, "nacre")
		in, _ := filepath.Rel(filepath.Join(i.work, "p"), filepath.Join(i.work, dir))
		command := i.command(own, "exec", "--project", "p", "--", "sh", "-c", `cd `+in+`; for f in nacre ipc sandbox-init brain; do
			printf '#!/bin/sh\necho OWNED\n' >n; chmod +x n; mv -f n $f; done; cd /workspace; mv tools moved; mkdir -p `+in+`; cp /bin/true `+in+`/nacre; true`)
		out, err := command.CombinedOutput()
		if dir == "p" && (exitCode(err) != 125 || !strings.Contains(string(out), "nacre's programs")) {
			t.Errorf("%s: %v: %s", dir, err, out)
		}
		for _, program := range []string{"nacre", "ipc", "sandbox-init"} {
			have, _ := os.ReadFile(filepath.Join(i.work, dir, program))
			want, _ := os.ReadFile(filepath.Join(bin, program))
			if string(have) != string(want) {
				t.Errorf("%s/%s was replaced: %s", dir, program, out)
			}
		}
		if _, err := os.Stat(filepath.Join(i.work, dir, "brain")); err == nil {
			t.Errorf("%s: brain was made", dir)
		}
		check(t, os.RemoveAll(filepath.Join(i.work, dir, "nacre")))
	}
}

// F-09, F-12, F-15, F-16, U-14: what ended a command is said, as is where it may write, and a
// compiler whose settings lie below /etc runs.
func TestWhatExecSaysOfTheMachine(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		i := install(t)
		i.config("[limits]\nmemory_mib = 64\n")
		r := i.nacre("exec", "-q", "--", "sh", "-c", "exec tail -c 20G /dev/zero")
		if r.code == 137 && !strings.Contains(r.stderr, "the memory limit (64 MiB) ended the command") {
			t.Errorf("it does not say why: %q", r.stderr)
		}
	})
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		i := install(t)
		i.write("p/a", "a\n")
		i.config("[limits]\ndisk_mib = 30\n")
		i.nacre("exec", "-q", "--project", "p", "--", "sh", "-c", "while :; do head -c 30000000 /dev/zero >>big; done").want(t, 124, "what it wrote to the project is still there")
	})
	t.Run("java", func(t *testing.T) {
		t.Parallel()
		testpeer.Need(t, "javac")
		i := install(t)
		i.write("p/A.java", "class A { public static void main(String[] a) { System.out.println(\"compiled\"); } }\n")
		i.nacre("exec", "-q", "--project", "p", "--", "sh", "-c", "javac -d /tmp A.java && java -cp /tmp A").want(t, 0, "compiled")
	})
	t.Run("a folder that the user may not write to", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() == 0 {
			t.Skip("root may write everything")
		}
		i := install(t)
		i.write("p/open.txt", "before\n")
		check(t, os.Chmod(filepath.Join(i.work, "p"), 0o555))
		t.Cleanup(func() { check(t, os.Chmod(filepath.Join(i.work, "p"), 0o755)) })
		i.nacre("exec", "--project", "p", "--", "sh", "-c", "echo after >open.txt; ! touch new").
			want(t, 0, "may write  /workspace (as far as file modes allow: not the folder itself)    may reach")
		if have := i.read("p/open.txt"); have != "after\n" {
			t.Errorf("have %q", have)
		}
	})
	t.Run("another file system", func(t *testing.T) {
		t.Parallel()
		i := install(t)
		at := filepath.Join(i.work, "p/mnt")
		check(t, os.MkdirAll(at, 0o700))
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); errors.Is(err, unix.EPERM) {
			t.Skip("only root may mount")
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		i.nacre("exec", "--project", "p", "--", "true").want(t, 0, "/workspace/mnt (another file system)")
	})
}
