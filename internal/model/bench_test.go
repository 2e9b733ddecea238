package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/model"
)

// streams are 20 deltas and their end, in each dialect.
var streams = map[model.Dialect][3]string{
	model.Anthropic: {
		`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words"}}`, `{"type":"message_stop"}`,
	},
	model.Responses: {
		`{"type":"response.created","response":{}}`, `{"type":"response.output_text.delta","item_id":"m","delta":"some words"}`,
		`{"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":40}}}`,
	},
	model.Chat: {
		`{"choices":[{"delta":{"role":"assistant"}}]}`, `{"choices":[{"delta":{"content":"some words"}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":40}}` + "\n\ndata: [DONE]",
	},
}

// BenchmarkCall is one streamed call of 50 kB in each dialect, against the same call straight to the upstream.
func BenchmarkCall(b *testing.B) {
	for _, s := range speeches {
		up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			events := streams[s.dialect]
			_, _ = io.WriteString(w, "data: "+events[0]+"\n\n")
			for range 20 {
				_, _ = io.WriteString(w, "data: "+events[1]+"\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.WriteString(w, "data: "+events[2]+"\n\n")
		})
		body := strings.Replace(s.stream(), "WORD", strings.Repeat("x", 50_000), 1)
		call := func(b *testing.B, client *http.Client, url string) {
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
			req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if !strings.Contains(string(text), s.end) {
				b.Fatalf("have %d %.200s", resp.StatusCode, text)
			}
		}
		b.Run(string(s.dialect)+"/floor", func(b *testing.B) {
			srv := httptest.NewServer(up)
			defer srv.Close()
			for b.Loop() {
				call(b, srv.Client(), srv.URL)
			}
		})
		b.Run(string(s.dialect)+"/ours", func(b *testing.B) {
			gateway := start(b, up, func(o *model.Options) { everyDialect(o); o.Budget = 1 << 60 })
			for b.Loop() {
				call(b, gateway.client, "http://gateway"+s.path)
			}
		})
	}
}

// BenchmarkFirstByte is how long a streamed answer takes to begin, against the same call straight to the
// upstream. ours-day also flushes its reservation of the day's budget to disk.
func BenchmarkFirstByte(b *testing.B) {
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+streams[model.Anthropic][0]+"\n\n")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "data: "+streams[model.Anthropic][2]+"\n\n")
	})
	body := strings.Replace(speeches[0].stream(), "WORD", strings.Repeat("x", 50_000), 1)
	measure := func(b *testing.B, client *http.Client, url string) {
		var waited time.Duration
		calls := 0
		for b.Loop() {
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(body))
			req.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
			began := time.Now()
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			first := make([]byte, 1)
			if _, err := io.ReadFull(resp.Body, first); err != nil {
				b.Fatal(err)
			}
			waited += time.Since(began)
			calls++
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		b.ReportMetric(float64(waited.Microseconds())/float64(calls), "µs/first-byte")
	}
	b.Run("floor", func(b *testing.B) {
		srv := httptest.NewServer(up)
		defer srv.Close()
		measure(b, srv.Client(), srv.URL)
	})
	for name, change := range map[string]func(*model.Options){
		"ours": func(o *model.Options) { o.Budget = 1 << 60 },
		"ours-day": func(o *model.Options) {
			o.Budget, o.Days = 1<<60, model.NewDaybook(filepath.Join(b.TempDir(), "spending"), time.UTC, time.Now)
		},
	} {
		b.Run(name, func(b *testing.B) { measure(b, start(b, up, change).client, "http://gateway") })
	}
}
