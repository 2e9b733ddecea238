package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// fakePods stands in for nacre-k8s: what it is to do is in the name of the folder that it lies
// in. Its other half, and a cluster, are tested in k8s/.
func fakePods() int {
	how := filepath.Base(filepath.Dir(os.Args[0]))
	switch os.Args[1] {
	case inside.PodDescribe:
		switch how {
		case "unready":
			fmt.Fprintln(os.Stderr, "the pool \x1b[31mtests\x1b[0m is not there")
			return 1
		case "garbled":
			fmt.Print("<html>")
		case "long":
			fmt.Print(strings.Repeat(" ", 70<<10) + "{}")
		default:
			_ = json.NewEncoder(os.Stdout).Encode(inside.PodDescription{Runtime: "runsc", Holds: "a pod"})
		}
		return 0
	case inside.PodStart:
		if err := fakePod(how, os.NewFile(inside.ControlFD, "control")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return 2
}

func fakePod(how string, control *os.File) error {
	var order inside.PodOrder
	if err := inside.Receive(control, &order); err != nil {
		return err
	}
	switch how {
	case "unstarted":
		return inside.Send(control, inside.Report{Error: "no pod was \x1b[2Jgiven"})
	case "no-program":
		return inside.Send(control, inside.Report{Exec: true, Errno: 2, Error: "no such file"})
	case "dies":
		return errors.New("the API server is away")
	}
	if err := inside.Send(control, inside.Report{Started: true}); err != nil {
		return err
	}
	stdout := os.NewFile(inside.PodStdoutFD, "stdout")
	switch how {
	case "evicted":
		return inside.Send(control, inside.Report{Error: "the pod ended: Evicted"})
	case "lost":
		return errors.New("killed by its node")
	case "waits":
		word := make([]byte, 1)
		for word[0] != byte(inside.End) {
			if _, err := io.ReadFull(control, word); err != nil {
				return err
			}
			if _, err := stdout.Write(word); err != nil {
				return err
			}
		}
		return inside.Send(control, inside.Report{Ended: true, Signal: 9})
	}
	if err := json.NewEncoder(stdout).Encode(order); err != nil {
		return err
	}
	return inside.Send(control, inside.Report{Ended: true, Code: 7})
}

// pods are a backend whose program behaves so.
func pods(t *testing.T, how string) (*sandbox.Pods, error) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	program := filepath.Join(t.TempDir(), how, sandbox.PodProgram)
	check(t, os.Mkdir(filepath.Dir(program), 0o700))
	check(t, os.Symlink(self, program))
	return sandbox.OpenPods(t.Context(), sandbox.PodOptions{Program: program, StateDir: t.TempDir(), Settings: sandbox.PodSettings{Namespace: "agents", Pool: "tests", Listen: "127.0.0.1:30100"}})
}

// inPods is a command that works on a folder of this machine, and what it prints.
func inPods(t *testing.T) (c sandbox.Command, project string, printed func() string) {
	t.Helper()
	project = t.TempDir()
	file, err := os.CreateTemp(t.TempDir(), "out")
	check(t, err)
	t.Cleanup(func() { _ = file.Close() })
	posture := nacre.Posture{Dir: "/workspace", Mounts: []nacre.Mount{
		{Kind: nacre.BindReadWrite, Source: project, Target: "/workspace"}, {Kind: nacre.Mask, Target: "/workspace/.env"}, {Kind: nacre.Tmpfs, Target: "/cache"},
	}}
	return sandbox.Command{Posture: posture, Argv: []string{"work"}, Label: "work", Stdout: file}, project, func() string {
		data, err := os.ReadFile(file.Name())
		check(t, err)
		return string(data)
	}
}

// the program is given what was resolved here, its streams are the agent's, and the exit is
// what it reports.
func TestAPodIsStartedByAProgram(t *testing.T) {
	t.Parallel()
	b, err := pods(t, "works")
	check(t, err)
	if b.Name() != "k8s (runsc)" || b.Holds() != "a pod" || b.HostTools() || !slices.Equal(b.PeerUIDs(), []int{os.Geteuid()}) {
		t.Errorf("have %s, %s, %t, %v", b.Name(), b.Holds(), b.HostTools(), b.PeerUIDs())
	}
	c, project, printed := inPods(t)
	p, err := b.Start(t.Context(), c)
	check(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 7 || exit.Killed || exit.TimedOut {
		t.Errorf("have %+v, %v", exit, err)
	}
	var order inside.PodOrder
	check(t, json.Unmarshal([]byte(printed()), &order))
	if len(order.Entries) != 3 || order.Entries[0].Source != project || order.Entries[0].Ino == 0 || !order.Entries[0].Returns || !order.Entries[0].Dir ||
		order.Entries[1].Kind != inside.PodHidden || order.Entries[2].Kind != inside.PodFolder {
		t.Errorf("have the entries %+v", order.Entries)
	}
	if !order.Work.Routed || order.Disk <= 0 || order.Settings.Pool != "tests" || order.Label != "work" {
		t.Errorf("have the order %+v", order)
	}
}

// a program that is not ready, or says what nobody can read, starts nothing. What it says of
// itself reaches the terminal as text.
func TestAProgramThatIsNotReadyOpensNoPods(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"unready": "is not there", "garbled": "build both from the same source", "long": "build both from the same source",
	} {
		if _, err := pods(t, how); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: have %v", how, err)
		}
	}
}

// what does not start, or ends before its agent, says why, and counts as killed.
func TestAPodThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{"unstarted": "no pod was", "dies": "the API server is away", "no-program": "no such file"} {
		b, err := pods(t, how)
		check(t, err)
		c, _, _ := inPods(t)
		_, err = b.Start(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: have %v", how, err)
		}
		if exec := (*sandbox.ExecError)(nil); errors.As(err, &exec) != (how == "no-program") {
			t.Errorf("%s: have %T", how, err)
		}
	}
	for how, want := range map[string]string{"evicted": "Evicted", "lost": "ended without a report: killed by its node"} {
		b, err := pods(t, how)
		check(t, err)
		c, _, _ := inPods(t)
		p, err := b.Start(t.Context(), c)
		check(t, err)
		if exit, err := p.Wait(); err == nil || !strings.Contains(err.Error(), want) || exit.Code == 0 {
			t.Errorf("%s: have %+v, %v", how, exit, err)
		}
	}
}

// the agent is frozen, and ended by a person or by the end of the context, by words: what it
// wrote can still come back.
func TestAPodObeysWords(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(sandbox.Process, context.CancelFunc) error{
		"by a person":    func(p sandbox.Process, _ context.CancelFunc) error { return p.Kill() },
		"by its context": func(_ sandbox.Process, cancel context.CancelFunc) error { cancel(); return nil },
	} {
		b, err := pods(t, "waits")
		check(t, err)
		c, _, printed := inPods(t)
		ctx, cancel := context.WithCancel(t.Context())
		p, err := b.Start(ctx, c)
		check(t, err)
		check(t, errors.Join(p.Freeze(), p.Thaw(), end(p, cancel)))
		exit, err := p.Wait()
		cancel()
		if err != nil || !exit.Killed || exit.Code != 137 || printed() != "FTE" {
			t.Errorf("%s: have %+v, %v and the words %q", name, exit, err, printed())
		}
	}
}

// what a pod cannot have is refused before one is claimed.
func TestWhatAPodCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	b, err := pods(t, "works")
	check(t, err)
	for want, change := range map[string]func(*sandbox.Command){
		"a pod has no terminal": func(c *sandbox.Command) { c.Terminal = true },
		"private layer": func(c *sandbox.Command) {
			c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.Overlay, Source: c.Posture.Mounts[0].Source, Target: "/over"})
		},
		"no command": func(c *sandbox.Command) { c.Argv = nil },
	} {
		c, _, _ := inPods(t)
		change(&c)
		if p, err := b.Start(t.Context(), c); p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, have %v", want, err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
