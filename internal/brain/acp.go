package brain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// ACPName is the brain that is any agent of the Agent Client Protocol.
const ACPName = "acp"

const (
	acpHelp = "name its command: command = [\"…\"] under [brain.acp] in config.toml"
	// acpAnyMode is what an operator writes for an agent that has no modes.
	acpAnyMode = "none"
	// maxACPWords is how many words its command may have, and how many folders
	// and variables it may need.
	maxACPWords = 64
)

// ACP is how the operator's agent is started. It comes from the operator's
// own configuration, never from a project.
type ACP struct {
	// Command is the program, absolute or on the path, and its arguments.
	Command []string
	// Folders are bound read-only, each where it is, such as an agent's modules.
	Folders []string
	// Env is what the agent needs besides the way to the gateway.
	Env map[string]string
	// Mode is the mode of permissions it is put into. Empty means the strictest that is known, and
	// "none" that it may have no modes.
	Mode string
}

// Agent runs an agent that speaks the Agent Client Protocol. It asks only for
// what its own mode finds risky, so its questions are no gate: the sandbox is.
type Agent struct{ options Options }

// NewACP returns the brain for the agent that the operator configured.
func NewACP(o Options) Agent { return Agent{o} }

// Name is "acp".
func (Agent) Name() string { return ACPName }

// Detect looks for the program of the command. What the agent is, it says
// itself once it runs: it is not started outside of a sandbox.
func (a Agent) Detect(context.Context) Status {
	o := a.options
	s := Status{KeyFrom: cmp.Or(o.KeyFrom, o.ResponsesFrom, o.OpenAIFrom), Version: "gate: advisory"}
	program, err := a.program()
	if err != nil {
		s.Why, s.Next = err.Error(), acpHelp
		return s
	}
	s.Installed, s.SignedIn, s.Path = true, s.KeyFrom != "", program
	if !s.SignedIn {
		s.Why, s.Next = "the agent is there, but the model gateway has no key", cmp.Or(o.KeyHelp, claudeKeyHelp)
	}
	return s
}

func (a Agent) program() (string, error) {
	c := a.options.ACP
	if len(c.Command) == 0 || c.Command[0] == "" {
		return "", errors.New("no agent of the Agent Client Protocol is configured")
	}
	program := c.Command[0]
	if !strings.ContainsRune(program, '/') {
		if program = onPath(a.options.Path, program); program == "" {
			return "", fmt.Errorf("%s is not installed", clip(c.Command[0], maxID))
		}
	}
	if !filepath.IsAbs(program) {
		return "", fmt.Errorf("%s is not an absolute path", clip(program, maxID))
	}
	if err := there(program); err != nil {
		return "", err
	}
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is not an executable file", program)
	}
	if isELF(program) {
		return program, runsHere(program)
	}
	return program, nil
}

// Launch refuses a turn that cannot be put, and a configuration that would
// lead the agent past the gateway.
func (a Agent) Launch(t Turn) (Launch, error) {
	launch, err := a.launch(t)
	if err != nil {
		return Launch{}, fmt.Errorf("acp: %w", err)
	}
	return launch, nil
}

func (a Agent) launch(t Turn) (Launch, error) {
	if err := t.asks(); err != nil {
		return Launch{}, err
	}
	if len(t.Resume) > maxID {
		return Launch{}, fmt.Errorf("the session to resume has %d bytes: at most %d", len(t.Resume), maxID)
	}
	c := a.options.ACP
	program, err := a.program()
	if err != nil {
		return Launch{}, fmt.Errorf("%w · %s", err, acpHelp)
	}
	env, err := c.env(acpEnv(t))
	if err != nil {
		return Launch{}, err
	}
	mounts, err := c.mounts(program)
	if err != nil {
		return Launch{}, err
	}
	files, err := acpFiles(t)
	if err != nil {
		return Launch{}, err
	}
	return Launch{Argv: append([]string{program}, c.Command[1:]...), Env: env, Mounts: mounts, Files: files}, nil
}

// acpEnv leads each kind of agent to the gateway.
func acpEnv(t Turn) []string {
	env := claudeEnv(t)
	if t.Model != "" {
		env = append(env, "ANTHROPIC_MODEL="+t.Model)
	}
	return append(env,
		"OPENAI_BASE_URL=http://127.0.0.1:"+strconv.Itoa(nacre.ModelPort)+"/v1",
		"OPENAI_API_KEY="+t.SessionToken.Reveal(), codexToken+"="+t.SessionToken.Reveal())
}

// env adds the operator's variables, which may not take the place of ours.
func (c ACP) env(ours []string) ([]string, error) {
	if len(c.Env) > maxACPWords {
		return nil, fmt.Errorf("%d variables: at most %d", len(c.Env), maxACPWords)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name+c.Env[name], "\x00\n") || strings.ContainsRune(name, '=') {
			return nil, fmt.Errorf("%.80q is no variable", name)
		}
		if slices.ContainsFunc(ours, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return nil, fmt.Errorf("%s is set by nacre, and leads to the gateway: take it out of [brain.acp.env]", name)
		}
		ours = append(ours, name+"="+c.Env[name])
	}
	return ours, nil
}

// mounts are the operator's folders, and the program where it is in none of
// them. Those of the system are inside anyhow.
func (c ACP) mounts(program string) ([]nacre.Mount, error) {
	var mounts []nacre.Mount
	covered := []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}
	if len(c.Folders) > maxACPWords || len(c.Command) > maxACPWords {
		return nil, fmt.Errorf("at most %d folders, and as many words of the command", maxACPWords)
	}
	for _, dir := range c.Folders {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
			return nil, fmt.Errorf("folder %.200q: write a plain absolute path", dir)
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: dir, Target: dir})
		covered = append(covered, dir)
	}
	if !slices.ContainsFunc(covered, func(dir string) bool { return strings.HasPrefix(program, dir+"/") }) {
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: program, Target: program})
	}
	return mounts, nil
}

// acpFiles are the managed settings of the programs that agents wrap, and the
// skills.
func acpFiles(t Turn) ([]File, error) {
	bare := t
	bare.System, bare.Skills = "", nil // an agent is told with its task
	claude, err := claudeFiles(bare)
	if err != nil {
		return nil, err
	}
	codex, err := codexSettings(codexConfig(bare), t.Gates != nil)
	if err != nil {
		return nil, err
	}
	return slices.Concat(claude, codex, SkillFiles(t.Skills)), nil
}

// Converse speaks the protocol until the process has ended.
func (a Agent) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	return converse(ctx, p, newACPDialect(t, a.options.ACP.Mode), emit)
}
