package seal

import (
	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/reach"
)

type (
	// Asking is how a person is asked.
	Asking = asking.Manner
	// SessionInfo says what a session is, for whoever shows it.
	SessionInfo = reach.Info
	// Shared are plugins that serve several sessions.
	Shared = hosting.Shared
)

// Said is what the operator said.
type Said struct {
	Task string
	// Words are what they typed that is not a task, such as a command. They are the
	// operator's for what the kernel asks about, and nobody's justification.
	Words []string
}

// Holding is what a role does to a session.
type Holding struct {
	// Role is what holds a command, if anything does.
	Role string
	// Confined says that a role keeps parts of the project from the agent.
	Confined bool
}

// Mind is who works in a session.
type Mind struct {
	Brain   string
	Version string // of the brain
	// Model says that it needs the gateway to a model.
	Model bool
}

// Listener is told how a session goes.
type Listener struct {
	Tell func(nacre.Step)
	// Warn tells what the operator has to know; where it is not set, Tell does.
	Warn func(nacre.Step)
}

// Request is what a sealed session is opened for.
type Request struct {
	ID      nacre.SessionID
	Group   nacre.Group
	Kind    string
	Title   string
	Project string
	Mind
	Said
	Ways
	Asking  Asking
	Prepare func(dir string) error
	Listener
	Holding
	// Kin is the session's place among agents that asked for one another.
	Kin basis.Kin
	// Shared, where it is set, runs plugins for several sessions; the session uses
	// their tools and starts the others.
	Shared *Shared
}

// Ways are what a session is opened to beside its tools.
type Ways struct {
	Egress []string
	// Powers are those that a person gives this session alone.
	Powers []string
	// Services are those of this machine that may be reached unasked.
	Services []string
	// Folder is where the files lie that calls may name, for a session that has no project.
	Folder string
}
