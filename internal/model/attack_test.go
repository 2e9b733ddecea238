package model_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// M-04: a thousand calls at once, of one session, never promise more than its budget.
func TestAThousandCallsAtOnce(t *testing.T) {
	const limit = 30 * most
	var promised, peak atomic.Int64
	g := spender(t, filepath.Join(t.TempDir(), "spending"), func(o *model.Options) {
		o.Budget = limit
		o.Client = within(func() {
			now := promised.Add(1000 * 20) // the least that a call of so much output reserves
			for high := peak.Load(); now > high && !peak.CompareAndSwap(high, now); high = peak.Load() {
			}
			promised.Add(-1000 * 20)
		})
	})
	var all sync.WaitGroup
	var accepted atomic.Int64
	for range 1000 {
		all.Go(func() {
			if spend(t.Context(), g).Code == http.StatusOK {
				accepted.Add(1)
			}
		})
	}
	all.Wait()
	cost, _, _ := g.Spent()
	if cost > limit || peak.Load() > limit || cost != accepted.Load()*paid || accepted.Load() < 30 {
		t.Errorf("spent %d of %d with %d calls, %d at once", cost, limit, accepted.Load(), peak.Load())
	}
}

// body ends as a connection does that breaks.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// answering is a client whose upstream streams text, and then breaks where cut says so.
func answering(text string, cut bool) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		var body io.Reader = strings.NewReader(text)
		if cut {
			body = broken{body}
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r, Body: io.NopCloser(body)}, nil
	})}
}

// passes makes one call and reports whether its answer came to an end, and what it cost.
func passes(t *testing.T, s speech, client *http.Client) (ended bool, cost int64, record string) {
	t.Helper()
	log := &ledger{}
	g := spender(t, t.TempDir(), func(o *model.Options) {
		o.Upstreams[0].Dialects, o.Client, o.Days, o.Record = []model.Dialect{s.dialect}, client, nil, log
	})
	r := httptest.NewRequest(http.MethodPost, s.path, strings.NewReader(s.stream()))
	r.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
				panic(cause)
			}
		}()
		g.ServeHTTP(w, r)
		ended = true
	}()
	cost, _, _ = g.Spent()
	records := log.all()
	return ended, cost, string(records[len(records)-1].Detail)
}

// whole is a stream of each dialect that used 10 and 500 tokens.
var whole = map[model.Dialect]string{
	model.Anthropic: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"words\"}}\n\n" +
		"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":500}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
	model.Responses: "data: {\"type\":\"response.output_text.delta\",\"delta\":\"words\"}\n\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":500}}}\n\n",
	model.Chat: "data: {\"choices\":[{\"delta\":{\"content\":\"words\"}}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":500}}\n\ndata: [DONE]\n\n",
}

// M-04: a stream that is cut at any byte costs what it used if all of it came, and all that was
// reserved if not. The brain can tell.
func TestAStreamThatIsCutAtEveryByte(t *testing.T) {
	for _, s := range speeches {
		text := whole[s.dialect]
		end := strings.LastIndex(text, "data: ")
		for cut := range len(text) + 1 {
			ended, cost, record := passes(t, s, answering(text[:cut], true))
			switch {
			case ended && (cut < end || cost != s.cost(10, 500)):
				t.Fatalf("%s cut at %d of %d: ended, cost %d, %s", s.dialect, cut, len(text), cost, record)
			case !ended && (cut == len(text) || cost < s.cost(0, 1000)):
				t.Fatalf("%s cut at %d of %d: not ended, cost %d, %s", s.dialect, cut, len(text), cost, record)
			}
		}
	}
}

// M-04: a prompt in characters that take a token for a byte or two is reserved for
// like the same prompt escaped.
func TestADensePromptIsReservedFor(t *testing.T) {
	for _, s := range speeches {
		b := start(t, scripted(t, `{"turns":[{"text":"x"},{"text":"x"}]}`), everyDialect)
		reserved := func(text string) int64 {
			before := len(b.log.all())
			_, _ = b.ask(t, s, strings.Replace(s.call(""), "WORD", text, 1), nil)
			return detailOf(t, b.log.all()[before]).Reserved
		}
		raw, escaped := reserved(strings.Repeat("\u8a9e", 30_000)), reserved(strings.Repeat(`\u8a9e`, 30_000))
		if b.stop(); raw < escaped || escaped == 0 {
			t.Errorf("%s: reserved %d, and escaped %d", s.dialect, raw, escaped)
		}
	}
}

// M-04: a stream is metered however its lines end, and whatever stands before it.
func TestAStreamInEveryFormIsMetered(t *testing.T) {
	for _, s := range speeches {
		text := whole[s.dialect]
		for name, form := range map[string]string{
			"as it is": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "CR": strings.ReplaceAll(text, "\n", "\r"),
			"a byte order mark": "\ufeff" + text, "no space": strings.ReplaceAll(text, "data: ", "data:"),
			"comments and fields": ": hi\nretry: 5\nid\ndata\n\n" + strings.ReplaceAll(text, "data: ", ": ping\ndata: "),
			"empty lines":         "\n\n\n" + strings.ReplaceAll(text, "\n\n", "\n\n\n\n"),
		} {
			if ended, cost, record := passes(t, s, answering(form, true)); !ended || cost != s.cost(10, 500) {
				t.Errorf("%s, %s: ended %t, cost %d, %s", s.dialect, name, ended, cost, record)
			}
		}
	}
}

// eventually is a body that gives one piece for each read, and calls before it does.
type eventually struct {
	pieces []string
	before func()
}

// Read implements io.Reader.
func (e *eventually) Read(p []byte) (int, error) {
	e.before()
	if len(e.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.pieces[0])
	e.pieces = e.pieces[1:]
	return n, nil
}

// Events pass as they come, however their lines end.
func TestEventsPassAsTheyCome(t *testing.T) {
	s := speeches[0]
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		w := httptest.NewRecorder()
		body := &eventually{pieces: strings.SplitAfter(strings.ReplaceAll(whole[s.dialect], "\n", end), end+end)}
		given, all := "", strings.Join(body.pieces, "")
		body.before = func() {
			if have := w.Body.String(); have != given {
				t.Errorf("%s: %q waits", name, strings.TrimPrefix(given, have))
			}
			if len(body.pieces) > 0 {
				given += body.pieces[0]
			}
		}
		client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r, Body: io.NopCloser(body)}, nil
		})}
		g := spender(t, t.TempDir(), func(o *model.Options) {
			o.Upstreams[0].Dialects, o.Client, o.Days = []model.Dialect{s.dialect}, client, nil
		})
		r := httptest.NewRequest(http.MethodPost, s.path, strings.NewReader(s.stream()))
		r.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
		g.ServeHTTP(w, r)
		if have := w.Body.String(); have != all || !w.Flushed {
			t.Errorf("%s: have %q, want %q", name, have, all)
		}
	}
}

// M-04: an account that goes backwards, is missing, absurd or in a form that
// cannot be read makes no call cheaper than what passed.
func TestForgedAccountsMakeNothingCheaper(t *testing.T) {
	s := speeches[0]
	first := `{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`
	last := func(usage string) string { return `{"type":"message_delta","usage":` + usage + `}` }
	delta := `{"type":"content_block_delta","delta":{"type":"text_delta","text":"` + strings.Repeat("x", 16_000) + `"}}`
	reserved, counted := s.cost(0, 1000), s.cost(10, 500)
	for name, test := range map[string]struct {
		events []string
		least  int64
		record string
	}{
		"it goes backwards":             {[]string{first, last(`{"output_tokens":500}`), last(`{"output_tokens":1,"input_tokens":0}`)}, counted, ""},
		"it goes below nothing":         {[]string{first, last(`{"output_tokens":500}`), last(`{"output_tokens":-500,"input_tokens":-9}`)}, counted, ""},
		"it is missing":                 {[]string{`{"type":"message_start","message":{}}`}, reserved, ""},
		"it is null":                    {[]string{`{"type":"message_start","message":{"usage":null}}`, last(`null`)}, reserved, ""},
		"it is empty":                   {[]string{`{"type":"message_start","message":{"usage":{}}}`, delta}, s.cost(0, 1000), "usage_short"},
		"it is a text":                  {[]string{first, last(`{"output_tokens":"500"}`)}, reserved, ""},
		"it is a fraction":              {[]string{first, last(`{"output_tokens":1e2}`)}, reserved, ""},
		"it is over all numbers":        {[]string{first, last(`{"output_tokens":99999999999999999999}`)}, reserved, ""},
		"it is in another place":        {[]string{first, `{"type":"ping","usage":{"output_tokens":0}}`, last(`{"output_tokens":500}`)}, counted, ""},
		"it is in an event's name":      {[]string{first + "\nevent: message_stop", last(`{"output_tokens":500}`)}, counted, ""},
		"it is split over lines":        {[]string{first, `{"type":"message_delta",` + "\ndata: " + `"usage":{"output_tokens":500}}`}, reserved, ""},
		"it claims less than was said":  {[]string{first, delta, last(`{"output_tokens":1}`)}, s.cost(10, 1000), "usage_short"},
		"it claims far more":            {[]string{first, last(`{"output_tokens":100000}`)}, s.cost(10, 100_000), "usage_over"},
		"it claims a huge prompt":       {[]string{first, last(`{"input_tokens":1000000,"output_tokens":5}`)}, s.cost(1_000_000, 5), "usage_over"},
		"it claims more than there is":  {[]string{first, last(`{"output_tokens":9000000000000}`)}, s.cost(10, 1_000_000_000), "usage_over"},
		"all of it comes from a cache":  {[]string{`{"type":"message_start","message":{"usage":{"input_tokens":0,"cache_read_input_tokens":-10,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":999}}}}`, last(`{"output_tokens":500}`)}, s.cost(0, 500), ""},
		"the end comes first":           {[]string{`{"type":"message_stop"}`, first, delta, last(`{"output_tokens":1}`)}, s.cost(10, 1000), ""},
		"an error after the account":    {[]string{first, last(`{"output_tokens":1}`), `{"type":"error","error":{}}`}, reserved, ""},
		"a line that nobody could keep": {[]string{first, `{"type":"message_delta","x":"` + strings.Repeat("x", 9<<20) + `","usage":{"output_tokens":500}}`}, reserved, ""},
	} {
		text := "data: " + strings.Join(append(test.events, `{"type":"message_stop"}`), "\n\ndata: ") + "\n\n"
		_, cost, record := passes(t, s, answering(text, false))
		if cost < test.least || !strings.Contains(record, test.record) {
			t.Errorf("%s: have %d, want at least %d: %s", name, cost, test.least, record)
		}
	}
}

// M-04: an account in numbers that no record can hold is recorded nevertheless:
// what cannot be recorded ends the session.
func TestAnAbsurdAccountCanBeRecorded(t *testing.T) {
	const most = "9223372036854775807"
	for i, events := range []string{ // in the order of speeches
		`data: {"type":"message_start","message":{"usage":{"input_tokens":` + most + `,"output_tokens":` + most + `,"cache_read_input_tokens":` + most + `,"cache_creation_input_tokens":` + most + `}}}` +
			"\n\n" + `data: {"type":"message_stop"}` + "\n\n",
		`data: {"type":"response.completed","response":{"usage":{"input_tokens":` + most + `,"output_tokens":` + most + `,"total_tokens":` + most + `,"output_tokens_details":{"reasoning_tokens":` + most + `}}}}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":` + most + `,"completion_tokens":` + most + `,"completion_tokens_details":{"reasoning_tokens":` + most + `}}}` + "\n\ndata: [DONE]\n\n",
	} {
		s := speeches[i]
		ended, cost, record := passes(t, s, answering(events, false))
		err := audit.Memory(1).Append(t.Context(), nacre.Record{Kind: nacre.KindModelEnd, Time: time.Now(), Group: "g1", Session: "s1", Source: "model", Detail: []byte(record)})
		if !ended || cost < s.cost(1_000_000_000, 1_000_000_000) || err != nil {
			t.Errorf("%s: ended %v, cost %d, %v: %s", s.dialect, ended, cost, err, record)
		}
	}
}

// An upstream that lies about the length or the form of its answer is charged
// in full, and passes nothing on as if it were whole.
func TestAnUpstreamThatLiesAboutItsAnswer(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, whole[model.Anthropic]+realKey)
	_ = z.Close()
	answer := `{"type":"message","usage":{"input_tokens":10,"output_tokens":500}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, raw := range map[string]string{
		"a length too long":         head + "Content-Length: 9000\r\n\r\n" + answer,
		"a length too short":        head + "Content-Length: 20\r\n\r\n" + answer,
		"two lengths":               head + "Content-Length: 20\r\nContent-Length: 66\r\n\r\n" + answer,
		"a length below nothing":    head + "Content-Length: -1\r\n\r\n" + answer,
		"chunks that are cut":       head + "Transfer-Encoding: chunked\r\n\r\nfff\r\n" + answer,
		"chunks of no number":       head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + answer,
		"a page":                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<html",
		"a compressed stream":       "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + zipped.String(),
		"a compressed answer":       head + "Content-Encoding: br\r\nConnection: close\r\n\r\n" + zipped.String(),
		"headers without end":       "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 100_000) + "\r\n\r\n" + answer,
		"a hint and then nothing":   "HTTP/1.1 103 Early Hints\r\n\r\n",
		"hints without end":         strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50),
		"another protocol":          "SSH-2.0-OpenSSH_9.9\r\n",
		"a switch to another":       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"nothing":                   "",
		"success without an answer": "HTTP/1.1 204 No Content\r\n\r\n",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(conn, raw)
			_ = conn.Close()
		})
		b := start(t, http.NotFoundHandler(), func(o *model.Options) { o.Upstreams[0].URL = parse(t, "http://"+l.Addr().String()) })
		resp, err := b.client.Do(request(t, b, hello))
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK || bytes.Contains(text, zipped.Bytes()) {
				t.Errorf("%s: LET THROUGH %d %.200s", name, resp.StatusCode, text)
			}
		}
		b.stop()
		_ = l.Close()
		served.Wait()
		if cost, _, _ := b.gateway.Spent(); cost < 1000*20 {
			t.Errorf("%s: have %d spent", name, cost)
		}
	}
}

func request(t *testing.T, _ *bench, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
	return r
}

// Clients that are slow to ask or to read are ended, and hold nothing up.
func TestSlowClientsAreEnded(t *testing.T) {
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := fmt.Fprintf(w, "data: {\"type\":\"ping\",\"x\":%q}\n\n", strings.Repeat("x", 32<<10)); err != nil {
				return
			}
		}
	}), func(o *model.Options) { o.Limits.Request, o.Limits.Idle = 200*time.Millisecond, 200*time.Millisecond })
	head := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Api-Key: " + token + "\r\n"
	for name, raw := range map[string]string{
		"half a header":        "POST /v1/mess",
		"a header without end": head,
		"half a body":          head + "Content-Length: 5000\r\n\r\n{\"model\":",
		"chunks without end":   head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod",
		"nothing":              "",
	} {
		conn, err := net.Dial("unix", b.socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, raw)
		answer, _ := io.ReadAll(conn) // which ends when the gateway hangs up
		_ = conn.Close()
		if bytes.Contains(answer, []byte("200 OK")) {
			t.Errorf("%s: have %s", name, answer)
		}
	}
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(helloStream), helloStream))
	testwait.Until(t, "the end of a reader that never reads", func() bool {
		cost, _, _ := b.gateway.Spent()
		return cost >= 1000*20
	})
	_ = conn.Close()
	b.stop()
}

// M-04: another session's token, or any other credential, opens nothing.
func TestAnotherSessionsTokenOpensNothing(t *testing.T) {
	hits := 0
	up := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ })
	mine, other := start(t, up, nil), start(t, up, func(o *model.Options) { o.SessionToken = nacre.NewSecret("another session's") })
	for name, header := range map[string]http.Header{
		"another session's":          {"X-Api-Key": {token}},
		"another session's, bearer":  {"Authorization": {"Bearer " + token}},
		"the key itself":             {"X-Api-Key": {realKey}},
		"nothing":                    {},
		"an empty key":               {"X-Api-Key": {""}},
		"a beginning":                {"X-Api-Key": {"another session"}},
		"more than it":               {"X-Api-Key": {"another session's2"}, "Authorization": {"Bearer another session'ss"}},
		"by another scheme":          {"Authorization": {"Basic another session's"}},
		"in another header":          {"Api-Key": {"another session's"}, "X-Goog-Api-Key": {"another session's"}, "Cookie": {"another session's"}},
		"in one header, after comma": {"X-Api-Key": {token + ", another session's"}},
	} {
		r := request(t, other, hello)
		header.Set("Content-Type", "application/json")
		r.Header = header
		resp, err := other.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: have %d", name, resp.StatusCode)
		}
	}
	mine.stop()
	other.stop()
	if hits != 0 {
		t.Errorf("LET THROUGH: %d", hits)
	}
}

// Keys that differ in case only are not both what they seem: the gateway reads
// one of them, and the vendor might read the other.
func TestTwinsInCaseAreRefused(t *testing.T) {
	for _, s := range speeches {
		refusals(t, s, nil, map[string]refused{
			"two tools":    {s.call(`"tools":[],"Tools":[{"type":"web_search"}],`), model.ReasonField},
			"two models":   {s.call(`"Model":"gpt-5.5",`), model.ReasonField},
			"two streams":  {s.call(`"stream":false,"STREAM":true,`), model.ReasonField},
			"a long s":     {s.call(`"\u017ftream":true,`), model.ReasonField},
			"a kelvin":     {s.call(`"to\u212Aens":1,`), model.ReasonField},
			"a zero byte":  {s.call(`"tools\u0000":[],`), model.ReasonField},
			"twice":        {s.call(`"stream":false,"stream":true,`), model.ReasonMalformed},
			"half a pair":  {s.call(`"\ud800":1,`), model.ReasonMalformed},
			"by a comment": {s.call(`/* */`), model.ReasonMalformed},
		})
	}
}

// An upstream that speaks HTTP/2 is spoken to so, and its streams are metered alike.
func TestAnUpstreamOfHTTP2(t *testing.T) {
	var proto atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, whole[model.Anthropic])
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	b := start(t, http.NotFoundHandler(), func(o *model.Options) { o.Upstreams[0].URL, o.Client = parse(t, srv.URL), srv.Client() })
	resp, text := b.post(t, helloStream, nil)
	b.stop()
	if cost, _, _ := b.gateway.Spent(); resp.StatusCode != 200 || proto.Load() != "HTTP/2.0" || cost != paid || !strings.Contains(text, "message_stop") {
		t.Errorf("have %d %v, %d spent: %s", resp.StatusCode, proto.Load(), cost, text)
	}
}
