package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sentence"
)

func (cmd auditCommand) exportCommand() *cobra.Command {
	var session, out string
	export := &cobra.Command{
		Use: "export --session SESSION", Short: "write a session's chains to a file that is verified elsewhere",
		Long: `Writes the session's chains, and the index that vouches for them, to one file.
Whoever has the file and this installation's audit.pub verifies it with
nacre audit verify --bundle, or with verify_audit.py, without this machine.`,
		Example: "  nacre audit export --session k3f9ab -o k3f9ab.bundle",
		Args:    command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if session == "" {
				return command.Usage("--session: name a session; nacre sessions list shows those there are")
			}
			id, err := nacre.ParseSessionID(session)
			if err != nil {
				return command.Usage("--session: %w", err)
			}
			if out == "" {
				out = string(id) + ".bundle"
			}
			return cmd.exportAudit(c.Context(), id, out)
		},
	}
	export.Flags().StringVar(&session, "session", "", "session to export")
	export.Flags().StringVarP(&out, "output", "o", "", "file to write (default: SESSION.bundle)")
	command.CompletesFlag(export, "session", Commands(cmd).sessionIDs)
	return export
}

func (cmd auditCommand) exportAudit(ctx context.Context, id nacre.SessionID, path string) error {
	paths, keys, err := cmd.auditKeys()
	if err != nil {
		return err
	}
	known, err := registry.New(paths).Show(id)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return command.Usage("--output: %w", err)
	}
	err = audit.Export(ctx, paths.Audit(), known.Chains, audit.VerifyOptions{PublicKey: keys.Public(), MACKey: keys.MAC()}, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(errors.Join(err, os.Remove(path)))
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"file": path, "chains": known.Chains})
	}
	cmd.Printer(cmd.Stdout).Line("%s holds %s of session %s", path, sentence.Many(int64(len(known.Chains)), "chain"), id)
	return nil
}

// failed marks evidence that does not hold, or is not there yet, as exit 1.
func failed(err error) error {
	if errors.Is(err, audit.ErrTampered) || errors.Is(err, audit.ErrUnsealed) || errors.Is(err, audit.ErrLocked) {
		return command.ExitWith(command.ExitFailed, err)
	}
	return err
}

// auditKeys are where this installation's audit is, and its keys.
func (cmd auditCommand) auditKeys() (registry.Paths, audit.Keys, error) {
	paths, err := registry.ResolvePaths(cmd.Getenv)
	if err != nil {
		return paths, audit.Keys{}, err
	}
	keys, err := audit.LoadKeys(paths.Keys())
	return paths, keys, err
}

func (cmd auditCommand) verifyBundle(ctx context.Context, path, key string) (err error) {
	var public []byte
	if key == "" {
		rt, err := cmd.Open(ctx)
		if err != nil {
			return err
		}
		public = rt.PublicKey()
	} else if public, err = audit.ReadPublicKey(key); err != nil {
		return command.Usage("--public-key: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return command.Usage("--bundle: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	scratch, err := os.MkdirTemp("", "nacre-bundle-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	reports, err := audit.VerifyBundle(f, scratch, audit.VerifyOptions{PublicKey: public})
	return cmd.verdict(reports, err, "")
}

func (cmd auditCommand) pruneCommand() *cobra.Command {
	var before string
	var dry bool
	prune := &cobra.Command{
		Use: "prune --before DATE", Short: "remove old records, under a signed checkpoint",
		Long: `Removes closed chains, and the leading segments of closed chains, whose records
are all older than the date. What goes is verified first and named in a checkpoint in
the index, signed with it: nacre audit verify accepts exactly that and finds anything
else that is missing. Receipts and bundles that were kept elsewhere stay good. With [store],
what goes here leaves the store, too; of a machine that is gone: nacre store retire.`,
		Example: "  nacre audit prune --before 2026-01-02 --dry-run\n  nacre audit prune --before 2026-01-02",
		Args:    command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := parseMoment("--before", before)
			if err != nil {
				return err
			}
			if at.IsZero() {
				return command.Usage("say with --before what goes; see nacre audit prune --help")
			}
			return cmd.pruneAudit(c.Context(), at, dry)
		},
	}
	prune.Flags().StringVar(&before, "before", "", "remove what is older: a date, or a time of RFC 3339")
	prune.Flags().BoolVar(&dry, "dry-run", false, "only tell what would go")
	return prune
}

func (cmd auditCommand) pruneAudit(ctx context.Context, before time.Time, dry bool) error {
	if before.After(time.Now()) {
		return command.Usage("--before %s lies ahead", before.Format(time.DateOnly))
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if !dry { // rows of the ledger that are still to be made from what goes
		Commands(cmd).settleRuns(ctx, rt)
	}
	list, err := assembly.PruneAudit(ctx, rt, audit.PruneOptions{Before: before, By: command.Operator(), DryRun: dry})
	if cmd.JSON {
		return errors.Join(failed(err), cmd.PrintJSON(map[string]any{"dry_run": dry, "chains": append([]audit.Pruned{}, list...)}))
	}
	p := cmd.Printer(cmd.Stdout)
	for _, pruned := range list {
		p.Line("%s", prunedLine(pruned, dry))
	}
	if len(list) == 0 && err == nil {
		p.Line("nothing is older than %s", before.Format(time.RFC3339))
	}
	return failed(err)
}

func prunedLine(p audit.Pruned, dry bool) string {
	verb, what := "removed", "the beginning of"
	if dry {
		verb = "would remove"
	}
	if p.Whole {
		what = "all of"
	}
	switch {
	case p.Skipped != "":
		return fmt.Sprintf("%s: left alone: %s", p.Chain, p.Skipped)
	case p.Finished:
		return fmt.Sprintf("%s: %s what an interrupted removal left", p.Chain, verb)
	}
	return fmt.Sprintf("%s: %s %s it: %d records, %d bytes", p.Chain, verb, what, p.Records, p.Bytes)
}

func (cmd auditCommand) indexCommand() *cobra.Command {
	return &cobra.Command{
		Use: "index", Short: "build or update the index that audit show searches",
		Long: `Brings the search index beside the chains up to date, which nacre audit show does
too. It is never evidence: it may be deleted, and is built anew from the chains.`,
		Example: "  nacre audit index", Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			catalog, err := audit.OpenCatalog(c.Context(), rt.AuditRoot())
			if errors.Is(err, fs.ErrNotExist) {
				return command.ExitWith(command.ExitNotReady, errors.New("nothing was recorded yet: there is nothing to index"))
			}
			if err != nil {
				return failed(err)
			}
			if err := catalog.Close(); err != nil {
				return err
			}
			path := audit.CatalogPath(rt.AuditRoot())
			if cmd.JSON {
				return cmd.PrintJSON(map[string]string{"file": path})
			}
			cmd.Printer(cmd.Stdout).Line("%s is up to date", path)
			return nil
		},
	}
}

func (cmd auditCommand) rotateKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rotate-key", Short: "replace the keys that sign and authenticate the audit",
		Long: `Makes new keys. The old signing key introduces the new one by a signed record in the
index, so that what was signed before stays proven, and whoever trusts the old public
key can go on. Hand out the new audit.pub all the same: it does not trust an old key
that was stolen. No session may be running. Call it again after an interruption.`,
		Example: "  nacre audit rotate-key", Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			paths, err := registry.ResolvePaths(cmd.Getenv)
			if err != nil {
				return err
			}
			keys, err := audit.RotateKeys(c.Context(), paths.Audit(), paths.Keys(), time.Now)
			if err != nil {
				return failed(err)
			}
			public := fmt.Sprintf("%x", []byte(keys.Public()))
			if cmd.JSON {
				return cmd.PrintJSON(map[string]string{"public_key": public})
			}
			cmd.Printer(cmd.Stdout).Line("the audit is signed with %s from now on", public)
			return nil
		},
	}
}
