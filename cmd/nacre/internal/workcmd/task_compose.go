package workcmd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/role"
)

// readied is a task in its role.
type readied struct {
	Project string // the folder whose roles there are, by its full path
	File    string // that it was read from
	Task    atom.Task
	Role    role.Resolved
}

// readyTask reads a task file and resolves its role among the built-in ones
// and those of a project. Every error is one of usage.
func (cmd taskCommand) readyTask(project, file string) (readied, error) {
	folder, err := cmd.ProjectFolder(project)
	if err != nil {
		return readied{}, command.UsageOf(err)
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "task.toml")
	}
	data, err := command.ReadInput(file)
	if err != nil {
		return readied{}, err
	}
	task, err := atom.ParseTask(data)
	if err != nil {
		return readied{}, command.Usage("%s: %w", file, err)
	}
	rules, done, err := assembly.OpenRules(folder)
	if err != nil {
		return readied{}, command.UsageOf(err)
	}
	defer done()
	resolved, err := role.Library{Project: rules}.Resolve(task.Role)
	if err != nil {
		return readied{}, command.Usage("%s: %w", file, err)
	}
	return readied{folder, file, task, resolved}, nil
}

// warn says what the person who wrote a task and its role should know.
func (cmd taskCommand) warn(r readied) {
	for _, warning := range append(append([]string(nil), r.Role.Warnings...), role.Unheld(r.Role, r.Task)...) {
		cmd.Printer(cmd.Stderr).Line("nacre: warning: %s", warning)
	}
}

func (cmd taskCommand) composeCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "compose TASK", Short: "print a task's prompt, and write it beside the task",
		Long: `Composes the prompt of a task: the texts of its role's atoms in their order, the limits
of this task, and what is asked for. It is printed, and written to prompt.md beside the
task file. The same task gives the same bytes.`,
		Example: "  nacre task compose tasks/a1/task.toml", Args: command.OneArgument("a task file"),
		RunE: func(_ *cobra.Command, args []string) error {
			ready, err := cmd.readyTask(project, args[0])
			if err != nil {
				return err
			}
			return cmd.composeTask(ready)
		},
	}
	command.ProjectFlag(c, &project)
	return c
}

func (cmd taskCommand) composeTask(ready readied) error {
	prompt, err := role.Compose(ready.Role, ready.Task)
	if err != nil {
		return command.UsageOf(err)
	}
	cmd.warn(ready)
	file := filepath.Join(filepath.Dir(ready.File), "prompt.md")
	if err := writePrompt(file, prompt); err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{"prompt": prompt, "file": file, "spec_sha": ready.Task.SpecSHA()})
	}
	_, err = io.WriteString(cmd.Stdout, prompt)
	return err
}

// writePrompt puts the prompt beside the task, whole or not at all. What has
// its name and is no file of ours to replace is left alone.
func writePrompt(file, prompt string) (err error) {
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: move it away", file)
	}
	part, err := os.CreateTemp(filepath.Dir(file), ".prompt-*.md")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	_, err = part.WriteString(prompt)
	if err = errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}

func (cmd taskCommand) prepareCommand() *cobra.Command {
	var project, format string
	c := &cobra.Command{
		Use: "prepare TASK", Short: "print everything that starts a task's agent by hand",
		Long: `Prints what an orchestrator needs to start the agent itself, such as with Claude Code's
Agent tool: its id, kind, isolation and prompt, the command that verifies what comes
back, the ledger's row and the DNA. It writes nothing. A role that is not spawnable is
refused.`,
		Example: "  nacre task prepare tasks/a1/task.toml --format json", Args: command.OneArgument("a task file"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case cmd.JSON && format == "human":
				format = "json"
			case format != "human" && format != "json" && format != "toml":
				return command.Usage("--format is %q: write human, json or toml", format)
			}
			ready, err := cmd.readyTask(project, args[0])
			if err != nil {
				return err
			}
			return cmd.prepareTask(ready, format)
		},
	}
	c.Flags().StringVar(&format, "format", "human", "human, json or toml")
	command.ProjectFlag(c, &project)
	return c
}

func (cmd taskCommand) prepareTask(ready readied, format string) error {
	var nonce [4]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return err
	}
	verify, err := ready.verifyCommand()
	if err != nil {
		return err
	}
	invocation, err := role.Prepare(ready.Role, ready.Task, verify, dna.Compose(ready.Task, ready.Role.Atoms, nonce).String())
	if err != nil {
		return command.Usage("%s: %w", ready.File, err)
	}
	cmd.warn(ready)
	switch format {
	case "json":
		return cmd.PrintJSON(invocation)
	case "toml":
		return toml.NewEncoder(cmd.Stdout).Encode(invocation)
	}
	return cmd.printInvocation(invocation)
}

// verifyCommand judges what an agent made that was started by hand: no session
// knows of it, so nacre capability verify does, by the role's verifiers. PATH
// is where the agent worked, REPORT a file with what it said last (S-10).
func (r readied) verifyCommand() (string, error) {
	file, err := filepath.Abs(r.File)
	if err != nil {
		return "", err
	}
	words := []string{
		"AGENT_ID=" + shellWord(r.Task.AgentID), "TASK_TOML=" + shellWord(file), "WORKTREE_PATH=PATH",
		"MAIN_REPO=" + shellWord(r.Project), "RUN_MODE=both", "nacre capability verify",
	}
	reports := false
	for _, a := range r.Role.Atoms {
		if a.Verify.Handler != "" {
			words = append(words, string(a.ID))
			reports = reports || strings.HasPrefix(string(a.ID), "output::")
		}
	}
	if reports {
		words = append(words, "--report REPORT")
	}
	return strings.Join(words, " "), nil
}

func (cmd taskCommand) printInvocation(i role.Invocation) error {
	_, err := fmt.Fprintf(cmd.Stdout, `=== NACRE TASK — PREPARED SPAWN ===
dna: %s
agent-id: %s
subagent_type: %s
isolation: %s
description: %s

--- PROMPT (copy into the Agent tool's prompt) ---
%s--- END PROMPT ---

on return:
  %s

ledger: %s
`, i.DNA, i.AgentID, i.SubagentType, i.Isolation, i.Description, i.Prompt, i.VerifyCommand, i.LedgerRow)
	return err
}

// shellWord quotes a path for a shell where it needs to be.
func shellWord(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@", r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
