package search

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/planted"
)

const (
	// headBytes is how much of a file is read to tell what it is.
	headBytes = 16
	// maxText is how much is read of a file that may name others.
	maxText = 256 << 10
	// maxCallers is how many such files of one folder are read.
	maxCallers = 64
)

// head is the beginning of a file, empty where it cannot be read.
func (s *searcher) head(name string, size int64) []byte {
	info, err := s.top.Stat(name)
	if err != nil || !info.Mode().IsRegular() { // a pipe would be waited for
		return nil
	}
	f, err := s.top.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // read-only
	data, _ := io.ReadAll(io.LimitReader(f, size))
	return data
}

// isELF reports whether a file is a program or an object of this machine's.
func (s *searcher) isELF(name string) bool {
	return bytes.HasPrefix(s.head(name, headBytes), []byte("\x7fELF"))
}

// isLoaded reports whether Python takes compiled text for what it is of. It does where that is
// there, and has the size and time that the compiled text says, or is not asked about. What is no
// compiled text is another tool's, and may be loaded.
func (s *searcher) isLoaded(name string) bool {
	if !strings.HasSuffix(name, ".pyc") {
		return true
	}
	module, _, _ := strings.Cut(path.Base(name), ".")
	source, err := s.top.Stat(path.Join(path.Dir(path.Dir(name)), module+".py"))
	if err != nil {
		return false
	}
	head := s.head(name, headBytes)
	if len(head) < headBytes {
		return false
	}
	if flags := binary.LittleEndian.Uint32(head[4:]); flags != 0 {
		return true // by a hash, or not checked at all
	}
	seconds, size := uint32(source.ModTime().Unix()), uint32(source.Size()) //nolint:gosec // Python keeps the low 32 bits, too
	return binary.LittleEndian.Uint32(head[8:]) == seconds && binary.LittleEndian.Uint32(head[12:]) == size
}

// mentions names new files that are called by what stood at the top before, which
// somebody trusts already: hooks, direnv's file, what a Makefile includes.
func (s *searcher) mentions() {
	callers := s.callers()
	for _, caller := range callers {
		for _, at := range planted.Mentions(caller, string(s.head(caller, maxText))) {
			if !slices.Contains(callers, at) {
				s.mentioned(at, planted.Class{Kind: planted.Named, Program: caller})
			}
		}
	}
	if s.startsByName() {
		s.mentioned("server.js", planted.Class{Kind: planted.Named, Program: "npm start"})
	}
}

// mentioned names a file that is new, or a link that is or that leads to one, and no folder.
func (s *searcher) mentioned(at string, class planted.Class) {
	info, err := s.top.Lstat(at)
	if err != nil || info.IsDir() {
		return
	}
	if to, err := s.top.Stat(at); err == nil && to.Mode().IsRegular() && (s.isNew(info) || s.isNew(to)) {
		s.noteOnce(at, class)
	}
}

// callers are the files that are looked into.
func (s *searcher) callers() []string {
	callers := planted.Callers()
	for _, folder := range slices.Concat([]string{".git/hooks"}, planted.CallerFolders(), s.options.Configured) {
		dir, err := s.top.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // a pipe would be waited for
		if err != nil {
			continue
		}
		entries, _ := dir.ReadDir(maxCallers)
		_ = dir.Close() // read-only
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".sample") {
				callers = append(callers, folder+"/"+e.Name())
			}
		}
	}
	return callers
}

// startsByName reports whether npm start runs server.js: it does where the package
// does not say what else.
func (s *searcher) startsByName() bool {
	var p struct {
		Scripts map[string]any `json:"scripts"`
	}
	text := s.head("package.json", maxText)
	return len(text) > 0 && json.Unmarshal(text, &p) == nil && p.Scripts["start"] == nil
}
