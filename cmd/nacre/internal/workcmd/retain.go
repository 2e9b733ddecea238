package workcmd

import (
	"context"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// retain removes old sessions where [retention] says so (U-22). What goes wrong with that
// is told, and is no failure of the work that has just ended.
func retain(ctx context.Context, env *command.Env, rt *assembly.Runtime) {
	if _, err := assembly.RetainSessions(context.WithoutCancel(ctx), rt); err != nil {
		env.Printer(env.Stderr).Mark("warn", "old", "old sessions could not be removed: "+err.Error())
	}
}
