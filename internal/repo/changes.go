package repo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Kind says what happened to a file.
type Kind string

// The kinds of change. A rename is a deletion and an addition.
const (
	Added    Kind = "added"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
)

// Change is one file that differs from the base.
type Change struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// OldMode and NewMode are git's: 100644, 100755 or 120000; "" for none.
	OldMode string `json:"old_mode,omitempty"`
	NewMode string `json:"new_mode,omitempty"`
	// AddedLines and RemovedLines are zero for a binary file.
	AddedLines   int  `json:"added_lines"`
	RemovedLines int  `json:"removed_lines"`
	Binary       bool `json:"binary,omitempty"`
	// Sensitive says why a person should look before it lands: it makes the host
	// or a tool run or trust something later (M-13). Empty where it does not.
	Sensitive string `json:"sensitive,omitempty"`
	// Held says that it does not land before a person has looked (M-67). A program of the host
	// obeys it by itself, or when the project is built, or its name misleads.
	Held bool `json:"held,omitempty"`
}

// Changes are all that differs from the base, sorted by path.
type Changes struct {
	Files []Change `json:"files"`
	// Skipped will not land; at most MaxListed are named, SkippedMore counts the rest.
	Skipped     []Skipped `json:"skipped,omitempty"`
	SkippedMore int       `json:"skipped_more,omitempty"`
}

// Listed are the changes as a person is shown them.
func (c Changes) Listed() []nacre.Change {
	list := make([]nacre.Change, 0, len(c.Files))
	for _, f := range c.Files {
		list = append(list, nacre.Change{Path: f.Path, Kind: string(f.Kind), Warning: f.Sensitive, Held: f.Held})
	}
	return list
}

// Sensitive are the changes that a person should look at.
func (c Changes) Sensitive() []Change {
	return c.which(func(f Change) bool { return f.Sensitive != "" })
}

// Held are the changes that a person has to look at before they land.
func (c Changes) Held() []Change {
	return c.which(func(f Change) bool { return f.Held })
}

func (c Changes) which(of func(Change) bool) (list []Change) {
	for _, f := range c.Files {
		if of(f) {
			list = append(list, f)
		}
	}
	return list
}

// Lines sums the lines added and removed.
func (c Changes) Lines() (added, removed int) {
	for _, f := range c.Files {
		added += f.AddedLines
		removed += f.RemovedLines
	}
	return added, removed
}

func (c *Changes) skip(all []Skipped) {
	c.Skipped = all[:min(len(all), MaxListed)]
	c.SkippedMore = len(all) - len(c.Skipped)
}

// diffFlags keep git from looking for programs to compare files with.
var diffFlags = []string{"--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--ignore-submodules=none"}

// TreeOf is the tree of a commit that the host's own git folder holds.
func (o *objects) TreeOf(ctx context.Context, c Commit) (Tree, error) {
	id, err := o.ownLine(ctx, "rev-parse", "--verify", string(c)+"^{tree}")
	if err != nil {
		return "", err
	}
	return ParseTree(id)
}

// Holds tells whether a tree has a file or link whose base name is a wanted one.
func (o *objects) Holds(ctx context.Context, tree Tree, wanted func(base string) bool) (bool, error) {
	if _, err := ParseTree(string(tree)); err != nil {
		return false, err
	}
	entries, err := o.listTree(ctx, string(tree))
	for name := range entries {
		if wanted(path.Base(name)) {
			return true, err
		}
	}
	return false, err
}

// Parent is the first parent of a commit that the host's own git folder holds.
func (o *objects) Parent(ctx context.Context, c Commit) (Commit, error) {
	id, err := o.ownLine(ctx, "rev-parse", "--verify", string(c)+"^1")
	if err != nil {
		return "", err
	}
	return ParseCommit(id)
}

// Changes compares two trees or commits of the project.
func (p *Project) Changes(ctx context.Context, from, to Tree) (Changes, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tree := range []Tree{from, to} {
		if _, err := ParseTree(string(tree)); err != nil {
			return Changes{}, err
		}
	}
	return p.changes(ctx, string(from), string(to))
}

func (p *Project) changes(ctx context.Context, from, to string) (Changes, error) {
	args := append([]string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--abbrev=40"}, diffFlags...)
	out, err := p.own(ctx, append(args, from, to)...)
	if err != nil {
		return Changes{}, fmt.Errorf("compare: %w", err)
	}
	files, err := parseChanges(git.Zeros(out))
	if err != nil {
		return Changes{}, fmt.Errorf("compare %.12s with %.12s: %w", from, to, err)
	}
	if err := p.markSensitive(ctx, to, files); err != nil {
		return Changes{}, err
	}
	return Changes{Files: files}, nil
}

var errDamaged = errors.New("git's answer is damaged")

// parseChanges reads ":old new id id status", path pairs, then "added removed path".
func parseChanges(records []string) ([]Change, error) {
	var files []Change
	byPath := make(map[string]int)
	for i := 0; i < len(records); i++ {
		if !strings.HasPrefix(records[i], ":") {
			if err := parseLines(records[i], files, byPath); err != nil {
				return nil, err
			}
			continue
		}
		if i++; i == len(records) {
			return nil, errDamaged
		}
		c, err := parseRaw(records[i-1], records[i])
		if err != nil {
			return nil, err
		}
		byPath[c.Path] = len(files)
		files = append(files, c)
	}
	return files, nil
}

func parseRaw(record, path string) (Change, error) {
	fields := strings.Fields(strings.TrimPrefix(record, ":"))
	if len(fields) != 5 {
		return Change{}, errDamaged
	}
	c := Change{Path: path, Kind: Modified, OldMode: fields[0], NewMode: fields[1]}
	if c.OldMode == "000000" {
		c.Kind, c.OldMode = Added, ""
	}
	if c.NewMode == "000000" {
		c.Kind, c.NewMode = Deleted, ""
	}
	return c, nil
}

func parseLines(record string, files []Change, byPath map[string]int) error {
	fields := strings.SplitN(record, "\t", 3)
	if len(fields) != 3 {
		return errDamaged
	}
	i, ok := byPath[fields[2]]
	if !ok {
		return errDamaged
	}
	if fields[0] == "-" {
		files[i].Binary = true
		return nil
	}
	added, err := strconv.Atoi(fields[0])
	if err == nil {
		files[i].AddedLines = added
		files[i].RemovedLines, err = strconv.Atoi(fields[1])
	}
	return err
}

// Diff is the text of what changed between two trees or commits, at most
// MaxDiff bytes; cut tells whether there was more.
func (p *Project) Diff(ctx context.Context, from, to Tree) (text []byte, cut bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tree := range []Tree{from, to} {
		if _, err := ParseTree(string(tree)); err != nil {
			return nil, false, err
		}
	}
	cmd, complaint, cancel := p.git.Prepare(ctx, git.Command{
		GitDir: p.vault.dir,
		Args:   append(append([]string{"diff-tree", "-r", "-p"}, diffFlags...), string(from), string(to)),
	})
	defer cancel()
	out := git.NewCapped(MaxDiff + 1)
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return nil, false, git.Explain(ctx, git.Command{Args: []string{"diff-tree"}}, complaint, err)
	}
	text = out.Bytes()
	return text[:min(len(text), MaxDiff)], len(text) > MaxDiff, nil
}
