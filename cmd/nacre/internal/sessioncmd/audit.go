package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type auditCommand Commands

func (cmd auditCommand) command() *cobra.Command {
	var receipt, bundle, root, key string
	verify := &cobra.Command{
		Use: "verify [SESSION]", Short: "check chains, signatures and receipts",
		Long: `Checks the links, the signed heads and the index of one session's chains, or of all.
With --receipt it checks the receipt's signature and that the chain still reaches
the heads in it, which finds truncation and deletion too. --root and --public-key
verify a copy of somebody else's audit, and --bundle a file of nacre audit export,
by this installation's key or --public-key. Where machines share a [store], it checks what
that has of the chains of all of them, too. Exit 1 means that something does not hold.`,
		Example: "  nacre audit verify\n  nacre audit verify --receipt k3f9ab.receipt",
		Args: func(c *cobra.Command, args []string) error {
			if bundle != "" && (len(args) > 0 || receipt != "" || root != "") {
				return command.Usage("--bundle is verified by itself; see nacre audit verify --help")
			}
			if len(args) > 1 || (len(args) == 1 && receipt != "") {
				return command.Usage("name one session or one --receipt; see nacre audit verify --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if bundle != "" {
				return cmd.verifyBundle(c.Context(), bundle, key)
			}
			v, err := cmd.verification(c.Context(), root, key)
			if err != nil {
				return err
			}
			if receipt != "" {
				return cmd.verifyReceipt(v, receipt)
			}
			return cmd.verifyChains(c.Context(), v, args)
		},
	}
	verify.Flags().StringVar(&receipt, "receipt", "", "receipt to check the audit against")
	verify.Flags().StringVar(&bundle, "bundle", "", "file that nacre audit export wrote")
	verify.Flags().StringVar(&root, "root", "", "folder of the chains (default: this installation's)")
	verify.Flags().StringVar(&key, "public-key", "", "file with the key to trust (default: this installation's)")
	command.Completes(verify, Commands(cmd).sessionIDs)
	return command.Group("audit", "show, verify and keep what happened", cmd.showCommand(), verify, cmd.exportCommand(), cmd.pruneCommand(), cmd.indexCommand(), cmd.rotateKeyCommand())
}

// verification is which audit is checked, and whom it trusts.
type verification struct {
	root    string
	options audit.VerifyOptions
	session func(nacre.SessionID) ([]audit.Report, error)
	// machines verifies what the store has of all machines' chains.
	machines func(context.Context) ([]audit.Report, error)
	// killed lists sessions whose process was killed and whose chains are not sealed yet.
	killed func() ([]nacre.SessionID, error)
}

// explain adds what a killed process may have left to what does not hold.
func (v verification) explain(err error) error {
	if err == nil || v.killed == nil {
		return err
	}
	if killed, listErr := v.killed(); listErr == nil && len(killed) > 0 {
		return fmt.Errorf("%w\nsession %s was killed: the next nacre run or exec seals what it left, and so does nacre doctor --fix", err, killed[0])
	}
	return err
}

func (cmd auditCommand) verification(ctx context.Context, root, key string) (verification, error) {
	if (root == "") != (key == "") {
		return verification{}, command.Usage("--root and --public-key go together: a copy is verified with the key of who wrote it")
	}
	if root != "" {
		public, err := audit.ReadPublicKey(key)
		if err != nil {
			return verification{}, command.Usage("--public-key: %w", err)
		}
		return verification{root: root, options: audit.VerifyOptions{PublicKey: public}}, nil
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return verification{}, err
	}
	return verification{root: rt.AuditRoot(), options: audit.VerifyOptions{PublicKey: rt.PublicKey()}, session: rt.VerifyAudit, killed: rt.Interrupted,
		machines: func(ctx context.Context) ([]audit.Report, error) { return assembly.VerifyMachines(ctx, rt) }}, nil
}

func (cmd auditCommand) verifyReceipt(v verification, path string) error {
	receipt, err := audit.ReadReceipt(path)
	if err != nil {
		if errors.Is(err, audit.ErrTampered) {
			return command.ExitWith(command.ExitFailed, err)
		}
		return command.Usage("--receipt: %w", err)
	}
	report, err := audit.VerifyReceipt(receipt, v.root, v.options.PublicKey)
	return cmd.verdict([]audit.Report{report}, err, fmt.Sprintf("receipt of session %s holds: ", receipt.Session))
}

func (cmd auditCommand) verifyChains(ctx context.Context, v verification, args []string) error {
	if len(args) == 1 {
		id, err := nacre.ParseSessionID(args[0])
		if err != nil {
			return command.UsageOf(err)
		}
		if v.session == nil {
			return command.Usage("a copy is verified as a whole: leave the session out")
		}
		reports, err := v.session(id)
		return cmd.verdict(reports, v.explain(err), "")
	}
	if v.session != nil {
		reports, err := v.session("")
		others, otherErr := v.machines(ctx)
		return cmd.verdict(append(reports, others...), errors.Join(v.explain(err), otherErr), "")
	}
	all, err := audit.VerifyAll(v.root, v.options)
	return cmd.verdict(append([]audit.Report{all.Index}, all.Chains...), err, "")
}

// verdict prints what was found; what does not hold is exit 1.
func (cmd auditCommand) verdict(reports []audit.Report, err error, heading string) error {
	if cmd.JSON {
		body := map[string]any{"ok": err == nil, "chains": append([]audit.Report{}, reports...)}
		if err != nil {
			body["error"] = err.Error()
		}
		if printErr := cmd.PrintJSON(body); printErr != nil {
			return printErr
		}
		if err != nil {
			return command.Exit(command.ExitFailed)
		}
		return nil
	}
	if err != nil {
		return command.ExitWith(command.ExitFailed, err)
	}
	p := cmd.Printer(cmd.Stdout)
	if len(reports) == 0 {
		p.Line("nothing was recorded yet")
	}
	for _, r := range reports {
		p.Mark("ok", "", heading+chainLine(r))
	}
	return nil
}

func chainLine(r audit.Report) string {
	line := fmt.Sprintf("%s: %d records, %s", r.Chain, r.Records, r.State)
	if !r.First.IsZero() {
		line += ", over " + terminal.Seconds(r.Last.Sub(r.First))
	}
	if r.OutcomeUnknown > 0 {
		line += fmt.Sprintf(", %d calls without an end: record %s", r.OutcomeUnknown, begun(r.Unfinished))
	}
	return line
}

// maxBegun is how many calls without an end a line names.
const maxBegun = 5

// begun lists the records with which calls began that have no end.
func begun(unfinished []audit.Unfinished) string {
	var records []string
	for _, u := range unfinished {
		if u.Kind == nacre.KindCallBegin {
			records = append(records, strconv.FormatUint(u.Seq, 10))
		}
	}
	if len(records) > maxBegun {
		records = append(records[:maxBegun], "…")
	}
	return strings.Join(records, ", ")
}
