package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkCall is one streamed call of 50 kB, against the same call straight to the upstream.
func BenchmarkCall(b *testing.B) {
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n")
		for range 20 {
			_, _ = io.WriteString(w, "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"message_stop\"}\n\n")
	})
	body := strings.Replace(helloStream, `"hi"`, `"`+strings.Repeat("x", 50_000)+`"`, 1)
	call := func(b *testing.B, client *http.Client, url string) {
		req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
		req.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !strings.Contains(string(text), "message_stop") {
			b.Fatalf("have %d %.200s", resp.StatusCode, text)
		}
	}
	b.Run("floor", func(b *testing.B) {
		srv := httptest.NewServer(up)
		defer srv.Close()
		for b.Loop() {
			call(b, srv.Client(), srv.URL)
		}
	})
	b.Run("ours", func(b *testing.B) {
		gateway := start(b, up, nil)
		for b.Loop() {
			call(b, gateway.client, "http://gateway/v1/messages")
		}
	})
}
