package selfhost_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// work is the task of all these runs.
const work = "Test the default of the shipped policy."

// office is a house with Claude Code, a key and a scripted model.
type office struct {
	*house
	upstream *scriptedmodel.Server
	url      string
	key      string
	base     string
}

// newOffice opens an office whose model plays the script. The key is random,
// so that wherever it turns up it came from here.
func newOffice(t *testing.T, script scriptedmodel.Script) *office {
	t.Helper()
	program := os.Getenv("NACRE_CLAUDE")
	if program == "" {
		program = "claude"
	}
	program = testpeer.Need(t, program)
	o := &office{house: newHouse(t), key: "sk-ant-decoy-" + random()}
	o.env = append(o.env, "NACRE_CLAUDE="+program, "ANTHROPIC_API_KEY="+o.key)
	o.play(t, script)
	o.base = o.git(t, "rev-parse", "HEAD")
	return o
}

// play opens a model that plays the script, and configures it with a budget of $5.
func (o *office) play(t *testing.T, script scriptedmodel.Script) {
	t.Helper()
	script.WantHeader = map[string]string{"X-Api-Key": o.key}
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	o.upstream = scriptedmodel.New(script)
	o.url = serve(t, o.upstream)
	o.budget(t, "5.00")
}

func random() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// serve answers on loopback until the test ends.
func serve(t *testing.T, s *scriptedmodel.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func (o *office) budget(t *testing.T, dollars string) {
	t.Helper()
	o.config(t, fmt.Sprintf("checks = [%q]\n"+groups+"[model]\nbase_url = %q\nbudget_usd = %q\n", check, o.url, dollars))
}

func (o *office) work(t *testing.T, more ...string) said {
	t.Helper()
	return o.run(t, append([]string{"run", work, "--project", o.project, "--json"}, more...)...)
}

// script is the conversation in which the work is done.
func script(t *testing.T) scriptedmodel.Script {
	t.Helper()
	s, err := scriptedmodel.Load("testdata/claude.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asExpected checks that the upstream got what the script expects and nothing
// but messages, and that no body holds the key.
func (o *office) asExpected(t *testing.T) {
	t.Helper()
	for _, failure := range o.upstream.Failures() {
		t.Errorf("the model: %s", failure)
	}
	for i, r := range o.upstream.Requests() {
		if r.Path != "/v1/messages" {
			t.Errorf("request %d is for %s", i, r.Path)
		}
		if strings.Contains(string(r.Body), o.key) {
			t.Errorf("request %d has the key in its body: the sandbox held it", i)
		}
	}
}

// keyless checks that the key is in nothing that the run left or said.
func (o *office) keyless(t *testing.T, s said) {
	t.Helper()
	if strings.Contains(s.stdout+s.stderr, o.key) {
		t.Error("the key was printed")
	}
	for _, dir := range []string{o.home, o.project} {
		for _, path := range holds(t, dir, o.key) {
			t.Errorf("the key is in %s", path)
		}
	}
}

type modelDetail struct {
	MicroUSD int64  `json:"micro_usd"`
	In       int64  `json:"input_tokens"`
	Out      int64  `json:"output_tokens"`
	Status   int    `json:"status"`
	Model    string `json:"model"`
}

// metered sums up the model calls that the audit holds.
func (o *office) metered(t *testing.T, session nacre.SessionID) (calls int, sum modelDetail) {
	t.Helper()
	for _, e := range o.records(t, session, nacre.KindModelEnd) {
		var d modelDetail
		if err := json.Unmarshal(e.Detail, &d); err != nil {
			t.Fatal(err)
		}
		calls++
		sum.MicroUSD += d.MicroUSD
		sum.In += d.In
		sum.Out += d.Out
	}
	return calls, sum
}

// The main job with the real agent: no brain is named, the work lands, and the key stays on the
// host. Report, receipt and audit agree on the cost (M-03, M-04).
func TestClaudeCodeWorksOnThisRepository(t *testing.T) {
	t.Parallel()
	plan := script(t)
	o := newOffice(t, plan)
	done := o.work(t)
	r := o.landed(t, done, o.base)
	o.asExpected(t)
	o.keyless(t, done)
	if have := o.git(t, "diff", "--name-status", o.base, "HEAD"); have != "M\tdocs/recording.md\nA\tpolicy/selfhost_test.go" {
		t.Errorf("landed: %s", have)
	}
	if n := len(o.records(t, r.Session, nacre.KindCallEnd)); n != 1 {
		t.Errorf("have %d calls through the door, want 1", n)
	}
	var in, out int64
	for _, turn := range plan.Turns {
		in += turn.Usage.Input + turn.Usage.CacheRead
		out += turn.Usage.Output
	}
	calls, sum := o.metered(t, r.Session)
	cost := o.receipt(t, r).Cost
	if calls != len(plan.Turns) || sum.In != in || sum.Out != out || sum.MicroUSD == 0 {
		t.Errorf("the audit has %d calls and %+v, want %d with %d in and %d out", calls, sum, len(plan.Turns), in, out)
	}
	if cost.MicroUSD != sum.MicroUSD || cost.InputTokens != in || cost.OutputTokens != out || cost.ModelCalls != int64(calls) || r.Cost != sum.MicroUSD {
		t.Errorf("the receipt says %+v, the report %d, the audit %+v", cost, r.Cost, sum)
	}
	for _, e := range o.records(t, r.Session, nacre.KindModelEnd) {
		if e.Outcome != model.OutcomeCompleted {
			t.Errorf("a call ended as %s: %s", e.Outcome, e.Reason)
		}
	}
}
