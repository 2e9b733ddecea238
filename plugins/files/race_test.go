package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// An attacker in the project swaps a folder and a link to the outside, and a
// file and a link, as fast as the kernel can, while every tool runs.
func TestLinksSwappedMeanwhile(t *testing.T) {
	p := newProject(t, map[string]string{"d/secret": "inside", "f": "inside", ".vscode/f": "as it was"})
	for link, target := range map[string]string{"out": "../outside", "to": "../outside/secret", "near": ".vscode"} {
		if err := os.Symlink(target, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	for _, pair := range [][2]string{{"d", "out"}, {"f", "to"}, {"d", "near"}} {
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(p.dir, pair[0]), unix.AT_FDCWD, filepath.Join(p.dir, pair[1]), unix.RENAME_EXCHANGE)
				}
			}
		})
	}
	for range 400 {
		for _, c := range [][2]string{
			{"files_read", `{"path":"d/secret"}`}, {"files_read", `{"path":"f"}`}, {"files_list", `{"path":"d"}`},
			{"files_search", `{"pattern":"SECRET","path":"."}`}, {"files_search", `{"pattern":"SECRET","path":"d"}`},
			{"files_write", `{"path":"d/planted","content":"x"}`}, {"files_edit", `{"path":"d/secret","old":"SECRET","new":"x"}`},
			{"files_edit", `{"path":"f","old":"SECRET","new":"x"}`}, {"files_move", `{"from":"d/planted","to":"d/moved"}`},
			{"files_delete", `{"path":"d/moved"}`},
		} {
			if have := p.call(c[0], c[1]); strings.Contains(have, "SECRET") || strings.HasPrefix(have, "error") {
				t.Fatalf("%s %s: have %s", c[0], c[1], have)
			}
		}
	}
	close(stop)
	swapping.Wait()
	data, err := os.ReadFile(filepath.Join(p.outside, "secret"))
	entries, listErr := os.ReadDir(p.outside)
	if err != nil || listErr != nil || string(data) != "SECRET" || len(entries) != 1 {
		t.Errorf("outside: have %q, %d files, %v %v", data, len(entries), err, listErr)
	}
	for _, dir := range []string{".vscode", "near", "d", "out"} { // wherever it is now
		if path := filepath.Join(p.dir, dir); isReal(path) && exists(path, "f") {
			if exists(path, "planted") || exists(path, "moved") {
				t.Errorf("something was planted beside what is protected")
			}
		}
	}
}

func isReal(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// Two writers with the same digest: one of them is told.
func TestTwoWritersOfOneFile(t *testing.T) {
	p := newProject(t, map[string]string{"a": "0"})
	sum := shaOf(t, p, "a")
	var all sync.WaitGroup
	results := make([]string, 8)
	for i := range results {
		all.Go(func() {
			results[i] = p.call("files_write", `{"path":"a","content":"x","expected_sha256":"`+sum+`"}`)
		})
	}
	all.Wait()
	won := 0
	for _, r := range results {
		if strings.Contains(r, "replaced") {
			won++
		} else if r != "CONFLICT" {
			t.Errorf("have %s", r)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won", won)
	}
	p.noRemains()
}
