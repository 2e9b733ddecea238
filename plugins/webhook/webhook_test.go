package main_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
	webhook "github.com/nacre-dev/nacre/plugins/webhook"
)

const hooks = `{"hooks":[{"name":"ci","reply_url":"http://reply.test/in"},{"name":"hub","preset":"github","secret":"secret_2"}]}`

func noProxy(string) string { return "" }

func mac(key string, parts ...string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(m.Sum(nil))
}

// request is one that is good, unless a test changes it.
type request struct {
	method, path, body string
	header             http.Header
}

func generic(h *host, body string) request {
	seconds := strconv.FormatInt(h.clock().Unix(), 10)
	return request{"POST", "/hook/ci", body, http.Header{
		"Content-Type": {"application/json"}, "X-Nacre-Signature": {"t=" + seconds + ",v1=" + mac(secret, seconds, ".", body)},
	}}
}

func (h *host) do(q request) int {
	h.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.socket())
	}}}
	r, err := http.NewRequestWithContext(h.t.Context(), q.method, "http://hook.test"+q.path, strings.NewReader(q.body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header = q.header
	resp, err := client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	said, err := io.ReadAll(resp.Body)
	if err != nil || len(said) > 0 {
		h.t.Errorf("%s %s: the answer says %q, %v", q.method, q.path, said, err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestManifestParses(t *testing.T) {
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := plugin.ParseManifest(data)
	if err != nil || !m.Listen || !m.Verify {
		t.Fatal(err)
	}
}

// D-33: a signed request becomes a message, with the hook as its sender.
func TestAMessage(t *testing.T) {
	h := start(t, folder(t), hooks, "C", noProxy)
	if have := h.do(generic(h, `{"a":1}`)); have != 202 {
		t.Fatalf("have %d", have)
	}
	want := `{"channel":"webhook","sender":"ci","content_type":"application/json","body":"{\"a\":1}","metadata":{"bytes":7,"truncated":false}}`
	if have := h.published(); len(have) != 1 || string(have[0]) != want {
		t.Errorf("have %s", have)
	}
	q := generic(h, strings.Repeat("é", 9000))
	q.header.Set("Content-Type", "text/plain; charset=utf-8")
	if have := h.do(q); have != 202 {
		t.Errorf("have %d", have)
	}
	var m struct {
		Body     string
		Metadata struct {
			Bytes     int
			Truncated bool
		}
	}
	if err := json.Unmarshal(h.published()[1], &m); err != nil || len(m.Body) != 2*8192 || !m.Metadata.Truncated || m.Metadata.Bytes != 18000 {
		t.Errorf("have %d bytes, %+v, %v", len(m.Body), m.Metadata, err)
	}
	q = generic(h, strings.Repeat("\x01", 9000)) // six times as long in JSON
	q.header.Set("Content-Type", "text/plain")
	if have := h.do(q); have != 202 || len(h.published()[2]) > plugin.MaxEvent {
		t.Errorf("have %d", have)
	}
}

func TestPresets(t *testing.T) {
	h := start(t, folder(t), `{"hooks":[{"name":"hub","preset":"github"},{"name":"tea","preset":"gitea","secret":"secret_2"}]}`, "C", noProxy)
	const body = `{"x":1}`
	j := []string{"application/json"}
	for _, c := range []struct {
		name string
		q    request
		want int
	}{
		{"github", request{"POST", "/hook/hub", body, http.Header{"Content-Type": j, "X-Hub-Signature-256": {"sha256=" + mac(secret, body)}, "X-Github-Event": {"push"}}}, 202},
		{"github again", request{"POST", "/hook/hub", body, http.Header{"Content-Type": j, "X-Hub-Signature-256": {"sha256=" + mac(secret, body)}, "X-Github-Delivery": {"new"}}}, 403},
		{"sha1", request{"POST", "/hook/hub", body, http.Header{"Content-Type": j, "X-Hub-Signature": {"sha1=" + mac(secret, body)}}}, 401},
		{"gitea", request{"POST", "/hook/tea", body, http.Header{"Content-Type": j, "X-Gitea-Signature": {mac("another secret of the test", body)}}}, 202},
		{"the other hook's secret", request{"POST", "/hook/tea", body, http.Header{"Content-Type": j, "X-Gitea-Signature": {mac(secret, body)}}}, 401},
		{"the other preset's header", request{"POST", "/hook/tea", body, http.Header{"Content-Type": j, "X-Hub-Signature-256": {"sha256=" + mac("another secret of the test", body)}}}, 401},
	} {
		if have := h.do(c.q); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	if have := h.published(); len(have) != 2 || !strings.Contains(string(have[0]), `"event":"push"`) {
		t.Errorf("have %s", have)
	}
	slack := start(t, folder(t), `{"hooks":[{"name":"s","preset":"slack"}]}`, "C", noProxy)
	now := strconv.FormatInt(slack.clock().Unix(), 10)
	q := request{"POST", "/hook/s", body, http.Header{"Content-Type": j, "X-Slack-Request-Timestamp": {now}, "X-Slack-Signature": {"v0=" + mac(secret, "v0:", now, ":", body)}}}
	if have := slack.do(q); have != 202 {
		t.Errorf("slack: have %d", have)
	}
	q.header["X-Slack-Request-Timestamp"] = []string{now, now}
	if have := slack.do(q); have != 401 {
		t.Errorf("slack, with two times: have %d", have)
	}
}

func TestRefusals(t *testing.T) {
	h := start(t, folder(t), hooks, "C", noProxy)
	for _, c := range []struct {
		name   string
		change func(*request)
		want   int
	}{
		{"another path", func(q *request) { q.path = "/" }, 404},
		{"an unknown hook", func(q *request) { q.path = "/hook/nobody" }, 404},
		{"a hook in another case", func(q *request) { q.path = "/hook/CI" }, 404},
		{"an escaped hook", func(q *request) { q.path = "/hook/c%69" }, 404},
		{"dots in the path", func(q *request) { q.path = "/hook/../hook/ci" }, 404},
		{"a query", func(q *request) { q.path += "?a=b" }, 404},
		{"GET", func(q *request) { q.method = "GET" }, 405},
		{"PUT", func(q *request) { q.method = "PUT" }, 405},
		{"no type", func(q *request) { q.header.Del("Content-Type") }, 415},
		{"a form", func(q *request) { q.header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		{"two types", func(q *request) { q.header.Add("Content-Type", "text/plain") }, 415},
		{"another charset", func(q *request) { q.header.Set("Content-Type", "text/plain; charset=utf-16") }, 415},
		{"a compressed body", func(q *request) { q.header.Set("Content-Encoding", "gzip") }, 415},
		// The client waits for leave to send the body: it is refused before, and a body
		// that comes after the refusal meets a closed connection.
		{"too much", func(q *request) { q.body = strings.Repeat("x", 64<<10+1); q.header.Set("Expect", "100-continue") }, 413},
		{"no signature", func(q *request) { q.header.Del("X-Nacre-Signature") }, 401},
		{"two signatures", func(q *request) { q.header.Add("X-Nacre-Signature", q.header.Get("X-Nacre-Signature")) }, 401},
		{"another body", func(q *request) { q.body += " " }, 401},
		{"a signature for the body alone", func(q *request) { q.sign("t=%d,v1=" + mac(secret, q.body)) }, 401},
		{"an empty signature", func(q *request) { q.sign("t=%d,v1=") }, 401},
		{"half a signature", func(q *request) { q.edit(func(s string) string { return s[:len(s)-2] }) }, 401},
		{"capitals", func(q *request) { q.edit(func(s string) string { return s[:13] + strings.ToUpper(s[13:]) }) }, 401},
		{"a space", func(q *request) { q.edit(func(s string) string { return strings.Replace(s, ",", ", ", 1) }) }, 401},
		{"a second part", func(q *request) { q.edit(func(s string) string { return s + ",v1=" + strings.Repeat("0", 64) }) }, 401},
		{"another order", func(q *request) {
			q.edit(func(s string) string { a, b, _ := strings.Cut(s, ","); return b + "," + a })
		}, 401},
		{"a time with a sign", func(q *request) { q.edit(func(s string) string { return "t=+" + s[2:] }) }, 401},
		{"a time with a zero", func(q *request) { q.edit(func(s string) string { return "t=0" + s[2:] }) }, 401},
		{"a time that is too large", func(q *request) { q.edit(func(s string) string { return "t=99999999999999999999" + s[12:] }) }, 401},
	} {
		q := generic(h, `{"a":1}`)
		c.change(&q)
		if have := h.do(q); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
	for name, body := range map[string]string{
		"a key twice": `{"a":1,"a":2}`, "a key twice below": `[{"b":{"a":1,"a":2}}]`, "two values": `{} {}`, "half": `{`, "nothing": ``, "bad UTF-8": "{\"a\":\"\xff\"}",
		"deep": strings.Repeat("[", 40) + strings.Repeat("]", 40), "an escaped key twice": `{"a":1,"\u0061":2}`,
	} {
		if have := h.do(generic(h, body)); have != 400 {
			t.Errorf("%s: have %d, want 400", name, have)
		}
	}
	if have := h.published(); len(have) > 0 {
		t.Errorf("published %s", have)
	}
}

func (q *request) sign(form string) {
	q.header.Set("X-Nacre-Signature", fmt.Sprintf(form, 1_800_000_000))
}

func (q *request) edit(change func(string) string) {
	q.header.Set("X-Nacre-Signature", change(q.header.Get("X-Nacre-Signature")))
}

func TestTheWindow(t *testing.T) {
	h := start(t, folder(t), hooks, "C", noProxy)
	for _, c := range []struct {
		pass time.Duration
		want int
	}{{0, 202}, {5 * time.Minute, 202}, {5*time.Minute + time.Second, 403}, {-5 * time.Minute, 202}, {-5*time.Minute - time.Second, 403}, {1000 * time.Hour, 403}} {
		q := generic(h, fmt.Sprintf(`{"n":%d}`, c.pass))
		h.later(c.pass)
		if have := h.do(q); have != c.want {
			t.Errorf("%s later: have %d, want %d", c.pass, have, c.want)
		}
		h.later(-c.pass)
	}
}

// A message counts once, over restarts too; one that was not taken may come again.
func TestReplays(t *testing.T) {
	dir := folder(t)
	h := start(t, dir, hooks, "C", noProxy)
	q := generic(h, `{"a":1}`)
	h.mu.Lock()
	h.full = true
	h.mu.Unlock()
	if have := h.do(q); have != 503 {
		t.Errorf("nobody takes it: have %d", have)
	}
	h.mu.Lock()
	h.full, h.unrouted = false, true
	h.mu.Unlock()
	if have := h.do(q); have != 404 {
		t.Errorf("no route takes it: have %d", have)
	}
	h.mu.Lock()
	h.unrouted = false
	h.mu.Unlock()
	if have, again := h.do(q), h.do(q); have != 202 || again != 403 {
		t.Errorf("have %d, then %d", have, again)
	}
	h.stop()
	next := start(t, dir, hooks, "C", noProxy)
	if have := next.do(q); have != 403 {
		t.Errorf("after a restart: have %d", have)
	}
	// Many at once: one of them is it.
	q = generic(next, `{"a":2}`)
	codes := make([]int, 16)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i] = next.do(q) })
	}
	all.Wait()
	won := 0
	for _, code := range codes {
		if code == 202 {
			won++
		}
	}
	if won != 1 || len(next.published()) != 1 {
		t.Errorf("have %v", codes)
	}
}

func TestTheRate(t *testing.T) {
	h := start(t, folder(t), hooks, "C", noProxy)
	for i := range 60 {
		if have := h.do(generic(h, strconv.Itoa(i))); have != 202 {
			t.Fatalf("message %d: have %d", i, have)
		}
	}
	q := generic(h, "60")
	if have := h.do(q); have != 429 {
		t.Errorf("have %d, want 429", have)
	}
	h.later(time.Second)
	if have := h.do(q); have != 202 {
		t.Errorf("a second later: have %d", have)
	}
}

// Clients that are slow, too many, or send what is no request.
func TestClientsThatMisbehave(t *testing.T) {
	h := start(t, folder(t), hooks, "C", noProxy)
	dial := func() net.Conn {
		conn, err := net.Dial("unix", h.socket())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	say := func(text string) string {
		conn := dial()
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, text); err != nil {
			return "closed"
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		said, _ := io.ReadAll(conn)
		return string(said)
	}
	for name, c := range map[string]struct{ text, want string }{
		"huge headers":    {"POST /hook/ci HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", " 431 "},
		"no request":      {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", " 400 "},
		"two lengths":     {"POST /hook/ci HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", " 400 "},
		"HTTP/2":          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", " 404 "},
		"half a header":   {"POST /hook/ci HTTP/1.1\r\nHos", ""},
		"a missing body":  {"POST /hook/ci HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nX-Nacre-Signature: t=1800000000,v1=" + strings.Repeat("0", 64) + "\r\nContent-Length: 5\r\n\r\nab", " 408 "},
		"a body in parts": {"POST /hook/ci HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nX-Nacre-Signature: t=1800000000,v1=" + strings.Repeat("0", 64) + "\r\nTransfer-Encoding: chunked\r\n\r\n" + "10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n1\r\nx\r\n0\r\n\r\n", " 413 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if have := say(c.text); !strings.Contains(have, c.want) {
				t.Errorf("have %.100q, want %s", have, c.want)
			}
		})
	}
	t.Run("many that say nothing", func(t *testing.T) {
		var open []net.Conn
		for range 300 {
			conn, err := net.DialTimeout("unix", h.socket(), time.Second)
			if err != nil {
				break // the queue is full, which is a limit too
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		if have := h.do(generic(h, `"after"`)); have != 202 {
			t.Errorf("have %d", have)
		}
	})
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"hooks":[{"name":"a"},{"name":"a","secret":"secret_2"}]}`: "CONFIG_ERROR", `{"hooks":[{"name":"a"},{"name":"b"}]}`: "CONFIG_ERROR",
		`{"hooks":[{"name":"A"}]}`: "CONFIG_ERROR", `{"hooks":[{"name":"a","preset":"x"}]}`: "CONFIG_ERROR",
		`{"hooks":[{"name":"a","reply_url":"ftp://x"}]}`: "CONFIG_ERROR", `{"hooks":[{"name":"a","reply_url":"https://u:p@x.test/"}]}`: "CONFIG_ERROR",
		`{"hooks":[{"name":"a","secret":"secret_3"}]}`: "AUTH_ERROR", `{"hooks":[{"name":"a","secret":"secret_4"}]}`: "AUTH_ERROR", `{}`: "", `{"hooks":[]}`: "",
	} {
		if have := start(t, folder(t), config, "C", noProxy).code(); have != want {
			t.Errorf("%s: have %q, want %q", config, have, want)
		}
	}
}

// A session's own handler leaves the socket to the one that serves the channel.
func TestOnlyTheServingHandlerListens(t *testing.T) {
	dir := folder(t)
	serving := start(t, dir, hooks, "C", noProxy)
	start(t, dir, hooks, "", noProxy).stop()
	if have := serving.do(generic(serving, "1")); have != 202 {
		t.Errorf("have %d", have)
	}
	// On a reload the new one takes over while the old one still runs.
	next := start(t, dir, hooks, "C", noProxy)
	serving.stop()
	if have := next.do(generic(next, "2")); have != 202 {
		t.Errorf("after a reload: have %d", have)
	}
	if have := next.do(generic(next, "1")); have != 403 {
		t.Errorf("a replay after a reload: have %d", have)
	}
	if info, err := os.Stat(next.socket()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
}

func (h *host) tool(args string) string {
	h.t.Helper()
	payload := json.RawMessage(`{"arguments":` + args + `}`)
	m := h.Ask(plugin.MethodHandleRequest, plugin.RequestParams{Ticket: "T", TimeoutMS: 30_000, Envelope: plugin.Envelope{
		Topic: "tool.invoke.send_webhook", Group: nacre.Group("family"), Payload: payload,
	}})
	if m.Error != nil {
		return m.Error.Message + string(m.Error.Data)
	}
	return string(m.Result)
}

func TestSending(t *testing.T) {
	var mu sync.Mutex
	var got []http.Header
	status := []int{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		parts := strings.Split(r.Header.Get("X-Nacre-Signature"), ",v1=")
		if err != nil || len(parts) != 2 || parts[1] != mac(secret, strings.TrimPrefix(parts[0], "t="), ".", string(body)) || !bytes.Contains(body, []byte(`"from":"family","to":"ci","body":"hello"`)) {
			t.Errorf("%s %s", r.Header, body)
		}
		got = append(got, r.Header)
		code := 200
		if len(status) > 0 {
			code, status = status[0], status[1:]
		}
		if code == 403 {
			w.Header().Set("X-Nacre-Reason", "not_listed")
		}
		if code == 302 {
			w.Header().Set("Location", "http://evil.test/")
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(proxy.Close)
	h := start(t, folder(t), hooks, "", func(string) string { return proxy.URL })
	for _, c := range []struct {
		status []int
		want   string
		tries  int
	}{
		{nil, `"status":"sent"`, 1}, {[]int{503, 429}, `"status":"sent"`, 3}, {[]int{500, 500, 500, 500}, `"retriable":true`, 3},
		{[]int{404}, `did not take it (HTTP 404)`, 1}, {[]int{403}, `hosts in [access.webhook]`, 1}, {[]int{302}, `HTTP 302`, 1},
	} {
		mu.Lock()
		got, status = nil, c.status
		mu.Unlock()
		if have := h.tool(`{"recipient":"ci","body":"hello"}`); !strings.Contains(have, c.want) || len(got) != c.tries {
			t.Errorf("%v: have %s after %d", c.status, have, len(got))
		}
		for _, header := range got {
			if id := header.Get("Idempotency-Key"); id == "" || id != got[0].Get("Idempotency-Key") {
				t.Errorf("keys differ: %s", id)
			}
		}
	}
	for args, want := range map[string]string{`{"recipient":"hub","body":"x"}`: "UNKNOWN_RECIPIENT", `{"recipient":"http://x","body":"x"}`: "UNKNOWN_RECIPIENT"} {
		if have := h.tool(args); !strings.Contains(have, want) {
			t.Errorf("%s: have %s", args, have)
		}
	}
	none := start(t, folder(t), hooks, "", noProxy)
	if have := none.tool(`{"recipient":"ci","body":"hello"}`); !strings.Contains(have, "HOST_DENIED") {
		t.Errorf("have %s", have)
	}
}

// What was taken is kept in a file of bounded size, whatever happened to it.
func TestSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen")
	id := func(i int) string { return fmt.Sprintf("%064d", i) }
	if err := os.WriteFile(path, []byte("garbage\n+short\n+"+id(1)+"\n+"+id(2)[:30]), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := webhook.OpenSeen(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := webhook.OpenSeen(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		of   *webhook.Seen
		id   int
		want bool
	}{{a, 1, false}, {a, 2, true}, {b, 2, false}, {b, 3, true}, {a, 3, false}} {
		if have, err := c.of.Take(id(c.id)); err != nil || have != c.want {
			t.Errorf("step %d: have %v %v", i, have, err)
		}
	}
	if err := a.GiveBack(id(3)); err != nil {
		t.Fatal(err)
	}
	if have, err := b.Take(id(3)); err != nil || !have {
		t.Errorf("what was given back: have %v %v", have, err)
	}
	var lines bytes.Buffer
	for i := range 20_100 {
		lines.WriteString("+" + id(i+10) + "\n")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(lines.Bytes()); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	for i, c := range []struct {
		of   *webhook.Seen
		id   int
		want bool
	}{{a, 99_999, true}, {b, 99_999, false}, {b, 20_000, false}, {b, 99_998, true}, {a, 99_998, false}} { // the first writes it anew
		if have, err := c.of.Take(id(c.id)); err != nil || have != c.want {
			t.Errorf("after it was full, step %d: have %v %v", i, have, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 15_000*66 {
		t.Errorf("have %d bytes, %v", info.Size(), err)
	}
	_, _ = a.Close(), b.Close()
}

// A body that is taken for JSON is JSON to any reader.
func FuzzStrictJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":1,"a":2}`, `[`, `1 2`, `"\ud800"`, `{"a":{"b":[null,true]}}`} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if webhook.IsStrictJSON(data) && !json.Valid(data) {
			t.Errorf("%q is no JSON", data)
		}
	})
}
