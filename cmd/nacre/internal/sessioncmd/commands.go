// Package sessioncmd is the operator's commands about sessions. They tell which there are, the
// questions that they wait with, the grants that they hold, and the credentials that they lease.
// They tell, too, what the audit chains and the ledger recorded of them, and whether those records
// hold.
package sessioncmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Commands makes the commands of this room. All fields are needed.
type Commands struct {
	*command.Env
	// Open assembles an installation's parts, and starts nothing.
	Open func(context.Context) (*assembly.Runtime, error)
	// Work lets an agent work as nacre run does, and shows it.
	Work func(context.Context, assembly.Run) error
}

// session is the session that a person named, in an installation that is assembled.
func (c Commands) session(ctx context.Context, name string) (nacre.SessionID, *assembly.Runtime, error) {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return "", nil, command.UsageOf(err)
	}
	rt, err := c.Open(ctx)
	return id, rt, err
}

// Sessions is nacre sessions, with the commands below it.
func (c Commands) Sessions() *cobra.Command { return sessionsCommand(c).command() }

// Approvals is nacre approvals, with the commands below it.
func (c Commands) Approvals() *cobra.Command { return approvalsCommand(c).command() }

// Operators is nacre operators, with the commands below it.
func (c Commands) Operators() *cobra.Command { return operatorsCommand(c).command() }

// Grants is nacre grants, with the commands below it.
func (c Commands) Grants() *cobra.Command { return grantsCommand(c).command() }

// Audit is nacre audit, with the commands below it.
func (c Commands) Audit() *cobra.Command { return auditCommand(c).command() }

// Receipt is nacre receipt, with the commands below it.
func (c Commands) Receipt() *cobra.Command { return receiptCommand(c).command() }

// Ledger is nacre ledger, with the commands below it.
func (c Commands) Ledger() *cobra.Command { return ledgerCommand(c).command() }

// Power is nacre power, with the commands below it.
func (c Commands) Power() *cobra.Command { return powerCommand(c).command() }

// Learn is nacre learn.
func (c Commands) Learn() *cobra.Command { return learnCommand{Commands: c}.command() }
