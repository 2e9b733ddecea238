// Package policycmd is the commands that try deciders on files: policy decides on
// requests, and redact takes secrets out of a stream. They change nothing but which
// policy a person accepted.
package policycmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/policy"
)

// Commands makes the commands of this room.
type Commands struct {
	*command.Env
	// Open opens the installation, for what is not in a file.
	Open func(context.Context) (Installed, error)
}

// Installed is what these commands ask an installation for.
type Installed interface {
	// PolicyInForce decides in sessions that begin now.
	PolicyInForce() *policy.Policy
	// AcceptedPolicy is the one that a person accepted last.
	AcceptedPolicy() (*policy.Policy, error)
	// AcceptPolicy accepts the one in force, where that is its version.
	AcceptPolicy(ctx context.Context, version, by string) error
	// AuditRoot is the folder of the audit chains.
	AuditRoot() string
}

// Policy is nacre policy, with the commands below it.
func (c Commands) Policy() *cobra.Command { return policyCommand(c).command() }

// Redact is nacre redact.
func (c Commands) Redact() *cobra.Command { return redactCommand(c).command() }
