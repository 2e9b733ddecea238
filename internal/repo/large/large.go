// Package large takes the files that git LFS keeps beside a repository's objects. Each is
// named by its SHA-256 and is held against it.
package large

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

const (
	// folder is where git LFS keeps the files that commits name, below a git directory.
	folder = "lfs/objects"
	// maxFiles is how many of them are taken, and how many names a folder of them may have.
	maxFiles = 10_000
)

var (
	errName = errors.New("a file of git LFS is not what its name says")
	errMany = fmt.Errorf("git LFS has more than %d new files", maxFiles)
)

// Take copies the files that git LFS keeps in another git directory, such as an agent's, to
// that of a repository, whose owner they get. Nothing else of the former is read. All that
// are new may have so many bytes.
func Take(ctx context.Context, gitDir, commonDir string, most int64) (err error) {
	from, err := os.OpenRoot(gitDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	names, err := namesIn(from)
	if err != nil || len(names) == 0 {
		return err
	}
	to, err := open(commonDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := to.makeFolders("lfs/tmp"); err != nil {
		return err
	}
	for _, name := range names {
		took, err := to.take(from, name, most)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		most -= took
	}
	return nil
}

// store is a repository's git directory, and who owns it.
type store struct {
	*os.Root
	uid, gid int
}

func open(commonDir string) (store, error) {
	root, err := os.OpenRoot(commonDir)
	if err != nil {
		return store{}, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return store{}, errors.Join(err, root.Close())
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return store{}, errors.Join(fmt.Errorf("%s: its owner is not known", commonDir), root.Close())
	}
	return store{root, int(owner.Uid), int(owner.Gid)}, nil
}

// namesIn are the SHA-256 of the files that are there, in their folders.
func namesIn(root *os.Root) (names []string, err error) {
	firsts, err := listOf(root, folder)
	for _, first := range firsts {
		seconds, failed := listOf(root, path.Join(folder, first))
		err = errors.Join(err, failed)
		for _, second := range seconds {
			files, failed := listOf(root, path.Join(folder, first, second))
			err = errors.Join(err, failed)
			for _, file := range files {
				if isName(file) && file[:2] == first && file[2:4] == second {
					names = append(names, file)
				}
			}
			if len(names) > maxFiles {
				return nil, errMany
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return names, err
}

// isName tells the SHA-256 of a file.
func isName(text string) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 2*sha256.Size
}

// listOf are the names in a folder; none where it is not there, or is none.
func listOf(root *os.Root, name string) ([]string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(maxFiles + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(names) > maxFiles {
		err = errMany
	}
	return names, errors.Join(err, f.Close())
}

// take copies one file, and returns its size; 0 where it is there already.
func (s store) take(from *os.Root, name string, most int64) (size int64, err error) {
	at := path.Join(folder, name[:2], name[2:4])
	if _, err := s.Lstat(path.Join(at, name)); err == nil {
		return 0, nil
	}
	in, err := from.OpenFile(path.Join(at, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errName
	case info.Size() > most:
		return 0, errors.New("the new files of git LFS are too many bytes")
	}
	if err := s.makeFolders(at); err != nil {
		return 0, err
	}
	sum, temporary := sha256.New(), "lfs/tmp/nacre_"+rand.Text()
	err = s.write(temporary, io.TeeReader(io.LimitReader(in, most), sum))
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != name {
		err = errName
	}
	if err == nil {
		err = s.Rename(temporary, path.Join(at, name))
	}
	if err != nil {
		_ = s.Remove(temporary) // the first error counts
		return 0, err
	}
	return info.Size(), nil
}

// write makes a new file that the repository's owner may read and write.
func (s store) write(name string, from io.Reader) error {
	f, err := s.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(s.uid, s.gid)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// makeFolders makes a folder and those above it.
func (s store) makeFolders(name string) error {
	if above := path.Dir(name); above != "." {
		if err := s.makeFolders(above); err != nil {
			return err
		}
	}
	err := s.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && os.Geteuid() == 0 {
		err = s.Lchown(name, s.uid, s.gid)
	}
	return err
}
