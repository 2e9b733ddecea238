package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// theSecret is what no sandbox may see.
const theSecret = "n0t-in-here/7Qz+9xWv%3D"

// vault is a host that a credential is for, behind a proxy that opens it.
type vault struct {
	socket string
	log    *ledger
	proxy  *egress.Proxy
	pool   *x509.CertPool
	// revoked takes back what the session was granted.
	revoked atomic.Bool
	// lost is the name of the credential that was.
	lost atomic.Value
	// arrived tells of requests whose bodies have not been read yet.
	arrived chan string

	mu  sync.Mutex
	got []received
}

type received struct {
	method, target, host, proto string
	header                      http.Header
	body                        string
}

// thePlaceholder stands inside for the credential.
const thePlaceholder = "nacre-placeholder-0123456789abcdef0123456789abcdef"

// newVault serves handler behind the credential; change edits it.
// beside are further credentials, made of that one.
func newVault(t testing.TB, handler http.HandlerFunc, change func(*egress.Credential), beside ...func(*egress.Credential)) *vault {
	t.Helper()
	v := &vault{log: newLedger(), arrived: make(chan string, 16)}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case v.arrived <- r.URL.Path:
		default:
		}
		body, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		v.got = append(v.got, received{r.Method, r.RequestURI, r.Host, r.Proto, r.Header.Clone(), string(body)})
		v.mu.Unlock()
		if handler != nil {
			handler(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.Path, len(body))
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c := credential(srv)
	if change != nil {
		change(&c)
	}
	all := []egress.Credential{c}
	for _, other := range beside {
		c := credential(srv)
		other(&c)
		all = append(all, c)
	}
	for i, c := range all {
		all[i].Lost = func(time.Time) bool { return v.lost.Load() == c.Name }
	}
	authority, err := egress.NewAuthority([]string{"example.com"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	v.pool = x509.NewCertPool()
	v.pool.AppendCertsFromPEM(authority.PEM())
	v.proxy, v.socket = start(t, egress.Options{
		Rules:  []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))},
		Record: v.log, Credentials: all, Authority: authority, Inspect: egress.Inspection{Placeholders: []string{thePlaceholder}}, Revoked: egress.Revocation{All: v.revoked.Load},
	})
	return v
}

func credential(srv *httptest.Server) egress.Credential {
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return egress.Credential{
		Name: "hub", Host: "example.com", Port: 443, Methods: []string{"GET", "HEAD", "POST"}, Paths: []string{"/repos/acme/", "/user"},
		Scheme: egress.SchemeBearer, Header: "Authorization", Roots: roots, Source: egress.Source{Material: fixed(theSecret)},
	}
}

func fixed(value string) func(context.Context) (egress.Material, error) {
	return func(context.Context) (egress.Material, error) {
		return egress.Material{Value: nacre.NewSecret(value)}, nil
	}
}

func (v *vault) requests() []received {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]received(nil), v.got...)
}

// client speaks through the proxy, and trusts the session's authority alone.
func (v *vault) client(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.invalid"}), ForceAttemptHTTP2: http2,
		TLSClientConfig: &tls.Config{RootCAs: v.pool}, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", v.socket) },
	}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 20 * time.Second}
}

// raw opens a TLS connection through the proxy and gives it to be written to by hand.
func (v *vault) raw(t testing.TB, protocols ...string) *tls.Conn {
	t.Helper()
	conn := dial(t, v.socket)
	_, _ = io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
	line := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(conn, line); err != nil {
		t.Fatal(err)
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: v.pool, ServerName: "example.com", NextProtos: protocols})
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secure
}

// say sends a request as it is written and gives the status of one answer.
func (v *vault) say(t testing.TB, text string) int {
	t.Helper()
	conn := v.raw(t)
	_, _ = io.WriteString(conn, text)
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // cut or not
	_ = resp.Body.Close()
	return resp.StatusCode
}

func bothVersions(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { test(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { test(t, true) })
}

// M-22: the proxy adds the credential, takes what the agent sets for one away,
// and everything else goes as it was sent.
func TestTheCredentialIsAddedOutside(t *testing.T) {
	bothVersions(t, func(t *testing.T, http2 bool) {
		v := newVault(t, nil, nil)
		req, _ := http.NewRequest("POST", "https://example.com/repos/acme/a%20b@c%2Fd?access_token=mine&q=1&x=a%2Bb", strings.NewReader("hello"))
		for name, value := range map[string]string{
			"Authorization": "Bearer mine", "Cookie": "session=mine", "X-Api-Key": "mine", "Private-Token": "mine", "X-Auth-User": "mine",
			"Proxy-Authorization": "mine", "X-Plain": "kept", "User-Agent": "tool/1", "Accept-Encoding": "gzip",
		} {
			req.Header.Set(name, value)
		}
		resp, err := v.client(t, http2).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || string(body) != "POST /repos/acme/a b@c/d 5" {
			t.Fatalf("have %d %q", resp.StatusCode, body)
		}
		if http2 != (resp.ProtoMajor == 2) {
			t.Errorf("inside it is %s", resp.Proto)
		}
		got := v.requests()[0]
		if got.target != "/repos/acme/a%20b@c%2Fd?q=1&x=a%2Bb" || got.host != "example.com" || got.body != "hello" || got.proto != "HTTP/2.0" {
			t.Errorf("the host got %+v", got)
		}
		if have := got.header.Get("Authorization"); have != "Bearer "+theSecret {
			t.Errorf("it got %q", have)
		}
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, ""), "mine") {
				t.Errorf("%s: %s went through", name, values)
			}
		}
		if got.header.Get("X-Plain") != "kept" || got.header.Get("User-Agent") != "tool/1" || got.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("headers: %v", got.header)
		}
	})
}

// M-23: each request is in the records, without its query and without the credential.
func TestEachRequestIsRecorded(t *testing.T) {
	v := newVault(t, nil, nil)
	client := v.client(t, true)
	for range 2 {
		resp, err := client.Post("https://example.com/user?q=private", "", strings.NewReader("12345"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	client.CloseIdleConnections()
	v.log.await(t, egress.OutcomeClosed, 1)
	want := `{"host":"example.com","port":443,"method":"POST","path":"/user","status":200,"credential":"hub","opened":true,"bytes_sent":5,"bytes_received":12}`
	for _, r := range v.log.await(t, egress.OutcomeAnswered, 2) {
		if string(r.Detail) != want {
			t.Errorf("have %s", r.Detail)
		}
	}
	if n := len(v.log.find(nacre.OutcomeAllowed)); n != 3 {
		t.Errorf("%d decisions, want the connection's and two requests'", n)
	}
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	for _, r := range v.log.records {
		if text := string(r.Detail) + r.Reason; strings.Contains(text, theSecret) || strings.Contains(text, "private") {
			t.Errorf("a record tells too much: %s", text)
		}
	}
}

// K-21: no record, no effect.
func TestWithoutARecordNothingIsSent(t *testing.T) {
	v := newVault(t, nil, nil)
	conn := v.raw(t)
	v.log.mu.Lock()
	v.log.fail = true
	v.log.mu.Unlock()
	_, _ = io.WriteString(conn, "GET /user HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if answer := status(t, conn); answer.code != 503 || len(v.requests()) != 0 {
		t.Errorf("have %d, and the host got %d requests", answer.code, len(v.requests()))
	}
}

// encodings are what a secret may look like in an answer.
func encodings() map[string]string {
	full := ""
	escaped := ""
	for _, c := range []byte(theSecret) {
		full += fmt.Sprintf("%%%02x", c)
		escaped += fmt.Sprintf(`\u%04X`, c)
	}
	b64 := base64.StdEncoding
	return map[string]string{
		"as it is":                     theSecret,
		"percent, what must be":        url.QueryEscape(theSecret),
		"percent, all":                 full,
		"percent, upper case":          strings.ToUpper(full),
		"percent, some":                "%6e0%74" + theSecret[3:],
		"JSON":                         escaped,
		"JSON, slashes":                strings.ReplaceAll(theSecret, "/", `\/`),
		"hexadecimal":                  hex.EncodeToString([]byte(theSecret)),
		"hexadecimal, upper case":      strings.ToUpper(hex.EncodeToString([]byte(theSecret))),
		"base64":                       b64.EncodeToString([]byte(theSecret)),
		"base64, after one byte":       b64.EncodeToString([]byte("x" + theSecret + "tail")),
		"base64, after two bytes":      b64.EncodeToString([]byte("xy" + theSecret)),
		"base64, the URL's":            base64.RawURLEncoding.EncodeToString([]byte("{\"t\":\"" + theSecret + "\"}")),
		"base64, in lines":             strings.Join(strings.Split(b64.EncodeToString([]byte("abc"+theSecret)), "d"), "d\r\n"),
		"base64, escaped":              url.QueryEscape(b64.EncodeToString([]byte("??>" + theSecret + "??>"))),
		"base64, in lines of JSON":     lined(b64.EncodeToString([]byte("token: "+theSecret+" ~~~")), 12, `\n`),
		"base64, slashes escaped":      strings.ReplaceAll(b64.EncodeToString([]byte("???"+theSecret)), "/", `\/`),
		"HTML, what must be":           html.EscapeString(theSecret),
		"HTML, all in decimal":         entities("&#%d;"),
		"HTML, all in hexadecimal":     entities("&#x%X;"),
		"HTML, by name":                strings.NewReplacer("/", "&sol;", "+", "&plus;").Replace(theSecret),
		"UTF-16":                       "\xff\xfe" + lined(theSecret, 1, "\x00"),
		"after a beginning that fails": theSecret[:9] + theSecret,
	}
}

func entities(format string) string {
	var b strings.Builder
	for _, c := range []byte(theSecret) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// lined ends a line after each n characters.
func lined(text string, n int, end string) string {
	var b strings.Builder
	for ; len(text) > n; text = text[n:] {
		b.WriteString(text[:n] + end)
	}
	return b.String() + text
}

// M-22: what holds the credential cannot be had in parts either.
func TestTheCredentialDoesNotArriveInParts(t *testing.T) {
	before := strings.Repeat("some text, ", 100)
	for name, text := range map[string]string{
		"as it is": theSecret, "base64": base64.RawStdEncoding.EncodeToString([]byte(theSecret)), "hexadecimal": hex.EncodeToString([]byte(theSecret)),
		"base64 in lines": lined(base64.RawStdEncoding.EncodeToString([]byte(theSecret)), 10, "\r\n"),
	} {
		v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(before+text+before))
		}, nil)
		client := v.client(t, true)
		begin, end := len(before), len(before)+len(text)
		for what, c := range map[string]struct {
			ranges string
			want   int
		}{
			"the text before it":  {fmt.Sprintf("bytes=0-%d", begin-1), 206},
			"the text behind it":  {fmt.Sprintf("bytes=%d-", end), 206},
			"the end of the text": {"bytes=-8", 206},
			"the first byte":      {"bytes=0-0", 206},
			"its first half":      {fmt.Sprintf("bytes=0-%d", begin+len(text)/2), 502},
			"its second half":     {fmt.Sprintf("bytes=%d-", begin+len(text)/2), 502},
			"its middle":          {fmt.Sprintf("bytes=%d-%d", begin+5, begin+14), 502},
			"one byte of it":      {fmt.Sprintf("bytes=%d-%d", begin+5, begin+5), 502},
			"two parts at once":   {fmt.Sprintf("bytes=0-9,%d-%d", begin, begin+9), 502},
		} {
			req, _ := http.NewRequest("GET", "https://example.com/user", nil)
			req.Header.Set("Range", c.ranges)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if c.want == 206 && (resp.StatusCode != 206 || err != nil || len(body) == 0) {
				t.Errorf("%s: %s: have %d %v", name, what, resp.StatusCode, err)
			}
			if c.want == 502 && (resp.StatusCode != 502 && err == nil || len(body) > 0 && strings.Contains(text, string(body[max(0, len(body)-leastShown):]))) {
				t.Errorf("%s: %s: have %d %q", name, what, resp.StatusCode, body)
			}
		}
	}
}

// M-22: a part that begins in the middle of the credential does not arrive, however its text is
// written and wherever in it an escape is cut.
func TestTheCredentialDoesNotArriveInPartsOfEscapes(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]string{"percent": "%%%02x", "JSON": `\u%04x`, "HTML": "&#x%02x;", "UTF-16": "%c\x00", "hexadecimal in text": `\x%02X`} {
		var text string
		for _, c := range []byte(theSecret) {
			text += fmt.Sprintf(write, c)
		}
		each, before := len(text)/len(theSecret), "some text, "
		v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(before+text+strings.Repeat(" and more", 100)))
		}, nil)
		client := v.client(t, true)
		for at := 1; at < len(text)-leastShown*each; at++ {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/user", nil)
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", len(before)+at))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s, from byte %d: have %d", name, at, resp.StatusCode)
			}
		}
	}
}

// M-22: an answer that is a part is taken for one in whatever way it says so.
func TestAPartIsToldInAnyForm(t *testing.T) {
	t.Parallel()
	rest := theSecret[len(theSecret)/2:] + strings.Repeat(" and more", 100)
	for name, c := range map[string]struct {
		status  int
		headers http.Header
	}{
		"a part":                      {206, http.Header{"Content-Range": {"bytes 500-1500/9000"}}},
		"without its range":           {206, http.Header{}},
		"as if it were whole":         {200, http.Header{"Content-Range": {"bytes 500-1500/9000"}}},
		"with two ranges":             {206, http.Header{"Content-Range": {"bytes 0-9/9000", "bytes 500-1500/9000"}}},
		"a type that nobody can read": {206, http.Header{"Content-Range": {"bytes 0-9/9000"}, "Content-Type": {"multipart/byteranges; boundary=a; boundary=a"}}},
		"a type in other letters":     {206, http.Header{"Content-Range": {"bytes 0-9/9000"}, "Content-Type": {"MULTIPART/byteranges"}}},
		"a change to another text":    {226, http.Header{"Im": {"range"}}},
	} {
		v := newVault(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range c.headers {
				w.Header()[name] = values
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, rest)
		}, nil)
		resp, err := v.client(t, true).Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: have %d", name, resp.StatusCode)
		}
	}
}

// M-22: what ends with the connection ends there in what follows an answer, too.
func TestTrailersBringNoCookie(t *testing.T) {
	t.Parallel()
	v := newVault(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "text")
		for _, name := range []string{"Set-Cookie", "Alt-Svc", "Grpc-Status"} {
			w.Header()[http.TrailerPrefix+name] = []string{"x"}
		}
	}, nil)
	resp, err := v.client(t, true).Get("https://example.com/user")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.Trailer.Get("Set-Cookie")+resp.Trailer.Get("Alt-Svc") != "" || resp.Trailer.Get("Grpc-Status") != "x" {
		t.Errorf("have %v", resp.Trailer)
	}
}

// leastShown is how much of the credential may be seen at the end of a part.
const leastShown = 4

// M-22: answers are searched for the credential, across chunks, in headers too.
func TestAnAnswerWithTheCredentialDoesNotArrive(t *testing.T) {
	for name, text := range encodings() {
		for _, size := range []int{1, 7, 1 << 20} {
			handler := func(w http.ResponseWriter, r *http.Request) {
				whole := "before " + text + " after"
				for len(whole) > 0 {
					n := min(size, len(whole))
					_, _ = io.WriteString(w, whole[:n])
					w.(http.Flusher).Flush()
					whole = whole[n:]
				}
			}
			v := newVault(t, handler, nil)
			for _, http2 := range []bool{false, true} {
				resp, err := v.client(t, http2).Get("https://example.com/user")
				if err != nil {
					continue // cut before its head
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode == 200 || strings.Contains(string(body), text) || strings.Contains(string(body), "after") {
					t.Errorf("%s in pieces of %d (HTTP/2 %v): %d %q %v", name, size, http2, resp.StatusCode, body, err)
				}
			}
			for _, r := range v.log.await(t, egress.OutcomeAnswered, 2) {
				if r.Reason != string(egress.ReasonLeak) {
					t.Errorf("%s in pieces of %d: the record says %q", name, size, r.Reason)
				}
			}
		}
	}
}

func TestAHeaderWithTheCredentialDoesNotArrive(t *testing.T) {
	for name, text := range encodings() {
		if strings.ContainsAny(text, "\r\n\x00") {
			continue
		}
		v := newVault(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Echo", text) }, nil)
		resp, err := v.client(t, true).Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 502 || resp.Header.Get("X-Echo") != "" {
			t.Errorf("%s: have %d %v", name, resp.StatusCode, resp.Header)
		}
	}
}

// M-23: what is said in place of an answer arrives whole, framed as itself, and with
// nothing of the answer's head.
func TestARefusedAnswerIsExplainedWhole(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a short answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, theSecret) },
		"a long answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "20000")
			_, _ = io.WriteString(w, theSecret+strings.Repeat("x", 20_000-len(theSecret)))
		},
	} {
		bothVersions(t, func(t *testing.T, http2 bool) {
			v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=3600")
				w.Header().Set("Etag", `"a"`)
				handler(w, r)
			}, nil)
			client := v.client(t, http2)
			for range 2 {
				resp, err := client.Get("https://example.com/user")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != 502 || !strings.HasSuffix(string(body), "(credential_in_answer)\n") {
					t.Errorf("%s: have %d %q, %v", name, resp.StatusCode, body, err)
				}
				if resp.Header.Get("Etag") != "" || resp.Header.Get("Cache-Control") != "" {
					t.Errorf("%s: have %v", name, resp.Header)
				}
			}
		})
	}
}

// M-22: what the host is sent is not the value alone, and what it sends back of
// that may be encoded once more.
func TestWhatWasSentDoesNotComeBackEncoded(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + theSecret))
	for name, c := range map[string]struct {
		change func(*egress.Credential)
		sent   string
	}{
		"a user and a password": {func(c *egress.Credential) { c.Scheme, c.User = egress.SchemeBasic, "me" }, basic},
		"a parameter":           {func(c *egress.Credential) { c.Scheme, c.Header, c.Query = egress.SchemeQuery, "", "key" }, url.QueryEscape(theSecret)},
	} {
		for how, text := range map[string]string{
			"base64": base64.StdEncoding.EncodeToString([]byte("x: " + c.sent)), "hexadecimal": hex.EncodeToString([]byte(c.sent)),
			"percent": url.QueryEscape(c.sent),
		} {
			v := newVault(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{"+text+"}") }, c.change)
			resp, err := v.client(t, true).Get("https://example.com/user")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 502 {
				t.Errorf("%s in %s: have %d", name, how, resp.StatusCode)
			}
		}
	}
}

// M-22: the name of a header arrives in other letters than it was sent in.
func TestAHeaderNamedAfterTheCredentialDoesNotArrive(t *testing.T) {
	const secret = "sEcReT-t0ken_in.aName"
	for name, handler := range map[string]http.HandlerFunc{
		"as it is":      func(w http.ResponseWriter, _ *http.Request) { w.Header()["X-"+secret] = []string{"1"} },
		"without a tag": func(w http.ResponseWriter, _ *http.Request) { w.Header()[secret] = []string{"1"} },
		"in a trailer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "body")
			w.Header()[http.TrailerPrefix+secret] = []string{"1"}
		},
	} {
		bothVersions(t, func(t *testing.T, http2 bool) {
			v := newVault(t, handler, func(c *egress.Credential) { c.Material = fixed(secret) })
			resp, err := v.client(t, http2).Get("https://example.com/user")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if text := strings.ToLower(fmt.Sprint(resp.Header, resp.Trailer)); strings.Contains(text, strings.ToLower(secret)) {
				t.Errorf("%s: it arrived: %s", name, text)
			}
			if have := v.log.await(t, egress.OutcomeAnswered, 1)[0].Reason; have != string(egress.ReasonLeak) {
				t.Errorf("%s: recorded as %s", name, have)
			}
		})
	}
}

// M-22: what is compressed within a body cannot be searched.
func TestAnAnswerOfCompressedMessagesIsRefused(t *testing.T) {
	for _, name := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		for coding, want := range map[string]int{"gzip": 502, "zstd": 502, "identity": 200} {
			v := newVault(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(name, coding)
				_, _ = io.WriteString(w, "\x01\x00\x00\x00\x05hello")
			}, nil)
			req, _ := http.NewRequest("POST", "https://example.com/user", nil)
			req.Header.Set("Grpc-Accept-Encoding", "gzip")
			req.Header.Set("Connect-Accept-Encoding", "gzip")
			resp, err := v.client(t, true).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := v.requests()[0].header; resp.StatusCode != want || got.Get("Grpc-Accept-Encoding")+got.Get("Connect-Accept-Encoding") != "" {
				t.Errorf("%s: %s: have %d, the host got %v", name, coding, resp.StatusCode, got)
			}
		}
	}
}

func TestACompressedAnswerIsSearched(t *testing.T) {
	compressed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	for _, c := range []struct {
		coding, body string
		status       int
		want         string
	}{
		{"gzip", compressed("plain"), 200, "plain"},
		{"gzip", compressed(theSecret), 502, ""},
		{"br", "anything", 502, ""},
		{"gzip, gzip", compressed(compressed("x")), 502, ""},
		{"gzip", "not gzip", 502, ""},
		{"identity", "plain", 200, "plain"},
	} {
		v := newVault(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", c.coding)
			_, _ = io.WriteString(w, c.body)
		}, nil)
		resp, err := v.client(t, true).Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || c.want != "" && string(body) != c.want || strings.Contains(string(body), theSecret) {
			t.Errorf("%s of %q: %d %q", c.coding, c.body, resp.StatusCode, body)
		}
	}
}

// A stream of events is not held up by the search.
func TestEventsArriveAsTheyAreSent(t *testing.T) {
	bothVersions(t, func(t *testing.T, http2 bool) {
		next := make(chan struct{})
		v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "data: %d b\n\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
		}, nil)
		resp, err := v.client(t, http2).Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewReader(resp.Body)
		for i := range 3 {
			for _, want := range []string{fmt.Sprintf("data: %d b\n", i), "\n"} {
				if line, err := lines.ReadString('\n'); line != want {
					t.Fatalf("have %q, %v", line, err)
				}
			}
			next <- struct{}{}
		}
	})
}

// The credential stays with its host: a redirect is the client's to follow, as a request of its own.
func TestARedirectIsNotFollowed(t *testing.T) {
	v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example/", http.StatusFound)
	}, nil)
	resp, err := v.client(t, true).Get("https://example.com/user")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "https://evil.example/" || len(v.requests()) != 1 {
		t.Errorf("have %d to %s", resp.StatusCode, resp.Header.Get("Location"))
	}
}

func TestAHostThatIsNotVerifiedIsNotReached(t *testing.T) {
	v := newVault(t, nil, func(c *egress.Credential) { c.Roots = nil })
	resp, err := v.client(t, true).Get("https://example.com/user")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 502 || resp.Header.Get("X-Nacre-Reason") != string(egress.ReasonCertificate) || len(v.requests()) != 0 {
		t.Errorf("have %d %s", resp.StatusCode, resp.Header.Get("X-Nacre-Reason"))
	}
}

func TestWithoutAValueNothingIsSent(t *testing.T) {
	for name, material := range map[string]func(context.Context) (egress.Material, error){
		"expired":   func(context.Context) (egress.Material, error) { return egress.Material{}, errors.New("it expired") },
		"missing":   fixed(""),
		"short":     fixed("1234567"),
		"two lines": fixed("12345678\r\nX-Evil: 1"),
	} {
		v := newVault(t, nil, func(c *egress.Credential) { c.Material = material })
		resp, err := v.client(t, true).Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 503 || len(v.requests()) != 0 {
			t.Errorf("%s: have %d", name, resp.StatusCode)
		}
	}
}

// The schemes put the value where their hosts read it.
func TestSchemes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*egress.Credential)
		want   func(received) bool
	}{
		{"basic with a user", func(c *egress.Credential) { c.Scheme, c.User = egress.SchemeBasic, "x-access-token" }, func(r received) bool {
			return r.header.Get("Authorization") == "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+theSecret))
		}},
		{"basic with a pair", func(c *egress.Credential) { c.Scheme, c.Material = egress.SchemeBasic, fixed("me:"+theSecret) }, func(r received) bool {
			return r.header.Get("Authorization") == "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+theSecret))
		}},
		{"raw", func(c *egress.Credential) { c.Scheme, c.Header = egress.SchemeRaw, "X-Vault" }, func(r received) bool {
			return r.header.Get("X-Vault") == theSecret && len(r.header["X-Vault"]) == 1 && r.header.Get("Authorization") == ""
		}},
		{"query", func(c *egress.Credential) { c.Scheme, c.Header, c.Query = egress.SchemeQuery, "", "key" }, func(r received) bool {
			return r.target == "/user?a=b&key="+url.QueryEscape(theSecret)
		}},
	} {
		v := newVault(t, nil, c.change)
		req, _ := http.NewRequest("GET", "https://example.com/user?a=b&KEY=mine&k%65y=mine", nil)
		if c.name != "query" {
			req.URL.RawQuery = ""
		}
		req.Header.Set("X-Vault", "mine")
		resp, err := v.client(t, true).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := v.requests(); len(got) != 1 || !c.want(got[0]) {
			t.Errorf("%s: %d, the host got %+v", c.name, resp.StatusCode, got)
		}
	}
}

// Uploads are streamed, an early answer ends them, and one connection carries many requests.
func TestBodiesAreStreamed(t *testing.T) {
	bothVersions(t, func(t *testing.T, http2 bool) {
		v := newVault(t, nil, nil)
		client := v.client(t, http2)
		for _, sized := range []bool{true, false} {
			var body io.Reader = bytes.NewReader(make([]byte, 8<<20))
			if !sized {
				body = io.MultiReader(body)
			}
			resp, err := client.Post("https://example.com/user", "application/octet-stream", body)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(text) != fmt.Sprintf("POST /user %d", 8<<20) {
				t.Errorf("have %q", text)
			}
		}
		client.CloseIdleConnections()
		if have := len(v.log.await(t, egress.OutcomeClosed, 1)); have != 1 {
			t.Errorf("%d connections", have)
		}
	})
}

func TestExpectContinue(t *testing.T) {
	v := newVault(t, nil, nil)
	conn := v.raw(t)
	_, _ = io.WriteString(conn, "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("have %q %v", line, err)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, "hello")
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("have %v %v", resp, err)
	}
	_ = resp.Body.Close()
	// A request that is refused is not asked for its body.
	code := v.say(t, "POST /elsewhere HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if code != 403 {
		t.Errorf("have %d", code)
	}
}

// M-22: the parameter that the value goes into is the operator's alone, however
// its name is written.
func TestTheCredentialsParameterIsTheOperators(t *testing.T) {
	for _, name := range []string{"app.key", "app_key", "APP.key", "app%2ekey", "app[key", "app+key", "app.key[]"} {
		v := newVault(t, nil, func(c *egress.Credential) { c.Scheme, c.Header, c.Query = egress.SchemeQuery, "", "app.key" })
		resp, err := v.client(t, true).Get("https://example.com/user?a=1&" + name + "=mine&b=2")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := v.requests(); len(got) != 1 || strings.Contains(got[0].target, "mine") || !strings.HasSuffix(got[0].target, "&app.key="+url.QueryEscape(theSecret)) {
			t.Errorf("%s: the host got %+v", name, got)
		}
	}
}
