package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Limits of a listing.
const (
	maxListed   = 1000   // entries of one answer
	maxFolder   = 20_000 // entries of one folder that are read
	maxVisited  = 100_000
	maxListText = 256 << 10 // bytes of names in one answer
)

type listArgs struct {
	Path  string `json:"path"`
	Depth int    `json:"depth"`
	Limit int    `json:"limit"`
	After string `json:"after"`
}

// entry is one line of a listing.
type entry struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"` // file, folder, link or special
	Bytes    int64     `json:"bytes,omitempty"`
	Modified time.Time `json:"modified"`
	Mode     string    `json:"mode"`
	Target   string    `json:"target,omitempty"` // of a link
	// NotListed says that a folder's content was left out of a deep listing.
	NotListed bool `json:"not_listed,omitempty"`
}

// listing is what files_list tells.
type listing struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"`
	// Next goes into "after" to read on; empty at the end.
	Next string `json:"next,omitempty"`
	// Incomplete says what was not looked at.
	Incomplete string `json:"incomplete,omitempty"`
}

func list(ctx context.Context, root *os.Root, args listArgs) (any, error) {
	name, err := parsePath(args.Path)
	if err != nil {
		return nil, err
	}
	l := &lister{listing: listing{Path: name, Entries: []entry{}}, depth: max(args.Depth, 1), limit: args.Limit}
	if l.limit <= 0 || l.limit > maxListed {
		l.limit = maxListed
	}
	if args.After != "" {
		if _, err := parsePath(args.After); err != nil {
			return nil, err
		}
		l.after = strings.Split(args.After, "/")
	}
	w := &walker{visit: l.visit}
	dir, err := descend(root, name, false)
	if err != nil {
		return nil, err
	}
	err = w.walk(ctx, dir, name, 1)
	if errors.Is(err, errEnough) {
		err = nil
	}
	l.Incomplete = w.incomplete
	return l.listing, errors.Join(err, dir.Close())
}

type lister struct {
	listing
	depth, limit, bytes int
	after               []string
}

// visit takes an entry unless it comes before the page that was asked for.
func (l *lister) visit(_ context.Context, dir *os.Root, name string, info fs.FileInfo, depth int) (bool, error) {
	parts := strings.Split(name, "/")
	enter := info.IsDir() && depth < l.depth && !heavy(info.Name())
	if l.after != nil && slices.Compare(parts, l.after) <= 0 {
		ahead := slices.Compare(parts, l.after[:min(len(parts), len(l.after))])
		return enter && ahead >= 0, nil // below it the page may begin
	}
	if l.bytes += len(name); len(l.Entries) == l.limit || l.bytes > maxListText {
		l.Next = l.Entries[len(l.Entries)-1].Path
		return false, errEnough
	}
	e := describe(dir, name, info)
	e.NotListed = info.IsDir() && depth < l.depth && !enter
	l.Entries = append(l.Entries, e)
	return enter, nil
}

func describe(dir *os.Root, name string, info fs.FileInfo) entry {
	e := entry{Path: strings.ToValidUTF8(name, "�"), Kind: "special", Modified: info.ModTime().UTC(), Mode: info.Mode().Perm().String()}
	switch {
	case info.IsDir():
		e.Kind = "folder"
	case info.Mode().IsRegular():
		e.Kind, e.Bytes = "file", info.Size()
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = "link"
		if target, err := dir.Readlink(info.Name()); err == nil {
			e.Target = strings.ToValidUTF8(target, "�")
		}
	}
	return e
}

// heavy are folders of a tool's own, left out of deep listings and searches
// unless they are named.
func heavy(name string) bool {
	switch name {
	case ".git", "node_modules", "bower_components", ".venv", "venv", ".tox", "__pycache__", ".mypy_cache", ".pytest_cache", ".gradle", ".direnv":
		return true
	}
	return false
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// walker goes through folders in the order of their names and follows no link.
type walker struct {
	// visit says whether to enter a folder.
	visit      func(ctx context.Context, dir *os.Root, name string, info fs.FileInfo, depth int) (enter bool, err error)
	visited    int
	incomplete string
}

func (w *walker) walk(ctx context.Context, dir *os.Root, name string, depth int) error {
	names, err := w.names(dir, name)
	if err != nil {
		return err
	}
	for _, base := range names {
		if w.visited++; w.visited > maxVisited {
			w.incomplete = "there are more files than are looked at: name a folder"
			return errEnough
		}
		info, err := dir.Lstat(base)
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone since
		}
		if err != nil {
			return err
		}
		if err := w.one(ctx, dir, path.Join(name, base), info, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) one(ctx context.Context, dir *os.Root, name string, info fs.FileInfo, depth int) error {
	enter, err := w.visit(ctx, dir, name, info, depth)
	if err != nil || !enter || depth >= maxDepth {
		return err
	}
	next, err := step(dir, info.Name(), false)
	if err != nil {
		w.incomplete = "a folder could not be read: " + strings.ToValidUTF8(name, "�")
		return nil //nolint:nilerr // it was removed, replaced or is not ours; incomplete says so
	}
	return errors.Join(w.walk(ctx, next, name, depth+1), next.Close())
}

// names are what is in a folder, sorted, up to a limit.
func (w *walker) names(dir *os.Root, name string) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		if name != "." && errors.Is(err, fs.ErrPermission) {
			w.incomplete = "a folder may not be read: " + strings.ToValidUTF8(name, "�")
			return nil, nil
		}
		return nil, err
	}
	names, err := f.Readdirnames(maxFolder + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(names) > maxFolder {
		names, w.incomplete = names[:maxFolder], "a folder holds more files than are looked at: "+strings.ToValidUTF8(name, "�")
	}
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}
