package gitdir

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/git"
	"github.com/nacre-dev/nacre/internal/repo/large"
)

// largeSettings are those of the filter that git LFS has. They are nacre's own: of the
// user's settings nothing runs. A file that is neither here nor can be fetched stays the few
// lines that stand for it.
const largeSettings = `[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = git-lfs smudge -- %f
	process = git-lfs filter-process
	required = true
[lfs]
	skipdownloaderrors = true
[lfs "transfer"]
	maxretries = 1
`

// filters are what the host's git does to files on their way into commits.
type filters struct {
	// large tells that git LFS is one of them, for whichever repository.
	large bool
	// other are the repository's own, by name, sorted.
	other []string
}

// filtersOf finds the filters in the settings that git has on the host.
func filtersOf(settings []repo.Setting) (f filters) {
	for _, s := range settings {
		name, rest, ok := cutFilter(s.Key)
		switch {
		case !ok || rest != "clean" && rest != "process" || s.Value == "":
		case name == "lfs":
			f.large = true
		case s.Own:
			f.other = append(f.other, name)
		}
	}
	slices.Sort(f.other)
	f.other = slices.Compact(f.other)
	return f
}

// cutFilter parts filter.NAME.KEY.
func cutFilter(key string) (name, rest string, ok bool) {
	key, ok = strings.CutPrefix(key, "filter.")
	dot := strings.LastIndexByte(key, '.')
	if !ok || dot < 0 {
		return "", "", false
	}
	return key[:dot], key[dot+1:], true
}

// FiltersLarge tells that git LFS filters files of this repository on the host.
func (d *Dir) FiltersLarge() bool { return d != nil && d.filters.large }

// KeepsLarge tells that git LFS has files of this repository.
func (d *Dir) KeepsLarge() bool { return d.FiltersLarge() && isFolder(d.hostsLarge()) }

// Unfiltered names the filters of the repository's own that do not run inside.
func (d *Dir) Unfiltered() []string {
	if d == nil {
		return nil
	}
	return d.filters.other
}

// FilterLarge lets git inside filter as git LFS does, whose program is on the PATH there.
func (d *Dir) FilterLarge() error {
	f, err := os.OpenFile(filepath.Join(d.git(), "config"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(largeSettings); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

// hostsLarge is where git LFS keeps the host's files.
func (d *Dir) hostsLarge() string { return filepath.Join(d.place.CommonDir, "lfs/objects") }

// differing counts the files that are not as the host's HEAD has them. The host compares
// without any filter: a file of git LFS for which HEAD has the pointer does not differ. Where
// the pointer cannot be read, it counts.
func (d *Dir) differing(ctx context.Context, dirty repo.Dirty) int {
	n := len(dirty.Tracked) + dirty.More
	if !d.filters.large || len(dirty.Tracked) == 0 {
		return n
	}
	g, err := git.Find(ctx, "")
	if err != nil {
		return n
	}
	run := func(args ...string) []byte {
		out, err := g.Run(ctx, git.Command{GitDir: d.place.GitDir, WorkTree: d.place.Top, Args: args})
		if err != nil {
			return nil
		}
		return out
	}
	listed := run(append([]string{"ls-tree", "-z", "-l", "--full-tree", "HEAD", "--"}, dirty.Tracked...)...)
	for _, entry := range git.Zeros(listed) {
		about, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(about)
		if len(fields) != 4 || fields[1] != "blob" {
			continue
		}
		if size, err := strconv.Atoi(fields[3]); err != nil || size > large.MaxPointer {
			continue
		}
		pointer := run("cat-file", "blob", fields[2])
		if same, err := large.Is(filepath.Join(d.place.Top, name), pointer); err == nil && same {
			n--
		}
	}
	return n
}
