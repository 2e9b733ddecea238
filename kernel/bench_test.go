package kernel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// table is a result of n rows with ten fields, as an invoice list is.
func table(n int) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"INV-%d","amount":%d.5,"currency":"EUR","status":"paid","customer":"Customer %d","city":"Berlin","lines":%d,"open":false,"note":"thank you","due":"2026-03-0%d"}`,
			i, 10+i, i%17, i%5, 1+i%9)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// bench is a kernel with in-memory records and so many capabilities.
func bench(b *testing.B, tools, rows int) *kernel.Kernel {
	b.Helper()
	k, err := kernel.New(kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"main": {Tools: []string{"*"}}}, Recorder: audit.Memory(1000),
		Now: time.Now, Random: rand.Reader, Keys: kernel.Keys{Current: kernel.Key{Secret: make([]byte, 32)}}, OutputBudget: 1 << 40,
	})
	if err != nil {
		b.Fatal(err)
	}
	result := table(rows)
	for i := range tools {
		err := k.Register(nacre.Tool{
			Capability: nacre.Capability{
				ID: nacre.CapabilityID(fmt.Sprintf("billing.list_%d", i)), Tool: nacre.ToolName(fmt.Sprintf("list_%d", i)),
				Name: "list invoices", Description: "List the invoices of a customer, newest first", Tags: []string{"billing", "invoices"},
				Safety: nacre.Read, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted,
				Rate:   nacre.RateLimit{Calls: 60_000, Window: time.Millisecond},
				Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"customer":{"type":"string"},"limit":{"type":"integer","default":10}}}`),
			},
			Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) { return result, nil }),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return k
}

// spent reports the CPU time of an operation, that of all goroutines, which is
// what a shared machine can tell.
func spent(b *testing.B, do func()) {
	b.Helper()
	b.ReportAllocs()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	n := 0
	for b.Loop() {
		do()
		n++
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/float64(n), "cpu-ns/op")
}

var holderOf = nacre.Principal{ID: "agent", Group: "main", Session: "s1", Roles: []string{"writer"}}

// P-04: a grant that is used again and again, records in memory. The floor is a check
// that the result is JSON.
func BenchmarkInvoke(b *testing.B) {
	for _, size := range []struct {
		rows int
		most string
	}{{10, "20 µs"}, {1000, "300 µs"}} {
		rows, row := size.rows, fmt.Sprintf("P-04 invoke, %d rows, at most %s", size.rows, size.most)
		b.Run(row+"/floor", func(b *testing.B) {
			result := table(rows)
			spent(b, func() {
				if !json.Valid(result) {
					b.Fatal("not JSON")
				}
			})
		})
		b.Run(row+"/ours", func(b *testing.B) {
			k := bench(b, 205, rows)
			t, err := k.Grant(b.Context(), kernel.GrantRequest{Capability: "billing.list_7"}, holderOf, "")
			if err != nil {
				b.Fatal(err)
			}
			in := kernel.Input{Arguments: json.RawMessage(`{"customer":"Ada","limit":10}`)}
			spent(b, func() {
				if _, err := k.Invoke(b.Context(), t, holderOf, in); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkGrant(b *testing.B) {
	k := bench(b, 205, 10)
	q := kernel.GrantRequest{Capability: "billing.list_7", TTL: 10 * time.Millisecond} // no more than are kept at once
	spent(b, func() {
		if _, err := k.Grant(b.Context(), q, holderOf, ""); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	for _, tools := range []int{1, 10, 205, 1000} {
		b.Run(fmt.Sprintf("ours,capabilities=%d", tools), func(b *testing.B) {
			k := bench(b, tools, 1)
			spent(b, func() {
				if len(k.Search("list open invoices", holderOf, 5)) == 0 {
					b.Fatal("found nothing")
				}
			})
		})
	}
}

// Cost does not grow with what is registered.
func BenchmarkCallTools(b *testing.B) {
	for _, tools := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("ours,tools=%d", tools), func(b *testing.B) {
			k := bench(b, tools, 10)
			c := nacre.Call{Principal: holderOf, Tool: "list_0", Arguments: json.RawMessage(`{"customer":"Ada"}`)}
			spent(b, func() {
				if _, err := k.Call(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
