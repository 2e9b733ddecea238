package brain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
)

// What Codex sees inside. All of it was observed on 0.169.0.
const (
	codexName = "codex"
	codexDir  = "/opt/codex"
	// codexProgram is where a program of Codex's package is found.
	codexProgram = codexDir + "/bin/codex"
	// codexManaged wins over the user's configuration, the project's and the
	// command line's; codexRequired limits what any of them may ask for.
	codexManaged  = "/etc/codex/managed_config.toml"
	codexRequired = "/etc/codex/requirements.toml"
	// codexState is where it keeps what was said.
	codexState   = Home + "/.codex/sessions"
	codexInstall = "npm install -g @openai/codex"
	codexKeyHelp = "export OPENAI_API_KEY=…"
	// codexToken names the session's token; commands are not given it.
	codexToken = "NACRE_MODEL_TOKEN"
	// codexModel is asked where nobody names a model: the newest that Codex knows
	// and offers its tools to one by one. Newer ones are offered a program to
	// write in their place, in a form that the gateway does not pass.
	codexModel = "gpt-5.5"
	// codexRetries is how often a request is tried again.
	codexRetries = 4
)

// Codex runs the Codex command line without a terminal. Its own sandbox does
// not nest and is off: ours is around it. Configuration, hooks, servers,
// skills and instructions that the project brings are not read.
type Codex struct{ options Options }

// NewCodex returns the Codex brain.
func NewCodex(o Options) Codex { return Codex{o} }

// Name is "codex".
func (Codex) Name() string { return codexName }

// Detect finds the program and asks it for its version.
func (c Codex) Detect(ctx context.Context) Status {
	status := Status{KeyFrom: c.options.ResponsesFrom, SignedIn: c.options.ResponsesFrom != ""}
	program, err := c.program()
	if err == nil {
		status.Path = program
		status.Version, err = programVersion(ctx, program)
	}
	if err != nil {
		status.Why, status.Next = err.Error(), codexInstall
		return status
	}
	status.Installed = true
	if !status.SignedIn {
		status.Why, status.Next = "codex found, but the model gateway has no key for OpenAI's Responses", cmp.Or(c.options.ResponsesHelp, codexKeyHelp)
	}
	return status
}

// program finds the native Codex program: the one named by the operator, or
// the one behind the `codex` on the path.
func (c Codex) program() (string, error) {
	name := c.options.CodexPath
	if name == "" {
		name = onPath(c.options.Path, codexName)
	}
	if name == "" {
		return "", errors.New("codex is not installed")
	}
	return native(name, codexPackages())
}

// codexPackages are where npm puts the native program, seen from a directory above.
func codexPackages() []string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return besideShim("@openai", "codex", filepath.Join("vendor", arch+"-unknown-linux-musl", "bin", "codex"))
}

// Launch refuses a turn whose model or session could be read as a flag.
func (c Codex) Launch(t Turn) (Launch, error) {
	if err := codexTurn(t); err != nil {
		return Launch{}, fmt.Errorf("codex: %w", err)
	}
	program, err := c.program()
	if err != nil {
		return Launch{}, fmt.Errorf("codex: %w · %s", err, codexInstall)
	}
	files, err := codexFiles(t)
	if err != nil {
		return Launch{}, fmt.Errorf("codex: %w", err)
	}
	return Launch{
		Argv: codexArgv(t), Env: codexEnv(t), Mounts: []nacre.Mount{codexMount(program)}, Files: append(files, SkillFiles(t.Skills)...),
		State: codexState,
	}, nil
}

func codexTurn(t Turn) error {
	if err := t.asks(); err != nil {
		return err
	}
	if t.Resume != "" && !isSession(t.Resume) {
		return fmt.Errorf("resume %.80q: use the session of an earlier turn, a UUID", t.Resume)
	}
	return nil
}

func codexArgv(t Turn) []string {
	argv := []string{codexProgram, "exec"}
	if t.Resume != "" {
		argv = append(argv, "resume")
	}
	argv = append(argv, "--json", "--skip-git-repo-check", "--strict-config")
	if t.Resume != "" {
		argv = append(argv, t.Resume)
	}
	return append(argv, "-") // the task comes on standard input
}

// codexMount is the folder of the package, with the programs that Codex starts,
// or a program that stands alone.
func codexMount(program string) nacre.Mount {
	pack := filepath.Dir(filepath.Dir(program))
	if _, err := os.Stat(filepath.Join(pack, "codex-package.json")); err == nil && filepath.Base(filepath.Dir(program)) == "bin" {
		return nacre.Mount{Kind: nacre.BindReadOnly, Source: pack, Target: codexDir}
	}
	return nacre.Mount{Kind: nacre.BindReadOnly, Source: program, Target: codexProgram}
}

// codexEnv gives the program its home, in which it keeps what is lost at the
// end: under /tmp it would refuse to run commands.
func codexEnv(t Turn) []string {
	return []string{"HOME=" + Home, codexToken + "=" + t.SessionToken.Reveal()}
}

// codexFiles are the configuration that no project and no flag turns off.
func codexFiles(t Turn) ([]File, error) {
	config := codexConfig(t)
	// Ours is the sandbox, and nobody is there to be asked.
	config["sandbox_mode"], config["approval_policy"] = "danger-full-access", "never"
	files, err := codexSettings(config, t.Gates != nil)
	return append(files, t.gateFiles()...), err
}

// codexSettings are the configuration and its limits. The one hook there may be
// is that of the task's gates; without gates there is none.
func codexSettings(config map[string]any, gated bool) ([]File, error) {
	managed, err := encodeTOML(config)
	if err != nil {
		return nil, err
	}
	limits := map[string]any{
		"allow_managed_hooks_only": true,
		"allowed_web_search_modes": []string{"disabled"},
		"features":                 map[string]bool{"hooks": gated},
		"mcp_servers":              map[string]any{},
	}
	if gated {
		// Hooks of the managed layer run without anybody's trust.
		hooks := preToolUse()
		hooks["managed_dir"] = RoleDir
		limits["hooks"] = hooks
	}
	required, err := encodeTOML(limits)
	if err != nil {
		return nil, err
	}
	return []File{{Path: codexManaged, Data: managed, Mode: 0o444}, {Path: codexRequired, Data: required, Mode: 0o444}}, nil
}

func encodeTOML(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return b.Bytes(), nil
}

// codexConfig leads the program to the gateway and leaves out what starts
// agents, reads the project's words as instructions, or works at the vendor.
func codexConfig(t Turn) map[string]any {
	model := t.Model
	if model == "" {
		model = codexModel
	}
	features := map[string]bool{}
	for _, feature := range []string{
		"multi_agent", "goals", "plugins", "remote_plugin", "apps", "shell_snapshot", "image_generation", "tool_suggest",
		"browser_use", "computer_use",
	} {
		features[feature] = false
	}
	features["hooks"] = t.Gates != nil
	// No hook is asked of what is typed into a command that runs already: with
	// gates, none can be typed into.
	features["unified_exec_tty"] = t.Gates == nil
	config := map[string]any{
		"model": model, "model_provider": "nacre", "check_for_update_on_startup": false, "web_search": "disabled",
		"project_doc_max_bytes": 0, "cli_auth_credentials_store": "file",
		// Commands keep the PATH of the sandbox, on which ipc is.
		"allow_login_shell": false,
		"features":          features,
		"agents":            map[string]bool{"enabled": false}, // newer models have a tool for it whatever the features say
		"skills":            map[string]any{"include_instructions": false, "bundled": map[string]bool{"enabled": false}},
		"analytics":         map[string]bool{"enabled": false},
		"history":           map[string]string{"persistence": "none"},
		"projects":          map[string]any{"/workspace": map[string]string{"trust_level": "untrusted"}},
		"model_providers": map[string]any{"nacre": map[string]any{
			"name": "nacre", "base_url": "http://127.0.0.1:" + strconv.Itoa(nacre.ModelPort) + "/v1", "wire_api": "responses",
			"env_key": codexToken, "request_max_retries": codexRetries, "stream_max_retries": codexRetries, "supports_websockets": false,
		}},
	}
	config["shell_environment_policy"] = codexCommands()
	if t.Context > 0 {
		config["model_context_window"] = t.Context
	}
	if brief := t.briefing(); brief != "" {
		config["developer_instructions"] = brief
	}
	return config
}

// codexCommands says what of the program's environment the commands have that it starts.
func codexCommands() map[string]any {
	return map[string]any{"inherit": "all", "ignore_default_excludes": true, "exclude": []string{codexToken}}
}

// Converse hands the task over and reads what comes of it.
func (c Codex) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	return converse(ctx, p, &codexDialect{task: t.Task, limit: t.MaxTurns}, emit)
}
