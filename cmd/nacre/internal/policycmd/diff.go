package policycmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/replay"
	"github.com/nacre-dev/nacre/policy"
)

// The policies that policy diff knows by name.
const (
	shippedPolicy  = "shipped"
	acceptedPolicy = "accepted"
	currentPolicy  = "current"
)

func (cmd policyCommand) diffCommand() *cobra.Command {
	var replays bool
	var from string
	c := &cobra.Command{
		Use: "diff [OLD NEW]", Short: "show what differs between two policies, and which decisions change", Args: cobra.MaximumNArgs(2),
		Long: `OLD and NEW are files, or shipped, accepted (the policy that nacre policy accept took
last; the shipped one where it took none) or current (the one that decides in sessions
that begin now). Without them, accepted is held against current. With --replay both
decide on every recorded call, and what changes is shown. It changes nothing.`,
		Example: "  nacre policy diff --replay\n  nacre policy diff current new.toml --replay\n  nacre policy diff shipped new.toml",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return command.Usage("name two policies, or none: accepted is held against current then")
			}
			if from != "" && !replays {
				return command.Usage("--audit is what --replay reads")
			}
			if len(args) == 0 {
				args = []string{acceptedPolicy, currentPolicy}
			}
			return cmd.diffPolicies(c.Context(), args, replays, from)
		},
	}
	c.Flags().BoolVar(&replays, "replay", false, "let both decide on every recorded call, and show what changes")
	c.Flags().StringVar(&from, "audit", "", "with --replay: a `PATH` of records, as nacre policy replay takes; the installation's chains where absent")
	return c
}

// policyDiff is what policy diff says.
type policyDiff struct {
	Old   string              `json:"old"` // the versions
	New   string              `json:"new"`
	Rules []policy.RuleChange `json:"rules"`
	// Replay is there with --replay.
	Replay *replay.Replay `json:"replay,omitempty"`
}

func (cmd policyCommand) diffPolicies(ctx context.Context, names []string, replays bool, from string) error {
	before, err := cmd.policyNamed(ctx, names[0])
	if err != nil {
		return err
	}
	after, err := cmd.policyNamed(ctx, names[1])
	if err != nil {
		return err
	}
	said := policyDiff{Old: before.Version(), New: after.Version(), Rules: after.Diff(before)}
	if replays {
		if said.Replay, err = cmd.replayBetween(ctx, before, after, from); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return cmd.PrintJSON(said)
	}
	cmd.printDiff(said)
	return nil
}

// replayBetween reads the records of a path, or of the installation.
func (cmd policyCommand) replayBetween(ctx context.Context, before, after *policy.Policy, from string) (said *replay.Replay, err error) {
	if from != "" {
		said = replay.New(after, before)
		err = replay.Read(from, said.Take)
	} else {
		rt, openErr := cmd.Open(ctx)
		if openErr != nil {
			return nil, openErr
		}
		from = rt.AuditRoot()
		said, err = replay.Between(before, after, from)
	}
	if err != nil {
		err = command.ExitWith(command.ExitFailed, fmt.Errorf("%s: %w", from, err))
	}
	return said, err
}

func (cmd policyCommand) policyNamed(ctx context.Context, name string) (*policy.Policy, error) {
	switch name {
	case shippedPolicy:
		return policy.Shipped(), nil
	case acceptedPolicy, currentPolicy:
		rt, err := cmd.Open(ctx)
		if err != nil {
			return nil, err
		}
		if name == currentPolicy {
			return rt.PolicyInForce(), nil
		}
		return rt.AcceptedPolicy()
	}
	return readPolicy(name)
}

func (cmd policyCommand) printDiff(said policyDiff) {
	printer := cmd.Printer(cmd.Stdout)
	verdict := func(v *nacre.Verdict) string {
		if v == nil {
			return "–"
		}
		return v.String()
	}
	rows := make([][]string, 0, len(said.Rules))
	for _, c := range said.Rules {
		rows = append(rows, []string{c.What, c.Rule, verdict(c.Was), verdict(c.Is)})
	}
	if len(rows) > 0 {
		printer.Table([]string{"rule is", "rule", "was", "is"}, rows)
	}
	differ := fmt.Sprintf("%d rules differ", len(said.Rules))
	if len(said.Rules) == 1 {
		differ = "1 rule differs"
	}
	printer.Line("%s: %s → %s", differ, said.Old, said.New)
	if said.Replay != nil {
		cmd.printReplay(said.Replay)
	}
}

func (cmd policyCommand) acceptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept VERSION", Short: "accept the policy that decides now, after you saw what it changes", Args: command.OneArgument("the version that nacre policy diff shows"),
		Long: `Records who accepted the policy, and keeps it as the one that nacre policy diff calls
accepted. VERSION is the new one of nacre policy diff: a policy that was changed since
is refused. With [policy] require_replay = true no session begins under a policy that
nobody accepted.`,
		Example: "  nacre policy diff --replay\n  nacre policy accept sha256:…",
		RunE: func(c *cobra.Command, args []string) error {
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			if err := rt.AcceptPolicy(c.Context(), args[0], command.Operator()); err != nil {
				return err
			}
			cmd.Printer(cmd.Stdout).Mark("ok", "", "policy "+args[0]+" is accepted: sessions that begin now are decided by it")
			return nil
		},
	}
}
