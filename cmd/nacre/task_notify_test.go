package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testwait"
)

// S-18: in a role that notifies, a refused call asks a person at once, with a record that is there
// before anybody answers. The answer decides about the run.
func TestARefusedCallAsksWhetherTheRunGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb string
		code int
		want string
	}{
		"approved": {"approve", 0, "merged   main"},
		"denied":   {"deny", 1, "a person ended the run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \"orchestrator-notify\"\n")
			i.write("p/pkg/x/x.txt", "broken\n")
			i.project()
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
				`{"tool":"shell","input":{"command":"git push"}}`+"\n"+
				`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
			r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work")
			q := i.question()
			if q.Capability != "nacre.continue" || !strings.Contains(string(q.Arguments), "policy::no-git-ops") {
				t.Errorf("asked %+v", q)
			}
			if asked := i.records("work"); !strings.Contains(asked, `"kind":"approval.ask"`) {
				t.Errorf("asked without a record:\n%s", asked)
			}
			i.nacre("approvals", c.verb, q.ID).want(t, 0, "answered")
			finish(t, r).want(t, c.code, "! gate   policy::no-git-ops", c.want, "1 asked")
		})
	}
}

// liar plays Claude Code, asks the gates of its task before a call that they refuse,
// tells the host nothing of the answer, and goes on. Meanwhile a process of it beats.
const liar = `(while :; do echo x >>pkg/x/beat; sleep 0.02; done) &
until [ -s pkg/x/beat ]; do sleep 0.02; done
echo '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push"},"cwd":"/workspace"}' | /opt/nacre/bin/brain gate 2>/dev/null
kill $!
rm pkg/x/beat
echo fixed >pkg/x/x.txt
`

// lies begins a task whose agent hides that a call was refused.
func lies(t *testing.T, escalation string) (*installation, *running) {
	t.Helper()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \""+escalation+"\"\n")
	i.write("p/pkg/x/x.txt", "broken\n")
	i.write("p/pkg/x/agent.sh", liar)
	i.project()
	i.program("reader", "claude")
	i.env = append(i.env, "NACRE_CLAUDE="+filepath.Join(i.work, "claude"), "ANTHROPIC_API_KEY=sk-ant-decoy")
	return i, i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--brain", "claude", "--session", "work")
}

// M-65, F-93: a refused call is the host's to know, before the agent gets its answer. A
// brain that hides it is frozen while a person is asked, with all that it started.
func TestABrainThatHidesARefusalIsFrozen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb string
		code int
		want string
	}{
		"approved": {"approve", 0, "merged   main"},
		"denied":   {"deny", 1, "a person ended the run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := lies(t, "orchestrator-notify")
			q := i.question()
			if q.Capability != "nacre.continue" || !strings.Contains(string(q.Arguments), "policy::no-git-ops") {
				t.Errorf("asked %+v", q)
			}
			if told := i.records("work"); !strings.Contains(told, `"kind":"gate.refuse"`) {
				t.Errorf("the host does not know of it:\n%s", told)
			}
			i.standsStill("work", "pkg/x/beat")
			i.nacre("approvals", c.verb, q.ID).want(t, 0, "answered")
			finish(t, r).want(t, c.code, "! gate   policy::no-git-ops", c.want, "1 asked")
			i.nacre("show", "work").want(t, 0, "its role's gates refused it")
		})
	}
}

// F-106: an agent is not offered what its role never lets be called: to try it would be
// a refusal, and somebody would be asked whether the run goes on.
func TestAnAgentIsNotOfferedWhatItsRoleRefuses(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole+"denied = [\"Bash\"]\n")
	i.write("p/pkg/x/agent.sh", `tr '\0' ' ' </proc/$PPID/cmdline >pkg/x/x.txt`)
	i.project()
	i.program("reader", "claude")
	i.env = append(i.env, "NACRE_CLAUDE="+filepath.Join(i.work, "claude"), "ANTHROPIC_API_KEY=sk-ant-decoy")
	i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--brain", "claude", "--check", "true").want(t, 0, "merged")
	started, err := os.ReadFile(filepath.Join(i.work, "p/pkg/x/x.txt"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(started), "--tools Read,Write,Edit ", "--disallowedTools Agent,WebFetch,WebSearch,Bash,")
}

// standsStill waits until a file in a session's work has not grown for a hundred looks.
func (i *installation) standsStill(session, name string) {
	i.t.Helper()
	file, still, size := filepath.Join(i.workspace(session), name), 0, int64(-1)
	testwait.Until(i.t, name+" to stand still", func() bool {
		info, err := os.Stat(file)
		if err != nil || info.Size() != size {
			still = 0
		}
		if err == nil {
			size = info.Size()
		}
		still++
		time.Sleep(5 * time.Millisecond)
		return err == nil && still > 100
	})
}

// M-65, F-93: a role that fails fast ends the run at the refusal, whatever its brain says.
func TestABrainThatHidesARefusalIsEnded(t *testing.T) {
	t.Parallel()
	i, r := lies(t, "fail-fast")
	finish(t, r).want(t, 1, "the role fails fast", "policy::no-git-ops")
	if told := i.records("work"); strings.Contains(told, `"outcome":"done"`) || strings.Count(told, `"kind":"gate.refuse"`) != 1 {
		t.Errorf("it went on after the refusal:\n%s", told)
	}
}

// M-65, F-93: the host knows of a call that the kernel refuses before the agent does. A brain that
// hides the refusal gains nothing. The call is not answered, and what comes after it is not done,
// until a person has said that the run goes on.
func TestAHiddenRefusalStopsTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy, verb string
		code         int
		want         string
	}{
		"fails fast":         {"fail-fast", "", 1, "the role fails fast: the call of"},
		"notifies, approved": {"orchestrator-notify", "approve", 0, "merged   main"},
		"notifies, denied":   {"orchestrator-notify", "deny", 1, "a person ended the run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \""+c.policy+"\"\n")
			i.write("p/pkg/x/x.txt", "broken\n")
			i.write("p/pkg/x/work.sh", `ipc create_reminder '{"title":"x","list":"Work"}' >/dev/null 2>&1; echo fixed >pkg/x/x.txt`)
			i.project()
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"sh pkg/x/work.sh"}}`+"\n")
			r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work")
			if c.verb != "" {
				q := i.question()
				if q.Capability != "nacre.continue" {
					t.Errorf("asked %+v", q)
				}
				if told := i.records("work"); strings.Contains(told, `"outcome":"tool_result"`) {
					t.Errorf("the refused call was answered before the person was:\n%s", told)
				}
				i.nacre("approvals", c.verb, q.ID).want(t, 0, "answered")
			}
			finish(t, r).want(t, c.code, c.want)
		})
	}
}
