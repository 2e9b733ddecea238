package reach

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
)

// settingsDir holds, in a session's folder, the settings of package tools.
const settingsDir = "settings"

// Posture computes what the session's agent may reach.
func (r *Reach) Posture(in posture.Input) (nacre.Posture, error) { return r.PostureWith(in, nil) }

// PostureWith is Posture with dependencies that were fetched: those that lie below
// the folder of a command, and those in the place of a toolchain's cache.
func (r *Reach) PostureWith(in posture.Input, modules []verify.Module) (nacre.Posture, error) {
	on := r.on
	in.Egress, in.Forwards = on.Rules, r.Services.Forwards()
	in.Credentials = on.Inst.Config.Scopes(on.Group(), r.leases.Uses(), on.Powers...)
	in.Limits = on.Inst.Config.Limits.Over(in.Limits)
	if on.Sandbox().HostTools() {
		in.System, in.Toolchains = slices.Clone(on.Found.System()), on.Found.Toolchains
	}
	in.Toolchains = toolchain.ShownCrates(toolchain.ShownModules(in.Toolchains, modules), modules)
	in.Mounts = append(slices.Clone(in.Mounts), toolchain.ModuleMounts(modules)...)
	if !in.Offline {
		in.Programs = installation.Programs(on.Inst)
		in.Mounts = append(slices.Clone(in.Mounts), r.watch.Mounts()...)
		in.Env = append(slices.Clone(in.Env), r.watch.Environment()...)
		given, env, err := r.leases.Shown()
		if err != nil {
			return nacre.Posture{}, err
		}
		settings, named, err := toolchain.ShowSettings(filepath.Join(on.Dir(), settingsDir), on.Inst.Options.Getenv)
		if err != nil {
			return nacre.Posture{}, err
		}
		in.Mounts = slices.Concat(in.Mounts, settings, given)
		in.Env = slices.Concat(named, env, in.Env) // the session's own authority is in the list that env names
	}
	return posture.Compute(in)
}

// Info says what a session is, for whoever shows it.
type Info struct {
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

// Reached is how the session and the world reach each other.
func (r *Reach) Reached() Reached {
	on := r.on
	return Reached{
		Egress: on.Inst.Config.Reach(on.Group(), on.Rules, on.Powers...), Services: r.Services.Texts(), Inside: on.Inst.Config.Delivered(on.Group()),
	}
}

// Told is what a person is told of the session before its agent begins, but for what its model is.
func (r *Reach) Told(p nacre.Posture, brainName, project string) Info {
	on := r.on
	info := Info{
		Session: on.ID(), Group: on.Group(), Brain: brainName, Project: project, Writable: installation.Writable(p.Mounts), Reached: r.Reached(),
		Backend: on.Sandbox().Name(), Sandbox: on.Sandbox().Holds(), Resumed: on.Resumed(), State: on.Inst.Registry.Paths().State,
	}
	info.NotEnforced = on.Sandbox().NotEnforced()
	return info
}

// WritableFiles are the places of Writable outside of the home inside, which holds caches
// and nothing of the user's.
func (i Info) WritableFiles() []string {
	return slices.DeleteFunc(slices.Clone(i.Writable), func(at string) bool { return strings.HasPrefix(at, posture.Home+"/") })
}
