package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/atom"
)

func (a *app) capabilityCommand() *cobra.Command {
	return group("capability", "what agents may do: list, show, check, verify and fork capability atoms",
		a.capabilityListCommand(), a.capabilityShowCommand(), a.capabilityCheckCommand(), a.capabilityVerifyCommand(), a.capabilityForkCommand())
}

// projectFlag names the project of a capability command.
func projectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "", "the project's folder (default: $WORKTREE_PATH, $CLAUDE_PROJECT_DIR, or the repository around here)")
}

// projectOf finds the project's folder. What is named must be absolute and there.
func (a *app) projectOf(named string) (string, error) {
	for _, dir := range []string{named, a.getenv("WORKTREE_PATH"), a.getenv("CLAUDE_PROJECT_DIR")} {
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
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
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

// library opens the atoms of a project. close ends it.
func library(project string) (l atom.Library, done func(), err error) {
	rules, done, err := assembly.OpenRules(project)
	return atom.Library{Project: rules}, done, err
}

func (a *app) capabilityListCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "list", Short: "list the atoms, and the layers each declares", Args: noArguments,
		Long: `Lists the atoms that ship with nacre and those that the project's .nacre/capabilities
adds. Layers: text (what the agent is told), gate (what a tool call is held against),
os (what the sandbox is to enforce) and verify (what is checked on return).`,
		Example: "  nacre capability list",
		RunE: func(*cobra.Command, []string) error {
			folder, err := a.projectOf(project)
			if err != nil {
				return &usageError{err}
			}
			atoms, done, err := library(folder)
			if err != nil {
				return &usageError{err}
			}
			defer done()
			list, err := atoms.All()
			if err != nil {
				return &usageError{err}
			}
			return a.printAtoms(list)
		},
	}
	projectFlag(c, &project)
	return c
}

func (a *app) printAtoms(list []atom.Atom) error {
	if a.json {
		shown := make([]shownAtom, 0, len(list))
		for _, one := range list {
			shown = append(shown, shownOf(one))
		}
		return printJSON(a.stdout, shown)
	}
	rows := make([][]string, 0, len(list))
	for _, one := range list {
		rows = append(rows, []string{string(one.ID), strings.Join(layersOf(one), " "), originOf(one), one.Description})
	}
	a.printer(a.stdout).Table([]string{"atom", "layers", "from", "what it holds"}, rows)
	return nil
}

func layersOf(one atom.Atom) []string {
	layers := []string{"text"}
	if one.HasGate() {
		layers = append(layers, "gate")
	}
	if !one.OS.IsZero() {
		layers = append(layers, "os")
	}
	if one.Verify.Handler != "" {
		layers = append(layers, "verify")
	}
	return layers
}

func originOf(one atom.Atom) string {
	switch {
	case one.BuiltIn:
		return "nacre"
	case one.Lineage.ForkFrom != "":
		return "project, fork of " + one.Lineage.ForkFrom
	default:
		return "project"
	}
}

func (a *app) capabilityForkCommand() *cobra.Command {
	var project, as string
	c := &cobra.Command{
		Use: "fork SOURCE --as NEW", Short: "copy an atom into the project under a new name",
		Long: `Writes .nacre/capabilities/<category>/<slug>/ of the project: the source's
capability.toml with name and category rewritten and a [lineage], and its text as it
was. The gate and the verifier stay the source's; edit the text and the patterns
afterwards. $NACRE_CREATOR_ID says who forked it. An existing target is refused.`,
		Example: "  nacre capability fork policy::no-git-ops --as policy::no-vcs", Args: oneArgument("the atom to fork"),
		RunE: func(_ *cobra.Command, args []string) error {
			if as == "" {
				return usage("--as NEW is needed")
			}
			folder, err := a.projectOf(project)
			if err != nil {
				return &usageError{err}
			}
			return a.forkCapability(folder, args[0], as)
		},
	}
	c.Flags().StringVar(&as, "as", "", "the new atom's name, <category>::<slug>")
	projectFlag(c, &project)
	return c
}

func (a *app) forkCapability(project, source, as string) error {
	if _, err := atom.ParseID(source); err != nil {
		return &usageError{err}
	}
	if _, err := atom.ParseID(as); err != nil {
		return &usageError{err}
	}
	atoms, done, err := library(project)
	if err != nil {
		return &usageError{err}
	}
	defer done()
	from, err := atoms.Find(source)
	if err != nil {
		return &usageError{err}
	}
	if _, err := atoms.Find(as); !errors.Is(err, atom.ErrUnknown) {
		return usage("%s is there already, and is not overwritten", as)
	}
	fork, err := from.Fork(as, a.creator(), time.Now())
	if err != nil {
		return &usageError{err}
	}
	target := filepath.Join(project, ".nacre", filepath.FromSlash(fork.Dir))
	if err := writeFork(project, fork); err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"source": from.ID, "target": fork.ID, "folder": target, "rewritten": fork.Rewritten})
	}
	p := a.printer(a.stdout)
	p.Line("%s → %s", from.ID, fork.ID)
	p.Line("%s, %d fields rewritten", target, fork.Rewritten)
	p.Line("Edit %s so that it says what the new atom means; [gate] and [verify] are the source's until you change them.", fork.TextName)
	return nil
}

func (a *app) creator() string {
	if id := a.getenv("NACRE_CREATOR_ID"); id != "" {
		return id
	}
	return a.getenv("KEI_CREATOR_ID")
}

// writeFork writes both files into a folder beside the target, which then
// takes its name: whole, or not at all. Nothing leaves the project by a link.
func writeFork(project string, fork atom.Fork) (err error) {
	root, err := os.OpenRoot(project)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // the files are closed by now
	target := filepath.Join(".nacre", filepath.FromSlash(fork.Dir))
	if _, err := root.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		return usage("%s is there already, and is not overwritten", target)
	}
	part := filepath.Join(".nacre", ".fork-"+fork.ID.Category()+"-"+fork.ID.Slug())
	if err := root.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(part); err != nil { // of a fork that was interrupted
		return err
	}
	if err := root.Mkdir(part, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.RemoveAll(part))
		}
	}()
	if err := root.WriteFile(filepath.Join(part, "capability.toml"), fork.TOML, 0o644); err != nil {
		return err
	}
	if err := root.WriteFile(filepath.Join(part, fork.TextName), fork.Text, 0o644); err != nil {
		return err
	}
	return root.Rename(part, target)
}
