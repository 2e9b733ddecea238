package servecmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

type storeCommand Commands

func (cmd storeCommand) command() *cobra.Command {
	const file = "the file of a copy"
	opened := func(do func(ctx context.Context, rt *assembly.Runtime, args []string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return do(c.Context(), rt, args)
		}
	}
	return command.Group("store", "look after the database that machines share (docs/scale.md)",
		&cobra.Command{
			Use: "migrate", Short: "bring the tables forward to this version of nacre", Args: command.NoArguments, Example: "  nacre store migrate",
			Long: `Brings all tables forward in one transaction, all of them or none. Nodes do the same for the tables
that they use: with this it is done before they start. Tables of a newer nacre are refused.`,
			RunE: opened(cmd.migrate),
		},
		&cobra.Command{
			Use: "verify [FILE]", Short: "hold the store, or a copy of it, against what it should be; nothing is changed", Args: cobra.MaximumNArgs(1),
			Example: "  nacre store verify\n  nacre store verify acme.copy",
			RunE: func(c *cobra.Command, args []string) error {
				if len(args) == 1 {
					return cmd.verifyCopy(args[0])
				}
				return opened(cmd.verify)(c, args)
			},
		},
		&cobra.Command{
			Use: "backup FILE", Short: "write a copy of the store, of one moment, into a new file, while nodes go on", Args: command.OneArgument(file),
			Example: "  nacre store backup acme.copy", RunE: opened(cmd.backUp),
		},
		&cobra.Command{
			Use: "restore FILE", Short: "put a copy into an empty database, whole or not at all", Args: command.OneArgument(file),
			Long: `Puts a copy into the database that [store] url_env leads to, which must be empty. Stop all nodes first, and
start them again then: no node of before goes on in it. What happened since the copy was made is gone from
the store: messages, schedules and their ticks; and what was revoked since has to be revoked again.`,
			Example: "  nacre store restore acme.copy", RunE: opened(cmd.restore),
		},
		&cobra.Command{
			Use: "machines", Short: "list the machines that have asked to be admitted to the store; this one asks with it", Args: command.NoArguments,
			Example: "  nacre store machines", RunE: opened(cmd.machines),
		},
		&cobra.Command{
			Use: "admit MACHINE", Short: "let a machine record what it does, on the machine that holds the installation's key", Args: command.OneArgument("a machine"),
			Long: `Certifies the key of a machine that has asked: its audit chains are then the installation's, on every machine.
Whoever used the store first holds the installation's key. Compare the name with what the other machine says.`,
			Example: "  nacre store admit one-3f9a2c7b81d04e65", RunE: opened(cmd.admit),
		},
		&cobra.Command{
			Use: "retire MACHINE", Short: "take a machine that is gone for good out of the store, with its audit chains", Args: command.OneArgument("a machine"),
			Long: `Verifies the chains of a machine, removes them from the store, and signs with the installation's key that it did: nacre
audit verify accepts exactly that on every machine. What does not hold is kept. The machine records nothing any more
until it is admitted again. Make a copy first where you may need what it recorded: nacre store backup.`,
			Example: "  nacre store retire one-3f9a2c7b81d04e65", RunE: opened(cmd.retire),
		})
}

func (cmd storeCommand) migrate(ctx context.Context, rt *assembly.Runtime, _ []string) error {
	before, err := assembly.MigrateStore(ctx, rt)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(before)
	}
	rows := make([][]string, 0, len(before))
	for _, v := range before {
		rows = append(rows, []string{v.Room, strconv.Itoa(v.Have), strconv.Itoa(v.Want)})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"TABLES", "WERE AT", "ARE AT"}, rows)
	return nil
}

func (cmd storeCommand) verify(ctx context.Context, rt *assembly.Runtime, _ []string) error {
	report, err := assembly.VerifyStore(ctx, rt)
	if err != nil {
		return err
	}
	var failed error
	if len(report.Problems) > 0 {
		failed = command.Exit(command.ExitFailed)
	}
	if cmd.JSON {
		return errors.Join(cmd.PrintJSON(report), failed)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("store", "PostgreSQL %s, of installation %s", report.Server, report.Installation)
	rows := make([][]string, 0, len(report.Rows))
	for _, table := range slices.Sorted(maps.Keys(report.Rows)) {
		rows = append(rows, []string{table, strconv.FormatInt(report.Rows[table], 10)})
	}
	p.Table([]string{"TABLE", "ROWS"}, rows)
	for _, problem := range report.Problems {
		p.Field("problem", "%s", problem)
	}
	if failed == nil {
		p.Line("it holds")
	}
	return failed
}

func (cmd storeCommand) verifyCopy(path string) error {
	c, err := assembly.CheckStoreCopy(path)
	if err != nil {
		return err
	}
	return cmd.told("whole", path, c)
}

func (cmd storeCommand) backUp(ctx context.Context, rt *assembly.Runtime, args []string) error {
	c, err := assembly.BackUpStore(ctx, rt, args[0])
	if err != nil {
		return err
	}
	return cmd.told("written", args[0], c)
}

func (cmd storeCommand) restore(ctx context.Context, rt *assembly.Runtime, args []string) error {
	c, err := assembly.RestoreStore(ctx, rt, args[0])
	if err != nil {
		return err
	}
	return cmd.told("restored", args[0], c)
}

func (cmd storeCommand) machines(ctx context.Context, rt *assembly.Runtime, _ []string) error {
	list, err := assembly.StoreMachines(ctx, rt)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, m := range list {
		is, notes := "waits", []string{}
		switch {
		case m.Admitted:
			is = "admitted"
		case m.Retired:
			is = "retired"
		}
		if m.Here {
			notes = append(notes, "this machine")
		}
		if m.Holder {
			notes = append(notes, "holds the installation's key")
		}
		rows = append(rows, []string{m.Name, is, m.Asked.Local().Format(time.DateTime), strings.Join(notes, ", ")})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"MACHINE", "IS", "ASKED", ""}, rows)
	return nil
}

func (cmd storeCommand) admit(ctx context.Context, rt *assembly.Runtime, args []string) error {
	m, err := assembly.AdmitMachine(ctx, rt, args[0])
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(m)
	}
	cmd.Printer(cmd.Stdout).Field("admitted", "%s, with key %s", m.Name, m.Key)
	return nil
}

func (cmd storeCommand) retire(ctx context.Context, rt *assembly.Runtime, args []string) error {
	records, err := assembly.RetireMachine(ctx, rt, args[0], command.Operator())
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"retired": args[0], "records": records})
	}
	cmd.Printer(cmd.Stdout).Field("retired", "%s: %d records left the store", args[0], records)
	return nil
}

func (cmd storeCommand) told(what, path string, c assembly.StoreCopy) error {
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{what: path, "installation": c.Installation, "made": c.Made, "rows": c.Rows, "versions": c.Versions})
	}
	cmd.Printer(cmd.Stdout).Field(what, "%s: installation %s as of %s, %d rows", path, c.Installation, c.Made.Local().Format(time.DateTime), c.Rows)
	return nil
}
