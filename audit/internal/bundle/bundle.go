// Package bundle promises that the files of a few chains travel as one, and that nothing but a
// chain's files gets a name on the disk where it is unpacked. What they say is for others to check.
package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Begin is a bundle's first line and End its last. Between them each file stands as
// "<chain>/<file> <bytes>\n" and its bytes.
const (
	Begin = "nacre-audit-bundle-v1\n"
	End   = "end\n"
)

// Limits of a bundle.
const (
	maxHeader = 128
	maxFile   = 1 << 30
	maxFiles  = 1 << 17
)

// ErrBroken is what a file is that holds no bundle, or only part of one.
var ErrBroken = errors.New("it is not a whole bundle")

// buffered is how much is read and written at once, in bytes.
const buffered = 128 << 10

// Write writes the files below root, each named as "<chain>/<file>", in their order.
func Write(w io.Writer, root string, names []string) error {
	out := bufio.NewWriterSize(w, buffered)
	_, _ = out.WriteString(Begin) // its error stays until Flush
	for _, name := range names {
		if err := writeFile(out, root, name); err != nil {
			return err
		}
	}
	_, _ = out.WriteString(End)
	return out.Flush()
}

func writeFile(out io.Writer, root, name string) (err error) {
	f, err := disk.OpenRegular(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s %d\n", name, info.Size()); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, info.Size())
	return err
}

// Unpack writes the files of a bundle below dir and returns the chains that it found.
func Unpack(from io.Reader, dir string) (chains []string, err error) {
	r := bufio.NewReaderSize(from, buffered)
	// A file's header: nothing else gets a name on disk.
	form := regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,79})/([0-9]{6}\.jsonl|head\.json) (0|[1-9][0-9]{0,9})\n$`)
	if line, err := headerLine(r); err != nil || line != Begin {
		return nil, ErrBroken
	}
	known := map[string]bool{}
	for range maxFiles {
		line, err := headerLine(r)
		if err != nil {
			return nil, ErrBroken
		}
		if line == End {
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				return nil, ErrBroken
			}
			return chains, nil
		}
		chain, err := unpackFile(r, dir, form.FindStringSubmatch(line))
		if err != nil {
			return nil, err
		}
		if !known[chain] {
			known[chain] = true
			chains = append(chains, chain)
		}
	}
	return nil, ErrBroken
}

func headerLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil || len(line) > maxHeader {
		return "", ErrBroken
	}
	return string(line), nil
}

func unpackFile(r io.Reader, dir string, match []string) (chain string, err error) {
	if match == nil {
		return "", ErrBroken
	}
	size, err := strconv.ParseInt(match[3], 10, 64)
	if err != nil || size > maxFile {
		return "", ErrBroken
	}
	path := filepath.Join(dir, match[1], match[2])
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return "", ErrBroken
	}
	if err != nil {
		return "", err
	}
	_, err = io.CopyN(f, r, size)
	if errors.Is(err, io.EOF) {
		err = ErrBroken
	}
	return match[1], errors.Join(err, f.Close())
}
