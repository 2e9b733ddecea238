package provenance_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/provenance"
)

// prose is text of a size, with addresses and URLs in it.
func prose(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		switch i % 40 {
		case 0:
			fmt.Fprintf(&b, "user%d@example%d.com ", r.IntN(5000), r.IntN(50))
		case 20:
			fmt.Fprintf(&b, "https://host%d.example.com/path/%d?q=%d\n", r.IntN(50), r.IntN(5000), i)
		default:
			fmt.Fprintf(&b, "word%d ", r.IntN(3000))
		}
	}
	return b.Bytes()[:size]
}

var adversaries = map[string]func(size int) []byte{
	"one-word":   func(size int) []byte { return bytes.Repeat([]byte("bob "), size/4) },
	"one-letter": func(size int) []byte { return bytes.Repeat([]byte("a "), size/2) },
	"near-miss":  func(size int) []byte { return bytes.Repeat([]byte("bob@example.com.x "), size/18) },
	"digits":     func(size int) []byte { return bytes.Repeat([]byte("1,000 "), size/6) },
	"urls":       func(size int) []byte { return bytes.Repeat([]byte("http://a/b "), size/11) },
}

func BenchmarkOrigins(b *testing.B) {
	call := []byte(`{"to":"bob@example.com","url":"https://example.com/a/b?x=1","body":"bob bob bob bob bob a a a a a word1 word2"}`)
	sinks := []string{"to", "url", "body"}
	run := func(name string, text []byte) {
		b.Run(name+"/floor", func(b *testing.B) {
			for b.Loop() {
				_ = bytes.Contains(text, []byte("bob@example.org"))
			}
		})
		b.Run(name+"/ours", func(b *testing.B) {
			l := provenance.New()
			l.Observe(operator, text)
			l.Observe(untrusted, text)
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Origins(call, sinks)
			}
		})
	}
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 4 << 20} {
		run(fmt.Sprintf("prose-%dKiB", size>>10), prose(size))
	}
	for name, text := range adversaries {
		run(name+"-1024KiB", text(1<<20))
	}
}

func BenchmarkObserve(b *testing.B) {
	texts := map[string][]byte{"prose": prose(1 << 20), "json": []byte(`["` + strings.ReplaceAll(string(prose(1<<20)), "\n", `\n","`) + `"]`),
		"chinese": []byte(strings.Repeat("请付款给「张三丰」。", 1<<20/30))}
	for name, text := range adversaries {
		texts[name] = text(1 << 20)
	}
	for name, text := range texts {
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_ = bytes.ToLower(text)
			}
		})
		b.Run(name+"/ours", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				provenance.New().Observe(untrusted, text)
			}
		})
	}
}

func BenchmarkObserveModelRequest(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","content":` + fmt.Sprintf("%q", prose(1<<20)) + `}]}]}`)
	l := provenance.New()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		l.ObserveModelRequest(body, 0)
	}
}
