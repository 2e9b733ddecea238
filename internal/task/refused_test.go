package task_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/task"
)

// idle is an agent's program that does nothing until it is killed.
type idle struct {
	brain.Process
	kill func()
}

func (i idle) Kill() error { i.kill(); return nil }
func (idle) Freeze() error { return nil }
func (idle) Thaw() error   { return nil }

// M-65: a call that the kernel refuses before the launch of its agent has returned ends the
// run of a role that fails fast like any other.
func TestACallIsRefusedWhileItsAgentIsLaunched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.order = &task.Order{Agent: "agent-0", Role: "fixer", Escalation: task.FailFast}
	killed := make(chan struct{})
	program := idle{kill: sync.OnceFunc(func() { close(killed) })}
	b.agent.more = func(string) error {
		<-killed
		return &brain.Failure{Class: brain.ClassKilled, Message: "it was killed"}
	}
	result, err := b.opens(t.Context(), func() {}, func(p *task.Parts) {
		p.Launch = func(ctx context.Context, _ brain.Launch, _ task.Workspace) (task.Agent, error) {
			gone, cancel := context.WithCancel(ctx)
			cancel() // the caller does not wait for its answer
			_ = p.Session.Recorder.Append(gone, nacre.Record{
				Kind: nacre.KindCallReject, Outcome: "rejected", Reason: "no_right", Detail: json.RawMessage(`{"capability":"a.b","code":"UNAUTHORIZED"}`),
			})
			return program, nil
		}
	})
	if err != nil || result.Landed || !strings.Contains(result.Reason, "the role fails fast: the call of a.b is not allowed") {
		t.Errorf("have %+v, %v", result, err)
	}
}
