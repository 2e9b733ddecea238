package memorycmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type memoryCommand Commands

func (cmd memoryCommand) command() *cobra.Command {
	group := command.Group("memory", "what a group's agents have learned",
		cmd.listCommand(), cmd.searchCommand(), cmd.showCommand(),
		cmd.reviewCommand(),
		cmd.trustCommand("trust", "vouch for entries: they may enter the brief of later sessions", nacre.Trusted),
		cmd.trustCommand("untrust", "vouch for entries no longer", nacre.Untrusted),
		cmd.forgetCommand(), cmd.exportCommand(), cmd.importCommand())
	group.PersistentFlags().String("group", "main", "whose memory")
	return group
}

// memories is a group's memory that is open for one command.
type memories struct {
	*memory.Store
	group   nacre.Group
	runtime *assembly.Runtime
}

// withGroup finds the group that the command names. One without a memory gets it only where
// something is to be put in.
func (cmd memoryCommand) withGroup(c *cobra.Command, use func(context.Context, *assembly.Runtime, nacre.Group) error) error {
	name, err := c.Flags().GetString("group")
	if err != nil {
		return err
	}
	group, err := nacre.ParseGroup(name)
	if err != nil {
		return command.UsageOf(err)
	}
	rt, err := cmd.Open(c.Context())
	if err != nil {
		return err
	}
	there, err := assembly.HasMemory(c.Context(), rt, group)
	if err != nil {
		return command.ExitWith(command.ExitNotReady, err)
	}
	if !there && c.Name() != "import" {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("group %s has no memory yet", group))
	}
	return use(c.Context(), rt, group)
}

// withMemory opens the memory of the group that the command names.
func (cmd memoryCommand) withMemory(c *cobra.Command, use func(context.Context, memories) error) error {
	return cmd.withGroup(c, func(ctx context.Context, rt *assembly.Runtime, group nacre.Group) error {
		store, err := cmd.openMemory(ctx, rt, group)
		if err != nil {
			return err
		}
		return errors.Join(use(ctx, memories{store, group, rt}), store.Close())
	})
}

func (cmd memoryCommand) openMemory(ctx context.Context, rt *assembly.Runtime, group nacre.Group) (*memory.Store, error) {
	return assembly.OpenMemory(ctx, rt, group, func(text string) { cmd.Printer(cmd.Stderr).Line("%s", text) })
}

func (cmd memoryCommand) listCommand() *cobra.Command {
	var f memory.Filter
	var session string
	c := &cobra.Command{
		Use: "list", Short: "list entries, the latest first", Args: command.NoArguments,
		Example: "  nacre memory list\n  nacre memory list --session k3f9ab --all      what a session wrote",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return command.Usage("--limit is %d: write 1 or more", f.Limit)
			}
			f.Session = nacre.SessionID(session)
			return cmd.withMemory(c, func(ctx context.Context, m memories) error {
				list, err := m.List(ctx, f)
				if err != nil {
					return err
				}
				return cmd.printMemories(list)
			})
		},
	}
	c.Flags().StringVar(&session, "session", "", "only what this session wrote")
	c.Flags().StringVar(&f.Type, "type", "", "only preference, fact, instruction, context or correction")
	c.Flags().BoolVar(&f.Superseded, "all", false, "also what was superseded")
	c.Flags().IntVar(&f.Limit, "limit", 100, "the most entries listed")
	return c
}

func (cmd memoryCommand) printMemories(list []memory.Entry) error {
	if cmd.JSON {
		return cmd.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, e := range list {
		rows = append(rows, memoryRow(e))
	}
	cmd.Printer(cmd.Stdout).Table([]string{"id", "type", "trust", "session", "written", "content"}, rows)
	return nil
}

func memoryRow(e memory.Entry) []string {
	day, _, _ := strings.Cut(e.CreatedAt, "T")
	content := terminal.Summary(e.Content)
	if e.SupersededBy != "" {
		content += " (superseded)"
	}
	return []string{e.ID, e.Type, e.Trust.String(), string(e.Provenance.Session), day, content}
}

func (cmd memoryCommand) searchCommand() *cobra.Command {
	var q memory.Query
	c := &cobra.Command{
		Use: "search [WORDS…]", Short: "search as agents do; without words, the most recent",
		Example: "  nacre memory search user-agent\n  nacre memory search --tag style --limit 5 tabs or spaces",
		RunE: func(c *cobra.Command, args []string) error {
			if q.Limit < 1 || q.Limit > memory.MaxResults {
				return command.Usage("--limit is %d: write 1 to %d", q.Limit, memory.MaxResults)
			}
			q.Text = strings.Join(args, " ")
			return cmd.withMemory(c, func(ctx context.Context, m memories) error {
				hits, err := m.Search(ctx, q)
				if err != nil {
					return err
				}
				return cmd.printHits(hits)
			})
		},
	}
	c.Flags().StringArrayVar(&q.Tags, "tag", nil, "only entries with this tag; given twice, with both")
	c.Flags().StringVar(&q.Type, "type", "", "only preference, fact, instruction, context or correction")
	c.Flags().BoolVar(&q.Superseded, "all", false, "also what was superseded")
	c.Flags().IntVar(&q.Limit, "limit", 20, "the most entries found")
	return c
}

func (cmd memoryCommand) printHits(hits []memory.Hit) error {
	if cmd.JSON {
		return cmd.PrintJSON(hits)
	}
	rows := make([][]string, 0, len(hits))
	for _, h := range hits {
		rows = append(rows, append([]string{fmt.Sprintf("%.2f", h.Relevance)}, memoryRow(h.Entry)...))
	}
	cmd.Printer(cmd.Stdout).Table([]string{"", "id", "type", "trust", "session", "written", "content"}, rows)
	return nil
}

func (cmd memoryCommand) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show an entry, with its links and where it comes from", Args: command.OneArgument("an entry's id"), Example: "  nacre memory show mem-…",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withMemory(c, func(ctx context.Context, m memories) error {
				e, links, err := m.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if cmd.JSON {
					return cmd.PrintJSON(struct {
						memory.Entry
						Links []memory.Link `json:"links"`
					}{e, links})
				}
				cmd.showMemory(e, links)
				return nil
			})
		},
	}
}

func (cmd memoryCommand) showMemory(e memory.Entry, links []memory.Link) {
	p := cmd.Printer(cmd.Stdout)
	p.Field("entry", "%s", e.ID)
	p.Field("type", "%s", e.Type)
	p.Field("trust", "%s", trustOf(e))
	p.Field("session", "%s", e.Provenance.Session)
	p.Field("written", "%s", e.CreatedAt)
	p.Field("tags", "%s", terminal.List(e.Tags, "none"))
	if e.ExpiresAt != "" {
		p.Field("expires", "%s", e.ExpiresAt)
	}
	if e.SupersededBy != "" {
		p.Field("superseded", "by %s", e.SupersededBy)
	}
	for _, l := range links {
		p.Field("link", "%s %s %s", l.From, l.Kind, l.To)
	}
	for line := range strings.Lines(e.Content) {
		p.Line("%s", strings.TrimRight(line, "\n"))
	}
}

// trustOf says who vouches for an entry, and what it does to who recalls it.
func trustOf(e memory.Entry) string {
	switch e.Told() {
	case nacre.Trusted:
		return "trusted: you vouch for it"
	case nacre.Unvouched:
		return "untrusted, and no outsider's words were in the session that wrote it: recalling it taints nobody"
	case nacre.Untrusted:
	}
	return "untrusted: recalling it taints a session"
}

func (cmd memoryCommand) trustCommand(name, short string, trust nacre.Label) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID…", Short: short, Example: "  nacre memory " + name + " mem-…",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage("%s takes ids of entries; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withMemory(c, func(ctx context.Context, m memories) error {
				for _, id := range args {
					if err := m.setTrust(ctx, name, id, trust); err != nil {
						return err
					}
				}
				if cmd.JSON {
					return cmd.PrintJSON(map[string]any{"trust": trust, "ids": args})
				}
				cmd.Printer(cmd.Stdout).Field(name+"ed", "%s", strings.Join(args, ", "))
				return nil
			})
		},
	}
}

func (m memories) setTrust(ctx context.Context, what, id string, trust nacre.Label) error {
	e, _, err := m.Get(ctx, id)
	if err != nil {
		return err
	}
	marks := []assembly.MemoryMark{m.runtime.MarkMemory(e.ID, e.Content, "")}
	return m.runtime.ChangeMemory(ctx, m.group, what, command.Operator(), marks, func() error { return m.Trust(ctx, id, trust) })
}

func (cmd memoryCommand) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "write all entries as lines of JSON", Args: command.NoArguments, Example: "  nacre memory export --group main > main.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			return cmd.withMemory(c, func(ctx context.Context, m memories) error {
				_, err := m.Export(ctx, cmd.Stdout)
				return err
			})
		},
	}
}

func (cmd memoryCommand) importCommand() *cobra.Command {
	var trusted bool
	c := &cobra.Command{
		Use: "import FILE", Short: "store what export wrote: all of it, or nothing", Args: command.OneArgument("a file, or - for what comes in"),
		Long: `Stores the entries of an export under new ids. Nobody vouches for them: they are
untrusted, whatever the file says, until you trust them one by one, or all of
them with --trusted. They come from a session of their own, by which they can be
listed and forgotten again.`,
		Example: "  nacre memory import main.jsonl --group family",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withMemory(c, func(ctx context.Context, m memories) error { return cmd.importMemories(ctx, m, args[0], trusted) })
		},
	}
	c.Flags().BoolVar(&trusted, "trusted", false, "vouch for all of them")
	return c
}

func (cmd memoryCommand) importMemories(ctx context.Context, m memories, path string, trusted bool) error {
	from := cmd.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return command.UsageOf(err)
		}
		defer func() { _ = f.Close() }() // it was only read
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return command.Usage("%s is not a file", path)
		}
		from = f
	}
	w := memory.Writer{Session: nacre.SessionID("import-" + strings.ToLower(rand.Text()[:12])), Operator: trusted}
	var n int
	err := m.runtime.ChangeMemory(ctx, m.group, "import as "+string(w.Session), command.Operator(), nil, func() (err error) {
		n, err = m.Import(ctx, w, from)
		return err
	})
	if errors.Is(err, memory.ErrInvalid) {
		return command.UsageOf(fmt.Errorf("%s: %w", path, err))
	}
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"imported": n, "session": w.Session, "trusted": trusted})
	}
	cmd.Printer(cmd.Stdout).Field("imported", "%d entries as session %s", n, w.Session)
	return nil
}
