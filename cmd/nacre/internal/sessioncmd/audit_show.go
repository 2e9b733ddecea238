package sessioncmd

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/sentence"
)

// auditQuery is what nacre audit show was asked for.
type auditQuery struct {
	session, group, kind, outcome, reason, capability string
	since, until, after                               string
	limit                                             int
	follow                                            bool
}

func (cmd auditCommand) showCommand() *cobra.Command {
	var q auditQuery
	show := &cobra.Command{
		Use: "show [SESSION]", Short: "show records: of a session, or those that fit",
		Long: `Shows what happened in a session, in its order and a sentence for each record, and counts at the
end. --kind takes one kind, such as call.reject, or all that begin with a word, such as call. -f goes
on while the session does. Digests and ids that only programs compare are left out; --json shows
records whole. Without a session, or with other flags, it shows the records of all sessions that fit
all of them, by time. Times are RFC 3339, or a date, which means its beginning in UTC; --since is
inclusive, --until is not. A session of another machine that shares the [store] is MACHINE/SESSION, as
nacre sessions list has it: its chains are verified before they are shown.`,
		Example: "  nacre audit show k3f9ab\n  nacre audit show k3f9ab --kind approval -f\n  nacre audit show --kind call.reject --since 2026-01-02 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && q.session != "" {
				return command.Usage("name one session; see nacre audit show --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !filters(c, "kind") {
				return cmd.showRecords(c.Context(), args[0], q.kind, q.follow)
			}
			if q.follow {
				return command.Usage("-f goes with one session, and with --kind; see nacre audit show --help")
			}
			if len(args) == 1 {
				q.session = args[0]
			}
			if q.session == "" && !filters(c) {
				return command.Usage("name a session, or say with a flag which records; see nacre audit show --help")
			}
			return cmd.showFound(c.Context(), q)
		},
	}
	f := show.Flags()
	f.StringVar(&q.session, "session", "", "of this session")
	f.StringVar(&q.group, "group", "", "of this group's sessions")
	f.StringVar(&q.kind, "kind", "", "of this kind, such as call.reject")
	f.BoolVarP(&q.follow, "follow", "f", false, "go on with what is recorded, until the session is over")
	f.StringVar(&q.outcome, "outcome", "", "with this outcome, such as denied")
	f.StringVar(&q.reason, "reason", "", "with this reason")
	f.StringVar(&q.capability, "capability", "", "about this capability")
	f.StringVar(&q.since, "since", "", "from this time on")
	f.StringVar(&q.until, "until", "", "before this time")
	f.StringVar(&q.after, "after", "", "the next page: what the page before ended with")
	f.IntVar(&q.limit, "limit", audit.DefaultPage, "how many records at most")
	command.Completes(show, Commands(cmd).sessionIDs)
	command.CompletesFlag(show, "session", Commands(cmd).sessionIDs)
	return show
}

// filters reports whether a flag was given that says which records, beside the allowed.
func filters(c *cobra.Command, allowed ...string) bool {
	for _, name := range []string{"session", "group", "kind", "outcome", "reason", "capability", "since", "until", "after", "limit"} {
		if c.Flags().Changed(name) && !slices.Contains(allowed, name) {
			return true
		}
	}
	return false
}

func (cmd auditCommand) showRecords(ctx context.Context, name, kind string, follow bool) error {
	machine, id, err := elsewhere(name)
	if err != nil {
		return command.UsageOf(err)
	}
	if machine != "" && follow {
		return command.Usage("-f follows a session of this machine; leave it out for what the store has of %s", name)
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	p := cmd.Printer(cmd.Stdout)
	var shown tally
	others := map[string]bool{}
	show := func(e audit.Entry) error {
		if kind != "" && string(e.Kind) != kind && !strings.HasPrefix(string(e.Kind), kind+".") {
			others[string(e.Kind)] = true
			return nil
		}
		if cmd.JSON {
			return cmd.PrintJSON(e)
		}
		shown.add(e)
		p.Line("%4d  %s  %-14s %s", e.Seq, e.Time.Local().Format("15:04:05"), e.Kind, sentence.Of(e))
		return nil
	}
	switch {
	case machine != "":
		err = assembly.ReadOtherAudit(ctx, rt, machine, id, show)
	case follow:
		err = cmd.Follow(ctx, func(ctx context.Context) error { return assembly.FollowAudit(ctx, rt, id, show) })
	default:
		err = rt.ReadAudit(id, show)
	}
	switch {
	case err != nil || cmd.JSON:
	case shown.records > 0:
		p.Line("%s", shown.String())
	case len(others) > 0: // a kind that was mistyped is told from one that is not there
		p.Line("no record is of the kind %s; there are %s", kind, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	}
	return err
}

func (cmd auditCommand) showFound(ctx context.Context, asked auditQuery) (err error) {
	q, err := asked.parse()
	if err != nil {
		return command.UsageOf(err)
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	c, err := audit.OpenCatalog(ctx, rt.AuditRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was recorded yet
	}
	if err != nil {
		return failed(err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	page, next, err := c.Find(ctx, q)
	if errors.Is(err, audit.ErrQuery) {
		return command.UsageOf(err)
	}
	if err != nil {
		return err
	}
	p := cmd.Printer(cmd.Stdout)
	if len(page) == 0 && !cmd.JSON {
		p.Line("no record fits all of that")
	}
	for _, found := range page {
		if cmd.JSON {
			if err := cmd.PrintJSON(found); err != nil {
				return err
			}
			continue
		}
		p.Line("%s  %s %d  %-14s %s", found.Time.Local().Format("2006-01-02 15:04:05"), found.Chain, found.Seq, found.Kind, sentence.Of(found.Entry))
	}
	if next != "" {
		cmd.Printer(cmd.Stderr).Line("there is more: --after %s", next)
	}
	return nil
}

func (q auditQuery) parse() (audit.Query, error) {
	out := audit.Query{
		Session: nacre.SessionID(q.session), Group: nacre.Group(q.group), Kind: nacre.Kind(q.kind), Outcome: q.outcome,
		Reason: q.reason, Capability: nacre.CapabilityID(q.capability), Limit: q.limit, After: q.after,
	}
	if q.limit <= 0 || q.limit > audit.MaxPage {
		return out, command.Usage("--limit %d: 1 to %d", q.limit, audit.MaxPage)
	}
	var err error
	if q.session != "" {
		if out.Session, err = nacre.ParseSessionID(q.session); err != nil {
			return out, err
		}
	}
	if out.Since, err = parseMoment("--since", q.since); err != nil {
		return out, err
	}
	out.Until, err = parseMoment("--until", q.until)
	return out, err
}

// parseMoment reads a time of RFC 3339 or a date; empty is the zero time.
func parseMoment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, command.Usage("%s %.40q: write 2026-01-02 or 2026-01-02T15:04:05Z", flag, text)
}
