package model_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/model"
)

// M-35: a stream of the model ends when what the session was granted is taken back, and no other
// call begins.
func TestAModelStreamEndsWhenTheSessionIsRevoked(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	var asked atomic.Int64
	gone := make(chan struct{})
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}), func(o *model.Options) { o.Revoked = revoked.Load })
	call := func() (*http.Response, error) {
		body := `{"model":"claude-sonnet-4-5","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
		req, _ := http.NewRequest(http.MethodPost, "http://model/v1/messages", strings.NewReader(body))
		req.Header.Set("X-Api-Key", token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Anthropic-Version", "2023-06-01")
		return b.client.Do(req)
	}
	resp, err := call()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("event"))); err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	revoked.Store(true)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the answer looks whole")
	}
	<-gone
	later, err := call()
	if err != nil {
		t.Fatal(err)
	}
	_ = later.Body.Close()
	if later.StatusCode != http.StatusForbidden || asked.Load() != 1 {
		t.Errorf("a call after it: status %d, and the model was asked %d times", later.StatusCode, asked.Load())
	}
	b.stop()
	for _, r := range b.log.all() {
		if r.Kind == nacre.KindModelEnd && (r.Reason != string(model.ReasonRevoked) || r.Outcome != model.OutcomeCut) {
			t.Errorf("the record of its end says %s, %s", r.Outcome, r.Reason)
		}
	}
}
