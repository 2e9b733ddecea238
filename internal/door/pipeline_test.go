package door_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/ipc"
	redaction "github.com/nacre-dev/nacre/internal/redact"
	realkernel "github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// pipeline is the door as it ships: kernel, shipped policy, a durable chain on
// disk, and redaction; with echo among that many tools.
func pipeline(t testing.TB, tools int) served {
	t.Helper()
	keys, err := audit.NewKeys(make([]byte, 32), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.Open(context.Background(), audit.Options{Root: filepath.Join(t.TempDir(), "audit"), Chain: "s-1.1", Keys: keys, Now: time.Now, QuotaBytes: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	k, err := realkernel.New(realkernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"family-chat": {Tools: []string{"echo"}}}, Recorder: chain,
		Now: time.Now, Random: rand.Reader, TokenKey: make([]byte, 32),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tools {
		name := "echo"
		if i > 0 {
			name = fmt.Sprintf("other_%d", i)
		}
		err := k.Register(nacre.Tool{
			Capability: nacre.Capability{
				ID: nacre.CapabilityID("test." + name), Tool: nacre.ToolName(name), Description: "says it again", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
				Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}`),
				Rate:   nacre.RateLimit{Calls: 1 << 30, Window: time.Minute},
			},
			Driver: nacre.DriverFunc(func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) { return in.Arguments, nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	engine := redaction.New()
	return serve(t, k, config{redact: func(document []byte) ([]byte, []string) {
		clean, paths, err := engine.JSON(document)
		if err != nil {
			return []byte("null"), []string{err.Error()}
		}
		return clean, paths
	}})
}

// No record, no answer: what the door said is in the chain, begin before end.
func TestTheWholePipelineAnswersAndRecords(t *testing.T) {
	c := dial(t, pipeline(t, 1))
	for i := range 100 {
		e, refusal := ask(t, c, request("echo", fmt.Sprint(i)))
		if refusal != nil || string(e.Correlation) != fmt.Sprint(i) {
			t.Fatalf("call %d: %v %v", i, e, refusal)
		}
	}
}

// D-03: with 64 in flight all the time, each request has exactly one answer.
func TestTheWholePipelineLosesNothing(t *testing.T) {
	const sent = 3000
	c := dial(t, pipeline(t, 1))
	seen := map[nacre.Correlation]bool{}
	for i := range sent {
		if err := c.Send([]byte(request("echo", fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
		if i < 64-1 {
			continue
		}
		e, refusal := receive(t, c)
		if refusal != nil || seen[e.Correlation] {
			t.Fatalf("have %+v, %v", e, refusal)
		}
		seen[e.Correlation] = true
	}
	for range 64 - 1 {
		e, refusal := receive(t, c)
		if refusal != nil || seen[e.Correlation] {
			t.Fatalf("have %+v, %v", e, refusal)
		}
		seen[e.Correlation] = true
	}
	if len(seen) != sent {
		t.Errorf("have %d answers, want %d", len(seen), sent)
	}
}

// BenchmarkPipeline is a tool call with every stage on, against the same bytes
// over a bare socket plus what one durable write costs on this disk.
func BenchmarkPipeline(b *testing.B) {
	b.Run("floor", socketFloor)
	b.Run("fsync", func(b *testing.B) {
		file, err := os.CreateTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		line := make([]byte, 512)
		for b.Loop() {
			if _, err := file.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := file.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		_ = file.Close() // measured already
	})
	for _, tools := range []int{1, 10, 100, 1000} {
		name := fmt.Sprintf("tools=%d", tools)
		b.Run("call/"+name, func(b *testing.B) {
			c := dial(b, pipeline(b, tools))
			for b.Loop() {
				if _, err := c.Call(context.Background(), ipc.NewRequest("echo", "0123456789abcdef", []byte(`{"n":1}`))); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("64-in-flight/"+name, func(b *testing.B) {
			inFlight(b, dial(b, pipeline(b, tools)))
		})
	}
}

// inFlight keeps 64 calls under way and counts each answer.
func inFlight(b *testing.B, c *ipc.Client) {
	b.Helper()
	send := func(i int) {
		if err := c.Send([]byte(request("echo", fmt.Sprint(i)))); err != nil {
			b.Fatal(err)
		}
	}
	sent := 0
	for ; sent < min(64, b.N); sent++ {
		send(sent)
	}
	b.ResetTimer()
	for range b.N {
		if e, refusal := receive(b, c); refusal != nil {
			b.Fatal(e, refusal)
		}
		if sent < b.N {
			send(sent)
			sent++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
