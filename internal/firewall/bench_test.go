package firewall_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/redact"
)

func invoices(n int) json.RawMessage {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"id":"INV-%d","amount":%d.5,"qty":%d,"status":"%s","active":%t,"customer":"Customer %d","region":"eu","note":"n%d","total":%d,"currency":"EUR"}`,
			i, i*3, i%7, []string{"paid", "unpaid", "overdue"}[i%3], i%2 == 0, i, i, i*11)
	}
	return json.RawMessage("[" + b.String()[1:] + "]")
}

// K-14, the speed table: read, redact what is shown, and summarise.
func BenchmarkSummarise(b *testing.B) {
	engine := redact.New()
	for _, n := range []int{10, 1000} {
		raw := invoices(n)
		b.Run(fmt.Sprintf("%drows/floor", n), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if !json.Valid(raw) {
					b.Fatal("invalid")
				}
			}
		})
		for name, redactor := range map[string]firewall.Redactor{"ours": engine, "ours_unredacted": bare{}} {
			b.Run(fmt.Sprintf("%drows/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					r, err := firewall.Read(raw, nacre.Constraints{})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := r.Forward(firewall.Request{Limits: firewall.DefaultLimits()}, redactor); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// K-17: one condition over all rows; the floor is to walk over them.
func BenchmarkMatcher(b *testing.B) {
	raw := invoices(1000)
	r, err := firewall.Read(raw, nacre.Constraints{})
	if err != nil {
		b.Fatal(err)
	}
	for name, condition := range map[string][2]string{
		"floor": {"none", "0"}, "ours/text": {"status", `"paid"`}, "ours/number": {"qty", "3.0"}, "ours/escaped": {"status", `"p\u0061id"`},
	} {
		b.Run(name, func(b *testing.B) {
			match, err := r.Matcher(map[string]json.RawMessage{condition[0]: json.RawMessage(condition[1])})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				for i := range r.Len() {
					match(i)
				}
			}
		})
	}
}

// bare redacts nothing, and costs nothing.
type bare struct{}

func (bare) String(s string) (string, bool)            { return s, false }
func (bare) Harmless(_, _ []byte) bool                 { return true }
func (bare) JSON(raw []byte) ([]byte, []string, error) { return raw, nil, nil }

// K-16: what a reservation costs a call; the floor is the lock that it takes.
func BenchmarkBudget(b *testing.B) {
	budget := firewall.NewBudget(1 << 40)
	b.Run("floor", func(b *testing.B) {
		var mu sync.Mutex
		left := 1
		for b.Loop() {
			for range 2 {
				mu.Lock()
				left++
				mu.Unlock()
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			r, err := budget.Reserve(nacre.ModeSummary, firewall.FrameChars)
			if err != nil {
				b.Fatal(err)
			}
			r.Settle(10)
		}
	})
}
