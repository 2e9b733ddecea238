package repo

import (
	"bufio"
	"context"
	"crypto/sha1" // #nosec G505 -- git's object ids
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// The modes of a tree's entries.
const (
	modeFile    = "100644"
	modeExec    = "100755"
	modeLink    = "120000"
	modeGitlink = "160000"
	// absentMode is that of a side that has no such entry.
	absentMode = "000000"
)

// entry is one file of a tree: its mode and the id of its content.
type entry struct{ mode, id string }

// listTree reads a whole tree, refusing paths that must not be written.
func (o *objects) listTree(ctx context.Context, tree string) (map[string]entry, error) {
	out, err := o.own(ctx, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, fmt.Errorf("list tree %.12s: %w", tree, err)
	}
	records := git.Zeros(out)
	if len(records) > MaxEntries {
		return nil, fmt.Errorf("tree %.12s has %d files: %w", tree, len(records), ErrTooBig)
	}
	entries := make(map[string]entry, len(records))
	for _, record := range records {
		head, path, ok := strings.Cut(record, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return nil, fmt.Errorf("list tree %.12s: git's answer is damaged", tree)
		}
		if err := checkEntry(path, fields[0]); err != nil {
			return nil, fmt.Errorf("tree %.12s: %w", tree, err)
		}
		entries[path] = entry{mode: plainMode(fields[0]), id: fields[2]}
	}
	return entries, nil
}

// differences are what takes one tree to another, of which git reads no more than where they differ. It
// refuses paths that must not be written, and those that must not be removed.
func (o *objects) differences(ctx context.Context, from, to string) ([]op, error) {
	args := append([]string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev"}, diffFlags...)
	out, err := o.own(ctx, append(args, from, to)...)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	records := git.Zeros(out)
	if len(records)%2 != 0 {
		return nil, fmt.Errorf("compare: %w", errDamaged)
	}
	ops := make([]op, 0, len(records)/2)
	for pair := range slices.Chunk(records, 2) {
		fields := strings.Fields(strings.TrimPrefix(pair[0], ":"))
		if len(fields) != 5 {
			return nil, fmt.Errorf("compare: %w", errDamaged)
		}
		made := op{path: pair[1]}
		for i, side := range []*entry{&made.from, &made.to} {
			if fields[i] == absentMode {
				continue
			}
			if err := checkEntry(made.path, fields[i]); err != nil {
				return nil, fmt.Errorf("tree %.12s: %w", []string{from, to}[i], err)
			}
			*side = entry{mode: plainMode(fields[i]), id: fields[i+2]}
		}
		if made.from != made.to { // one mode was written in two ways
			ops = append(ops, made)
		}
	}
	return ops, nil
}

// plainMode reads group-writable files of very old trees as what they are.
func plainMode(mode string) string {
	if mode == "100664" {
		return modeFile
	}
	return mode
}

func checkEntry(path, mode string) error {
	switch plainMode(mode) {
	case modeFile, modeExec, modeGitlink:
		return checkPath(path)
	case modeLink:
		if planted.IsGitFile(path) {
			return fmt.Errorf("path %q is a symbolic link: %w", path, ErrUnsafe)
		}
		return checkPath(path)
	default:
		return fmt.Errorf("path %q has mode %q: %w", path, mode, ErrUnsafe)
	}
}

// hasher makes the id of a blob of the given size.
func (o *objects) hasher(size int64) hash.Hash {
	h := sha1.New() // #nosec G401 -- git's object ids
	if o.format == "sha256" {
		h = sha256.New()
	}
	_, _ = fmt.Fprintf(h, "blob %d\x00", size) // a hash takes everything
	return h
}

func (o *objects) hashBytes(data []byte) string {
	h := o.hasher(int64(len(data)))
	_, _ = h.Write(data) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// blobs reads many blobs with one run of git, in the order they are asked for.
type blobs struct {
	out    *bufio.Reader
	hasher func(size int64) hash.Hash
	// finish ends the run: early where reading failed.
	finish func(failed error) error
}

func (o *objects) openBlobs(ctx context.Context, ids []string) (*blobs, error) {
	ctx, stop := context.WithCancel(ctx)
	c := git.Command{GitDir: o.vault.dir, Stdin: lines(ids...), Args: []string{"cat-file", "--batch", "--buffer"}}
	cmd, complaint, cancel := o.git.Prepare(ctx, c)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		stop()
		return nil, fmt.Errorf("read objects: %w", err)
	}
	finish := func(failed error) error {
		if failed != nil {
			stop()
		}
		err := cmd.Wait()
		cancel()
		stop()
		if failed != nil || err == nil {
			return failed
		}
		return git.Explain(ctx, c, complaint, err)
	}
	return &blobs{out: bufio.NewReaderSize(pipe, 1<<16), hasher: o.hasher, finish: finish}, nil
}

// next calls use with the next blob's size and content, all of which must be
// read. git does not check what it reads against the id it was asked for: next
// does, and a prepared object store cannot pass one file for another.
func (b *blobs) next(id string, use func(size int64, content io.Reader) error) error {
	head, err := b.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read object %.12s: %w", id, err)
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[0] != id || fields[1] != "blob" {
		return fmt.Errorf("read object %.12s: git says %.80q", id, strings.TrimSpace(head))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("read object %.12s: size %.20q", id, fields[2])
	}
	content := &io.LimitedReader{R: b.out, N: size}
	sum := b.hasher(size)
	if err := use(size, io.TeeReader(content, sum)); err != nil {
		return err
	}
	if content.N != 0 {
		return fmt.Errorf("read object %.12s: %d bytes were left", id, content.N)
	}
	if hex.EncodeToString(sum.Sum(nil)) != id {
		return fmt.Errorf("object %.12s is not what its id says: %w; run `git fsck`", id, ErrUnsafe)
	}
	if _, err := b.out.Discard(1); err != nil {
		return fmt.Errorf("read object %.12s: %w", id, err)
	}
	return nil
}
