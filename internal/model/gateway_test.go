package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"go.uber.org/goleak"
)

// net/http lingers half a second on a connection that it closed early.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	realKey = "sk-ant-real-0123456789"
	token   = "session-token-0123456789"
)

// ledger is a recorder in memory.
type ledger struct {
	mu      sync.Mutex
	records []nacre.Record
	fail    bool
}

func (l *ledger) Append(_ context.Context, r nacre.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("disk full")
	}
	l.records = append(l.records, r)
	return nil
}

func (l *ledger) Commit(ctx context.Context, r nacre.Record) error { return l.Append(ctx, r) }

func (l *ledger) all() []nacre.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]nacre.Record(nil), l.records...)
}

// bench is a gateway on a unix socket with an upstream behind it.
type bench struct {
	gateway *model.Gateway
	opts    model.Options
	log     *ledger
	client  *http.Client
	socket  string
	// stop ends the gateway and waits; after it all is settled and recorded.
	stop func()
}

func start(t testing.TB, upstream http.Handler, change func(*model.Options)) *bench {
	t.Helper()
	srv := httptest.NewServer(upstream)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	log := &ledger{}
	opts := model.Options{
		Upstreams: []model.Upstream{{URL: u, Key: nacre.NewSecret(realKey), Dialects: []model.Dialect{model.Anthropic}}}, SessionToken: nacre.NewSecret(token), Budget: 50_000_000,
		Prices: budget.ListPrices(), Record: log, Session: "s1", Group: "g1", Now: time.Now, Agent: "claude 2.1.329",
	}
	if change != nil {
		change(&opts)
	}
	g, err := model.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "model") //nolint:usetesting // the path of a socket has at most 107 bytes, and t.TempDir names the test
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{gateway: g, opts: opts, log: log, socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", b.socket)
	}}
	b.client = &http.Client{Transport: transport}
	b.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	t.Cleanup(b.stop)
	return b
}

// answer is what came back, its body read.
type answer struct {
	StatusCode int
	Header     http.Header
}

// post sends a body to the gateway as a brain does.
func (b *bench) post(t testing.TB, body string, change func(*http.Request)) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/messages?beta=true", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	if change != nil {
		change(req)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, "<"+err.Error()+">"...)
	}
	return answer{resp.StatusCode, resp.Header}, string(text)
}

const hello = `{"model":"claude-opus-5-5","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`
const helloStream = `{"model":"claude-opus-5-5","max_tokens":1000,"stream":true,"messages":[{"role":"user","content":"hi"}]}`

func scripted(t testing.TB, script string) *scriptedmodel.Server {
	t.Helper()
	s, err := scriptedmodel.Read(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	server := scriptedmodel.New(s)
	t.Cleanup(func() {
		for _, f := range server.Failures() {
			t.Errorf("scripted model: %s", f)
		}
	})
	return server
}

// M-04: the key is added outside, and the brain's own is stripped.
func TestTheUpstreamSeesTheKeyAndTheBrainNever(t *testing.T) {
	up := scripted(t, `{"want_header":{"X-Api-Key":"`+realKey+`","Authorization":"","Cookie":"","X-Forwarded-For":"","Host":""},
		"forbid":["`+token+`"],"turns":[{"text":"hello","expect":{"contains":["hi"]}}]}`)
	b := start(t, up, nil)
	resp, text := b.post(t, hello, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Cookie", "a=b")
		r.Header.Set("X-Forwarded-For", "1.2.3.4")
		r.Header.Set("Anthropic-Beta", "effort-2025-11-24, files-api-2025-04-14,mcp-client-2025-04-04")
	})
	if resp.StatusCode != 200 || !strings.Contains(text, "hello") {
		t.Fatalf("have %d %s", resp.StatusCode, text)
	}
	if have := up.Requests()[0].Header.Get("Anthropic-Beta"); have != "effort-2025-11-24" {
		t.Errorf("betas: have %q", have)
	}
	b.stop()
	whole, _ := json.Marshal(b.log.all())
	if strings.Contains(string(whole), realKey) || strings.Contains(string(whole), token) || strings.Contains(string(whole), `"hi"`) {
		t.Errorf("a record holds a secret or content: %s", whole)
	}
	if cost, in, out := b.gateway.Spent(); cost != 140 || in != 10 || out != 5 {
		t.Errorf("spent: have %d, %d, %d", cost, in, out)
	}
}

func TestAStreamPassesAsItComes(t *testing.T) {
	release := make(chan struct{})
	up := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":1,\"cache_read_input_tokens\":50}}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":20}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	})
	b := start(t, up, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/messages", strings.NewReader(helloStream))
	req.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 30)
	if _, err := io.ReadFull(resp.Body, buf); err != nil {
		t.Fatalf("the first event did not come before the second was sent: %v", err)
	}
	close(release)
	rest, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(rest), "message_stop") {
		t.Errorf("have %s", rest)
	}
	b.stop()
	// 100 in at $4, 20 out at $20, 50 from the cache at $0.20, per million.
	if cost, in, out := b.gateway.Spent(); cost != 400+400+10 || in != 150 || out != 20 {
		t.Errorf("spent: have %d, %d, %d", cost, in, out)
	}
}

// M-04: a cut stream is charged what was reserved.
func TestWhatIsNotWholeIsChargedInFull(t *testing.T) {
	reserved := int64(8*(len(helloStream)/3+1) + 1000*20)
	tests := map[string]struct {
		fault string
		want  int64
	}{
		"cut after the first event":   {`{"cut_after":1}`, reserved},
		"cut before the last event":   {`{"cut_after":5}`, reserved},
		"an error event":              {`{"error_after":2}`, reserved},
		"refused by the vendor":       {`{"status":529}`, 0},
		"refused for the rate":        {`{"status":429,"retry_after":7}`, 0},
		"refused for the credentials": {`{"status":401}`, 0},
		"whole":                       {`{"delay_ms":1}`, 140},
		// What was seen costs more than the 5 tokens that the upstream claims: 16 bytes a token at the least.
		"a line of a megabyte, whole": {`{"huge":1000000}`, 40 + 1_000_001/16*20},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := start(t, scripted(t, `{"turns":[{"text":"x","fault":`+test.fault+`}]}`), nil)
			_, _ = b.post(t, helloStream, nil)
			b.stop()
			if cost, _, _ := b.gateway.Spent(); cost != test.want {
				t.Errorf("charged: have %d, want %d", cost, test.want)
			}
		})
	}
}

func TestAClientThatLeavesIsChargedInFull(t *testing.T) {
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the upstream is told
	})
	b := start(t, up, nil)
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/messages", strings.NewReader(helloStream))
	req.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 10))
	cancel()
	_ = resp.Body.Close()
	b.stop()
	if cost, _, _ := b.gateway.Spent(); cost < 20_000 {
		t.Errorf("charged %d", cost)
	}
}

func TestAnAnswerThatCountsNothingIsWholeAndChargedInFull(t *testing.T) {
	for name, answer := range map[string][2]string{
		"whole":  {"application/json", `{"type":"message"}`},
		"stream": {"text/event-stream", "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n"},
	} {
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", answer[0])
			_, _ = io.WriteString(w, answer[1])
		}), nil)
		resp, text := b.post(t, hello, nil)
		if resp.StatusCode != 200 || text != answer[1] {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
		}
		b.stop()
		if cost, _, _ := b.gateway.Spent(); cost < 20_000 {
			t.Errorf("%s: charged %d", name, cost)
		}
	}
}

func TestASandboxCannotFillTheLogWithRefusals(t *testing.T) {
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), nil)
	w := httptest.NewRecorder()
	cut := 0
	for range 10_100 {
		func() {
			defer func() {
				if recover() != nil {
					cut++
				}
			}()
			b.gateway.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		}()
	}
	if n := len(b.log.all()); n != 10_000 || cut != 100 {
		t.Errorf("have %d records, %d cut", n, cut)
	}
}

func TestFaultsPassFaithfully(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 429, 500, 502, 503, 529} {
		up := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Anthropic-Ratelimit-Tokens-Remaining", "0")
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("Anthropic-Organization-Id", "org")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"x","message":"y"}}`)
		})
		b := start(t, up, nil)
		resp, text := b.post(t, hello, nil)
		if resp.StatusCode != status || !strings.Contains(text, `"message":"y"`) || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d: have %d %v %s", status, resp.StatusCode, resp.Header, text)
		}
		if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Anthropic-Organization-Id") != "" || resp.Header.Get("Anthropic-Ratelimit-Tokens-Remaining") != "0" {
			t.Errorf("%d: headers: have %v", status, resp.Header)
		}
		b.stop()
		if cost, _, _ := b.gateway.Spent(); cost != 0 {
			t.Errorf("%d: charged %d", status, cost)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	hits := 0
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	b := start(t, up, nil)
	resp, text := b.post(t, hello, nil)
	b.stop()
	if resp.StatusCode != 502 || hits != 1 || resp.Header.Get("Location") != "" {
		t.Errorf("have %d %s after %d requests", resp.StatusCode, text, hits)
	}
}

func TestAKeyInAnAnswerIsWithheld(t *testing.T) {
	for name, contentType := range map[string]string{"whole": "application/json", "stream": "text/event-stream"} {
		for _, status := range []int{200, 400} {
			up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `data: {"type":"x","echo":"`+r.Header.Get("X-Api-Key")+`"}`+"\n\n")
			})
			b := start(t, up, nil)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/messages", strings.NewReader(helloStream))
			req.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
			resp, err := b.client.Do(req)
			if err != nil {
				b.stop()
				continue // cut before a byte
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if strings.Contains(string(text), realKey) {
				t.Errorf("%s %d: the key came back: %s", name, status, text)
			}
			b.stop()
		}
	}
}

func TestNoRecordNoCall(t *testing.T) {
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), nil)
	b.log.mu.Lock()
	b.log.fail = true
	b.log.mu.Unlock()
	resp, text := b.post(t, hello, nil)
	b.stop()
	if resp.StatusCode != 403 || hits != 0 {
		t.Errorf("have %d %s, %d calls", resp.StatusCode, text, hits)
	}
	if cost, _, _ := b.gateway.Spent(); cost != 0 {
		t.Errorf("charged %d", cost)
	}
}

func TestEveryCallIsRecordedBeforeAndAfter(t *testing.T) {
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), nil)
	_, _ = b.post(t, hello, nil)
	_, _ = b.post(t, hello, func(r *http.Request) { r.Header.Del("X-Api-Key") })
	b.stop()
	records := b.log.all()
	if len(records) != 3 {
		t.Fatalf("have %d records", len(records))
	}
	begin, end, denied := records[0], records[1], records[2]
	if begin.Kind != nacre.KindModelBegin || begin.Outcome != nacre.OutcomeAllowed || begin.Session != "s1" || begin.Group != "g1" {
		t.Errorf("begin: have %+v", begin)
	}
	if end.Kind != nacre.KindModelEnd || end.Outcome != model.OutcomeCompleted || end.Correlation != begin.Correlation {
		t.Errorf("end: have %+v", end)
	}
	var d struct {
		Cost   int64 `json:"micro_usd"`
		In     int64 `json:"input_tokens"`
		Digest string
	}
	if err := json.Unmarshal(end.Detail, &d); err != nil || d.Cost != 140 || d.In != 10 || len(d.Digest) != 64 {
		t.Errorf("end's detail: have %s", end.Detail)
	}
	if denied.Kind != nacre.KindModelBegin || denied.Outcome != nacre.OutcomeDenied || denied.Reason != string(model.ReasonToken) {
		t.Errorf("denied: have %+v", denied)
	}
}

func TestCountingIsFreeAndCannotBeUsedToCall(t *testing.T) {
	up := scripted(t, `{"turns":[{"text":"x"}]}`)
	b := start(t, up, func(o *model.Options) { o.Budget = 1 })
	resp, text := b.post(t, hello, func(r *http.Request) { r.URL.Path = "/v1/messages/count_tokens" })
	b.stop()
	if resp.StatusCode != 200 || !strings.Contains(text, "input_tokens") || up.Requests()[0].Path != "/v1/messages/count_tokens" {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
}

func TestTheBudgetHolds(t *testing.T) {
	up := scripted(t, `{"turns":[{"text":"x","usage":{"input_tokens":100,"output_tokens":900}}]}`)
	b := start(t, up, func(o *model.Options) { o.Budget = 50_000 })
	statuses := map[int]int{}
	for range 5 {
		resp, text := b.post(t, hello, nil)
		statuses[resp.StatusCode]++
		if resp.StatusCode == 402 && !strings.Contains(text, "budget exhausted") {
			t.Errorf("have %s", text)
		}
	}
	b.stop()
	// Each costs 18,400; the third's max_tokens was lowered to under 1,024 and so refused.
	if statuses[200] != 2 || statuses[402] != 3 {
		t.Errorf("have %v", statuses)
	}
	if cost, _, _ := b.gateway.Spent(); cost != 2*18_400 {
		t.Errorf("spent %d", cost)
	}
}

func TestMaxTokensIsSetAndLoweredToWhatIsLeft(t *testing.T) {
	tests := map[string]struct {
		body   string
		budget int64
		want   string
	}{
		"absent":                  {`{"model":"claude-opus-5-5","messages":[{"role":"user","content":"hi"}]}`, 50_000_000, `"max_tokens":32000`},
		"kept":                    {hello, 50_000_000, `"max_tokens":1000`},
		"lowered to what is left": {strings.Replace(hello, "1000", "128000", 1), 100_248, `"max_tokens":5000`},
	}
	for name, test := range tests {
		up := scripted(t, `{"turns":[{"text":"x"}]}`)
		b := start(t, up, func(o *model.Options) { o.Budget = test.budget })
		resp, text := b.post(t, test.body, nil)
		if resp.StatusCode != 200 {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
		} else if have := string(up.Requests()[0].Body); !strings.Contains(have, test.want) {
			t.Errorf("%s: have %s, want %s", name, have, test.want)
		}
		b.stop()
	}
}

// M-04: the reservation is atomic: however many calls race, no more is promised than there is.
func TestCallsThatRaceDoNotOverspend(t *testing.T) {
	up := scripted(t, `{"turns":[{"text":"x","usage":{"input_tokens":10,"output_tokens":1000},"fault":{"delay_ms":1}}]}`)
	b := start(t, up, func(o *model.Options) { o.Budget = 110_000 })
	var group sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 20 {
		group.Go(func() {
			resp, _ := b.post(t, helloStream, nil)
			mu.Lock()
			statuses[resp.StatusCode]++
			mu.Unlock()
		})
	}
	group.Wait()
	b.stop()
	cost, _, _ := b.gateway.Spent()
	if cost > 110_000 || statuses[200] != 5 || statuses[402] != 15 {
		t.Errorf("spent %d of 110000, answers %v", cost, statuses)
	}
}

func TestWhatTheBrainSentIsWhatTheUpstreamGets(t *testing.T) {
	up := scripted(t, `{"turns":[{"text":"x"}]}`)
	b := start(t, up, nil)
	body := `{ "model" : "claude-opus-5-5", "max_tokens":5,"messages":[{"role":"user","content":"\u00e9 <&> 1.0e2"}], "temperature": 1.0 }`
	_, _ = b.post(t, body, nil)
	var have, want bytes.Buffer
	if err := errors.Join(json.Compact(&have, up.Requests()[0].Body), json.Compact(&want, []byte(body))); err != nil {
		t.Fatal(err)
	}
	if have.String() != want.String() {
		t.Errorf("have %s\nwant %s", &have, &want)
	}
}
