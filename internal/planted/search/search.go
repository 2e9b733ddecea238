// Package search finds what an agent left in a folder that it had to itself. It walks the folder
// once, asks package planted about what is new there, and looks into little of it. New is what the
// inode's own time of change says, which no agent can set. It follows no link and runs nothing.
package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/tree"
)

const (
	// maxEntries is how many files a tree may have.
	maxEntries = 1_000_000
	// maxDepth is how deep folders may nest.
	maxDepth = 256
	// maxFindings is how many findings of one level are kept; the rest of it is counted.
	maxFindings = 50_000
	// maxLinks is how many links of sensitive names that are new are followed.
	maxLinks = 1000
)

// Options of Since. Its zero value takes all of a folder for new.
type Options struct {
	// Since is from when on a file is new.
	Since time.Time
	// Before is what stood at the top then.
	Before planted.Top
	// Configured are paths below the top that git's configuration names.
	Configured []string
	// Close takes back the right of every user to write, where it is new. Nothing of the agent's
	// needs it any more, and whoever has it plants in the agent's stead.
	Close bool
}

// Report is what was found.
type Report struct {
	// Findings are sorted, the worst first.
	Findings []planted.Finding `json:"findings"`
	// More counts those that are not kept.
	More int `json:"more,omitempty"`
}

// Since lists what was planted below dir at or after a time. The top's own .git is
// not looked into: it was read-only, or is named. A tree too big to be looked at
// whole is an error that wraps [tree.ErrTooBig], beside what was found.
func Since(ctx context.Context, dir string, o Options) (Report, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, fmt.Errorf("look for what was planted: %w", err)
	}
	s := &searcher{
		options: o, dir: dir, top: top, targets: map[string]bool{}, bare: map[string]bool{}, touched: map[string]bool{},
		empty: map[string]planted.Class{}, linked: names{files: map[inode]*linked{}}, seen: map[string]bool{}, count: map[planted.Level]int{},
	}
	walked := tree.Walk(ctx, dir, tree.Options{
		Since: o.Since, Entries: maxEntries, Depth: maxDepth, Skip: func(name string) bool { return name == ".git" },
	}, s.visit)
	if walked == nil || errors.Is(walked, tree.ErrTooBig) {
		s.follow()
		s.mentions()
		for _, name := range s.linked.outside() {
			s.note(name, planted.Class{Kind: planted.Shared})
		}
		closeOpen(s)
		s.finish()
	}
	if err := errors.Join(walked, s.err, top.Close()); err != nil {
		return s.report, fmt.Errorf("look for what was planted: %w", err)
	}
	return s.report, nil
}

// searcher is asked by several threads at once.
type searcher struct {
	options Options
	dir     string
	top     *os.Root

	mu     sync.Mutex
	report Report
	count  map[planted.Level]int
	seen   map[string]bool
	// targets are folders that a build tool writes to, bare those that git takes for
	// a repository without a .git.
	targets, bare map[string]bool
	// touched are the folders with something new in them or below them.
	touched map[string]bool
	// empty are new folders whose name is what makes their files sensitive.
	empty  map[string]planted.Class
	links  []string
	linked names
	// open is what every user may write to since.
	open []string
	err  error
}

// visit looks at one folder.
func (s *searcher) visit(f tree.Folder) {
	if f.Err != nil {
		s.closed(f)
	}
	if f.Path == "." {
		s.topItself(f)
	}
	if looksBare(f.Entries) {
		s.bareRepository(f)
	}
	if isBuilt(f.Entries) {
		s.mu.Lock()
		s.targets[path.Join(f.Path, "target")] = true
		s.mu.Unlock()
	}
	fresh := false
	for _, e := range f.Entries {
		fresh = fresh || e.New
		if e.Links > 1 && e.Mode.IsRegular() {
			s.linked.add(f.PathOf(e), e)
		}
	}
	if fresh {
		s.touch(f.Path)
	}
	in := s.placeOf(f, fresh)
	for _, e := range f.Entries {
		if e.New || e.Mode&fs.ModeSymlink != 0 {
			s.entry(f, in, e)
		}
	}
}

// closed names a folder that cannot be listed: whoever knows a name in it opens
// that all the same.
func (s *searcher) closed(f tree.Folder) {
	switch {
	case errors.Is(f.Err, fs.ErrPermission) && f.Self.New:
		s.note(f.Path, planted.Class{Kind: planted.Unlisted})
	case !errors.Is(f.Err, fs.ErrPermission) && !errors.Is(f.Err, tree.ErrTooBig):
		s.mu.Lock()
		s.err = errors.Join(s.err, f.Err)
		s.mu.Unlock()
	}
}

// topItself looks at the folder that was given.
func (s *searcher) topItself(f tree.Folder) {
	for _, e := range f.Entries {
		if e.Name == ".git" && !s.options.Before.Git {
			s.note(".git", planted.Class{Kind: planted.Git, Program: "git"})
		}
	}
	if f.Self.New {
		s.rights(".", f.Self)
	}
}

// place is what the folders around an entry make of it.
type place struct {
	// whole is the folder that is named in its stead, or "".
	whole string
	class planted.Class
	// git is the path below a repository's own folder, which begins with a slash; "" for none.
	git string
	// bare is the same of a repository without a .git.
	bare string
	// target is a folder of a build tool's, in which what it writes counts as one.
	target string
}

// placeOf is only worked out where something is new.
func (s *searcher) placeOf(f tree.Folder, fresh bool) (in place) {
	if !fresh || f.Path == "." {
		return place{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := 0; end < len(f.Path); {
		next := strings.IndexByte(f.Path[end:], '/')
		begin := end
		if end += next; next < 0 {
			end = len(f.Path)
		}
		at, base := f.Path[:end], f.Path[begin:end]
		switch {
		case base == ".git":
			in.git = f.Path[end:] + "/"
			return in
		case s.bare[at]:
			in.bare = f.Path[end:] + "/"
		case s.targets[at]:
			in.target = at
		}
		if class, whole := planted.Whole(base); whole && in.target == "" {
			in.whole, in.class = at, class
			return in
		}
		if class := planted.Folder(base); class.Kind != planted.None && class.Kind.Level() == planted.Opening {
			return in
		}
		end++
	}
	return in
}

// entry looks at what is new in a folder, and at links.
func (s *searcher) entry(f tree.Folder, in place, e tree.Entry) {
	name := f.PathOf(e)
	switch {
	case name == ".git":
	case in.whole != "":
		if e.New {
			s.noteOnce(in.whole+"/", in.class)
		}
	case in.git != "":
		if e.New && planted.InGit((in.git + e.Name)[1:]) {
			s.note(name, planted.Class{Kind: planted.Nested})
		}
	case e.Name == ".git" && e.New, in.bare != "" && e.New && planted.InGit((in.bare + e.Name)[1:]):
		s.note(name, planted.Class{Kind: planted.Nested})
	case e.Mode.IsDir():
		s.folder(name, e)
	case e.Mode&fs.ModeSymlink != 0:
		s.link(name, e)
	default:
		s.file(f, in, name, e)
	}
}

// folder names a new folder where its own name matters.
func (s *searcher) folder(name string, e tree.Entry) {
	s.rights(name, e)
	class, whole := planted.Whole(e.Name)
	switch {
	case whole:
		s.noteOnce(name+"/", class)
	case class.Kind == planted.None, class.Kind.Level() == planted.Outputs:
	case class.Kind.Level() == planted.Misleading:
		s.note(name, class)
	default:
		s.mu.Lock()
		s.empty[name] = class
		s.mu.Unlock()
	}
}

// isBuilt reports whether a tool builds here that writes to a folder called target.
func isBuilt(entries []tree.Entry) bool {
	return slices.ContainsFunc(entries, func(e tree.Entry) bool {
		switch e.Name {
		case "Cargo.toml", "pom.xml", "build.sbt", "project.clj":
			return true
		}
		return false
	})
}

// link names a link where that is one to look at, and keeps those that show what
// they lead to under a sensitive name.
func (s *searcher) link(name string, e tree.Entry) {
	class := planted.ClassifyLink(name)
	if !e.New && class.Kind == planted.None {
		return
	}
	target, err := s.top.Readlink(name)
	switch {
	case err != nil:
	case planted.LeavesProject(name, target):
		class = planted.Class{Kind: planted.Link}
	case class.Kind == planted.None:
		class, _ = planted.Whole(e.Name)
	default:
		s.mu.Lock()
		if !e.New || len(s.links) < maxLinks { // those that were there are the project's, however many are new
			s.links = append(s.links, name)
		}
		s.mu.Unlock()
	}
	if e.New && class.Kind != planted.None {
		s.note(name, class)
	}
}

// file names a new file.
func (s *searcher) file(f tree.Folder, in place, name string, e tree.Entry) {
	if e.Mode&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
		s.note(name, planted.Class{Kind: planted.Special})
		return
	}
	s.rights(name, e)
	class := planted.Classify(name)
	switch {
	case class.Kind == planted.Output && path.Base(f.Path) == "__pycache__":
		if !s.isLoaded(name) {
			class = planted.Class{}
		}
	case class.Kind == planted.None && e.Mode&0o111 != 0:
		class = planted.Class{Kind: planted.Program, Program: "people and tools"}
	case class.Kind == planted.None && path.Ext(name) == "" && s.isELF(name):
		class = planted.Class{Kind: planted.Output, Program: "people and tools"}
	}
	if class.Kind != planted.None && in.target != "" && class.Kind.Level() != planted.Opening {
		s.noteOnce(in.target+"/", planted.Class{Kind: planted.Output, Program: "people and tools"})
		return
	}
	if class.Kind != planted.None {
		s.note(name, class)
	}
}

// follow names what is new where links of sensitive names lead, and what git's
// configuration names.
func (s *searcher) follow() {
	read := func(name string) (string, bool) {
		target, err := s.top.Readlink(name)
		return target, err == nil
	}
	shown := planted.ShownAs(slices.Values(s.links), read)
	for _, name := range s.options.Configured {
		shown[path.Clean(name)] = planted.Class{Kind: planted.Named, Program: "git's configuration or a link of a hook"}
	}
	for at, class := range shown {
		s.named(at, class)
	}
}

// named notes a file or a link that is new, or a folder in which something is.
func (s *searcher) named(at string, class planted.Class) {
	info, err := s.top.Lstat(filepath.FromSlash(at))
	switch {
	case err != nil || at == ".": // it leads nowhere
	case info.IsDir():
		if s.touched[at] || s.isNew(info) {
			s.noteOnce(at+"/", class)
		}
	case s.isNew(info): // a link, too: what it leads to is then another file
		s.noteOnce(at, class)
	}
}

func (s *searcher) isNew(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || !disk.ChangeTime(stat).Before(s.options.Since)
}

// touch says of a folder, and those around it, that something in it is new.
func (s *searcher) touch(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := folder; !s.touched[at]; at = path.Dir(at) {
		s.touched[at] = true
	}
}

func (s *searcher) note(name string, class planted.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(name, class)
}

// noteOnce is for what is named in the stead of much.
func (s *searcher) noteOnce(name string, class planted.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[name] {
		s.seen[name] = true
		s.keep(name, class)
	}
}

// keep keeps so many findings of each level that decoys of one hide none of another.
func (s *searcher) keep(name string, class planted.Class) {
	level := class.Kind.Level()
	if s.count[level]++; s.count[level] > maxFindings {
		s.report.More++
		return
	}
	s.report.Findings = append(s.report.Findings, planted.Found(name, class))
}

// finish names new folders of sensitive names in which nothing is, and sorts.
func (s *searcher) finish() {
	for _, name := range slices.Sorted(maps.Keys(s.empty)) {
		if !s.touched[name] {
			s.keep(name, s.empty[name])
		}
	}
	planted.Sort(s.report.Findings)
	s.report.Findings = slices.CompactFunc(s.report.Findings, func(a, b planted.Finding) bool { return a.Path == b.Path })
}
