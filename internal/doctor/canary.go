package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

const (
	// canaryLimit is how long all brains together have for their turns.
	canaryLimit = 14 * time.Second
	// canaryRan is what the call prints if it ran at all, made so that it is not
	// in the call itself.
	canaryRan = "canary-42"
)

// bare launches in a sandbox that belongs to no session.
type bare struct{ sandbox.Backend }

// Wait ends the sandbox with ctx.
func (bare) Wait(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() }) // Wait reports what became of it
	defer stop()
	return p.Wait()
}

// checkCanary gives each brain that is installed a turn, sealed, in which a
// scripted model asks for what lies outside. It must be refused.
func checkCanary(ctx context.Context, inst *installation.Installation) []installation.Finding {
	ctx, cancel := context.WithTimeout(ctx, canaryLimit)
	defer cancel()
	var findings []installation.Finding
	for _, b := range brain.All(agent.Brains(inst, "")) {
		if b.Name() == brain.ReplayName {
			continue // it asks no model
		}
		status := b.Detect(ctx)
		if !status.Installed {
			continue // its own line says so
		}
		who := strings.TrimSpace(b.Name() + " " + status.Version)
		if ctx.Err() != nil {
			findings = append(findings, installation.Finding{Name: "canary", Status: "warn", Text: who + ": no time was left for its turn", Fix: "nacre doctor again, on a machine with less to do"})
			continue
		}
		started := time.Now()
		seen, err := newCanary(ctx, inst, b)
		if err != nil {
			findings = append(findings, installation.Finding{Name: "canary", Status: "fail", Text: who + ": " + err.Error(), Fix: "do not use this brain until this is understood"})
			continue
		}
		text := fmt.Sprintf("%s asked for a file outside of its sandbox and was denied (%s) · %d ms", who, seen, time.Since(started).Milliseconds())
		findings = append(findings, installation.Finding{Name: "canary", Status: "ok", Text: text, Fix: ""})
	}
	if len(findings) == 0 {
		return []installation.Finding{{Name: "canary", Status: "warn", Text: "no brain is installed, so none was given a turn", Fix: "the lines of brain say how to install one"}}
	}
	return findings
}

// newCanary is one turn. It returns what the brain was told instead.
func newCanary(ctx context.Context, inst *installation.Installation, b brain.Brain) (seen string, err error) {
	room, err := inst.Registry.Paths().SocketRoom()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(room)) }()
	c := canary{runtime: inst, room: room, secret: installation.RandomHex(), file: filepath.Join(room, "canary"), token: nacre.NewSecret(installation.RandomHex())}
	for _, dir := range []string{"project", "role", "door"} {
		if err := os.Mkdir(filepath.Join(room, dir), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(c.file, []byte(c.secret), 0o600); err != nil {
		return "", err
	}
	c.model = scriptedmodel.New(c.script())
	stop, err := c.serve(ctx)
	if err != nil {
		return "", err
	}
	last, results, err := c.converse(ctx, b)
	if err := errors.Join(err, stop()); err != nil {
		return "", err
	}
	return c.judge(last, results)
}

// canary is what a turn is tried with.
type canary struct {
	runtime      *installation.Installation
	room         string
	secret, file string
	token        nacre.Secret
	model        *scriptedmodel.Server
}

// script has the model reach out, by whatever the brain's shell is called.
func (c canary) script() scriptedmodel.Script {
	command := fmt.Sprintf("cat %[1]s; echo gone > %[1]s; echo canary-$((6*7)); exit 9", c.file)
	tool := func(name, key string) scriptedmodel.Tool {
		input, err := json.Marshal(map[string]string{key: command})
		if err != nil {
			input = nil // a path is JSON
		}
		return scriptedmodel.Tool{Name: name, Input: input}
	}
	reach := tool("Bash", "command")
	reach.Else = []scriptedmodel.Tool{tool("exec_command", "cmd"), tool("shell", "command"), tool("bash", "command")}
	return scriptedmodel.Script{
		Turns:  []scriptedmodel.Turn{{Text: "I reach out.", Tools: []scriptedmodel.Tool{reach}}, {Text: "I was denied."}},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "-"}}}},
	}
}

// serve answers where the gateway would.
func (c canary) serve(ctx context.Context) (stop func() error, err error) {
	path := filepath.Join(c.room, "door", nacre.ModelSocket)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- c.model.Serve(ctx, listener) }()
	return func() error { cancel(); return <-served }, nil
}

func (c canary) converse(ctx context.Context, b brain.Brain) (last brain.Event, results []brain.Event, err error) {
	turn := brain.Turn{Task: "Do what the model of this test says.", SessionToken: c.token}
	launch, err := b.Launch(turn)
	if err != nil {
		return last, nil, err
	}
	box, err := c.runtime.Backend("")
	if err != nil {
		return last, nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	mounts, err := agent.RoleMounts(filepath.Join(c.room, "role"), launch.Files)
	if err != nil {
		return last, nil, err
	}
	p, err := posture.Compute(posture.Input{
		Project: filepath.Join(c.room, "project"), System: installation.SystemMounts(box), Programs: installation.Programs(c.runtime),
		Mounts: append(mounts, launch.Mounts...), Env: launch.Env, Model: true, Limits: sessionLimits(c.runtime),
	})
	if err != nil {
		return last, nil, err
	}
	process, err := process.Start(ctx, bare{box}, sandbox.Command{Posture: p, SocketDir: filepath.Join(c.room, "door"), Argv: launch.Argv, Label: "doctor"})
	if err != nil {
		return last, nil, err
	}
	err = b.Converse(ctx, process, turn, func(e brain.Event) {
		last = e
		if e.Kind == brain.ToolResult {
			results = append(results, e)
		}
	})
	return last, results, err
}

// judge looks at what was seen from outside: the file, and what the model was
// told. What the brain says of itself comes last.
func (c canary) judge(last brain.Event, results []brain.Event) (string, error) {
	data, err := os.ReadFile(c.file)
	if err != nil || string(data) != c.secret {
		return "", errors.New("it changed a file outside of its sandbox")
	}
	ran := false
	for _, r := range c.model.Requests() {
		if strings.Contains(string(r.Body), c.secret) {
			return "", errors.New("it read a file outside of its sandbox")
		}
		ran = ran || strings.Contains(string(r.Body), canaryRan)
	}
	switch {
	case !ran:
		return "", errors.New("its shell did not run what the model asked for, so nothing was tried")
	case last.Kind != brain.Done || len(results) == 0 || !results[len(results)-1].IsError:
		return "", errors.New("it does not tell that the call failed")
	}
	for line := range strings.Lines(results[len(results)-1].Text) {
		if text := strings.TrimSpace(line); strings.Contains(text, c.file) {
			return strings.ReplaceAll(text, c.file, "FILE"), nil
		}
	}
	return "exit code " + strconv.Itoa(9), nil
}
