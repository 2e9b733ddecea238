package repo

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/repo/git"
	"github.com/nacre-dev/nacre/internal/repo/gitconfig"
)

// Place is where the parts of a repository are. All are absolute and resolved.
type Place struct {
	// Top is the directory of the files.
	Top string
	// GitDir has HEAD and the index, CommonDir objects and refs.
	GitDir, CommonDir string
}

// Writable says which of the folders that every landing writes to cannot be written, and why.
func (p Place) Writable() error { // git makes what is missing
	return hostpath.Writable(p.Top, p.GitDir, filepath.Join(p.CommonDir, "objects"), filepath.Join(p.CommonDir, "refs", "heads"))
}

// Find finds the repository that dir is in, as git would, without git. The errors
// are those of [Open].
func Find(dir string) (Place, error) {
	found, err := discover(dir)
	return Place{found.top, found.gitDir, found.commonDir}, err
}

// Setting is one value of git's configuration.
type Setting struct {
	Key, Value string
	// Own tells what the repository says from what its user says for all of theirs. Elsewhere tells
	// what it includes from a file that is neither its own nor a configuration of its user's.
	Own, Elsewhere bool
}

// Settings reads the configuration that git has for the repository that dir is in. Without git, which takes
// milliseconds to start, it reads what all says by itself, where the git that is there is known to be new enough.
func Settings(ctx context.Context, dir string, known bool) (settings []Setting, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	found, err := discover(dir)
	if err != nil {
		return nil, err
	}
	c := (&host{place: found}).theirs()
	home, err := os.UserHomeDir()
	if known && err == nil && c.As == nil {
		if entries, plain := gitconfig.Read(found.commonDir, home); plain {
			for _, e := range entries {
				settings = append(settings, Setting{Key: e.Key, Value: e.Value, Own: e.Own})
			}
			return settings, nil
		}
	}
	if err == nil && c.As == nil {
		c.Env = append(c.Env, "HOME="+home) // what their files include from ~
		for _, file := range gitconfig.Files(home) {
			c.Args = append(c.Args, "-c", "include.path="+file)
		}
	}
	c.Args = append(c.Args, "config", "--list", "-z", "--show-scope", "--show-origin")
	out, err := git.Once(ctx, c)
	if err != nil {
		return nil, err
	}
	for fields := git.Zeros(out); len(fields) > 2; fields = fields[3:] {
		if fields[1] == "command line:" { // ours
			continue
		}
		key, value, _ := strings.Cut(fields[2], "\n")
		own := fields[0] != "command"
		elsewhere := own && !gitconfig.OfRepository(fields[1], home, found.commonDir, found.gitDir)
		settings = append(settings, Setting{Key: key, Value: value, Own: own, Elsewhere: elsewhere})
	}
	return settings, nil
}

// Configured are the paths below a folder that git's configuration names, the user's
// own and the repository's that the folder is in.
func Configured(dir string) []string {
	p, err := discover(dir)
	if err != nil {
		return nil
	}
	var below []string
	for _, name := range p.obeyed() {
		if rel, err := filepath.Rel(dir, filepath.Join(p.top, name)); err == nil && filepath.IsLocal(rel) {
			below = append(below, filepath.ToSlash(rel))
		}
	}
	return below
}

// obeyed are the paths below the top that git's configuration names.
func (p place) obeyed() []string { return gitconfig.Obeyed(p.top, p.commonDir, p.gitDir) }
