package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

func (a *app) memoryCommand() *cobra.Command {
	group := group("memory", "what a group's agents have learned",
		a.memoryListCommand(), a.memorySearchCommand(), a.memoryShowCommand(),
		a.memoryTrustCommand("trust", "vouch for entries: they may enter the brief of later sessions", nacre.Trusted),
		a.memoryTrustCommand("untrust", "vouch for entries no longer", nacre.Untrusted),
		a.memoryForgetCommand(), a.memoryExportCommand(), a.memoryImportCommand())
	group.PersistentFlags().String("group", "main", "whose memory")
	return group
}

// memories is a group's memory that is open for one command.
type memories struct {
	*memory.Store
	group   nacre.Group
	runtime *assembly.Runtime
}

// withMemory opens the memory of the group that the command names. One that is
// not there yet is made only where something is to be put in.
func (a *app) withMemory(c *cobra.Command, use func(context.Context, memories) error) error {
	name, err := c.Flags().GetString("group")
	if err != nil {
		return err
	}
	group, err := nacre.ParseGroup(name)
	if err != nil {
		return &usageError{err}
	}
	rt, err := a.open(c.Context())
	if err != nil {
		return err
	}
	settings, err := rt.MemorySettings()
	if err != nil {
		return err
	}
	paths, err := registry.ResolvePaths(a.getenv)
	if err != nil {
		return &exitError{exitNotReady, err}
	}
	path := paths.Memory(group)
	if there, err := sqlitefile.Exists(path); err == nil && !there && c.Name() != "import" {
		return &exitError{exitFailed, fmt.Errorf("group %s has no memory yet", group)}
	}
	store, err := memory.Open(c.Context(), path, memory.Options{
		Group: group, Now: time.Now, Embed: settings.Embed, Model: settings.Model, PurgeAfter: settings.PurgeAfter,
		BriefEntries: settings.BriefEntries, BriefChars: settings.BriefChars, Warn: func(text string) { a.printer(a.stderr).Line("%s", text) },
	})
	var unusable *sqlitefile.UnusableError
	if errors.As(err, &unusable) {
		return &exitError{exitNotReady, err}
	}
	if err != nil {
		return err
	}
	return errors.Join(use(c.Context(), memories{store, group, rt}), store.Close())
}

func (a *app) memoryListCommand() *cobra.Command {
	var f memory.Filter
	var session string
	c := &cobra.Command{
		Use: "list", Short: "list entries, the latest first", Args: noArguments,
		Example: "  nacre memory list\n  nacre memory list --session k3f9ab --all      what a session wrote",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return usage("--limit is %d: write 1 or more", f.Limit)
			}
			f.Session = nacre.SessionID(session)
			return a.withMemory(c, func(ctx context.Context, m memories) error {
				list, err := m.List(ctx, f)
				if err != nil {
					return err
				}
				return a.printMemories(list)
			})
		},
	}
	c.Flags().StringVar(&session, "session", "", "only what this session wrote")
	c.Flags().StringVar(&f.Type, "type", "", "only preference, fact, instruction, context or correction")
	c.Flags().BoolVar(&f.Superseded, "all", false, "also what was superseded")
	c.Flags().IntVar(&f.Limit, "limit", 100, "the most entries listed")
	return c
}

func (a *app) printMemories(list []memory.Entry) error {
	if a.json {
		return printJSON(a.stdout, list)
	}
	rows := make([][]string, 0, len(list))
	for _, e := range list {
		rows = append(rows, memoryRow(e))
	}
	a.printer(a.stdout).Table([]string{"id", "type", "trust", "session", "written", "content"}, rows)
	return nil
}

func memoryRow(e memory.Entry) []string {
	day, _, _ := strings.Cut(e.CreatedAt, "T")
	content := firstLine(e.Content)
	if e.SupersededBy != "" {
		content += " (superseded)"
	}
	return []string{e.ID, e.Type, e.Trust.String(), string(e.Provenance.Session), day, content}
}

func (a *app) memorySearchCommand() *cobra.Command {
	var q memory.Query
	c := &cobra.Command{
		Use: "search [WORDS…]", Short: "search as agents do; without words, the most recent",
		Example: "  nacre memory search user-agent\n  nacre memory search --tag style --limit 5 tabs or spaces",
		RunE: func(c *cobra.Command, args []string) error {
			if q.Limit < 1 || q.Limit > memory.MaxResults {
				return usage("--limit is %d: write 1 to %d", q.Limit, memory.MaxResults)
			}
			q.Text = strings.Join(args, " ")
			return a.withMemory(c, func(ctx context.Context, m memories) error {
				hits, err := m.Search(ctx, q)
				if err != nil {
					return err
				}
				return a.printHits(hits)
			})
		},
	}
	c.Flags().StringArrayVar(&q.Tags, "tag", nil, "only entries with this tag; given twice, with both")
	c.Flags().StringVar(&q.Type, "type", "", "only preference, fact, instruction, context or correction")
	c.Flags().BoolVar(&q.Superseded, "all", false, "also what was superseded")
	c.Flags().IntVar(&q.Limit, "limit", 20, "the most entries found")
	return c
}

func (a *app) printHits(hits []memory.Hit) error {
	if a.json {
		return printJSON(a.stdout, hits)
	}
	rows := make([][]string, 0, len(hits))
	for _, h := range hits {
		rows = append(rows, append([]string{fmt.Sprintf("%.2f", h.Relevance)}, memoryRow(h.Entry)...))
	}
	a.printer(a.stdout).Table([]string{"", "id", "type", "trust", "session", "written", "content"}, rows)
	return nil
}

func (a *app) memoryShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show an entry, with its links and where it comes from", Args: oneArgument("an entry's id"), Example: "  nacre memory show mem-…",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withMemory(c, func(ctx context.Context, m memories) error {
				e, links, err := m.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return printJSON(a.stdout, struct {
						memory.Entry
						Links []memory.Link `json:"links"`
					}{e, links})
				}
				a.showMemory(e, links)
				return nil
			})
		},
	}
}

func (a *app) showMemory(e memory.Entry, links []memory.Link) {
	p := a.printer(a.stdout)
	p.Field("entry", "%s", e.ID)
	p.Field("type", "%s", e.Type)
	p.Field("trust", "%s; its writer had read %s text", e.Trust, e.Label)
	p.Field("session", "%s", e.Provenance.Session)
	p.Field("written", "%s", e.CreatedAt)
	p.Field("tags", "%s", orNone(some(e.Tags)))
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

func (a *app) memoryTrustCommand(name, short string, trust nacre.Label) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID…", Short: short, Example: "  nacre memory " + name + " mem-…",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes ids of entries; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.withMemory(c, func(ctx context.Context, m memories) error {
				for _, id := range args {
					if err := m.setTrust(ctx, name, id, trust); err != nil {
						return err
					}
				}
				if a.json {
					return printJSON(a.stdout, map[string]any{"trust": trust, "ids": args})
				}
				a.printer(a.stdout).Field(name+"ed", "%s", strings.Join(args, ", "))
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
	return m.runtime.ChangeMemory(ctx, m.group, what, operator(), marks, func() error { return m.Trust(ctx, id, trust) })
}

func (a *app) memoryExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "write all entries as lines of JSON", Args: noArguments, Example: "  nacre memory export --group main > main.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withMemory(c, func(ctx context.Context, m memories) error {
				_, err := m.Export(ctx, a.stdout)
				return err
			})
		},
	}
}

func (a *app) memoryImportCommand() *cobra.Command {
	var trusted bool
	c := &cobra.Command{
		Use: "import FILE", Short: "store what export wrote: all of it, or nothing", Args: oneArgument("a file, or - for what comes in"),
		Long: `Stores the entries of an export under new ids. Nobody vouches for them: they are
untrusted, whatever the file says, until you trust them one by one, or all of
them with --trusted. They come from a session of their own, by which they can be
listed and forgotten again.`,
		Example: "  nacre memory import main.jsonl --group family",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withMemory(c, func(ctx context.Context, m memories) error { return a.importMemories(ctx, m, args[0], trusted) })
		},
	}
	c.Flags().BoolVar(&trusted, "trusted", false, "vouch for all of them")
	return c
}

func (a *app) importMemories(ctx context.Context, m memories, path string, trusted bool) error {
	from := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return &usageError{err}
		}
		defer func() { _ = f.Close() }() // it was only read
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return usage("%s is not a file", path)
		}
		from = f
	}
	w := memory.Writer{Session: nacre.SessionID("import-" + strings.ToLower(rand.Text()[:12])), Operator: trusted}
	var n int
	err := m.runtime.ChangeMemory(ctx, m.group, "import as "+string(w.Session), operator(), nil, func() (err error) {
		n, err = m.Import(ctx, w, from)
		return err
	})
	if errors.Is(err, memory.ErrInvalid) {
		return &usageError{fmt.Errorf("%s: %w", path, err)}
	}
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"imported": n, "session": w.Session, "trusted": trusted})
	}
	a.printer(a.stdout).Field("imported", "%d entries as session %s", n, w.Session)
	return nil
}
