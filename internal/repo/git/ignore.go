package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Ignorer asks git which paths the .gitignore files of a folder, and the info/exclude of a
// git directory, ignore.
type Ignorer struct {
	dir    string
	in     io.WriteCloser
	out    *bufio.Reader
	finish func() error
}

// Ignoring starts git over a folder that holds .gitignore files alone. It is removed with
// the end of the asking.
func (p *Program) Ignoring(ctx context.Context, gitDir, dir string) (*Ignorer, error) {
	ig := &Ignorer{dir: dir}
	return ig, ig.start(ctx, p, gitDir)
}

func (ig *Ignorer) start(ctx context.Context, p *Program, gitDir string) error {
	cmd, complaint, cancel := p.Prepare(ctx, Command{
		GitDir: gitDir, WorkTree: ig.dir, Index: filepath.Join(ig.dir, ".git-no-index"),
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

// Ignored asks for one path; directories are asked for with a slash at the end.
func (ig *Ignorer) Ignored(name string) (bool, error) {
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

// Close ends git, and removes the folder.
func (ig *Ignorer) Close() error {
	return errors.Join(ig.finish(), os.RemoveAll(ig.dir))
}
