package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of a plugin's folder. They are within those of the plugin host.
const (
	maxFiles  = 10_000
	maxFile   = 128 << 20 // bytes
	maxFolder = 512 << 20 // bytes
	maxDepth  = 32
	maxPath   = 1024 // bytes
	maxName   = 255  // bytes
)

// lfsMark begins the small text that stands for a file of git's large file storage.
const lfsMark = "version https://git-lfs.github.com/spec/"

var errManyFiles = fmt.Errorf("more than %d files: keep dependencies elsewhere", maxFiles)

// tree writes a plugin's files, and nothing but files, into one folder.
type tree struct {
	root  *os.Root
	files int
	left  int64
	// seen are the paths so far, as a file system without cases would have them.
	seen map[string]string
	made map[string]bool
}

func newTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, left: maxFolder, seen: map[string]string{}, made: map[string]bool{".": true}}, nil
}

// admit counts a file in, or says why it cannot be part of a plugin.
func (t *tree) admit(name string, size int64) error {
	if err := checkPath(name); err != nil {
		return err
	}
	if t.files++; t.files > maxFiles {
		return errManyFiles
	}
	if size > maxFile {
		return fmt.Errorf("%q has %d bytes: at most %d", name, size, int64(maxFile))
	}
	if t.left -= size; t.left < 0 {
		return fmt.Errorf("more than %d bytes in all: keep dependencies elsewhere", int64(maxFolder))
	}
	return t.distinct(name)
}

// distinct refuses two names that some file systems take for one, of files and
// of the folders above them.
func (t *tree) distinct(name string) error {
	fold := cases.Fold()
	for at := name; at != "."; at = path.Dir(at) {
		key := norm.NFC.String(fold.String(norm.NFC.String(at)))
		if other, ok := t.seen[key]; ok && other != at {
			return fmt.Errorf("%q and %q differ in case or spelling only: rename one", other, at)
		}
		t.seen[key] = at
	}
	return nil
}

// write makes the file, which must hold exactly size bytes.
func (t *tree) write(name string, executable bool, size int64, content io.Reader) error {
	if dir := path.Dir(name); !t.made[dir] {
		if err := t.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		t.made[dir] = true
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	first := &head{}
	n, err := io.Copy(f, io.TeeReader(io.LimitReader(content, size+1), first))
	if err == nil && n != size {
		err = fmt.Errorf("%q changed while it was read", name)
	}
	if err == nil && strings.HasPrefix(string(first.kept), lfsMark) {
		err = fmt.Errorf("%q is in git's large file storage, which is not fetched: keep the file itself in the repository", name)
	}
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// head keeps the first bytes of what passes.
type head struct{ kept []byte }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	room := max(0, len(lfsMark)-len(h.kept))
	h.kept = append(h.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// checkPath refuses what leads out of the folder, means something to git, or
// could not be shown to a person.
func checkPath(name string) error {
	parts := strings.Split(name, "/")
	switch {
	case len(name) > maxPath:
		return fmt.Errorf("path %.80q…: more than %d bytes", name, maxPath)
	case len(parts) > maxDepth:
		return fmt.Errorf("path %.80q…: deeper than %d folders", name, maxDepth)
	case !utf8.ValidString(name):
		return fmt.Errorf("path %q is not UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return fmt.Errorf("path %q has a control character or a backslash", name)
	}
	for _, part := range parts {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("path %q leads elsewhere", name)
		case len(part) > maxName:
			return fmt.Errorf("path %.80q…: a name of more than %d bytes", name, maxName)
		case isGit(part):
			return fmt.Errorf("path %q belongs to git", name)
		}
	}
	return nil
}

// isGit reports whether a name is .git on some file system.
func isGit(part string) bool {
	plain := strings.ToLower(strings.TrimRight(part, " ."))
	return slices.Contains([]string{".git", "git~1"}, plain) || strings.HasPrefix(plain, ".git:")
}
