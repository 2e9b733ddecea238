// Package interactive opens an agent's own terminal interface sealed: Claude Code,
// Codex, or a program of the operator's, on the project that it is started in (U-01).
//
// The model gateway is on and the key stays on the host, and the door and its skills are there. The
// home inside is one that the host makes: what the program obeys there is the host's word in every
// session, and what lasts is data (U-03).
package interactive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/home"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/seal"
)

const (
	// homeDir holds, in a session's folder, the home of that session alone.
	homeDir = "home"
	// themeKey is where Claude Code keeps the one choice that lasts.
	themeFile = ".claude/.claude.json"
	themeKey  = "theme"
)

// Agent is an agent's terminal interface to open.
type Agent struct {
	Name string // claude, codex, or that of a table [agents.NAME]
	Args []string
	// Prompts keeps the agent's own questions before it acts.
	Prompts bool
	// Fresh begins with an empty home and keeps nothing of it.
	Fresh bool
}

// Program is an agent that was found on this machine.
type Program struct {
	Agent
	Version string
	agent   brain.Interactive
	kept    []home.Kind // what the operator adds to the kinds of data that last
}

// Find finds the agent's program, and says what it lacks.
func Find(ctx context.Context, inst *installation.Installation, a Agent) (Program, error) {
	found, err := brain.NamedTerminal(a.Name, agent.Brains(inst, ""), own(inst.Config.Agents))
	if err != nil {
		return Program{}, &config.Error{Err: err}
	}
	status := found.Detect(ctx)
	if !status.Ready() {
		return Program{}, &installation.NotReady{What: "agent " + a.Name, Next: status.Next, Err: errors.New(status.Why)}
	}
	kept, err := ownKinds(a.Name, inst.Config.Agents[a.Name].Keep)
	return Program{Agent: a, Version: status.Version, agent: found, kept: kept}, err
}

func own(agents map[string]config.Agent) map[string]brain.ACP {
	all := map[string]brain.ACP{}
	for name, a := range agents {
		all[name] = brain.ACP{Command: a.Command, Folders: a.Folders, Env: a.Env}
	}
	return all
}

// Inside is what the program is and needs inside.
type Inside struct {
	Argv   []string
	Env    []string
	Mounts []nacre.Mount
	// Ended keeps what lasts of the home, once the program is gone.
	Ended func() error
}

// Open prepares the home and the files of the program in an open session.
func (p Program) Open(ctx context.Context, s *seal.Session, project string) (Inside, error) {
	kept, choices, err := p.home(ctx, s, project)
	if err != nil {
		return Inside{}, err
	}
	opening, err := p.agent.Open(brain.Terminal{
		Args: p.Args, SessionToken: s.Model.Token, Model: s.Inst.Config.Model.Name, Prompts: p.Prompts, Theme: choices[p.choice()],
		System: brief(ctx, s), Skills: skills(s),
		Search: slices.Contains(s.Inst.Config.VendorTools(s.Group()), "web_search"),
	})
	if err != nil {
		return Inside{}, &installation.NotReady{What: "agent " + p.Name, Err: err}
	}
	lasting := append(kinds(opening.Lasting), p.kept...)
	if err := taint(s, kept, lasting); err != nil {
		return Inside{}, err
	}
	begun, homeMounts, err := home.Begin(kept, filepath.Join(s.Dir(), homeDir), startFiles(opening.Start), lasting)
	if err != nil {
		return Inside{}, fmt.Errorf("home: %w", err)
	}
	files, err := agent.RoleFiles(s.Basis, opening.Files)
	if err != nil {
		return Inside{}, errors.Join(err, begun.End(ctx))
	}
	return Inside{
		Argv: opening.Argv, Env: opening.Env, Mounts: slices.Concat(homeMounts, opening.Mounts, files),
		Ended: func() error { return p.keep(context.WithoutCancel(ctx), kept, begun) },
	}, nil
}

// brief is what memory tells the agent before it starts. One that rests is known to tell nothing.
func brief(ctx context.Context, s *seal.Session) string {
	if !s.Door().Reaches() {
		return ""
	}
	return agent.Brief(ctx, s.Basis, s.Memory, s.Recall)
}

// LaySkills lays the skills of an open session for a command, which is told by the
// environment where they lie (F-74).
func LaySkills(s *seal.Session) (Inside, error) {
	mounts, err := agent.RoleFiles(s.Basis, brain.SkillFiles(skills(s)))
	return Inside{Env: []string{"NACRE_SKILLS=" + brain.SkillDir}, Mounts: mounts}, err
}

// skills are those of an open session.
func skills(s *seal.Session) []brain.Skill {
	return agent.Skills(s.Usable(s.Inst.Principal(s.Group(), s.ID(), "")), s.Plugins.Skills())
}

// home is what is kept for this group and project; nil where nothing is.
func (p Program) home(ctx context.Context, s *seal.Session, project string) (*home.Home, map[string]string, error) {
	if p.Fresh {
		return nil, nil, nil
	}
	kept, err := home.Open(s.Inst.Registry.Paths().Homes(), s.Group(), project)
	if err != nil {
		return nil, nil, s.Inst.Writable(fmt.Errorf("home: %w", err))
	}
	quota, err := s.Inst.Config.Home.Bytes()
	if err != nil {
		return nil, nil, &config.Error{Err: err}
	}
	if err := kept.Check(ctx, quota); err != nil {
		return nil, nil, &installation.NotReady{What: "home", Err: err,
			Next: "nacre home list shows it; nacre home remove --project . removes it, --fresh begins without it, and quota under [home] in config.toml raises it"}
	}
	choices, err := kept.Choices()
	return kept, choices, err
}

// taint says that the agent begins with what earlier ones wrote: conversations and memory
// that instruct it, and that an outsider may have had written (U-03, M-52).
func taint(s *seal.Session, kept *home.Home, kinds []home.Kind) error {
	if kept == nil {
		return nil
	}
	left, err := kept.Holds(kinds)
	if err != nil || !left {
		return err
	}
	return s.Door().Taint("what agents left in the home of this project")
}

// choice names what is kept of the program's looks.
func (p Program) choice() string { return p.Name + "." + themeKey }

// keep keeps what lasts and discards the rest.
func (p Program) keep(ctx context.Context, kept *home.Home, begun *home.Session) error {
	var err error
	if theme := begun.Word(themeFile, themeKey); kept != nil && theme != "" {
		err = kept.Choose(ctx, p.choice(), theme)
	}
	return errors.Join(err, begun.End(ctx))
}

func startFiles(files []brain.File) []home.File {
	all := make([]home.File, len(files))
	for i, f := range files {
		all[i] = home.File{Path: strings.TrimPrefix(f.Path, brain.Home+"/"), Data: f.Data}
	}
	return all
}

func kinds(lasting []brain.Lasting) []home.Kind {
	all := make([]home.Kind, len(lasting))
	for i, l := range lasting {
		all[i] = home.Kind{Path: l.Path, Log: l.Log}
	}
	return all
}

// ownKinds are those that the operator names for an agent of their own. A file whose name ends as
// those of JSON lines do is a log, and all else a folder. The folder that a program has for all of
// its own is refused: it holds its settings, too.
func ownKinds(agent string, keep []string) ([]home.Kind, error) {
	all := make([]home.Kind, 0, len(keep))
	for _, path := range keep {
		first, _, below := strings.Cut(path, "/")
		if !below || !filepath.IsLocal(path) || filepath.Clean(path) != path || first == ".ssh" || first == ".config" && strings.Count(path, "/") < 2 {
			return nil, config.Errorf("[agents.%s]: keep %.80q: name a folder of data below the agent's own, such as .mine/sessions, or a file .mine/history.jsonl", agent, path)
		}
		all = append(all, home.Kind{Path: path, Log: strings.HasSuffix(path, ".jsonl")})
	}
	return all, nil
}

// CheckProject refuses to give an agent a folder that is no project: all of a
// person's home, or all of the machine, could be written by it.
func CheckProject(project string, getenv func(string) string) error {
	for _, wide := range []string{"/", getenv("HOME")} {
		if real, err := filepath.EvalSymlinks(wide); wide != "" && err == nil && hostpath.Contains(project, real) {
			return config.Errorf("%s is not a project but holds your home: change to a project's folder, or name one with --project", project)
		}
	}
	return nil
}
