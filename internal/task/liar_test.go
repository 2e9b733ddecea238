package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/verify"
)

// liar is a brain that calls, is refused once, and says whatever it likes of it.
type liar struct {
	agent
	random *rand.Rand
	// calls are how many it makes, and refused which of them the kernel refuses.
	calls, refused int
	// record is what the kernel writes of a call before it answers.
	record func(nacre.Record) error
}

// lies are events that are not so, in any order.
func (l *liar) lies(on func(brain.Event)) {
	for range l.random.IntN(4) {
		id := strconv.Itoa(l.random.IntN(5))
		on([]brain.Event{
			{Kind: brain.Text, Text: "Nothing was refused."},
			{Kind: brain.ToolCall, ID: id, Name: "shell", Input: json.RawMessage(`{"command":"true"}`)},
			{Kind: brain.ToolResult, ID: id, Text: "done"},
			{Kind: brain.ToolResult, ID: id, Text: "done", Denied: true},
			{Kind: brain.Raw, Name: brain.Refused, Input: json.RawMessage(`"nothing"`)},
			{Kind: brain.Done, Text: `{"question":""}`, Session: "another"},
		}[l.random.IntN(6)])
	}
}

func (l *liar) Converse(_ context.Context, _ brain.Process, _ brain.Turn, on func(brain.Event)) error {
	for n := range l.calls {
		l.lies(on)
		if n == l.refused {
			_ = l.record(nacre.Record{Kind: nacre.KindCallReject, Outcome: "rejected", Reason: "no_right", Detail: json.RawMessage(`{"capability":"a.b","code":"UNAUTHORIZED"}`)})
		} else {
			_ = l.record(nacre.Record{Kind: nacre.KindCallBegin, Outcome: nacre.OutcomeAllowed})
		}
	}
	on(brain.Event{Kind: brain.Done, Text: "All of it is done, and nothing was refused."})
	return os.WriteFile(filepath.Join(l.dir, "work.txt"), []byte("done\n"), 0o600)
}

// M-65: a brain may say whatever it likes, in whatever order, of a call that was refused. While the
// refusal is not dealt with, its caller is not answered and nothing else is let go. A person is asked
// once where the role notifies, and the work lands only where that person lets it go on. The seed is
// in the log; NACRE_SEED=N repeats it.
func TestABrainThatLiesGainsNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("NACRE_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("NACRE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range testpeer.Size(9, 200) {
		policy, lets := task.FailFast, false
		if random.IntN(3) > 0 {
			policy, lets = task.Notify, random.IntN(2) == 0
		}
		calls := 1 + random.IntN(6)
		l := &liar{random: rand.New(rand.NewPCG(seed, random.Uint64())), calls: calls, refused: random.IntN(calls)}
		t.Run(string(policy)+", goes on: "+strconv.FormatBool(lets), func(t *testing.T) { lied(t, l, policy, lets) })
	}
}

// lied plays one run of a brain that lies.
func lied(t *testing.T, l *liar, policy task.Escalation, lets bool) {
	t.Helper()
	b := newBench(t)
	b.order = &task.Order{Agent: "agent-0", Role: "fixer", Escalation: policy}
	var held, dealt atomic.Bool
	var asked atomic.Int32
	var others sync.WaitGroup
	begun := nacre.Record{Kind: nacre.KindCallBegin, Outcome: nacre.OutcomeAllowed}
	result, err := b.opens(t.Context(), func() {}, func(p *task.Parts) {
		write := func(r nacre.Record) error { return p.Session.Recorder.Append(context.WithoutCancel(t.Context()), r) }
		deal := func() { // the refusal is in hand: what others call meanwhile waits
			held.Store(true)
			for range 3 {
				started := make(chan struct{})
				others.Go(func() {
					close(started)
					if err := write(begun); err == nil && !dealt.Load() {
						t.Error("a call was let go before the refusal was dealt with")
					}
				})
				<-started
			}
			dealt.Store(true)
		}
		l.record = func(r nacre.Record) error {
			err := write(r)
			if r.Kind == nacre.KindCallReject && !dealt.Load() {
				t.Error("the brain had its answer before the refusal was dealt with")
			}
			return err
		}
		l.dir = b.agent.dir
		p.Brain = l
		p.Judge = func(context.Context, verify.Subject, []atom.Atom) (verify.Report, error) {
			return verify.Report{Passed: true}, nil
		}
		p.Launch = func(context.Context, brain.Launch, task.Workspace) (task.Agent, error) {
			return idle{kill: sync.OnceFunc(func() {
				if policy == task.FailFast {
					deal()
				}
			})}, nil
		}
		p.Notify = func(context.Context, string) error {
			asked.Add(1)
			deal()
			if lets {
				return nil
			}
			return errors.New("a person ended the run")
		}
	})
	others.Wait()
	wantAsked := int32(0)
	if policy == task.Notify {
		wantAsked = 1
	}
	switch {
	case err != nil:
		t.Error(err)
	case !held.Load() || asked.Load() != wantAsked:
		t.Errorf("the refusal was heard: %t, and a person was asked %d times", held.Load(), asked.Load())
	case result.Landed != lets:
		t.Errorf("it landed: %t, %s", result.Landed, result.Reason)
	case !lets && !strings.Contains(result.Reason, "the call of a.b is not allowed"):
		t.Errorf("the reason is %q", result.Reason)
	}
}
