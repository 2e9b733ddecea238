package main

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/hooks"
)

func (a *app) hookCommand() *cobra.Command {
	var pin string
	c := &cobra.Command{
		Use: "hook", Short: "answer a hook of Claude Code or Codex by the set that was pinned", Args: noArguments,
		Long: `Reads a PreToolUse hook's JSON on standard input and decides by the pinned set. Exit 0
with JSON on standard output: the call may go on, and the agent's own permissions still
apply. Exit 2 with the reason on standard error: it may not. Whatever is missing, malformed,
unknown or late is exit 2. nacre hooks install writes the line that calls it.`,
		Example: "  nacre hook --set ~/.local/state/nacre/hooks/DIGEST.json < hook.json",
		RunE:    func(*cobra.Command, []string) error { return a.answerHook(pin) },
	}
	c.Flags().StringVar(&pin, "set", "", "the pinned set's file; its name is the digest of its bytes")
	return c
}

// answerHook opens nothing but the pin: it is called before every tool call.
func (a *app) answerHook(pin string) error {
	h := hooks.Hook{
		Pin: pin, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, Getenv: a.getenv,
		Bypassed: a.hookBypassed, Log: a.hookHome().LogFile(), Now: time.Now, Deadline: hooks.Deadline,
	}
	if isTerminal(a.stdin) {
		h.Stdin = bytes.NewReader(nil)
	}
	if code := h.Answer(); code != 0 {
		return &exitError{code: guard.ExitDenied}
	}
	return nil
}

// hookHome are the folders of agents and of nacre, none of which it makes.
func (a *app) hookHome() hooks.Home {
	state := a.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(a.getenv("HOME"), ".local", "state")
	}
	return hooks.HomeOf(a.getenv, filepath.Join(state, "nacre"))
}

// hookBypassed is as bypassed, and looks into the folders of agents too that
// the environment names: Codex takes variables from a file there.
func (a *app) hookBypassed(variable string, w gate.World) bool {
	if a.getenv(variable) != "1" {
		return false
	}
	home := a.hookHome()
	for _, file := range []string{
		filepath.Join(home.Claude, "settings.json"), filepath.Join(home.Claude, "settings.local.json"), filepath.Join(home.Claude, ".claude.json"),
		filepath.Join(home.Codex, "config.toml"), filepath.Join(home.Codex, "hooks.json"), filepath.Join(home.Codex, ".env"),
		filepath.Join(w.Home, ".codex", ".env"),
	} {
		if mentions(file, variable) {
			return false
		}
	}
	return a.bypassed(variable, w)
}

// codexProgram is the Codex that a person runs; empty where there is none.
func (a *app) codexProgram() string {
	if named := a.getenv("NACRE_CODEX"); named != "" {
		return named
	}
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		candidate := filepath.Join(dir, "codex")
		if info, err := os.Stat(candidate); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}
