package repo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// ignorer asks git whether the base commit's .gitignore files, and the user's
// info/exclude, ignore a path. They are laid out alone in a directory of the
// host's, so that what the agent wrote into a .gitignore hides nothing.
type ignorer struct {
	dir    string
	in     io.WriteCloser
	out    *bufio.Reader
	finish func() error
}

func (p *Project) openIgnorer(ctx context.Context, base map[string]entry) (*ignorer, error) {
	dir, err := os.MkdirTemp(p.vault.scratch(), "ignore-")
	if err != nil {
		return nil, fmt.Errorf("ignore rules: %w", err)
	}
	rules := make(map[string]entry)
	for name, e := range base {
		if path.Base(name) == ".gitignore" && (e.mode == modeFile || e.mode == modeExec) {
			rules[name] = e
		}
	}
	ig := &ignorer{dir: dir}
	if err = p.layOut(ctx, dir, rules); err == nil {
		err = ig.start(ctx, p)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ignore rules: %w", err), os.RemoveAll(dir))
	}
	return ig, nil
}

func (o *objects) layOut(ctx context.Context, dir string, rules map[string]entry) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(o.writeEntries(ctx, root, rules), root.Close())
}

func (ig *ignorer) start(ctx context.Context, p *Project) error {
	cmd, complaint, cancel := p.git.Prepare(ctx, git.Command{
		GitDir: p.vault.dir, WorkTree: ig.dir, Index: filepath.Join(ig.dir, ".git-no-index"),
		// It refuses literal pathspecs; "./" before each path keeps magic out.
		Env:  []string{"GIT_LITERAL_PATHSPECS=0"},
		Args: []string{"check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"},
	})
	in, err := cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = cmd.StdoutPipe(); err == nil {
			ig.in, ig.out = in, bufio.NewReader(out)
			err = cmd.Start()
		}
	}
	if err != nil {
		cancel()
		return err
	}
	ig.finish = func() error {
		defer cancel()
		_ = in.Close() // its end is what makes git stop
		err := cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 {
			return nil // nothing was ignored
		}
		if err != nil {
			return fmt.Errorf("ignore rules: %w: %s", err, complaint)
		}
		return nil
	}
	return nil
}

// ignored asks for one path; directories are asked for with a slash at the end.
func (ig *ignorer) ignored(name string) (bool, error) {
	name = "./" + name
	if _, err := io.WriteString(ig.in, name+"\x00"); err != nil {
		return false, fmt.Errorf("ignore rules: %w", err)
	}
	var fields [4]string
	for i := range fields {
		text, err := ig.out.ReadString(0)
		if err != nil {
			return false, fmt.Errorf("ignore rules for %q: %w", name, err)
		}
		fields[i] = strings.TrimSuffix(text, "\x00")
	}
	if fields[3] != name {
		return false, fmt.Errorf("ignore rules for %q: git answers for %q", name, fields[3])
	}
	pattern := fields[2]
	return pattern != "" && !strings.HasPrefix(pattern, "!"), nil
}

func (ig *ignorer) close() error {
	return errors.Join(ig.finish(), os.RemoveAll(ig.dir))
}
