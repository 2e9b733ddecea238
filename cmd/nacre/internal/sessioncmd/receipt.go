package sessioncmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/account"
	"github.com/nacre-dev/nacre/internal/disk"
)

type receiptCommand Commands

func (cmd receiptCommand) command() *cobra.Command {
	var out string
	var html bool
	write := &cobra.Command{
		Use: "receipt NAME", Short: "write one file that accounts for a run, a visit, a command or a task, and check one",
		Long: `Writes the receipt of a session's latest work, or of a row of the ledger: its records
from the first to the signed end, what they link from the policy to what was
remembered, and a signature. Whoever has the file and this installation's
audit.pub checks it without this machine. It holds what the audit holds: what is
secret is redacted, and what the agent did is not.`,
		Example: "  nacre receipt k3f9ab\n  nacre receipt k3f9ab --html\n  nacre receipt verify k3f9ab.receipt.json --public-key audit.pub",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return cmd.write(c.Context(), args[0], out, html) },
	}
	write.Flags().StringVarP(&out, "output", "o", "", "file to write, - for standard output (default: NAME.receipt.json or .html)")
	write.Flags().BoolVar(&html, "html", false, "write one page for a person instead, which needs nothing else")
	command.Completes(write, Commands(cmd).sessionIDs)
	write.AddCommand(cmd.verifyCommand(), &cobra.Command{
		Use: "schema", Short: "print the JSON Schema of a receipt's file", Args: command.NoArguments,
		Example: "  nacre receipt schema > receipt.schema.json",
		RunE:    func(*cobra.Command, []string) error { _, err := cmd.Stdout.Write(account.Schema()); return err },
	})
	return write
}

func (cmd receiptCommand) write(ctx context.Context, name, out string, html bool) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	a, err := assembly.AccountOf(ctx, rt, name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	ending := ".receipt.json"
	if html {
		ending = ".receipt.html"
		err = a.Page(&text)
	} else {
		var data []byte
		data, err = a.Bytes()
		text.Write(data)
	}
	switch {
	case err != nil:
		return err
	case out == "-":
		_, err = cmd.Stdout.Write(text.Bytes())
		return err
	case out == "":
		out = a.Receipt.Facts["work"] + ending
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return command.Usage("--output: %w", err)
	}
	_, err = text.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(out))
	}
	return cmd.told(a, out, "")
}

func (cmd receiptCommand) verifyCommand() *cobra.Command {
	var key, html string
	verify := &cobra.Command{
		Use: "verify FILE", Short: "check a receipt's file by a public key and nothing else",
		Long: `Checks the signatures, that the records link from the first to the signed end, and
that what the receipt says follows from them. The key is this installation's, or
--public-key. Exit 1 means that something does not hold.`,
		Example: "  nacre receipt verify k3f9ab.receipt.json --public-key audit.pub",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return cmd.verify(c.Context(), args[0], key, html) },
	}
	verify.Flags().StringVar(&key, "public-key", "", "file with the key to trust (default: this installation's)")
	verify.Flags().StringVar(&html, "html", "", "also write what it says as one page for a person, to this file")
	return verify
}

func (cmd receiptCommand) verify(ctx context.Context, path, key, html string) error {
	data, err := disk.Read(path, account.MaxFile)
	if err != nil {
		return command.Usage("%w", err)
	}
	var public []byte
	if key != "" {
		if public, err = audit.ReadPublicKey(key); err != nil {
			return command.Usage("--public-key: %w", err)
		}
	} else {
		rt, err := cmd.Open(ctx)
		if err != nil {
			return err
		}
		public = rt.PublicKey()
	}
	a, err := account.Check(data, public)
	if errors.Is(err, audit.ErrTampered) {
		return command.ExitWith(command.ExitFailed, err)
	}
	if err != nil {
		return err
	}
	if html != "" {
		f, err := os.OpenFile(html, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return command.Usage("--html: %w", err)
		}
		if err := errors.Join(a.Page(f), f.Close()); err != nil {
			return err
		}
	}
	return cmd.told(a, path, " · it holds")
}

// told says what stands in a receipt.
func (cmd receiptCommand) told(a *account.Account, path, verdict string) error {
	r := a.Receipt
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"ok": true, "file": path, "receipt": r, "links": a.Links})
	}
	p := cmd.Printer(cmd.Stdout)
	p.Mark("ok", "", fmt.Sprintf("%s · %s %s: %s", path, r.Facts["kind"], r.Facts["work"], r.Outcome)+verdict)
	for _, g := range a.Links.Groups() {
		for i, l := range g.Links {
			name := ""
			if i == 0 {
				name = g.Name
			}
			p.Field(name, "%s", account.Words(l))
		}
	}
	return nil
}
