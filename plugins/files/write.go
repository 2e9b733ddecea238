package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits of a change.
const (
	maxContent = 100 << 10 // bytes of a file that is written whole: what an argument holds
	maxEdited  = 4 << 20   // bytes of a file that is edited
	newMode    = 0o644
)

// project is the folder that is served. Changes are made one at a time, so
// that what a digest was compared with is what is replaced.
type project struct {
	dir      string
	changing sync.Mutex
}

type writeArgs struct {
	Path     string  `json:"path"`
	Content  string  `json:"content"`
	Encoding string  `json:"encoding"` // utf-8 or base64
	Expected *string `json:"expected_sha256"`
}

// written is what a change tells.
type written struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func (p *project) write(ctx context.Context, root *os.Root, args writeArgs) (any, error) {
	name, err := parseTarget(args.Path)
	if err != nil {
		return nil, err
	}
	data := []byte(args.Content)
	if args.Encoding == "base64" {
		if data, err = base64.StdEncoding.Strict().DecodeString(args.Content); err != nil {
			return nil, refuse("CONTENT", "The content is not base64")
		}
	}
	if len(data) > maxContent {
		return nil, refuse("TOO_LARGE", "A file that is written has at most %d bytes", maxContent)
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	at, err := locate(root, name, args.Expected == nil)
	if err != nil {
		return nil, err
	}
	result, err := at.write(ctx, name, data, args.Expected)
	return result, errors.Join(err, at.close())
}

// write makes a new file where nothing is expected, and else replaces the one
// whose digest is.
func (p place) write(ctx context.Context, name string, data []byte, expected *string) (any, error) {
	if expected == nil {
		_, err := p.look()
		if err == nil {
			return nil, errExists(name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return done(name, "created", data), p.put(data, nil)
	}
	_, before, err := p.load(ctx, *expected)
	if err != nil {
		return nil, err
	}
	return done(name, "replaced", data), p.put(data, before)
}

func done(name, status string, data []byte) written {
	return written{name, status, len(data), sha(data)}
}

func errExists(name string) error {
	return refuse("EXISTS", "%s is there already: read it, and give the sha256 that files_read told as expected_sha256 to replace it", name)
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// load reads a file that is to be changed; expected may be empty.
func (p place) load(ctx context.Context, expected string) ([]byte, fs.FileInfo, error) {
	f, info, err := p.open()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxEdited {
		return nil, nil, errors.Join(refuse("TOO_LARGE", "A file that is changed has at most %d bytes", maxEdited), f.Close())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err = errors.Join(err, f.Close(), ctx.Err()); err != nil {
		return nil, nil, err
	}
	if expected != "" && !strings.EqualFold(expected, sha(data)) {
		return nil, nil, refuse("CONFLICT", "%s is not what expected_sha256 says: it was changed since it was read; read it again", p.base)
	}
	return data, info, nil
}

// put sets a file's content, whole or not at all. before is what it replaces;
// where it is nil, nothing is replaced.
func (p place) put(data []byte, before fs.FileInfo) error {
	temporary := ".write-" + rand.Text()
	f, err := p.dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	mode := fs.FileMode(newMode)
	if before != nil {
		mode = before.Mode().Perm()
	}
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = p.swap(temporary, before)
	}
	if err != nil {
		return errors.Join(err, p.dir.Remove(temporary))
	}
	return nil
}

// swap gives the temporary file its name.
func (p place) swap(temporary string, before fs.FileInfo) error {
	if before == nil {
		return move(place{p.dir, temporary}, p)
	}
	now, err := p.look()
	if err != nil || !os.SameFile(before, now) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) {
		return errMoved()
	}
	return p.dir.Rename(temporary, p.base)
}

// move renames without replacing anything. Both names are single components of
// folders that are held open, so that no link is followed.
func move(from, to place) error {
	source, err := from.dir.Open(".")
	if err != nil {
		return err
	}
	target, err := to.dir.Open(".")
	if err != nil {
		return errors.Join(err, source.Close())
	}
	err = unix.Renameat2(int(source.Fd()), from.base, int(target.Fd()), to.base, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrExist):
		err = errExists(to.base)
	case errors.Is(err, unix.EINVAL):
		err = refuse("PATH", "A folder cannot be moved into itself")
	case errors.Is(err, unix.EXDEV):
		err = refuse("PATH", "That is on another file system: write it there and delete it here")
	}
	return errors.Join(err, source.Close(), target.Close())
}

type editArgs struct {
	Path     string  `json:"path"`
	Old      string  `json:"old"`
	New      string  `json:"new"`
	Expected *string `json:"expected_sha256"`
}

func (p *project) edit(ctx context.Context, root *os.Root, args editArgs) (any, error) {
	name, err := parseTarget(args.Path)
	if err != nil {
		return nil, err
	}
	if args.Old == "" {
		return nil, refuse("OLD", "old is the text to replace: it must not be empty")
	}
	if args.Old == args.New {
		return nil, refuse("OLD", "old and new are the same: nothing would change")
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	at, err := locate(root, name, false)
	if err != nil {
		return nil, err
	}
	result, err := at.edit(ctx, name, args)
	return result, errors.Join(err, at.close())
}

func (p place) edit(ctx context.Context, name string, args editArgs) (any, error) {
	expected := ""
	if args.Expected != nil {
		expected = *args.Expected
	}
	data, before, err := p.load(ctx, expected)
	if err != nil {
		return nil, err
	}
	if isBinary(data) {
		return nil, refuse("BINARY", "%s is not text: write it whole", name)
	}
	data, err = replaceOnce(data, args.Old, args.New)
	if err != nil {
		return nil, err
	}
	if len(data) > maxEdited {
		return nil, refuse("TOO_LARGE", "A file that is changed has at most %d bytes", maxEdited)
	}
	return done(name, "edited", data), p.put(data, before)
}

// replaceOnce replaces the one place where a text stands. In a file whose
// lines all end in CR LF, the text's do too.
func replaceOnce(data []byte, before, after string) ([]byte, error) {
	if crlf := bytes.Count(data, []byte("\r\n")); crlf > 0 && crlf == bytes.Count(data, []byte("\n")) && !strings.Contains(before, "\r") {
		before = strings.ReplaceAll(before, "\n", "\r\n")
		after = strings.ReplaceAll(strings.ReplaceAll(after, "\r\n", "\n"), "\n", "\r\n")
	}
	at := bytes.Index(data, []byte(before))
	if at < 0 {
		return nil, refuse("NOT_THERE", "old does not stand in the file, letter by letter: read it again")
	}
	if bytes.Contains(data[at+1:], []byte(before)) { // overlapping ones count too
		return nil, refuse("NOT_UNIQUE", "old stands in the file more than once: give more of the text around it")
	}
	return bytes.Join([][]byte{data[:at], data[at+len(before):]}, []byte(after)), nil
}

type moveArgs struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (p *project) move(_ context.Context, root *os.Root, args moveArgs) (any, error) {
	from, err := parseTarget(args.From)
	if err != nil {
		return nil, err
	}
	to, err := parseTarget(args.To)
	if err != nil {
		return nil, err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	source, err := locate(root, from, false)
	if err != nil {
		return nil, err
	}
	if _, err := source.look(); err != nil {
		return nil, errors.Join(err, source.close())
	}
	target, err := locate(root, to, true)
	if err != nil {
		return nil, errors.Join(err, source.close())
	}
	err = move(source, target)
	return map[string]string{"from": from, "to": to, "status": "moved"}, errors.Join(err, source.close(), target.close())
}

type deleteArgs struct {
	Path     string  `json:"path"`
	Expected *string `json:"expected_sha256"`
}

// remove deletes a file, a link, or a folder with nothing in it.
func (p *project) remove(ctx context.Context, root *os.Root, args deleteArgs) (any, error) {
	name, err := parseTarget(args.Path)
	if err != nil {
		return nil, err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	at, err := locate(root, name, false)
	if err != nil {
		return nil, err
	}
	if args.Expected != nil {
		if _, _, err := at.load(ctx, *args.Expected); err != nil {
			return nil, errors.Join(err, at.close())
		}
	}
	err = at.dir.Remove(at.base)
	if errors.Is(err, unix.ENOTEMPTY) {
		err = refuse("NOT_EMPTY", "%s is a folder with something in it: delete that first", name)
	}
	return map[string]string{"path": name, "status": "deleted"}, errors.Join(err, at.close())
}
