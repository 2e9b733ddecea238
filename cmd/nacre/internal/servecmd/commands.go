// Package servecmd is the commands about what wakes agents. serve takes messages and keeps
// schedules. The faces of a running serve are chat, which talks to it, schedule, which says what is
// due, and events, which shows what happens in it. store looks after the database that several of
// them share.
package servecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Commands makes the commands of this room. Both fields are needed.
type Commands struct {
	*command.Env
	// Open assembles an installation's parts, and starts nothing.
	Open func(context.Context) (*assembly.Runtime, error)
}

// Serve is nacre serve.
func (c Commands) Serve() *cobra.Command { return serveCommand(c).command() }

// Chat is nacre chat.
func (c Commands) Chat() *cobra.Command { return chatCommand(c).command() }

// Schedule is nacre schedule, with the commands below it.
func (c Commands) Schedule() *cobra.Command { return scheduleCommand(c).command() }

// Events is nacre events, with the commands below it.
func (c Commands) Events() *cobra.Command { return eventsCommand(c).command() }

// Store is nacre store, with the commands below it.
func (c Commands) Store() *cobra.Command { return storeCommand(c).command() }
