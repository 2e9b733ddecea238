package brain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// What Claude Code sees inside. The argument line was observed on 2.1.329;
// its control protocol is undocumented, so the tests hold it to the contract.
const (
	claudeName    = "claude"
	claudeProgram = "/opt/claude/claude"
	claudeManaged = "/etc/claude-code/managed-settings.json"
	claudeConfig  = Home + "/.claude"
	claudeState   = claudeConfig + "/projects" // what was said, by session
	claudePlugin  = RoleDir + "/plugin"
	claudeSystem  = RoleDir + "/system.md"
	claudeInstall = "npm install -g @anthropic-ai/claude-code"
	claudeKeyHelp = "export ANTHROPIC_API_KEY=…"
	versionWait   = 10 * time.Second
	maxVersion    = 64
)

// claudeTools are the tools a turn may use. What they can reach is decided by
// the sandbox around them, so within it they need no further word.
var claudeTools = []string{"Bash", "Read", "Write", "Edit", "Glob", "Grep", "Skill"}

// claudeRefused are tools that start agents of their own or leave the sandbox
// through the vendor's side.
var claudeRefused = []string{"Agent", "WebFetch", "WebSearch"}

// isModel accepts the name of a model, which can never be read as a flag.
func isModel(s string) bool {
	ok := func(r rune) bool { return isAlphanumeric(r) || strings.ContainsRune("._:/@[]-", r) }
	return s != "" && len(s) <= 128 && isAlphanumeric(rune(s[0])) && !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) })
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isSession accepts a UUID in lower case.
func isSession(s string) bool {
	for i, r := range s {
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && r != '-', !dash && !strings.ContainsRune("0123456789abcdef", r):
			return false
		}
	}
	return len(s) == 36
}

// Claude runs the Claude Code command line without a terminal, spoken to over
// its control protocol. Settings, hooks, servers and instructions that the
// project brings are not read.
type Claude struct{ options Options }

// NewClaude returns the Claude Code brain.
func NewClaude(o Options) Claude { return Claude{o} }

// Name is "claude".
func (Claude) Name() string { return claudeName }

// Detect finds the program and asks it for its version.
func (c Claude) Detect(ctx context.Context) Status {
	status := Status{KeyFrom: c.options.KeyFrom, SignedIn: c.options.KeyFrom != ""}
	program, err := c.program()
	if err != nil {
		status.Why, status.Next = err.Error(), claudeInstall
		return status
	}
	status.Path = program
	if status.Version, err = programVersion(ctx, program); err != nil {
		status.Why, status.Next = err.Error(), claudeInstall
		return status
	}
	status.Installed = true
	if !status.SignedIn {
		status.Why, status.Next = "claude found, but the model gateway has no Anthropic API key", cmp.Or(c.options.KeyHelp, claudeKeyHelp)
	}
	return status
}

// programVersion runs the program with nothing of the host's environment.
func programVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = []string{"HOME=/nonexistent", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if len(word) <= maxVersion && word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word, nil
		}
	}
	return "", fmt.Errorf("%s --version says %.64q, which is no version", program, out)
}

// Launch refuses a turn whose model or session could be read as a flag.
func (c Claude) Launch(t Turn) (Launch, error) {
	if err := claudeTurn(t); err != nil {
		return Launch{}, fmt.Errorf("claude: %w", err)
	}
	program, err := c.program()
	if err != nil {
		return Launch{}, fmt.Errorf("claude: %w · %s", err, claudeInstall)
	}
	files, err := claudeFiles(t)
	if err != nil {
		return Launch{}, fmt.Errorf("claude: %w", err)
	}
	return Launch{
		Argv:   claudeArgv(t),
		Env:    claudeEnv(t),
		Mounts: []nacre.Mount{{Kind: nacre.BindReadOnly, Source: program, Target: claudeProgram}},
		Files:  files,
		State:  claudeState,
	}, nil
}

func claudeTurn(t Turn) error {
	if err := t.asks(); err != nil {
		return err
	}
	if t.Resume != "" && !isSession(t.Resume) {
		return fmt.Errorf("resume %.80q: use the session of an earlier turn, a UUID", t.Resume)
	}
	return nil
}

func claudeArgv(t Turn) []string {
	argv := []string{
		claudeProgram, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio", "--permission-mode", "default",
		"--restricted", "--setting-sources", "", "--strict-mcp-config",
		"--tools", strings.Join(t.offered(claudeTools), ","), "--disallowedTools", strings.Join(t.refused(), ","),
		"--system-prompt-snapshot", "off",
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
	if t.Resume != "" {
		argv = append(argv, "--resume", t.Resume)
	}
	if t.MaxTurns > 0 {
		argv = append(argv, "--max-turns", strconv.Itoa(t.MaxTurns))
	}
	return argv
}

// claudeEnv leads all model traffic to the gateway: the token is the
// session's own, and the proxy of the sandbox must not be asked for loopback.
func claudeEnv(t Turn) []string {
	const loopback = "127.0.0.1,localhost,::1"
	return []string{
		"HOME=" + Home,
		"CLAUDE_CONFIG_DIR=" + claudeConfig,
		"ANTHROPIC_BASE_URL=http://127.0.0.1:" + strconv.Itoa(nacre.ModelPort),
		"ANTHROPIC_API_KEY=" + t.SessionToken.Reveal(),
		"NO_PROXY=" + loopback, "no_proxy=" + loopback,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_MAX_RETRIES=4",
		// The project's own words are data, read by tools, never instructions.
		"CLAUDE_CODE_DISABLE_CLAUDE_MDS=1", "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1",
		"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1", "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS=1",
		// Nobody is there to be offered a next message, which would cost a request.
		"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false",
		// A turn ends with its last command, not with one left behind.
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
	}
}

// claudeFiles are the managed settings, which no flag and no project turns
// off, and the turn's instructions and skills.
func claudeFiles(t Turn) ([]File, error) {
	settings := map[string]any{
		"allowManagedHooksOnly":           true,
		"allowManagedPermissionRulesOnly": true,
		"enableAllProjectMcpServers":      false,
		"permissions": map[string]any{
			"disableBypassPermissionsMode": "disable",
			"deny":                         claudeRefused,
		},
	}
	if t.Gates != nil {
		settings["hooks"] = preToolUse()
	}
	managed, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("managed settings: %w", err)
	}
	files := append([]File{{Path: claudeManaged, Data: managed, Mode: 0o444}}, t.gateFiles()...)
	if t.System != "" {
		files = append(files, File{Path: claudeSystem, Data: []byte(t.System), Mode: 0o444})
	}
	if len(t.Skills) > 0 {
		files = append(files, File{
			Path: path.Join(claudePlugin, ".claude-plugin/plugin.json"), Mode: 0o444,
			Data: []byte(`{"name":"nacre","version":"1.0.0","description":"What this session may use"}` + "\n"),
		})
	}
	for _, s := range t.Skills {
		files = append(files, File{Path: path.Join(claudePlugin, "skills", s.Name, "SKILL.md"), Data: []byte(s.Markdown), Mode: 0o444})
	}
	return files, nil
}

// Converse speaks the control protocol until the process has ended.
func (c Claude) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	return converse(ctx, p, newClaudeDialect(t), emit)
}
