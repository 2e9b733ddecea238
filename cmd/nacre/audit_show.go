package main

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// auditQuery is what nacre audit show was asked for.
type auditQuery struct {
	session, group, kind, outcome, reason, capability string
	since, until, after                               string
	limit                                             int
}

func (a *app) auditShow() *cobra.Command {
	var q auditQuery
	show := &cobra.Command{
		Use: "show [SESSION]", Short: "show records: of a session, or those that fit",
		Long: `Shows the records of a session in their order. With flags it shows the records
of all sessions that fit all of them, by time. Times are RFC 3339, or a date, which
means its beginning in UTC; --since is inclusive, --until is not.`,
		Example: "  nacre audit show k3f9ab\n  nacre audit show --kind call.reject --since 2026-01-02 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && q.session != "" {
				return usage("name one session; see nacre audit show --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !filters(c) {
				return a.showRecords(c.Context(), args[0])
			}
			if len(args) == 1 {
				q.session = args[0]
			}
			if q.session == "" && !filters(c) {
				return usage("name a session, or say with a flag which records; see nacre audit show --help")
			}
			return a.showFound(c.Context(), q)
		},
	}
	f := show.Flags()
	f.StringVar(&q.session, "session", "", "of this session")
	f.StringVar(&q.group, "group", "", "of this group's sessions")
	f.StringVar(&q.kind, "kind", "", "of this kind, such as call.reject")
	f.StringVar(&q.outcome, "outcome", "", "with this outcome, such as denied")
	f.StringVar(&q.reason, "reason", "", "with this reason")
	f.StringVar(&q.capability, "capability", "", "about this capability")
	f.StringVar(&q.since, "since", "", "from this time on")
	f.StringVar(&q.until, "until", "", "before this time")
	f.StringVar(&q.after, "after", "", "the next page: what the page before ended with")
	f.IntVar(&q.limit, "limit", audit.DefaultPage, "how many records at most")
	return show
}

// filters reports whether a flag of the command itself was given.
func filters(c *cobra.Command) bool {
	for _, name := range []string{"session", "group", "kind", "outcome", "reason", "capability", "since", "until", "after", "limit"} {
		if c.Flags().Changed(name) {
			return true
		}
	}
	return false
}

func (a *app) showRecords(ctx context.Context, name string) error {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return &usageError{err}
	}
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	p := a.printer(a.stdout)
	return rt.ReadAudit(id, func(e audit.Entry) error {
		if a.json {
			return printJSON(a.stdout, e)
		}
		p.Line("%4d  %s  %-14s %s", e.Seq, e.Time.Format("15:04:05.000"), e.Kind, describe(e))
		return nil
	})
}

func (a *app) showFound(ctx context.Context, asked auditQuery) (err error) {
	q, err := asked.parse()
	if err != nil {
		return &usageError{err}
	}
	rt, err := a.open(ctx)
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
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	p := a.printer(a.stdout)
	for _, found := range page {
		if a.json {
			if err := printJSON(a.stdout, found); err != nil {
				return err
			}
			continue
		}
		p.Line("%s  %s %d  %-14s %s", found.Time.Format("2006-01-02 15:04:05.000"), found.Chain, found.Seq, found.Kind, describe(found.Entry))
	}
	if next != "" {
		a.printer(a.stderr).Line("there is more: --after %s", next)
	}
	return nil
}

func (q auditQuery) parse() (audit.Query, error) {
	out := audit.Query{
		Session: nacre.SessionID(q.session), Group: nacre.Group(q.group), Kind: nacre.Kind(q.kind), Outcome: q.outcome,
		Reason: q.reason, Capability: nacre.CapabilityID(q.capability), Limit: q.limit, After: q.after,
	}
	if q.limit <= 0 || q.limit > audit.MaxPage {
		return out, usage("--limit %d: 1 to %d", q.limit, audit.MaxPage)
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
	return time.Time{}, usage("%s %.40q: write 2026-01-02 or 2026-01-02T15:04:05Z", flag, text)
}
