package seal

import (
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
)

// SessionInfo says what a session is, for whoever shows it.
type SessionInfo struct {
	Session  nacre.SessionID `json:"session"`
	Group    nacre.Group     `json:"group"`
	Brain    string          `json:"brain,omitempty"`
	Role     string          `json:"role,omitempty"`
	Project  string          `json:"project,omitempty"`
	Writable []string        `json:"may_write"`
	Reached
	Backend string `json:"backend"`
	Sandbox string `json:"sandbox"`
	installation.Caveats
	// Model is the host that the gateway speaks to, BudgetUSD what it may cost.
	Model     string `json:"model,omitempty"`
	BudgetUSD string `json:"budget_usd,omitempty"`
	// Today says what is left of the day's budgets, where there are any.
	Today   string `json:"budget_today,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`
	State   string `json:"state"`
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

// Reached are how a session and the world reach each other.
type Reached struct {
	Egress []string `json:"may_reach"`
	// Published says which of this machine's ports lead to which inside.
	Published []string `json:"published,omitempty"`
	// Services are those of this machine that may be reached, or asked for.
	Services []string `json:"services,omitempty"`
	// Inside are the credentials that its agent can read, and where.
	Inside []string `json:"credentials_inside,omitempty"`
}

// Info is what a person is told of the session before its agent begins.
func (s *Session) Info(p nacre.Posture, brainName string) SessionInfo {
	info := SessionInfo{
		Session: s.ID(), Group: s.Group(), Brain: brainName, Project: s.project, Reached: Reached{Services: s.Services.Texts(), Egress: s.Inst.Config.Reach(s.Group(), s.Rules, s.Powers...), Inside: s.Inst.Config.Delivered(s.Group())}, Backend: s.Sandbox().Name(),
		Sandbox: s.Sandbox().Holds(), Resumed: s.Resumed(), State: s.Inst.Registry.Paths().State,
	}
	info.NotEnforced = s.Sandbox().NotEnforced()
	info.Model, info.BudgetUSD, info.Today = s.Model.Told()
	info.Writable = installation.Writable(p.Mounts)
	return info
}

// WritableFiles are the places of Writable outside of the home inside, which holds caches
// and nothing of the user's.
func (i SessionInfo) WritableFiles() []string {
	return slices.DeleteFunc(slices.Clone(i.Writable), func(at string) bool { return strings.HasPrefix(at, posture.Home+"/") })
}
