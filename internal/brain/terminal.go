package brain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

const (
	// workspace is where the project is inside.
	workspace = "/workspace"
	// maxArgs is how many words a person may pass on to an agent's program, and
	// maxArg how long one may be, in bytes.
	maxArgs = 1024
	maxArg  = 128 << 10
	// claudeKeyTail is how much of a key's end Claude Code remembers an answer by.
	claudeKeyTail = 20
	codexHome     = Home + "/.codex"
)

// Terminal is what an agent's own terminal interface is opened with (U-01).
type Terminal struct {
	// Args are what the person wrote for the program, passed on as they are.
	Args []string
	// SessionToken is what the model gateway knows this session by.
	SessionToken nacre.Secret
	// System and Skills teach the agent what the session may use.
	System string
	Skills []Skill
	// Model names the model; empty means the program's own.
	Model string
	// Prompts keeps the program's own questions before it acts. Without them it
	// acts at once, as far as the sandbox lets it.
	Prompts bool
	// Search says that the vendor's search of the web is granted.
	Search bool
	// Theme is the one that the person chose earlier; empty means the program's.
	Theme string
}

// Interactive is an agent that has a terminal interface of its own.
type Interactive interface {
	Name() string
	// Detect looks at this machine, without network.
	Detect(ctx context.Context) Status
	// Open says what the program needs inside. It starts nothing.
	Open(t Terminal) (Opening, error)
}

// Opening is what an agent's terminal interface needs inside.
type Opening struct {
	Launch
	// Start are files that the program finds and may write. They are made anew for
	// each session: what a program obeys is among them.
	Start []File
	// Lasting are the kinds of data that outlive the session.
	Lasting []Lasting
}

// Lasting is a kind of data of an agent that outlives a session. No program obeys
// what is in it as a setting or a command.
type Lasting struct {
	// Path is below Home.
	Path string
	// Log says that it is a file that grows by lines; else it is a folder.
	Log bool
}

// NamedTerminal returns the agent that `nacre agent` names.
func NamedTerminal(name string, o Options, own map[string]ACP) (Interactive, error) {
	switch agent, is := own[name]; {
	case is:
		return ownTerminal{name: name, options: o, agent: agent}, nil
	case name == claudeName:
		return NewClaude(o), nil
	case name == codexName:
		return NewCodex(o), nil
	}
	known := []string{claudeName, codexName}
	for other := range own {
		known = append(known, other)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("unknown agent %.40q: the agents are %s; a table [agents.NAME] in config.toml adds one", name, strings.Join(slices.Compact(known), ", "))
}

func (t Terminal) validate() error {
	if len(t.Args) > maxArgs {
		return fmt.Errorf("%d arguments: at most %d", len(t.Args), maxArgs)
	}
	for _, arg := range t.Args {
		if len(arg) > maxArg || strings.ContainsRune(arg, 0) {
			return errors.New("an argument is too long, or holds a zero byte")
		}
	}
	if t.Model != "" && !isModel(t.Model) {
		return fmt.Errorf("model %.80q: use the name of a model", t.Model)
	}
	return t.turn().validate()
}

// turn is the part that sessions without a terminal have as well.
func (t Terminal) turn() Turn {
	return Turn{SessionToken: t.SessionToken, System: t.System, Skills: t.Skills, Model: t.Model}
}

// Open refuses arguments that cannot be passed on.
func (c Claude) Open(t Terminal) (Opening, error) {
	if err := t.validate(); err != nil {
		return Opening{}, fmt.Errorf("claude: %w", err)
	}
	program, err := c.program()
	if err != nil {
		return Opening{}, fmt.Errorf("claude: %w · %s", err, claudeInstall)
	}
	files, err := claudeFiles(t.turn())
	if err != nil {
		return Opening{}, fmt.Errorf("claude: %w", err)
	}
	settings, err := json.MarshalIndent(claudePinned(t), "", "  ")
	if err != nil {
		return Opening{}, fmt.Errorf("managed settings: %w", err)
	}
	files[0].Data = settings // the first of them are those of a turn
	state, err := json.MarshalIndent(claudeOnboarded(t), "", "  ")
	if err != nil {
		return Opening{}, fmt.Errorf("first state: %w", err)
	}
	return Opening{
		Launch: Launch{
			Argv: claudeTerminalArgv(t), Env: claudeTerminalEnv(t), Files: files,
			Mounts: []nacre.Mount{{Kind: nacre.BindReadOnly, Source: program, Target: claudeProgram}},
		},
		Start:   []File{{Path: claudeConfig + "/.claude.json", Data: state, Mode: 0o600}},
		Lasting: []Lasting{{Path: ".claude/projects"}, {Path: ".claude/history.jsonl", Log: true}},
	}, nil
}

func claudeTerminalArgv(t Terminal) []string {
	argv := []string{claudeProgram, "--strict-mcp-config"}
	if t.Prompts { // by itself the program would let a model answer them
		argv = append(argv, "--permission-mode", "default")
	} else {
		argv = append(argv, "--dangerously-skip-permissions")
	}
	if len(t.Skills) > 0 {
		argv = append(argv, "--plugin-dir", claudePlugin)
	}
	if t.System != "" {
		argv = append(argv, "--append-system-prompt-file", claudeSystem)
	}
	if t.Model != "" {
		argv = append(argv, "--model", t.Model)
	}
	return append(argv, t.Args...)
}

// loopback is what is reached without a proxy, by a program and by the commands that it starts.
const loopback = "127.0.0.1,localhost,::1"

// claudeTerminalEnv leads the program to the gateway. As root it acts without its
// own questions only where it is told that a sandbox is around it, which is so.
func claudeTerminalEnv(t Terminal) []string {
	return []string{
		"HOME=" + Home, "CLAUDE_CONFIG_DIR=" + claudeConfig,
		"ANTHROPIC_BASE_URL=" + gatewayURL(), "ANTHROPIC_API_KEY=" + t.SessionToken.Reveal(),
		"NO_PROXY=" + loopback, "no_proxy=" + loopback,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1",
		// A marketplace of plugins that nobody asked for is not fetched at each start.
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
	}
}

// claudePinned are the managed settings: no flag, no project and no file of the home
// turns them off. Hooks run where the host wrote them down, which is nowhere yet; no
// setting leads the program past the gateway.
func claudePinned(t Terminal) map[string]any {
	deny := []string{}
	if !t.Search {
		deny = append(deny, "WebSearch")
	}
	settings := map[string]any{
		"allowManagedHooksOnly":      true,
		"enableAllProjectMcpServers": false,
		"permissions":                map[string]any{"deny": deny},
		// No other session is inside to speak to.
		"disableMessagingBeyondOwnAgents": true,
	}
	env := map[string]string{"ANTHROPIC_BASE_URL": gatewayURL(), "ANTHROPIC_UNIX_SOCKET": "", "DISABLE_AUTOUPDATER": "1"}
	for _, other := range []string{"BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "GATEWAY", "ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD"} {
		env["CLAUDE_CODE_USE_"+other] = "0"
	}
	settings["env"] = env
	// A project's program for a key or a credential would run before anything is asked.
	for _, helper := range []string{"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh", "otelHeadersHelper", "proxyAuthHelper"} {
		settings[helper] = ""
	}
	if t.Prompts {
		// An agent may have left rules in the project by which the next one asks nothing.
		settings["allowManagedPermissionRulesOnly"] = true
	} else {
		settings["skipDangerousModePermissionPrompt"] = true
		settings["sandbox"] = map[string]any{"enabled": false}
	}
	return settings
}

// claudeOnboarded is the state of one who answered the program's first questions.
func claudeOnboarded(t Terminal) map[string]any {
	token := t.SessionToken.Reveal()
	state := map[string]any{
		"hasCompletedOnboarding": true, "lastOnboardingVersion": "99.0.0", "bypassPermissionsModeAccepted": true,
		"customApiKeyResponses": map[string]any{"approved": []string{token[max(0, len(token)-claudeKeyTail):]}, "rejected": []string{}},
		"projects":              map[string]any{workspace: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}
	if t.Theme != "" {
		state["theme"] = t.Theme
	}
	return state
}

// Open refuses arguments that cannot be passed on.
func (c Codex) Open(t Terminal) (Opening, error) {
	if err := t.validate(); err != nil {
		return Opening{}, fmt.Errorf("codex: %w", err)
	}
	program, err := c.program()
	if err != nil {
		return Opening{}, fmt.Errorf("codex: %w · %s", err, codexInstall)
	}
	pinned, choices := codexTerminalConfig(t)
	files, err := codexSettings(pinned, false)
	if err != nil {
		return Opening{}, fmt.Errorf("codex: %w", err)
	}
	start, err := encodeTOML(choices)
	if err != nil {
		return Opening{}, fmt.Errorf("codex: %w", err)
	}
	return Opening{
		Launch: Launch{
			Argv: append([]string{codexProgram}, t.Args...), Env: append(codexEnv(t.turn()), "CODEX_HOME="+codexHome, "NO_PROXY="+codexAlone, "no_proxy="+codexAlone),
			Mounts: []nacre.Mount{codexMount(program)}, Files: append(files, SkillFiles(t.Skills)...),
		},
		Start:   []File{{Path: codexHome + "/config.toml", Data: start, Mode: 0o600}},
		Lasting: []Lasting{{Path: ".codex/sessions"}, {Path: ".codex/history.jsonl", Log: true}},
	}, nil
}

// codexAlone is loopback, and the host of the tip that Codex fetches at each start, whatever it is
// told. Without a proxy that host is out of reach, and no question stands in front of the program's
// first picture. The commands that it starts have loopback alone.
const codexAlone = loopback + ",raw.githubusercontent.com"

// codexTerminalConfig is what no file and no flag turns off, and what the person may
// choose otherwise.
func codexTerminalConfig(t Terminal) (pinned, choices map[string]any) {
	pinned = codexConfig(t.turn())
	for _, chosen := range []string{"model", "project_doc_max_bytes", "history"} {
		delete(pinned, chosen)
	}
	pinned["projects"] = map[string]any{workspace: map[string]string{"trust_level": "trusted"}}
	commands := codexCommands()
	commands["set"] = map[string]string{"NO_PROXY": loopback, "no_proxy": loopback}
	pinned["shell_environment_policy"] = commands
	pinned["sandbox_mode"], pinned["approval_policy"] = "danger-full-access", "never"
	if t.Prompts {
		pinned["approval_policy"] = "on-request" // the one of those that ask which every version has
	}
	choices = map[string]any{
		"model": codexModel,
		// Nobody is led to a model that the gateway does not pass, and no tip is fetched.
		"notice": map[string]any{"hide_full_access_warning": true, "model_migrations": map[string]string{codexModel: "gpt-6-sol"}},
		"tui":    map[string]bool{"show_tooltips": false},
	}
	if t.Model != "" {
		choices["model"] = t.Model
	}
	return pinned, choices
}

// gatewayURL is where the model gateway answers inside.
func gatewayURL() string { return "http://127.0.0.1:" + strconv.Itoa(nacre.ModelPort) }

// ownTerminal is an agent of the operator's own, [agents.NAME].
type ownTerminal struct {
	name    string
	options Options
	agent   ACP
}

// Name is that of the operator's table.
func (o ownTerminal) Name() string { return o.name }

// Detect looks for the program. What it is, it says itself once it runs.
func (o ownTerminal) Detect(ctx context.Context) Status {
	options := o.options
	options.ACP = o.agent
	s := NewACP(options).Detect(ctx)
	s.Version = ""
	if !s.Installed {
		s.Next = fmt.Sprintf("command under [agents.%s] in config.toml names its program", o.name)
	}
	return s
}

// Open leads the program to the gateway by the variables that most agents read.
func (o ownTerminal) Open(t Terminal) (Opening, error) {
	opening, err := o.open(t)
	if err != nil {
		return Opening{}, fmt.Errorf("%s: %w", o.name, err)
	}
	return opening, nil
}

func (o ownTerminal) open(t Terminal) (Opening, error) {
	if err := t.validate(); err != nil {
		return Opening{}, err
	}
	options := o.options
	options.ACP = o.agent
	program, err := NewACP(options).program()
	if err != nil {
		return Opening{}, err
	}
	env, err := o.agent.env(acpEnv(t.turn()))
	if err != nil {
		return Opening{}, err
	}
	mounts, err := o.agent.mounts(program)
	if err != nil {
		return Opening{}, err
	}
	return Opening{Launch: Launch{
		Argv: slices.Concat([]string{program}, o.agent.Command[1:], t.Args), Env: append(env, "NACRE_SKILLS="+SkillDir),
		Mounts: mounts, Files: SkillFiles(t.Skills),
	}}, nil
}
