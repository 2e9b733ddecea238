package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/snapshot"
)

const growth = 1 << 20

// round is a project of this machine, what hides and protects some of it, and a pod.
type round struct {
	host, pod string
	entries   []inside.PodEntry
	sent      *snapshot.Sent
	placed    *snapshot.Placed
}

func begin(t *testing.T) *round {
	t.Helper()
	r := &round{host: filepath.Join(t.TempDir(), "project"), pod: filepath.Join(t.TempDir(), "workspace")}
	write(t, r.host, "kept.txt", "kept")
	write(t, r.host, "changed.txt", "before")
	write(t, r.host, "dir/gone.txt", "gone")
	write(t, r.host, "secret/key", "hidden")
	write(t, r.host, ".git/config", "protected")
	if err := os.Symlink("kept.txt", filepath.Join(r.host, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(r.host, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.entries = []inside.PodEntry{
		entry(t, r.host, r.pod, true), {Kind: inside.PodHidden, Target: r.pod + "/secret"}, entry(t, r.host+"/.git", r.pod+"/.git", false),
	}
	var stream bytes.Buffer
	var err error
	if r.sent, err = snapshot.Send(&stream, r.entries); err != nil {
		t.Fatal(err)
	}
	if r.placed, err = snapshot.Place(&stream, r.entries); err != nil {
		t.Fatal(err)
	}
	return r
}

func entry(t *testing.T, source, target string, returns bool) inside.PodEntry {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(source, &st); err != nil {
		t.Fatal(err)
	}
	return inside.PodEntry{Kind: inside.PodCopy, Source: source, Target: target, Dev: uint64(st.Dev), Ino: st.Ino, Dir: true, Returns: returns}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "no file"
	}
	return string(text)
}

func (r *round) comesBack(t *testing.T) error {
	t.Helper()
	var stream bytes.Buffer
	if err := r.placed.Return(&stream); err != nil {
		t.Fatal(err)
	}
	returned, err := r.sent.Take(&stream, growth)
	if err != nil {
		return err
	}
	defer func() { _ = returned.Close() }()
	return returned.Apply()
}

// the project goes in as a snapshot and comes back as data.
func TestWhatAnAgentLeavesComesBack(t *testing.T) {
	t.Parallel()
	r := begin(t)
	if read(t, r.pod, "secret/key") != "no file" || read(t, r.pod, ".git/config") != "protected" {
		t.Error("what is hidden is shown, or what is protected is not")
	}
	before, err := os.Stat(filepath.Join(r.host, "kept.txt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.pod, "changed.txt", "after")
	write(t, r.pod, "new/deep/file.txt", "new")
	write(t, r.pod, "secret2", "its own")
	if err := os.RemoveAll(filepath.Join(r.pod, "dir")); err != nil {
		t.Fatal(err)
	}
	write(t, r.pod, "dir", "a file now")
	write(t, r.pod, ".git/hooks/evil", "runs later")
	write(t, r.host, "meanwhile.txt", "the person's")
	if err := os.Chmod(filepath.Join(r.pod, "new/deep"), 0); err != nil {
		t.Fatal(err)
	}
	if err := r.comesBack(t); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kept.txt": "kept", "changed.txt": "after", "new/deep/file.txt": "new", "dir": "a file now", "secret/key": "hidden",
		".git/config": "protected", ".git/hooks/evil": "no file", "meanwhile.txt": "the person's", "link": "kept",
	} {
		if have := read(t, r.host, name); have != want {
			t.Errorf("%s: have %q, want %q", name, have, want)
		}
	}
	after, err := os.Stat(filepath.Join(r.host, "kept.txt"))
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("what was not touched was written anew")
	}
}

// frame is a message as a hostile pod writes it.
func frame(fields map[string]any, body string) []byte {
	text, _ := json.Marshal(fields)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), body...)
}

// what comes back is data. Whatever a pod says, nothing is written before all of it
// holds, and nothing out of the folder.
func TestWhatAHostilePodSaysIsRefused(t *testing.T) {
	t.Parallel()
	end := frame(map[string]any{"kind": "end"}, "")
	root := frame(map[string]any{"kind": "folder", "entry": 0}, "")
	file := func(name, text string) []byte {
		return frame(map[string]any{"kind": "file", "entry": 0, "path": []byte(name), "size": len(text), "mode": 0o644}, text)
	}
	for name, c := range map[string]struct {
		said []byte
		want string
	}{
		"a path above the folder": {bytes.Join([][]byte{root, file("../out", "x"), end}, nil), "out of its folder"},
		"an absolute path":        {bytes.Join([][]byte{root, file("/etc/passwd", "x"), end}, nil), "out of its folder"},
		"below a link": {bytes.Join([][]byte{
			root, frame(map[string]any{"kind": "link", "entry": 0, "path": []byte("dir"), "text": []byte("/")}, ""), file("dir/etc", "x"), end,
		}, nil), "before its folder"},
		"the same path twice":            {bytes.Join([][]byte{root, file("a", "1"), file("a", "2"), end}, nil), "twice"},
		"an entry that does not return":  {frame(map[string]any{"kind": "file", "entry": 2, "path": []byte("config")}, ""), "nothing returns there"},
		"an entry that is none":          {frame(map[string]any{"kind": "file", "entry": -1}, ""), "nothing returns there"},
		"more than the disk's limit":     {bytes.Join([][]byte{root, frame(map[string]any{"kind": "file", "entry": 0, "path": []byte("big"), "size": 1 << 40}, "")}, nil), "limit of the disk"},
		"a size below zero":              {bytes.Join([][]byte{root, frame(map[string]any{"kind": "file", "entry": 0, "path": []byte("a"), "size": -1}, "")}, nil), "no size"},
		"unchanged, and never there":     {bytes.Join([][]byte{root, frame(map[string]any{"kind": "same", "entry": 0, "path": []byte("a")}, "")}, nil), "was not there"},
		"a kind that there is not":       {bytes.Join([][]byte{root, frame(map[string]any{"kind": "device", "entry": 0, "path": []byte("a")}, "")}, nil), "unknown"},
		"an end in the middle of a file": {bytes.Join([][]byte{root, file("whole", "whole"), file("a", "12345")[:60]}, nil), "EOF"},
		"no end":                         {bytes.Join([][]byte{root, file("whole", "whole")}, nil), "EOF"},
		"no message at all":              {[]byte("\xff\xff\xff\xff"), "the limit is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t)
			_, err := r.sent.Take(bytes.NewReader(c.said), growth)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want %q", err, c.want)
			}
			if read(t, r.host, "whole") != "no file" || read(t, r.host, "kept.txt") != "kept" {
				t.Error("LET THROUGH: it was put in place before all of it held")
			}
		})
	}
}

// what is sent is what was checked.
func TestAnotherFolderInItsPlaceIsNotSent(t *testing.T) {
	t.Parallel()
	host := filepath.Join(t.TempDir(), "project")
	write(t, host, "a", "a")
	e := entry(t, host, "/workspace", true)
	if err := os.Rename(host, host+".aside"); err != nil {
		t.Fatal(err)
	}
	write(t, host, "a", "another's")
	var stream bytes.Buffer
	if _, err := snapshot.Send(&stream, []inside.PodEntry{e}); err == nil || !strings.Contains(err.Error(), "not what was checked") {
		t.Errorf("have %v", err)
	}
}
