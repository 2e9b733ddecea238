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
	// maxWords is how many of its words are looked up.
	maxWords = 2000
	// maxReaders is how many such files are read.
	maxReaders = 64
)

// head is the beginning of a file, empty where it cannot be read.
func (s *searcher) head(name string, size int64) []byte {
	info, err := s.top.Lstat(name)
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

// isLoaded reports whether Python takes compiled text for what it is of: where that
// is there, and has the size and time that the compiled text says, or is not asked
// about. What is no compiled text is another tool's, and may be loaded.
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
	readers := s.readers()
	for _, reader := range readers {
		text := string(s.head(reader, maxText))
		if path.Base(reader) == "Makefile" || path.Base(reader) == "GNUmakefile" {
			text = included(text)
		}
		words := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'`;|&()<>{}[],:=$\\", c) })
		for _, word := range words[:min(len(words), maxWords)] {
			if at := path.Clean(word); strings.ContainsAny(word, "/.") && isBelow(at) && !slices.Contains(readers, at) {
				s.mentioned(at, planted.Class{Kind: planted.Named, Program: reader})
			}
		}
	}
	if s.startsByName() {
		s.mentioned("server.js", planted.Class{Kind: planted.Named, Program: "npm start"})
	}
}

// mentioned names a file that is new, and no folder.
func (s *searcher) mentioned(at string, class planted.Class) {
	if info, err := s.top.Lstat(at); err == nil && info.Mode().IsRegular() && s.isNew(info) {
		s.noteOnce(at, class)
	}
}

func isBelow(at string) bool {
	return at != "." && !path.IsAbs(at) && at != ".." && !strings.HasPrefix(at, "../") && !strings.HasPrefix(at, ".git/")
}

// readers are the files that are looked into.
func (s *searcher) readers() []string {
	readers := []string{".envrc", "Makefile", "GNUmakefile", ".pre-commit-config.yaml", "lefthook.yml", ".vscode/tasks.json"}
	for _, folder := range []string{".git/hooks", ".githooks", ".husky"} {
		dir, err := s.top.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // a pipe would be waited for
		if err != nil {
			continue
		}
		entries, _ := dir.ReadDir(maxReaders)
		_ = dir.Close() // read-only
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".sample") {
				readers = append(readers, folder+"/"+e.Name())
			}
		}
	}
	return readers
}

// included are the lines of a Makefile that include others.
func included(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch first {
		case "include", "-include", "sinclude":
			kept.WriteString(rest + "\n")
		}
	}
	return kept.String()
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
