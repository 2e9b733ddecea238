// Package home keeps what agents may leave for their next session: conversations,
// what was typed, caches. It lies in a folder of the group, apart for each project.
//
// Only the kinds of data that a session lists are kept. All else of the home inside is made anew
// for each session by the host and thrown away with it (U-03). So nothing which a program obeys
// (settings, hooks, servers, shell start files) can be left there for a later session. What is kept
// was written by agents: it is read here as data, through no link, and is bounded.
package home

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/tree"
)

const (
	// maxName is the longest text that names a project, in bytes.
	maxName = 8 << 10
	// maxFiles is how many files and folders of a home are counted, and maxDepth how deep.
	maxFiles = 10_000_000
	maxDepth = 500
	// Inside is where the home is inside every sandbox.
	Inside = "/home/agent"

	projectFile = "project"
	dataDir     = "data"
	choicesFile = "choices.json"
	lockFile    = "lock"
	keyLength   = 24
)

// Kind is a kind of data that outlives a session.
type Kind struct {
	// Path is below the home.
	Path string
	// Log says that it is a file that grows by lines; else it is a folder.
	Log bool
}

func (k Kind) check() error {
	if k.Path == "." || !filepath.IsLocal(k.Path) || filepath.Clean(k.Path) != k.Path {
		return fmt.Errorf("kind of data %.80q: not a plain path below the home", k.Path)
	}
	return nil
}

// Home is what a group keeps for one project.
type Home struct {
	dir   string // of the project
	group string // of the group, which has the choices of all projects
}

// Open opens, and where it is missing makes, the home of a group in a project. The
// project is an absolute path, or empty for sessions without one.
func Open(homes string, group nacre.Group, project string) (*Home, error) {
	digest := sha256.Sum256([]byte(project))
	h := &Home{group: filepath.Join(homes, string(group))}
	h.dir = filepath.Join(h.group, hex.EncodeToString(digest[:])[:keyLength])
	if err := os.MkdirAll(filepath.Join(h.dir, dataDir), 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(h.dir, projectFile)
	if _, err := os.Lstat(name); err == nil {
		return h, nil
	}
	return h, disk.Write(name, []byte(project), 0o600)
}

// at is where a kind is kept. No two kinds share a folder, and none lies in another.
func (h *Home) at(k Kind) string {
	return filepath.Join(h.dir, dataDir, strings.ReplaceAll(k.Path, "/", "%"))
}

// Mounts are the folders that are kept, in their places inside.
func (h *Home) Mounts(kinds []Kind) ([]nacre.Mount, error) {
	var mounts []nacre.Mount
	for _, k := range kinds {
		if err := k.check(); err != nil {
			return nil, err
		}
		if k.Log {
			continue
		}
		if err := os.MkdirAll(h.at(k), 0o700); err != nil {
			return nil, err
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: h.at(k), Target: Inside + "/" + k.Path})
	}
	return mounts, nil
}

// Holds reports whether an earlier session left anything of these kinds: it was written
// by agents, and whoever reads it reads what nobody vouches for.
func (h *Home) Holds(kinds []Kind) (bool, error) {
	for _, k := range kinds {
		info, err := os.Lstat(h.at(k))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if !info.IsDir() {
			return true, nil
		}
		entries, err := os.ReadDir(h.at(k))
		if err != nil || len(entries) > 0 {
			return true, err
		}
	}
	return false, nil
}

// Check refuses a home that holds more than its quota, in bytes, and one that cannot be counted.
// A file counts with its length, or with the room that it takes where that is more. One with
// holes is no smaller than it says, and one with several names counts with each. Caches have a
// quota of their own.
func (h *Home) Check(ctx context.Context, quota int64) error {
	held, err := count(ctx, filepath.Join(h.dir, dataDir))
	switch {
	case err != nil:
		return err
	case held.more:
		return ErrUncounted
	case held.bytes > quota:
		return &FullError{Bytes: held.bytes, Quota: quota}
	}
	return nil
}

// ErrUncounted says that an agent left folders that are closed, too deep or too full to be counted.
var ErrUncounted = errors.New("what agents left for this project cannot be counted: a folder in it is closed, or has too many folders or files in it")

// FullError says that a home holds more than its quota.
type FullError struct{ Bytes, Quota int64 }

func (e *FullError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("what agents left for this project takes %d MiB, and its quota is %d MiB", (e.Bytes+mib-1)/mib, e.Quota/mib)
}

// Choices are small settings that people make inside and are asked once, by name:
// words, and nothing that a program could take for a command.
func (h *Home) Choices() (map[string]string, error) {
	data, err := disk.Read(filepath.Join(h.group, choicesFile), maxName)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	choices := map[string]string{}
	if err := json.Unmarshal(data, &choices); err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it: %w", filepath.Join(h.group, choicesFile), err)
	}
	return choices, nil
}

// Choose keeps a choice. What is not a word is left as it was.
func (h *Home) Choose(ctx context.Context, name, value string) error {
	if !isWord(value) {
		return nil
	}
	lock, err := disk.TakeLock(ctx, filepath.Join(h.group, lockFile))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // the kernel drops it as well
	choices, err := h.Choices()
	if err != nil || choices[name] == value {
		return err
	}
	choices[name] = value
	data, err := json.Marshal(choices)
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(h.group, choicesFile), data, 0o600)
}

// isWord accepts lower-case letters, digits and dashes.
func isWord(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Kept is one home, for a person.
type Kept struct {
	Group   nacre.Group `json:"group"`
	Project string      `json:"project"`
	Dir     string      `json:"dir"`
	Bytes   int64       `json:"bytes"`
	Files   int         `json:"files"`
	// More says that there are folders that cannot be counted.
	More bool `json:"more,omitempty"`
}

// List are the homes of all groups, as they lie on the disk. One that only ever had
// caches, and has no file in them now, is none.
func List(ctx context.Context, homes string) ([]Kept, error) {
	dirs, err := filepath.Glob(filepath.Join(escaped(homes), "*", strings.Repeat("?", keyLength)))
	if err != nil {
		return nil, err
	}
	var kept []Kept
	for _, dir := range dirs {
		project, err := disk.Read(filepath.Join(dir, projectFile), maxName)
		if err != nil {
			continue // it was not made whole, or is being removed
		}
		k := Kept{Group: nacre.Group(filepath.Base(filepath.Dir(dir))), Project: string(project), Dir: dir}
		_, missing := os.Lstat(filepath.Join(dir, dataDir))
		for _, of := range []string{dataDir, cachesDir} {
			held, err := count(ctx, filepath.Join(dir, of))
			if err != nil {
				return nil, err
			}
			k.Bytes, k.Files, k.More = added(k.Bytes, held.bytes), k.Files+held.files, k.More || held.more
		}
		if missing == nil || k.Files > 0 || k.More {
			kept = append(kept, k)
		}
	}
	return kept, nil
}

// escaped takes the meaning out of what a pattern would read as one.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Remove removes a home with all that is in it.
func Remove(k Kept) error { return registry.Discard(k.Dir) }

// holding is what a folder holds, besides folders.
type holding struct {
	bytes int64
	files int
	more  bool // in folders that cannot be counted
}

// count looks at what is in a folder, which agents filled. It follows no link, and a folder
// is reached from the one that it is in: a path may be too long.
func count(ctx context.Context, dir string) (h holding, err error) {
	err = tree.Walk(ctx, dir, tree.Options{Entries: maxFiles, Depth: maxDepth, Workers: 1}, h.add)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, tree.ErrTooBig):
		h.more, err = true, nil
	}
	return h, err
}

func (h *holding) add(f tree.Folder) {
	h.more = h.more || f.Err != nil
	for _, e := range f.Entries {
		if e.Mode.IsDir() {
			continue
		}
		h.files++
		if e.Mode.IsRegular() {
			h.bytes = added(h.bytes, max(e.Length, e.Bytes))
		}
	}
}

// added is a sum that stays at the most there is.
func added(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}
