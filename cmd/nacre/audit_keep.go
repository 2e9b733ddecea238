package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/registry"
)

func (a *app) auditExport() *cobra.Command {
	var session, out string
	export := &cobra.Command{
		Use: "export --session SESSION", Short: "write a session's chains to a file that is verified elsewhere",
		Long: `Writes the session's chains, and the index that vouches for them, to one file.
Whoever has the file and this installation's audit.pub verifies it with
nacre audit verify --bundle, or with verify_audit.py, without this machine.`,
		Example: "  nacre audit export --session k3f9ab -o k3f9ab.bundle",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if session == "" {
				return usage("--session: name a session; nacre sessions list shows those there are")
			}
			id, err := nacre.ParseSessionID(session)
			if err != nil {
				return usage("--session: %w", err)
			}
			if out == "" {
				out = string(id) + ".bundle"
			}
			return a.exportAudit(c.Context(), id, out)
		},
	}
	export.Flags().StringVar(&session, "session", "", "session to export")
	export.Flags().StringVarP(&out, "output", "o", "", "file to write (default: SESSION.bundle)")
	return export
}

func (a *app) exportAudit(ctx context.Context, id nacre.SessionID, path string) error {
	paths, keys, err := a.auditKeys()
	if err != nil {
		return err
	}
	known, err := registry.New(paths).Show(id)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage("--output: %w", err)
	}
	err = audit.Export(ctx, paths.Audit(), known.Chains, audit.VerifyOptions{PublicKey: keys.Public(), MACKey: keys.MAC()}, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(errors.Join(err, os.Remove(path)))
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"file": path, "chains": known.Chains})
	}
	a.printer(a.stdout).Line("%s holds %d chains of session %s", path, len(known.Chains), id)
	return nil
}

// failed marks evidence that does not hold, or is not there yet, as exit 1.
func failed(err error) error {
	if errors.Is(err, audit.ErrTampered) || errors.Is(err, audit.ErrUnsealed) || errors.Is(err, audit.ErrLocked) {
		return &exitError{exitFailed, err}
	}
	return err
}

// auditKeys are where this installation's audit is, and its keys.
func (a *app) auditKeys() (registry.Paths, audit.Keys, error) {
	paths, err := registry.ResolvePaths(a.getenv)
	if err != nil {
		return paths, audit.Keys{}, err
	}
	keys, err := audit.LoadKeys(paths.Keys())
	return paths, keys, err
}

func (a *app) verifyBundle(ctx context.Context, path, key string) (err error) {
	var public []byte
	if key == "" {
		rt, err := a.open(ctx)
		if err != nil {
			return err
		}
		public = rt.PublicKey()
	} else if public, err = audit.ReadPublicKey(key); err != nil {
		return usage("--public-key: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return usage("--bundle: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	scratch, err := os.MkdirTemp("", "nacre-bundle-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	reports, err := audit.VerifyBundle(f, scratch, audit.VerifyOptions{PublicKey: public})
	return a.verdict(reports, err, "")
}

func (a *app) auditPrune() *cobra.Command {
	var before string
	var dry bool
	prune := &cobra.Command{
		Use: "prune --before DATE", Short: "remove old records, under a signed checkpoint",
		Long: `Removes closed chains, and the leading segments of closed chains, whose records
are all older than the date. What goes is verified first and named in a checkpoint in
the index, signed with it: nacre audit verify accepts exactly that and finds anything
else that is missing. Receipts and bundles that were kept elsewhere stay good.`,
		Example: "  nacre audit prune --before 2026-01-02 --dry-run\n  nacre audit prune --before 2026-01-02",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := parseMoment("--before", before)
			if err != nil {
				return err
			}
			if at.IsZero() {
				return usage("say with --before what goes; see nacre audit prune --help")
			}
			return a.pruneAudit(c.Context(), at, dry)
		},
	}
	prune.Flags().StringVar(&before, "before", "", "remove what is older: a date, or a time of RFC 3339")
	prune.Flags().BoolVar(&dry, "dry-run", false, "only tell what would go")
	return prune
}

func (a *app) pruneAudit(ctx context.Context, before time.Time, dry bool) error {
	paths, keys, err := a.auditKeys()
	if err != nil {
		return err
	}
	if before.After(time.Now()) {
		return usage("--before %s lies ahead", before.Format(time.DateOnly))
	}
	list, err := audit.Prune(ctx, audit.PruneOptions{
		Root: paths.Audit(), Keys: keys, Now: time.Now, Before: before, By: operator(), DryRun: dry,
	})
	if a.json {
		return errors.Join(failed(err), printJSON(a.stdout, map[string]any{"dry_run": dry, "chains": append([]audit.Pruned{}, list...)}))
	}
	p := a.printer(a.stdout)
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

func (a *app) auditIndex() *cobra.Command {
	return &cobra.Command{
		Use: "index", Short: "build or update the index that audit show searches",
		Long: `Brings the search index beside the chains up to date, which nacre audit show does
too. It is never evidence: it may be deleted, and is built anew from the chains.`,
		Example: "  nacre audit index", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			rt, err := a.open(c.Context())
			if err != nil {
				return err
			}
			catalog, err := audit.OpenCatalog(c.Context(), rt.AuditRoot())
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{exitNotReady, errors.New("nothing was recorded yet: there is nothing to index")}
			}
			if err != nil {
				return failed(err)
			}
			if err := catalog.Close(); err != nil {
				return err
			}
			path := audit.CatalogPath(rt.AuditRoot())
			if a.json {
				return printJSON(a.stdout, map[string]string{"file": path})
			}
			a.printer(a.stdout).Line("%s is up to date", path)
			return nil
		},
	}
}

func (a *app) auditRotateKey() *cobra.Command {
	return &cobra.Command{
		Use: "rotate-key", Short: "replace the keys that sign and authenticate the audit",
		Long: `Makes new keys. The old signing key introduces the new one by a signed record in the
index, so that what was signed before stays proven, and whoever trusts the old public
key can go on. Hand out the new audit.pub all the same: it does not trust an old key
that was stolen. No session may be running. Call it again after an interruption.`,
		Example: "  nacre audit rotate-key", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			paths, err := registry.ResolvePaths(a.getenv)
			if err != nil {
				return err
			}
			keys, err := audit.RotateKeys(c.Context(), paths.Audit(), paths.Keys(), time.Now)
			if err != nil {
				return failed(err)
			}
			public := fmt.Sprintf("%x", []byte(keys.Public()))
			if a.json {
				return printJSON(a.stdout, map[string]string{"public_key": public})
			}
			a.printer(a.stdout).Line("the audit is signed with %s from now on", public)
			return nil
		},
	}
}
