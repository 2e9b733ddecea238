package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// recordedTask is one of the twenty: what it was asked on which day, and what its model did.
type recordedTask struct {
	day   float64
	words string
	// does is the shell command of the model, and costs what it cost in cents.
	does  string
	costs int
	check string
	// named opens the host for this run alone; accepts is a person's word after it.
	named, accepts bool
	// unlocks is a person's, after the task.
	unlocks bool
}

const (
	asksHost = "curl -sfk https://dns.example.com/ >>zones.txt && "
	greets   = "sed -i s/hello/you/ greeting.txt"
)

// zone is a task whose model asks the host of the power dns-write.
func zone(day float64, name string, cents int) recordedTask {
	return recordedTask{day: day, words: "Add the zone " + name + " to the name server", does: asksHost + "echo " + name + " >>zones.txt", costs: cents, accepts: true}
}

func byHand(t recordedTask) recordedTask { t.named = true; return t }

// theTwenty are the tasks of docs/life.md, in their order.
func theTwenty() []recordedTask {
	proposed := byHand(zone(7.8, "juniper", 60))
	proposed.unlocks = true
	broken := zone(9.5, "sorbus", 60)
	broken.check, broken.accepts = "grep -q rowan zones.txt", false
	locked := zone(9.7, "willow", 61)
	locked.accepts = false
	wrong := recordedTask{day: 4.5, words: "Correct the greeting of visitors", does: "echo me >>greeting.txt", costs: 20, check: "grep -q you greeting.txt"}
	right := recordedTask{day: 5, words: "Correct the visitors' greeting", does: greets, costs: 22, check: "grep -q you greeting.txt", accepts: true}
	again := recordedTask{day: 9, words: "Correct the greeting for visitors", does: "echo and you >>greeting.txt", costs: 21, check: "grep -q you greeting.txt"}
	return []recordedTask{
		byHand(zone(0, "alder", 66)), byHand(zone(1, "birch", 54)), byHand(zone(2, "cedar", 64)), byHand(zone(3, "dogwood", 58)), byHand(zone(4, "elder", 61)),
		wrong, right, byHand(zone(6, "ginkgo", 59)), byHand(zone(7.5, "hazel", 60)),
		proposed, zone(8, "larch", 62), zone(8.1, "maple", 58), zone(8.2, "nutmeg", 61), zone(8.3, "olive", 59), zone(8.4, "pine", 60), zone(8.5, "quince", 60),
		again, zone(9.2, "redwood", 60), broken, locked,
	}
}

// M-51, M-53, M-54, M-59, M-68: twenty recorded tasks come in sequence, over ten days. What a task may
// cost is estimated from those before it, and the estimate converges. A failure is told before it
// repeats. A power is proposed after the evidence, and lost at the first failure. A stranger checks one
// receipt. docs/life.md has what they come to. `make life` replays them.
func TestTheTwentyTasks(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	dns := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "written") }))
	t.Cleanup(dns.Close)
	var model atomic.Pointer[scriptedmodel.Server]
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { model.Load().ServeHTTP(w, r) }))
	t.Cleanup(upstream.Close)

	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", wholeRole)
	i.write("p/zones.txt", "zones\n")
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.config(fmt.Sprintf("[model]\nname = \"local-1\"\nbudget_usd = \"4\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n"+
		"[egress]\npropose = false\n[egress.pin]\n\"dns.example.com:443\" = %q\n[groups.main]\ntools = [\"memory_*\"]\n", upstream.URL, dns.Listener.Addr()))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\ninput = \"1\"\noutput = \"1\"\n")
	i.write("home/.config/nacre/powers.toml", "[[power]]\nname = \"dns-write\"\nhosts = [\"dns.example.com\"]\n")

	life := &lifeOfWork{installation: i, model: &model, now: time.Now().Add(-10 * 24 * time.Hour)}
	life.start = life.now
	for n, task := range theTwenty() {
		life.play(n+1, task)
	}
	if t.Failed() {
		return
	}
	life.holdsItsPromises()
	life.isAsDocumented()

	row := life.rows[6] // the verified fix
	path := i.account(row.agent)
	stranger := install(t)
	stranger.nacre("receipt", "verify", path, "--public-key", i.publicKey()).want(t, 0, "landed · it holds")
	python := testpeer.Need(t, "python3")
	if out, err := exec.Command(python, "-B", "../../audit/verify_audit.py", "--receipt-file", path, "--public-key", i.publicKey()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// lifeOfWork plays tasks one after the other, on a clock of its own.
type lifeOfWork struct {
	*installation
	model *atomic.Pointer[scriptedmodel.Server]
	start time.Time
	now   time.Time
	rows  []lifeRow
}

// lifeRow is what a task came to.
type lifeRow struct {
	task  recordedTask
	agent string
	// estimate is in dollars, 0 where there was none; it is the mean of the tasks before.
	estimate, cost float64
	warned         bool
	told           []string
	landed         bool
}

func (l *lifeOfWork) play(n int, task recordedTask) {
	t := l.t
	t.Helper()
	command, err := json.Marshal(map[string]string{"command": task.does})
	if err != nil {
		t.Fatal(err)
	}
	half := &scriptedmodel.Usage{Input: int64(task.costs) * 5_000}
	server := scriptedmodel.New(scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}, Usage: half}, {Text: "Done.", Usage: half},
	}})
	l.model.Store(server)
	l.now = l.start.Add(time.Duration(task.day * 24 * float64(time.Hour)))
	began := time.Now()
	rt, err := assembly.Open(t.Context(), assembly.Options{
		Getenv: l.getenv, Executable: filepath.Join(bin, "nacre"), Version: "test",
		Now: func() time.Time { return l.now.Add(time.Since(began)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	row := lifeRow{task: task}
	run := assembly.Run{Task: task.words, Project: filepath.Join(l.work, "p"), Choice: assembly.Choice{Brain: "anthropic"}, Group: "main"}
	run.Progress = func(s nacre.Step) {
		switch s.Name {
		case "estimate":
			var tasks int
			_, _ = fmt.Sscanf(strings.NewReplacer(" tasks like this one cost on average $", " ", " task like this one cost $", " ", ",", "").Replace(s.Text), "%d %f", &tasks, &row.estimate)
		case "lesson", "power":
			row.told = append(row.told, s.Text)
		}
	}
	run.Role = "fixer"
	if task.check != "" {
		run.Checks = []string{task.check}
	}
	if task.named {
		run.Egress = []string{"dns.example.com:443"}
	}
	report, err := rt.Run(t.Context(), run)
	if err != nil {
		t.Fatalf("task %d: %v", n, err)
	}
	row.agent, row.cost, row.landed = report.Agent, float64(report.Cost)/1e6, report.Landed
	if requests := server.Requests(); len(requests) > 0 {
		row.warned = strings.Contains(string(requests[0].Body), "Earlier failures of tasks like this one")
	}
	for _, failure := range server.Failures() {
		t.Error(failure)
	}
	l.rows = append(l.rows, row)
	l.decide(t.Context(), rt, row)
	t.Logf("%s", row.line(n))
}

func (l *lifeOfWork) decide(ctx context.Context, rt *assembly.Runtime, row lifeRow) {
	if row.task.accepts {
		if err := rt.Decide(ctx, row.agent, true, "ada", ""); err != nil {
			l.t.Fatal(err)
		}
	}
	if row.task.unlocks {
		waits, err := assembly.Everything(ctx, rt)
		if err != nil || !slices.ContainsFunc(waits, func(w assembly.Waiting) bool { return w.Next == "nacre power show dns-write" }) {
			l.t.Errorf("the power is not among what waits: %+v, %v", waits, err)
		}
		if _, err := assembly.UnlockPower(ctx, rt, "dns-write", "ada", 30*24*time.Hour); err != nil {
			l.t.Fatal(err)
		}
	}
}

// getenv is the installation's environment.
func (i *installation) getenv(name string) string {
	for _, entry := range slices.Backward(i.env) {
		if value, is := strings.CutPrefix(entry, name+"="); is {
			return value
		}
	}
	return ""
}

// line is the task's in the table of docs/life.md.
func (r lifeRow) line(n int) string {
	estimate := "–"
	if r.estimate > 0 {
		estimate = fmt.Sprintf("$%.2f", r.estimate)
	}
	came := "did not land"
	if r.landed {
		came = "landed"
	}
	if r.task.accepts {
		came += ", accepted"
	}
	for _, told := range r.told {
		for words, short := range map[string]string{
			"with a verified fix: 0": "the agent was told of the failure", "with a verified fix: 1": "the agent was told of the failure and its fix",
			"may be unlocked": "**the power is proposed**", "locked again": "**the power is lost**",
		} {
			if strings.Contains(told, words) {
				came += "; " + short
			}
		}
	}
	if r.task.unlocks {
		came += "; a person unlocks it for 30 days"
	}
	return fmt.Sprintf("| %d | %.1f | %s | %s | $%.2f | %s |", n, r.task.day, r.task.words, estimate, r.cost, came)
}

// holdsItsPromises looks at all of them together.
func (l *lifeOfWork) holdsItsPromises() {
	t := l.t
	t.Helper()
	const truth = 0.60
	var errors []float64
	for n, row := range l.rows {
		zoned := strings.HasPrefix(row.task.words, "Add")
		if zoned && row.estimate > 0 {
			errors = append(errors, math.Abs(row.estimate-truth))
		}
		if broken := n >= 18 || n == 5; row.landed == broken {
			t.Errorf("task %d landed: %t", n+1, row.landed)
		}
		if told := n == 6 || n == 16; !zoned && row.warned != told {
			t.Errorf("the first request of task %d holds the warning: %t", n+1, row.warned)
		}
		proposed := slices.ContainsFunc(row.told, func(s string) bool { return strings.Contains(s, "may be unlocked") })
		lost := slices.ContainsFunc(row.told, func(s string) bool { return strings.Contains(s, "locked again") })
		if proposed != (n == 9) || lost != (n == 18) {
			t.Errorf("task %d: the power is proposed %t, lost %t", n+1, proposed, lost)
		}
	}
	if len(errors) < 12 || errors[0] < 0.05 || slices.Max(errors[len(errors)-8:]) > 0.01 {
		t.Errorf("the estimates are off by %.3f", errors)
	}
}

// isAsDocumented holds the table of docs/life.md against what came of the tasks.
func (l *lifeOfWork) isAsDocumented() {
	l.t.Helper()
	page, err := os.ReadFile("../../docs/life.md")
	if err != nil {
		l.t.Fatal(err)
	}
	for n, row := range l.rows {
		if line := row.line(n + 1); !strings.Contains(string(page), line+"\n") {
			l.t.Errorf("docs/life.md does not have\n%s", line)
		}
	}
}
