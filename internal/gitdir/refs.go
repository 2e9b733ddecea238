package gitdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxPackedRefs is the largest packed-refs that is read, in bytes: some 10^6 refs.
	maxPackedRefs = 128 << 20
	// maxLoose is how many refs in files of their own are read.
	maxLoose = 200_000
	// maxRef is the longest file of one ref, in bytes.
	maxRef = 4096
	// maxKnown is how many commits of the host's git is told as known at the end: it
	// packs what follows them. A ref that did not move is known beyond that.
	maxKnown = 10_000
	// maxNameSeen is room for a line of a ref, in bytes. Most are shorter.
	maxNameSeen = 128
)

var errDamaged = errors.New("it is damaged")

// refs are what a repository's refs were when a session began.
type refs struct {
	// head is the text of HEAD, commit what it stood for; empty where that is not born.
	head, commit string
	// packed is a packed-refs file with all refs in it.
	packed []byte
	// symbolic are refs that stand for another one, by name.
	symbolic map[string]string
}

// readRefs reads the host's refs without git: there may be 10^5 of them.
func readRefs(gitDir, commonDir string) (r refs, err error) {
	head, err := disk.Read(filepath.Join(gitDir, "HEAD"), maxRef)
	if err != nil {
		return refs{}, err
	}
	r = refs{head: strings.TrimSpace(string(head)), symbolic: map[string]string{}}
	// Git packs a ref before it removes the file: what is no longer in one is packed by then.
	loose, err := r.readLoose(filepath.Join(commonDir, "refs"))
	if err != nil {
		return refs{}, err
	}
	packed, err := disk.Read(filepath.Join(commonDir, "packed-refs"), maxPackedRefs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refs{}, err
	}
	r.merge(packed, loose)
	if branch, ok := strings.CutPrefix(r.head, "ref: "); ok {
		r.commit = r.find(branch)
	} else {
		r.commit = r.head
	}
	if r.commit != "" && !isID(r.commit) {
		return refs{}, fmt.Errorf("HEAD: %w", errDamaged)
	}
	return r, nil
}

// readLoose reads the refs that have files of their own.
func (r *refs) readLoose(dir string) (map[string]string, error) {
	loose := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil // a folder whose refs git packed meanwhile
		}
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(dir), path)
		if err != nil || !e.Type().IsRegular() || !plainName(rel) || strings.HasSuffix(rel, ".lock") || ofOneWorkTree(rel) {
			return err
		}
		text, err := disk.Read(path, maxRef)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git packed it meanwhile
		}
		if err != nil {
			return err
		}
		value := strings.TrimSpace(string(text))
		switch target, symbolic := strings.CutPrefix(value, "ref: "); {
		case symbolic && plainName(target):
			r.symbolic[rel] = target
		case isID(value):
			loose[rel] = value
		}
		if len(loose)+len(r.symbolic) > maxLoose {
			return fmt.Errorf("more than %d refs in files of their own: run `git pack-refs --all`", maxLoose)
		}
		return nil
	})
	return loose, err
}

// ofOneWorkTree tells the refs that are not shared by the work trees of a repository.
func ofOneWorkTree(name string) bool {
	return strings.HasPrefix(name, "refs/bisect/") || strings.HasPrefix(name, "refs/worktree/") || strings.HasPrefix(name, "refs/rewritten/")
}

// packedRef is a line of a packed-refs file, with the one below it that says what a tag
// leads to.
type packedRef struct{ name, text []byte }

// merge makes one packed-refs file of both: a ref in a file of its own outranks the
// one that is packed. A file in which nothing is to change stays as it is: there may be
// 10^5 lines.
func (r *refs) merge(packed []byte, loose map[string]string) {
	if len(loose) == 0 && isPlainPacked(packed) {
		r.packed = packed
		return
	}
	lines, header := parsePacked(packed, loose)
	for name, id := range loose {
		lines = append(lines, packedRef{[]byte(name), []byte(id + " " + name + "\n")})
	}
	if header == "" || len(loose) > 0 { // what a tag of them leads to is not known
		header = "# pack-refs with: sorted \n"
	}
	slices.SortFunc(lines, func(a, b packedRef) int { return bytes.Compare(a.name, b.name) })
	var b bytes.Buffer
	b.Grow(len(packed) + len(header) + len(loose)*maxNameSeen)
	b.WriteString(header)
	for _, line := range lines {
		b.Write(line.text)
	}
	r.packed = b.Bytes()
}

// fullyPeeled is the header of a file that says of each tag what it leads to, and is sorted.
const fullyPeeled = "# pack-refs with: peeled fully-peeled sorted \n"

// isPlainPacked tells a file that is as git writes it: below the header, each line a ref
// with a plain name in its place, or what a tag leads to.
func isPlainPacked(packed []byte) bool {
	rest, ok := bytes.CutPrefix(packed, []byte(fullyPeeled))
	before, peels := []byte(nil), false
	for ok && len(rest) > 0 {
		var line []byte
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); !ok || len(line) == 0 {
			return false
		}
		if line[0] == '^' {
			ok, peels = peels && isID(line[1:]), false
			continue
		}
		space := bytes.IndexByte(line, ' ')
		name := line[space+1:]
		ok, peels = space > 0 && isID(line[:space]) && isPlain(name) && bytes.Compare(before, name) < 0, true
		before = name
	}
	return ok
}

// isPlain is plainName without the names that are seldom seen.
func isPlain(name []byte) bool {
	if len(name) >= maxRef || !bytes.HasPrefix(name, []byte("refs/")) || name[len(name)-1] == '/' {
		return false
	}
	for i, c := range name {
		if c <= ' ' || c == 0x7f || (c == '.' || c == '/') && name[i-1] == '/' {
			return false
		}
	}
	return true
}

// parsePacked are the lines of a packed-refs file whose refs have no file of their own.
func parsePacked(packed []byte, loose map[string]string) (lines []packedRef, header string) {
	rest, ok := bytes.CutPrefix(packed, []byte(fullyPeeled))
	if ok {
		header = fullyPeeled
	}
	dropped := true
	for line := range bytes.Lines(rest) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if len(text) > 0 && text[0] == '^' {
			if dropped || !whole || !isID(text[1:]) {
				continue
			}
			last := &lines[len(lines)-1]
			last.text = last.text[:len(last.text)+len(line)] // it comes right behind
			dropped = true                                   // of two, the second says nothing
			continue
		}
		id, name, _ := bytes.Cut(text, []byte(" "))
		_, inFile := loose[string(name)]
		if dropped = inFile || !whole || !isID(id) || !plainName(string(name)); !dropped {
			lines = append(lines, packedRef{name, line})
		}
	}
	return lines, header
}

func (r *refs) find(name string) string {
	suffix := []byte(" " + name + "\n")
	at := bytes.Index(r.packed, suffix)
	if at < 0 {
		return ""
	}
	begin := bytes.LastIndexByte(r.packed[:at], '\n') + 1
	return string(r.packed[begin:at])
}

// knownIDs are the ids in what was kept of the host's refs, HEAD's first.
func knownIDs(text []byte) []string {
	var ids []string
	for line := range bytes.Lines(text) {
		id, _, _ := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(" "))
		if isID(id) {
			ids = append(ids, string(id))
		}
	}
	return ids
}

// write puts the refs into a git directory.
func (r *refs) write(dir string) error {
	files := map[string]string{"HEAD": r.head + "\n", "packed-refs": string(r.packed)}
	for name, target := range r.symbolic {
		files[name] = "ref: " + target + "\n"
	}
	return writeFiles(dir, files)
}

func isID[text string | []byte](s text) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// plainName takes the names of refs that a line can hold, and that lead nowhere else.
func plainName(name string) bool {
	return strings.HasPrefix(name, "refs/") && len(name) < maxRef && filepath.IsLocal(name) && filepath.Clean(name) == name &&
		strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f }) < 0
}

// writeFiles writes small files that outlast nothing.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
