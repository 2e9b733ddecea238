// Package sandbox promises that a program runs with what its posture names and nothing else (M-10,
// M-12). It uses namespaces, a root built from nothing, no host user, no capabilities, Landlock and
// a system call allow-list. It runs on Linux without a daemon, as root or as an ordinary user. When
// something it needs is missing it refuses and names it; what this machine cannot enforce is in
// [Support]. It does not decide what a posture holds.
package sandbox

import "context"

// Backend starts sandboxes: [Native], or a container engine's (M-11). All of
// them hold what one conformance suite asks for. It may be used concurrently.
type Backend interface {
	// Name is what is printed and audited, such as "native" or "docker (runsc)".
	Name() string
	// Start returns when the agent runs, or with the reason why it does not; an
	// *ExecError when that is the command's own. Ending ctx kills the sandbox.
	Start(ctx context.Context, c Command) (Process, error)
	// PeerUIDs are the host users that connections from inside come from.
	PeerUIDs() []int
	// HostTools says that the machine's own tool folders and toolchains belong
	// into a posture. Where an image brings its own they do not.
	HostTools() bool
	// Holds names in a line what holds a sandbox.
	Holds() string
	// NotEnforced lists in words what a posture may ask for and does not get.
	NotEnforced() []string
	// Close frees what opening took. Running sandboxes go on.
	Close() error
}

// Process is a running sandbox.
type Process interface {
	// Pid is the host's process id of the sandbox's first process.
	Pid() int
	// Wait returns when every process of the sandbox is gone. The error says
	// that the sandbox broke, not that the command failed.
	Wait() (Exit, error)
	// Kill ends the sandbox and returns when every process of it is gone.
	Kill() error
	// Freeze stops every process of the sandbox until Thaw; limits of time go on.
	Freeze() error
	Thaw() error
}
