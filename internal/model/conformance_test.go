package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/model"
)

// speech is how one dialect is spoken in the conformance table.
type speech struct {
	dialect model.Dialect
	path    string
	model   string
	// body is a call with the word WORD in it; fields are put before it.
	body string
	// max is the field of the most output.
	max string
	// input and output are the model's prices in micro-dollars a million.
	input, output int64
	// failure is in every error body, end in every whole stream.
	failure, end string
	header       string
}

var speeches = []speech{
	{model.Anthropic, "/v1/messages", "claude-opus-5-5", `"messages":[{"role":"user","content":"WORD"}]`, "max_tokens", 4e6, 20e6, `"type":"error"`, "message_stop", "X-Api-Key"},
	{model.Responses, "/v1/responses", "gpt-5.1", `"input":[{"role":"user","content":[{"type":"input_text","text":"WORD"}]}]`, "max_output_tokens", 1.25e6, 10e6, `"param":null`, "response.completed", "Authorization"},
	{model.Chat, "/v1/chat/completions", "gpt-5.1", `"messages":[{"role":"user","content":"WORD"}]`, "max_completion_tokens", 1.25e6, 10e6, `"param":null`, "[DONE]", "Authorization"},
}

// call is a body of the speech, with fields before what is said.
func (s speech) call(fields string) string {
	return `{"model":"` + s.model + `",` + fields + s.body + `}`
}

func (s speech) stream() string { return s.call(`"stream":true,"` + s.max + `":1000,`) }

// cost is what so many tokens cost.
func (s speech) cost(in, out int64) int64 { return (in*s.input + out*s.output + 999_999) / 1_000_000 }

// everyDialect declares the bench's upstream for all.
func everyDialect(o *model.Options) {
	o.Upstreams[0].Dialects = []model.Dialect{model.Anthropic, model.Responses, model.Chat}
}

// ask sends a body to the gateway as a brain of the speech does.
func (b *bench) ask(t testing.TB, s speech, body string, change func(*http.Request)) (answer, string) {
	t.Helper()
	return b.post(t, body, func(r *http.Request) {
		r.URL.Path, r.URL.RawQuery = s.path, ""
		if s.dialect != model.Anthropic {
			r.Header.Del("X-Api-Key")
			r.Header.Del("Anthropic-Version")
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if change != nil {
			change(r)
		}
	})
}

// told is what records say in their details.
type told struct {
	Reserved int64  `json:"reserved_micro_usd"`
	Cost     int64  `json:"micro_usd"`
	In       int64  `json:"input_tokens"`
	Out      int64  `json:"output_tokens"`
	Cached   int64  `json:"cache_read_tokens"`
	Thought  int64  `json:"reasoning_tokens"`
	Short    bool   `json:"usage_short"`
	Dialect  string `json:"dialect"`
	Max      int64  `json:"max_tokens"`
	Dropped  int    `json:"betas_dropped"`
}

func detailOf(t testing.TB, r nacre.Record) (d told) {
	t.Helper()
	if err := json.Unmarshal(r.Detail, &d); err != nil {
		t.Fatalf("detail %s: %v", r.Detail, err)
	}
	return d
}

// M-04: every dialect is metered, reserved, refused and recorded alike.
func TestConformance(t *testing.T) {
	cases := map[string]func(*testing.T, speech){
		"a whole answer is metered":                   wholeIsMetered,
		"a stream is metered":                         streamIsMetered,
		"a tool's call passes":                        toolPasses,
		"what is not whole is charged in full":        cutIsCharged,
		"an answer without usage is charged in full":  silenceIsCharged,
		"an answer that claims too little is counted": shortIsCounted,
		"faults pass faithfully and cost nothing":     faultsPass,
		"a hang ends":                                  hangEnds,
		"silence in an answer ends it":                 idleEnds,
		"an answer without end is ended":               endlessEnds,
		"an upstream that is gone is said":             goneIsSaid,
		"a redirect is not followed":                   redirectStays,
		"the key in an answer is withheld":             keyIsWithheld,
		"the budget holds":                             budgetHolds,
		"calls that race for the last cent":            lastCent,
		"the most output is set, kept, lowered":        mostOutput,
		"what is malformed is refused":                 malformed,
		"what is not on the list is refused":           notOnTheList,
		"the upstream sees the operator and no other":  headers,
		"no record, no call":                           noRecord,
		"an observer sees what is accepted":            observed,
		"a compressed body is refused":                 compressed,
		"a model without a price is refused":           noPrice,
		"what is stored at the vendor is refused":      stored,
		"the brain gets what the upstream sent":        sameAnswer,
		"a client that leaves is charged in full":      leaves,
		"a stream is not held back":                    unbuffered,
		"nothing said is in the records":               redacted,
		"an upstream for another dialect is not asked": otherDialect,
	}
	for _, s := range speeches {
		for name, test := range cases {
			t.Run(string(s.dialect)+"/"+name, func(t *testing.T) { test(t, s) })
		}
	}
}

const scriptedUsage = `"usage":{"input_tokens":10,"output_tokens":5}`

func wholeIsMetered(t *testing.T, s speech) {
	b := start(t, scripted(t, `{"turns":[{"text":"x",`+scriptedUsage+`}]}`), everyDialect)
	if resp, text := b.ask(t, s, s.call(""), nil); resp.StatusCode != 200 || !strings.Contains(text, `"x"`) {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	spent(t, b, s.cost(10, 5), 10, 5)
	end := b.log.all()[1]
	if d := detailOf(t, end); end.Outcome != model.OutcomeCompleted || d.Dialect != string(s.dialect) || d.Short {
		t.Errorf("have %+v %s", end, end.Detail)
	}
}

func spent(t *testing.T, b *bench, cost, in, out int64) {
	t.Helper()
	b.stop()
	if haveCost, haveIn, haveOut := b.gateway.Spent(); haveCost != cost || haveIn != in || haveOut != out {
		t.Errorf("spent: have %d, %d, %d, want %d, %d, %d", haveCost, haveIn, haveOut, cost, in, out)
	}
}

func streamIsMetered(t *testing.T, s speech) {
	b := start(t, scripted(t, `{"turns":[{"text":"x","thinking":"hm",`+scriptedUsage+`}]}`), everyDialect)
	if resp, text := b.ask(t, s, s.stream(), nil); resp.StatusCode != 200 || !strings.Contains(text, s.end) {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	spent(t, b, s.cost(10, 5), 10, 5)
}

func toolPasses(t *testing.T, s speech) {
	up := scripted(t, `{"turns":[{"expect":{"tools":["Bash"]},"tools":[{"name":"Bash","input":{"command":"ls"}}]}]}`)
	b := start(t, up, everyDialect)
	tools := map[model.Dialect]string{
		model.Anthropic: `{"name":"Bash","input_schema":{}}`, model.Responses: `{"type":"function","name":"Bash","parameters":{}}`,
		model.Chat: `{"type":"function","function":{"name":"Bash","parameters":{}}}`,
	}
	resp, text := b.ask(t, s, s.call(`"stream":true,"tools":[`+tools[s.dialect]+`],`), nil)
	if resp.StatusCode != 200 || !strings.Contains(text, `_0_0"`) || !strings.Contains(text, s.end) {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	b.stop()
}

func cutIsCharged(t *testing.T, s speech) {
	for name, fault := range map[string]string{
		"after the first event": `{"cut_after":1}`, "after the second": `{"cut_after":2}`, "by an error": `{"error_after":2}`,
	} {
		b := start(t, scripted(t, `{"turns":[{"text":"x","fault":`+fault+`}]}`), everyDialect)
		_, text := b.ask(t, s, s.stream(), nil)
		b.stop()
		records := b.log.all()
		reserved := detailOf(t, records[0]).Reserved
		if cost, _, _ := b.gateway.Spent(); cost != reserved || reserved < s.cost(0, 1000) {
			t.Errorf("%s: charged %d of %d", name, cost, reserved)
		}
		if records[1].Outcome == model.OutcomeCompleted || strings.Contains(text, s.end) {
			t.Errorf("%s: %s after %s", name, records[1].Outcome, text)
		}
	}
}

func silenceIsCharged(t *testing.T, s speech) {
	for _, body := range []string{s.stream(), s.call(`"` + s.max + `":1000,`)} {
		b := start(t, scripted(t, `{"turns":[{"text":"x","fault":{"no_usage":true}}]}`), everyDialect)
		if resp, text := b.ask(t, s, body, nil); resp.StatusCode != 200 {
			t.Errorf("have %d %s", resp.StatusCode, text)
		}
		b.stop()
		reserved := detailOf(t, b.log.all()[0]).Reserved
		if cost, _, _ := b.gateway.Spent(); cost != reserved || cost == 0 {
			t.Errorf("charged %d of %d", cost, reserved)
		}
	}
}

func shortIsCounted(t *testing.T, s speech) {
	for _, stream := range []string{"true", "false"} {
		b := start(t, scripted(t, `{"turns":[{"text":"`+strings.Repeat("y", 16_000)+`","usage":{"input_tokens":0,"output_tokens":1}}]}`), everyDialect)
		_, _ = b.ask(t, s, strings.Replace(s.call(`"stream":`+stream+`,`), "WORD", strings.Repeat("z", 64_000), 1), nil)
		b.stop()
		end := detailOf(t, b.log.all()[1])
		if !end.Short || end.Out < 1000 || end.In < 1000 || end.Out > 1100 || end.In > 1100 || end.Cost != s.cost(end.In, end.Out) {
			t.Errorf("stream %s: have %+v", stream, end)
		}
	}
}

func faultsPass(t *testing.T, s speech) {
	for _, status := range []int{400, 401, 403, 404, 413, 429, 500, 502, 503, 529} {
		b := start(t, scripted(t, fmt.Sprintf(`{"turns":[{"fault":{"status":%d,"retry_after":7}}]}`, status)), everyDialect)
		resp, text := b.ask(t, s, s.stream(), nil)
		if resp.StatusCode != status || !strings.Contains(text, "scripted fault") || !strings.Contains(text, s.failure) || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d: have %d %v %s", status, resp.StatusCode, resp.Header, text)
		}
		spent(t, b, 0, 0, 0)
	}
}

func hangEnds(t *testing.T, s speech) {
	b := start(t, scripted(t, `{"turns":[{"fault":{"hang":true}}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Limits.FirstByte = 20 * time.Millisecond
	})
	resp, text := b.ask(t, s, s.stream(), nil)
	if resp.StatusCode != 502 || !strings.Contains(text, s.failure) {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	b.stop()
	if cost, _, _ := b.gateway.Spent(); cost == 0 {
		t.Error("what may have been answered was not charged")
	}
}

func idleEnds(t *testing.T, s speech) {
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": hello\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), func(o *model.Options) {
		everyDialect(o)
		o.Limits.Idle = 50 * time.Millisecond
	})
	_ = b.rough(t, s)
	chargedAsCut(t, b)
}

func endlessEnds(t *testing.T, s speech) {
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, ": hello\n\n"); err != nil {
				return
			}
		}
	}), func(o *model.Options) {
		everyDialect(o)
		o.Limits.Stream = 100_000
	})
	if text := b.rough(t, s); len(text) > 200_000 {
		t.Errorf("have %d bytes", len(text))
	}
	chargedAsCut(t, b)
}

func chargedAsCut(t *testing.T, b *bench) {
	t.Helper()
	b.stop()
	begin, end := b.log.all()[0], b.log.all()[1]
	if end.Outcome != model.OutcomeCut || detailOf(t, end).Cost != detailOf(t, begin).Reserved || detailOf(t, end).Cost == 0 {
		t.Errorf("have %s %s", end.Outcome, end.Detail)
	}
}

func goneIsSaid(t *testing.T, s speech) {
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Upstreams[0].URL = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	})
	if resp, text := b.ask(t, s, s.stream(), nil); resp.StatusCode != 502 || !strings.Contains(text, s.failure) {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	spent(t, b, 0, 0, 0)
}

func redirectStays(t *testing.T, s speech) {
	hits := 0
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
	}), everyDialect)
	resp, text := b.ask(t, s, s.call(""), nil)
	b.stop()
	if resp.StatusCode != 502 || hits != 1 || resp.Header.Get("Location") != "" || !strings.Contains(text, s.failure) {
		t.Errorf("have %d %s after %d", resp.StatusCode, text, hits)
	}
}

func keyIsWithheld(t *testing.T, s speech) {
	for name, padding := range map[string]int{"at once": 0, "across two chunks": 64<<10 - 10, "most of it in the first": 64<<10 - 6 - 15} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			for _, status := range []int{200, 400} {
				b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, `{"a":"`+strings.Repeat("p", padding)+realKey+"\"}\n\n")
				}), everyDialect)
				text := b.rough(t, s)
				if strings.Contains(text, realKey[:9]) { // nor the most of it
					t.Errorf("%s, %s %d: LET THROUGH", name, kind, status)
				}
				b.stop()
			}
		}
	}
}

// rough asks, and takes a cut answer for one.
func (b *bench) rough(t *testing.T, s speech) string {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway"+s.path, strings.NewReader(s.stream()))
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func budgetHolds(t *testing.T, s speech) {
	each := s.cost(100, 900)
	b := start(t, scripted(t, `{"turns":[{"text":"x","usage":{"input_tokens":100,"output_tokens":900}}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Budget = 2*each + s.cost(0, 1000)/2
	})
	statuses := map[int]int{}
	for range 5 {
		resp, text := b.ask(t, s, s.stream(), nil)
		statuses[resp.StatusCode]++
		if resp.StatusCode == 402 && (!strings.Contains(text, "budget exhausted") || !strings.Contains(text, s.failure)) {
			t.Errorf("have %s", text)
		}
	}
	if statuses[200] != 2 || statuses[402] != 3 {
		t.Errorf("have %v", statuses)
	}
	spent(t, b, 2*each, 200, 1800)
}

func lastCent(t *testing.T, s speech) {
	one := s.cost(0, 1000)
	b := start(t, scripted(t, `{"turns":[{"text":"x","usage":{"input_tokens":0,"output_tokens":1000},"fault":{"delay_ms":1}}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Budget = 5*one + one/2
	})
	var group sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 20 {
		group.Go(func() {
			resp, _ := b.ask(t, s, s.stream(), nil)
			mu.Lock()
			defer mu.Unlock()
			statuses[resp.StatusCode]++
		})
	}
	group.Wait()
	b.stop()
	if cost, _, _ := b.gateway.Spent(); cost > 5*one+one/2 || statuses[200] != 5 || statuses[402] != 15 {
		t.Errorf("spent %d of %d, answers %v", cost, 5*one+one/2, statuses)
	}
}

func mostOutput(t *testing.T, s speech) {
	absent := s.max
	if s.dialect == model.Chat {
		absent = "max_tokens" // on this machine
	}
	for name, test := range map[string]struct {
		body   string
		budget int64
		want   string
	}{
		"absent":  {s.call(""), 50_000_000, `"` + absent + `":32000`},
		"kept":    {s.call(`"` + s.max + `":1000,`), 50_000_000, `"` + s.max + `":1000`},
		"lowered": {s.call(`"` + s.max + `":128000,`), s.cost(0, 5000) + s.cost(50, 0), `"` + s.max + `":`},
	} {
		up := scripted(t, `{"turns":[{"text":"x"}]}`)
		b := start(t, up, func(o *model.Options) { everyDialect(o); o.Budget = test.budget })
		if resp, text := b.ask(t, s, test.body, nil); resp.StatusCode != 200 {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
		} else if have := string(up.Requests()[0].Body); !strings.Contains(have, test.want) || name == "lowered" && strings.Contains(have, "128000") {
			t.Errorf("%s: have %s, want %s", name, have, test.want)
		}
		b.stop()
		if begin := detailOf(t, b.log.all()[0]); begin.Reserved > test.budget || begin.Max == 0 {
			t.Errorf("%s: have %+v", name, begin)
		}
	}
}

func sameAnswer(t *testing.T, s speech) {
	const odd = "{\"a\" : 1.0e2,\"\\u00e9\":\"\\/\" }\n"
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "5")
		w.Header().Set("X-Request-Id", "r1")
		w.Header().Set("X-Ratelimit-Key", "for "+realKey)
		w.Header().Set("Openai-Organization", "org")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, odd)
	}), everyDialect)
	resp, text := b.ask(t, s, s.call(""), nil)
	h := resp.Header
	if text != odd || h.Get("X-Ratelimit-Remaining-Tokens") != "5" || h.Get("X-Request-Id") != "r1" || h.Get("X-Ratelimit-Key") != "" || h.Get("Openai-Organization") != "" || h.Get("Set-Cookie") != "" {
		t.Errorf("have %q %v", text, h)
	}
}

func leaves(t *testing.T, s speech) {
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": hello\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the upstream is told
	}), everyDialect)
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+s.path, strings.NewReader(s.stream()))
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 5))
	cancel()
	_ = resp.Body.Close()
	b.stop()
	if cost, _, _ := b.gateway.Spent(); cost < s.cost(0, 1000) {
		t.Errorf("charged %d", cost)
	}
}

func unbuffered(t *testing.T, s speech) {
	release := make(chan struct{})
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"first\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "data: {\"type\":\""+s.end+"\"}\n\ndata: [DONE]\n\n")
	}), everyDialect)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway"+s.path, strings.NewReader(s.stream()))
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatalf("the first event did not come before the second was sent: %v", err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(rest), s.end) {
		t.Errorf("have %s %v", rest, err)
	}
}

func redacted(t *testing.T, s speech) {
	b := start(t, scripted(t, `{"turns":[{"text":"pearl-in-the-answer"}]}`), everyDialect)
	body := strings.Replace(s.call(`"metadata":{"user_id":"pearl-in-the-metadata"},`), "WORD", "pearl-in-the-prompt", 1)
	_, _ = b.ask(t, s, body, nil)
	_, _ = b.ask(t, s, strings.Replace(body, `"metadata"`, `"pearl"`, 1), nil)
	b.stop()
	whole, _ := json.Marshal(b.log.all())
	if strings.Contains(string(whole), "pearl") || strings.Contains(string(whole), token) || strings.Contains(string(whole), realKey) || len(b.log.all()) != 3 {
		t.Errorf("have %s", whole)
	}
}

func otherDialect(t *testing.T, s speech) {
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), func(o *model.Options) {
		everyDialect(o)
		var others []model.Dialect
		for _, other := range speeches {
			if other.dialect != s.dialect {
				others = append(others, other.dialect)
			}
		}
		o.Upstreams[0].Dialects = others
	})
	resp, text := b.ask(t, s, s.call(""), nil)
	b.stop()
	if hits != 0 || resp.StatusCode != 404 || !strings.Contains(text, s.failure) || b.log.all()[0].Reason != string(model.ReasonNoUpstream) {
		t.Errorf("have %d %s, %d calls", resp.StatusCode, text, hits)
	}
}
