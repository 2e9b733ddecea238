package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

const (
	// codexPatience is how long Codex may take to say what it trusts.
	codexPatience = 20 * time.Second
	// maxAnswer is the longest line that is read of Codex, in bytes.
	maxAnswer = 4 << 20
)

// codexHook is a hook as Codex itself lists it.
type codexHook struct {
	Key     string `json:"key"`
	Command string `json:"command"`
	Hash    string `json:"currentHash"`
	Trust   string `json:"trustStatus"`
	Enabled bool   `json:"enabled"`
	Managed bool   `json:"isManaged"`
}

// Trust is what Codex says of a hook: whether it would be run, or why not.
type Trust struct {
	Runs bool
	Why  string
}

// CodexTrust asks Codex itself which of the hooks it would run in a folder: one
// that nobody trusted is passed over silently. With grant it has Codex trust
// those that it lists with exactly these commands first.
func CodexTrust(ctx context.Context, program, dir string, commands []string, grant bool) (trust map[string]Trust, err error) {
	ctx, cancel := context.WithTimeout(ctx, codexPatience)
	defer cancel()
	s, err := openCodex(ctx, program, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(cancel)) }()
	listed, err := s.hooks(dir)
	if err != nil {
		return nil, err
	}
	if grant {
		if err := s.grant(listed, commands); err != nil {
			return nil, err
		}
		if listed, err = s.hooks(dir); err != nil {
			return nil, err
		}
	}
	trust = map[string]Trust{}
	for _, command := range commands {
		trust[command] = trustOf(listed, command)
	}
	return trust, nil
}

func trustOf(listed []codexHook, command string) Trust {
	for _, one := range listed {
		switch {
		case one.Command != command:
		case !one.Enabled:
			return Trust{Why: "it was switched off in Codex"}
		case one.Managed || one.Trust == "trusted" || one.Trust == "managed":
			return Trust{Runs: true}
		default:
			return Trust{Why: "Codex holds it for " + clip(one.Trust, 40) + ": trust it under /hooks in Codex, or install with --trust"}
		}
	}
	return Trust{Why: "Codex does not read it here: is the project trusted in Codex?"}
}

// codexServer is Codex's own server on a pipe.
type codexServer struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Scanner
	id      int
}

func openCodex(ctx context.Context, program, dir string) (*codexServer, error) {
	s := &codexServer{command: exec.CommandContext(ctx, program, "app-server")}
	s.command.Dir, s.command.WaitDelay = dir, time.Second
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("codex: %w", err)
	}
	s.lines = bufio.NewScanner(stdout)
	s.lines.Buffer(nil, maxAnswer)
	_, err = s.ask("initialize", map[string]any{"clientInfo": map[string]string{"name": "nacre", "version": "1"}})
	if err == nil {
		err = s.send(map[string]any{"method": "initialized"})
	}
	if err != nil {
		return nil, errors.Join(err, s.stdin.Close(), s.command.Wait())
	}
	return s, nil
}

// close ends the server: it has nothing more to do, and is not waited for long.
func (s *codexServer) close(kill func()) error {
	err := s.stdin.Close()
	kill()
	_ = s.command.Wait() // it was killed
	return err
}

func (s *codexServer) send(message map[string]any) error {
	data, err := json.Marshal(message)
	if err == nil {
		_, err = s.stdin.Write(append(data, '\n'))
	}
	return err
}

func (s *codexServer) ask(method string, params any) (json.RawMessage, error) {
	s.id++
	if err := s.send(map[string]any{"id": s.id, "method": method, "params": params}); err != nil {
		return nil, fmt.Errorf("codex: %s: %w", method, err)
	}
	for s.lines.Scan() {
		var m struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(s.lines.Bytes(), &m) != nil || m.ID != s.id || m.Method != "" {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("codex: %s: %s", method, clip(m.Error.Message, maxLogged))
		}
		return m.Result, nil
	}
	return nil, fmt.Errorf("codex: %s: it gave no answer: %w", method, errors.Join(s.lines.Err(), io.ErrUnexpectedEOF))
}

func (s *codexServer) hooks(dir string) ([]codexHook, error) {
	raw, err := s.ask("hooks/list", map[string]any{"cwds": []string{dir}})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data []struct {
			Hooks []codexHook `json:"hooks"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("codex: its list of hooks: %w", err)
	}
	var all []codexHook
	for _, folder := range answer.Data {
		all = append(all, folder.Hooks...)
	}
	return all, nil
}

// grant has Codex trust the hooks by the hash that it gave itself.
func (s *codexServer) grant(listed []codexHook, commands []string) error {
	state := map[string]any{}
	for _, one := range listed {
		for _, command := range commands {
			if one.Command == command && !one.Managed {
				state[one.Key] = map[string]any{"enabled": true, "trusted_hash": one.Hash}
			}
		}
	}
	if len(state) == 0 {
		return nil
	}
	_, err := s.ask("config/batchWrite", map[string]any{"edits": []any{
		map[string]any{"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"},
	}})
	return err
}
