package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nacre-dev/nacre/internal/atom"
)

// MaxInput is the largest file that a command reads whole, in bytes: a policy, a
// task, a request or a file of cases.
const MaxInput = 1 << 20

// Group is a command that only holds others.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: NoArguments, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// NoArguments refuses any argument, and says which command was meant where commands could stand.
func NoArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands():
		return Usage("unknown command %.80q%s", args[0], help(c, atom.Nearest(args[0], namesOf(c))))
	}
	return Usage("unknown argument %.80q%s", args[0], help(c, ""))
}

// FlagError is the usage error of flags that cannot be read. It says which flag was meant by one
// that there is not.
func FlagError(c *cobra.Command, err error) error {
	meant := ""
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if name := atom.Nearest(unknown.GetSpecifiedName(), flagsOf(c)); name != "" {
			meant = "--" + name
		}
	}
	return Usage("%w%s", err, help(c, meant))
}

// help ends a refusal with what was meant, if anything, and the page that says more.
func help(c *cobra.Command, meant string) string {
	if meant == "" {
		return "; see " + c.CommandPath() + " --help"
	}
	return "; did you mean " + meant + "? See " + c.CommandPath() + " --help"
}

func namesOf(c *cobra.Command) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && !yield(sub.Name()) {
				return
			}
		}
	}
}

func flagsOf(c *cobra.Command) iter.Seq[string] {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return slices.Values(names)
}

// OneArgument refuses all but one argument, which is named in the refusal.
func OneArgument(what string) cobra.PositionalArgs { return exactly(1, what) }

// TwoArguments refuses all but two arguments, which are named in the refusal.
func TwoArguments(what string) cobra.PositionalArgs { return exactly(2, what) }

func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return Usage("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// ReadInput reads a file of at most MaxInput bytes; a file that cannot be read is a
// usage error.
func ReadInput(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, UsageOf(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxInput+1))
	if err != nil {
		return nil, UsageOf(err)
	}
	if len(data) > MaxInput {
		return nil, Usage("%s: more than %d bytes", path, MaxInput)
	}
	return data, nil
}

// ReadTask reads the parameters of a task file.
func ReadTask(name string) (atom.Parameters, error) {
	data, err := ReadInput(name)
	if err != nil {
		return atom.Parameters{}, err
	}
	p, err := atom.ParseParameters(data)
	if err != nil {
		return atom.Parameters{}, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// ProjectFlag names the project of a command about roles and atoms.
func ProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "", "the project's folder (default: $WORKTREE_PATH, $CLAUDE_PROJECT_DIR, or the repository around here)")
}

// ProjectFolder finds the project's folder. What is named must be absolute and there.
func (e *Env) ProjectFolder(named string) (string, error) {
	for _, dir := range []string{named, e.Getenv("WORKTREE_PATH"), e.Getenv("CLAUDE_PROJECT_DIR")} {
		if dir == "" {
			continue
		}
		if dir != named && !filepath.IsAbs(dir) {
			return "", fmt.Errorf("the project's folder %q is not absolute", dir)
		}
		full, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(full)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the project's folder %q cannot be looked at: %w", dir, errors.Unwrap(err))
		}
		if err != nil || !info.IsDir() {
			return "", fmt.Errorf("the project's folder %q is not there", dir)
		}
		return full, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		for _, mark := range []string{".git", ".nacre"} {
			if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
				return dir, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return here, nil
		}
	}
}
