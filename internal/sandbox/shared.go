package sandbox

import ()

// What every backend says that cannot keep the agent's own processes apart.
const (
	// SharedEnviron holds everywhere: a process reads the environment of its
	// user's others.
	SharedEnviron = "token: the agent's processes are one user's and read each other's environment; " +
		"the token in it opens this session's gateway only, which each of them reaches anyway"
	// SharedLocks holds wherever a file is the host's own, read-only ones too.
	SharedLocks = "locks: a lock that the agent takes on a file it can see counts for this machine's programs; " +
		"those that want it wait until the sandbox ends"
	// sharedUser holds for an ordinary user's sandboxes.
	sharedUser = "user: the agent counts as this user of the machine. Until it ends, it can use up what this user's programs have of " +
		"descriptors on their way between processes, room of pipes, pending signals and message queues"
	// SharedInit holds where PID 1 is no user of its own.
	SharedInit = "init: the agent is the same user as its PID 1 and may slow that one down; its time limit is the host's"
)

// diskWatched is what holds the disk, said as it is.
const diskWatched = "disk: monitored, not enforced (no quota on bind mounts); a session over its limit is ended"
