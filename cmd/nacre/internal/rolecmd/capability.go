package rolecmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
)

type capabilityCommand Commands

func (cmd capabilityCommand) command() *cobra.Command {
	return command.Group("capability", "what agents may do: list, show, check, verify and fork capability atoms",
		cmd.listCommand(), cmd.showCommand(), cmd.checkCommand(), cmd.verifyCommand(), cmd.forkCommand())
}

// library opens the atoms of a project. close ends it.
func library(project string) (l atom.Library, done func(), err error) {
	rules, done, err := assembly.OpenRules(project)
	return atom.Library{Project: rules}, done, err
}

func (cmd capabilityCommand) listCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "list", Short: "list the atoms, and the layers each declares", Args: command.NoArguments,
		Long: `Lists the atoms that ship with nacre and those that the project's .nacre/capabilities
adds. Layers: text (what the agent is told), gate (what a tool call is held against),
os (what the sandbox is to enforce) and verify (what is checked on return).`,
		Example: "  nacre capability list",
		RunE: func(*cobra.Command, []string) error {
			folder, err := cmd.ProjectFolder(project)
			if err != nil {
				return command.UsageOf(err)
			}
			atoms, done, err := library(folder)
			if err != nil {
				return command.UsageOf(err)
			}
			defer done()
			list, err := atoms.All()
			if err != nil {
				return command.UsageOf(err)
			}
			return cmd.printAtoms(list)
		},
	}
	command.ProjectFlag(c, &project)
	return c
}

func (cmd capabilityCommand) printAtoms(list []atom.Atom) error {
	if cmd.JSON {
		shown := make([]shownAtom, 0, len(list))
		for _, one := range list {
			shown = append(shown, shownOf(one))
		}
		return cmd.PrintJSON(shown)
	}
	rows := make([][]string, 0, len(list))
	for _, one := range list {
		rows = append(rows, []string{string(one.ID), strings.Join(layersOf(one), " "), originOf(one), one.Description})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"atom", "layers", "from", "what it holds"}, rows)
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

func (cmd capabilityCommand) forkCommand() *cobra.Command {
	var project, as string
	c := &cobra.Command{
		Use: "fork SOURCE --as NEW", Short: "copy an atom into the project under a new name",
		Long: `Writes .nacre/capabilities/<category>/<slug>/ of the project: the source's
capability.toml with name and category rewritten and a [lineage], and its text as it
was. The gate and the verifier stay the source's; edit the text and the patterns
afterwards. $NACRE_CREATOR_ID says who forked it. An existing target is refused.`,
		Example: "  nacre capability fork policy::no-git-ops --as policy::no-vcs", Args: command.OneArgument("the atom to fork"),
		RunE: func(_ *cobra.Command, args []string) error {
			if as == "" {
				return command.Usage("--as NEW is needed")
			}
			folder, err := cmd.ProjectFolder(project)
			if err != nil {
				return command.UsageOf(err)
			}
			return cmd.forkCapability(folder, args[0], as)
		},
	}
	c.Flags().StringVar(&as, "as", "", "the new atom's name, <category>::<slug>")
	command.ProjectFlag(c, &project)
	return c
}

func (cmd capabilityCommand) forkCapability(project, source, as string) error {
	if _, err := atom.ParseID(source); err != nil {
		return command.UsageOf(err)
	}
	if _, err := atom.ParseID(as); err != nil {
		return command.UsageOf(err)
	}
	atoms, done, err := library(project)
	if err != nil {
		return command.UsageOf(err)
	}
	defer done()
	from, err := atoms.Find(source)
	if err != nil {
		return command.UsageOf(err)
	}
	if _, err := atoms.Find(as); !errors.Is(err, atom.ErrUnknown) {
		return command.Usage("%s is there already, and is not overwritten", as)
	}
	fork, err := from.Fork(as, cmd.creator(), time.Now())
	if err != nil {
		return command.UsageOf(err)
	}
	target := filepath.Join(project, ".nacre", filepath.FromSlash(fork.Dir))
	if err := writeFork(project, fork); err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"source": from.ID, "target": fork.ID, "folder": target, "rewritten": fork.Rewritten})
	}
	p := cmd.Printer(cmd.Stdout)
	p.Line("%s → %s", from.ID, fork.ID)
	p.Line("%s, %d fields rewritten", target, fork.Rewritten)
	p.Line("Edit %s so that it says what the new atom means; [gate] and [verify] are the source's until you change them.", fork.TextName)
	return nil
}

func (cmd capabilityCommand) creator() string {
	if id := cmd.Getenv("NACRE_CREATOR_ID"); id != "" {
		return id
	}
	return cmd.Getenv("KEI_CREATOR_ID")
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
		return command.Usage("%s is there already, and is not overwritten", target)
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
