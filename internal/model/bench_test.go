package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
