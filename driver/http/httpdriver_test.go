package httpdriver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	httpdriver "github.com/nacre-dev/nacre/driver/http"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// here lets a driver reach the servers of these tests.
func here() httpdriver.Options {
	return httpdriver.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Cleartext: true}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func open(t *testing.T, e httpdriver.Endpoint, o httpdriver.Options) *httpdriver.Driver {
	t.Helper()
	if e.Method == "" {
		e.Method = "GET"
	}
	d, err := httpdriver.New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.CloseIdle)
	return d
}

func do(d *httpdriver.Driver, arguments string) (string, error) {
	raw, err := d.Do(context.Background(), nacre.Invocation{Arguments: json.RawMessage(arguments)})
	return string(raw), err
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	told, _ := json.Marshal(r.Method + " " + r.RequestURI + " " + r.Header.Get("Content-Type") + " " + string(body))
	answer(w, string(told))
}

func TestArgumentsFillTheirPlaces(t *testing.T) { // K-13
	base := serve(t, echo)
	for _, c := range []struct{ name, method, path, body, arguments, want string }{
		{"nothing to fill", "GET", "", "", ``, "GET /  "},
		{"a path", "GET", "/users/{id}/notes", "", `{"id":7}`, "GET /users/7/notes  "},
		{"a number as written", "GET", "/n/{id}", "", `{"id":12345678901234567890}`, "GET /n/12345678901234567890  "},
		{"a slash is escaped", "GET", "/p/{id}", "", `{"id":"group/project"}`, "GET /p/group%2Fproject  "},
		{"what would end the path is escaped", "GET", "/p/{id}", "", `{"id":"a?b#c%2e&d e"}`, "GET /p/a%3Fb%23c%252e&d%20e  "},
		{"two places in a segment", "GET", "/{a}-{b}.json", "", `{"a":"x","b":"y"}`, "GET /x-y.json  "},
		{"a query", "GET", "/s?fixed=1&q={q}", "", `{"q":"a&fixed=2#é"}`, "GET /s?fixed=1&q=a%26fixed%3D2%23%C3%A9  "},
		{"an absent parameter is left out", "GET", "/s?q={q}&limit={limit}", "", `{"limit":5}`, "GET /s?limit=5  "},
		{"a list is repeated", "GET", "/s?tag={tags}", "", `{"tags":["a","b",3]}`, "GET /s?tag=a&tag=b&tag=3  "},
		{"a place within a parameter", "GET", "/s?q=user:{u}", "", `{"u":"x y"}`, "GET /s?q=user%3Ax+y  "},
		{"a body of the rest", "POST", "/u/{id}", `"{*}"`, `{"id":"1","name":"n","deep":{"a":[1.0]}}`, `POST /u/1 application/json {"deep":{"a":[1.0]},"name":"n"}`},
		{"a body's places", "PUT", "/u", `{"fixed":1.50,"text":"{text}","gone":"{gone}","in":[{"n":"{n}"}]}`, `{"text":"<a>\"","n":null}`, `PUT /u application/json {"fixed":1.50,"in":[{"n":null}],"text":"<a>\""}`},
		{"a body's places do not nest", "POST", "/u", `{"a":"{a}","b":"{b}"}`, `{"a":"{b}","b":"x"}`, `POST /u application/json {"a":"{b}","b":"x"}`},
		{"a DELETE without a body", "DELETE", "/u/{id}", "", `{"id":true}`, "DELETE /u/true  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, httpdriver.Endpoint{Method: c.method, URL: base + c.path, Body: json.RawMessage(c.body)}, here())
			raw, err := do(d, c.arguments)
			var have string
			_ = json.Unmarshal([]byte(raw), &have)
			if have != c.want || err != nil {
				t.Errorf("have %s, %v\nwant %s", have, err, c.want)
			}
		})
	}
}

func TestArgumentsThatDoNotFitAreRefusedBeforeAnythingIsSent(t *testing.T) { // K-13
	base := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the service was reached") })
	for _, c := range []struct{ name, path, arguments string }{
		{"a missing path argument", "/u/{id}", `{}`},
		{"an empty one", "/u/{id}/x", `{"id":""}`},
		{"null", "/u/{id}", `{"id":null}`},
		{"an object", "/u/{id}", `{"id":{"a":1}}`},
		{"a list in a path", "/u/{id}", `{"id":[1]}`},
		{"a list of lists in a query", "/u?id={id}", `{"id":[[1]]}`},
		{"a step up", "/u/{id}/x", `{"id":".."}`},
		{"a step on the spot", "/u/{id}", `{"id":"."}`},
		{"a step up behind a slash", "/u/{id}", `{"id":"a/../../admin"}`},
		{"a step up behind a backslash", "/u/{id}", `{"id":"..\\admin"}`},
		{"a step up escaped", "/u/{id}", `{"id":"%2e%2e"}`},
		{"a step up escaped twice", "/u/{id}", `{"id":"%252e%252e%252fadmin"}`},
		{"a step up with a parameter", "/u/{id}", `{"id":"..;a=b"}`},
		{"a step made of two places", "/u/{a}{b}", `{"a":".","b":"."}`},
		{"a step made with the template", "/u/.{a}/x", `{"a":"."}`},
		{"a line break", "/u/{id}", `{"id":"a\r\nHost: evil"}`},
		{"a zero byte", "/u/{id}", `{"id":"a\u0000"}`},
		{"an argument without a place", "/u", `{"id":1}`},
		{"a duplicate argument", "/u/{id}", `{"id":1,"id":2}`},
		{"no object", "/u/{id}", `[1]`},
		{"a URL too long", "/u/{id}", `{"id":"` + strings.Repeat("x", 20_000) + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := do(open(t, httpdriver.Endpoint{URL: base + c.path}, here()), c.arguments)
			var refusal *nacre.Refusal
			if !errors.As(err, &refusal) || !nacre.IsNotSent(err) {
				t.Errorf("have %v, want a refusal with nothing sent", err)
			}
		})
	}
}

func TestDeclarationsThatAreRefused(t *testing.T) {
	with := func(change func(*httpdriver.Endpoint)) httpdriver.Endpoint {
		e := httpdriver.Endpoint{Method: "POST", URL: "https://api.example.com/v1/{id}"}
		change(&e)
		return e
	}
	url := func(u string) httpdriver.Endpoint { return with(func(e *httpdriver.Endpoint) { e.URL = u }) }
	header := func(name, value string) httpdriver.Endpoint {
		return with(func(e *httpdriver.Endpoint) { e.Headers = map[string]string{name: value} })
	}
	body := func(b string) httpdriver.Endpoint {
		return with(func(e *httpdriver.Endpoint) { e.Body = json.RawMessage(b) })
	}
	for name, e := range map[string]httpdriver.Endpoint{
		"nothing at all":              {},
		"no method":                   with(func(e *httpdriver.Endpoint) { e.Method = "" }),
		"a method of another kind":    with(func(e *httpdriver.Endpoint) { e.Method = "CONNECT" }),
		"cleartext":                   url("http://api.example.com/"),
		"a file":                      url("file:///etc/passwd"),
		"a place in the host":         url("https://{host}/"),
		"a place in the port":         url("https://api.example.com:{port}/"),
		"a place as scheme":           url("{scheme}://api.example.com/"),
		"a user":                      url("https://user@api.example.com/"),
		"no host":                     url("https:///x"),
		"a port alone":                url("https://:80/x"),
		"a backslash":                 url(`https://api.example.com\@evil.example/`),
		"a fragment":                  url("https://api.example.com/#x"),
		"a climbing path":             url("https://api.example.com/a/../b"),
		"an escaped climbing path":    url("https://api.example.com/a/%2e%2e/b"),
		"an open brace":               url("https://api.example.com/{id"),
		"a closing brace":             url("https://api.example.com/id}"),
		"an empty place":              url("https://api.example.com/{}"),
		"rest in a path":              url("https://api.example.com/{*}"),
		"a place as parameter's name": url("https://api.example.com/?{a}=1"),
		"a nameless parameter":        url("https://api.example.com/?=1"),
		"a bad escape":                url("https://api.example.com/%zz"),
		"a header with a line break":  header("X-A", "a\r\nX-B: b"),
		"a header that is no name":    header("X A", "a"),
		"the host header":             header("host", "evil.example"),
		"the length header":           header("Content-Length", "1"),
		"an empty secret":             with(func(e *httpdriver.Endpoint) { e.Secrets = map[string]nacre.Secret{"Authorization": {}} }),
		"a secret that is a header too": with(func(e *httpdriver.Endpoint) {
			e.Headers = map[string]string{"authorization": "x"}
			e.Secrets = map[string]nacre.Secret{"Authorization": nacre.NewSecret("y")}
		}),
		"a body that is no JSON":    body(`{`),
		"a body with a key twice":   body(`{"a":1,"a":2}`),
		"a place inside of a text":  body(`{"a":"hello {name}"}`),
		"a GET with a body":         with(func(e *httpdriver.Endpoint) { e.Method, e.Body = "GET", json.RawMessage(`{}`) }),
		"an endless URL":            url("https://api.example.com/" + strings.Repeat("x", 70_000)),
		"a place with odd letters":  url("https://api.example.com/{a b}"),
		"a header given twice over": with(func(e *httpdriver.Endpoint) { e.Headers = map[string]string{"X-A": "1", "x-a": "2"} }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := httpdriver.New(e, httpdriver.Options{}); err == nil {
				t.Error("accepted")
			}
		})
	}
	if _, err := httpdriver.New(url("https://api.example.com/"), httpdriver.Options{Timeout: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestAnswers(t *testing.T) { // K-13
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(bytes.Repeat([]byte("0"), 50<<20))
	_ = zip.Close()
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		encoding                string
		want                    string // empty means an error
	}{
		{"JSON", "application/json", ` {"a":1} `, 200, "", `{"a":1}`},
		{"JSON of a kind", "application/problem+json; charset=UTF-8", `[]`, 200, "", `[]`},
		{"nothing", "", "", 204, "", `null`},
		{"created", "application/json", `{}`, 201, "", `{}`},
		{"a page", "text/html", `{"a":1}`, 200, "", ""},
		{"no type", "", `{"a":1}`, 200, "", ""},
		{"another charset", "application/json; charset=utf-16", `{"a":1}`, 200, "", ""},
		{"text that looks like JSON", "text/json", `{"a":1}`, 200, "", ""},
		{"not JSON", "application/json", `{"a":`, 200, "", ""},
		{"two values", "application/json", `{} {}`, 200, "", ""},
		{"not UTF-8", "application/json", "\"\xff\"", 200, "", ""},
		{"a key twice", "application/json", `{"a":1,"a":2}`, 200, "", ""},
		{"too deep", "application/json", strings.Repeat("[", 100) + strings.Repeat("]", 100), 200, "", ""},
		{"huge", "application/json", `"` + strings.Repeat("x", 2<<20) + `"`, 200, "", ""},
		{"a gzip bomb", "application/json", bomb.String(), 200, "gzip", ""},
		{"a gzip bomb that says nothing", "application/json", bomb.String(), 200, "", ""},
		{"not modified", "application/json", ``, 304, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			have, err := do(open(t, httpdriver.Endpoint{URL: base}, here()), `{}`)
			if have != c.want || (err == nil) != (c.want != "") || nacre.IsNotSent(err) {
				t.Errorf("have %.80q, %v (not sent %v)\nwant %.80q", have, err, nacre.IsNotSent(err), c.want)
			}
		})
	}
}

func TestStatusSaysWhoMustAct(t *testing.T) {
	for _, c := range []struct {
		status             int
		refusal, retriable bool
	}{{400, true, false}, {401, false, false}, {403, false, false}, {404, true, false}, {408, true, true}, {422, true, false}, {429, true, true}, {500, false, false}, {503, false, false}} {
		base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			answer(w, `{"error":"INJECTED words of the service"}`)
		})
		_, err := do(open(t, httpdriver.Endpoint{URL: base}, here()), `{}`)
		var refusal *nacre.Refusal
		is := errors.As(err, &refusal)
		if err == nil || is != c.refusal || is && refusal.Retriable != c.retriable || nacre.IsNotSent(err) {
			t.Errorf("%d: have %v", c.status, err)
		}
		if err != nil && (strings.Contains(err.Error(), "INJECTED") || !strings.Contains(err.Error(), fmt.Sprint(c.status))) {
			t.Errorf("%d: have %q", c.status, err)
		}
	}
}

func TestRedirects(t *testing.T) { // K-13
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("another host was reached") })
	for _, c := range []struct {
		name, method, to string
		want             bool
	}{
		{"the same host", "GET", "/there", true},
		{"another port", "GET", elsewhere, false},
		{"another host", "GET", "http://evil.example/", false},
		{"another scheme", "GET", "ftp://127.0.0.1/", false},
		{"a user", "GET", "http://u:p@HOST/there", false},
		{"without end", "GET", "/again", false},
		{"of what writes", "POST", "/there", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/there" {
					answer(w, `"there"`)
					return
				}
				w.Header().Set("Location", strings.ReplaceAll(c.to, "HOST", r.Host))
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			have, err := do(open(t, httpdriver.Endpoint{Method: c.method, URL: base}, here()), `{}`)
			if (err == nil) != c.want || nacre.IsNotSent(err) {
				t.Errorf("have %s, %v", have, err)
			}
		})
	}
}

// A redirect to a port where nobody listens comes after a request was sent.
func TestDialFailureAfterARedirectIsNotNothingSent(t *testing.T) {
	calls := 0
	var base string
	base = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Connection", "close")
		w.Header().Set("Location", base+"/x")
		w.WriteHeader(http.StatusFound)
	})
	resolved := 0
	o := here()
	o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		if resolved++; resolved > 1 {
			return nil, errors.New("gone")
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	named := strings.Replace(base, "127.0.0.1", "service.example", 1)
	base = named
	_, err := do(open(t, httpdriver.Endpoint{URL: named}, o), `{}`)
	if err == nil || nacre.IsNotSent(err) || calls != 1 {
		t.Errorf("have %v (not sent %v) after %d calls", err, nacre.IsNotSent(err), calls)
	}
}

func TestSlowServices(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	wait := func(r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { wait(r) },
		"a body without an end": func(w http.ResponseWriter, r *http.Request) {
			answer(w, `{"a":`)
			w.(http.Flusher).Flush()
			wait(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := here()
			o.Timeout = 50 * time.Millisecond
			_, err := do(open(t, httpdriver.Endpoint{Method: "POST", URL: serve(t, handler)}, o), `{}`)
			if !errors.Is(err, context.DeadlineExceeded) || nacre.IsNotSent(err) {
				t.Errorf("have %v", err)
			}
		})
	}
	t.Run("the caller's deadline", func(t *testing.T) {
		cause := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(context.Background())
		d := open(t, httpdriver.Endpoint{URL: serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel(cause)
			wait(r)
		})}, here())
		if _, err := d.Do(ctx, nacre.Invocation{}); !errors.Is(err, cause) || nacre.IsNotSent(err) {
			t.Errorf("have %v", err)
		}
	})
}

func TestBrokenServices(t *testing.T) {
	for name, said := range map[string]string{
		"closes at once":   "",
		"half a status":    "HTTP/1.",
		"not HTTP":         "SSH-2.0-OpenSSH\r\n",
		"a truncated body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}",
		"a cut chunk":      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
		"endless headers":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n{}",
		"a length twice":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			address := serveRaw(t, said)
			_, err := do(open(t, httpdriver.Endpoint{Method: "POST", URL: "http://" + address, Body: json.RawMessage(`{}`)}, here()), `{}`)
			if err == nil || nacre.IsNotSent(err) {
				t.Errorf("have %v (not sent %v)", err, nacre.IsNotSent(err))
			}
		})
	}
}

// serveRaw says the same to everyone, and hangs up.
func serveRaw(t *testing.T, said string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, said)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

func TestNothingWasSent(t *testing.T) { // K-13
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // nobody listens there now
	tlsServer := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	tlsServer.Config.ErrorLog = nil
	defer tlsServer.Close()
	failing := here()
	failing.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	nowhere := here()
	nowhere.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
	for _, c := range []struct {
		name, url string
		options   httpdriver.Options
	}{
		{"nobody listens", "http://" + listener.Addr().String(), here()},
		{"the name is unknown", "http://service.example/", failing},
		{"the name has no address", "http://service.example/", nowhere},
		{"the certificate is unknown", tlsServer.URL, here()},
		{"the address is not allowed", "http://127.0.0.1:1/", httpdriver.Options{Cleartext: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := do(open(t, httpdriver.Endpoint{Method: "POST", URL: c.url}, c.options), `{}`)
			if !nacre.IsNotSent(err) {
				t.Errorf("have %v, want it marked as not sent", err)
			}
		})
	}
	t.Run("the caller had left", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := open(t, httpdriver.Endpoint{URL: serve(t, echo)}, here()).Do(ctx, nacre.Invocation{})
		if !nacre.IsNotSent(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("have %v", err)
		}
	})
}

func TestAddressesThatAreNotPublicAreNotDialled(t *testing.T) { // K-13
	for _, address := range []string{"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
		"168.63.129.16", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00:ec2::254"} {
		o := httpdriver.Options{Cleartext: true, Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr(address)}, nil
		}}
		literal := address
		if strings.Contains(address, ":") {
			literal = "[" + address + "]"
		}
		for _, host := range []string{"service.example", literal} {
			d, err := httpdriver.New(httpdriver.Endpoint{Method: "GET", URL: "http://" + host + ":9/"}, o)
			if err != nil {
				continue // refused even earlier
			}
			if _, err = do(d, `{}`); err == nil || !strings.Contains(err.Error(), "not a public address") || !nacre.IsNotSent(err) {
				t.Errorf("%s at %s: have %v", host, address, err)
			}
		}
	}
}

// The name's second meaning is never asked for: what was checked is dialled.
func TestARebindingNameIsLookedUpOnce(t *testing.T) {
	lookups := 0
	o := httpdriver.Options{Cleartext: true, ConnectTimeout: 30 * time.Millisecond, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		lookups++
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}
	_, err := do(open(t, httpdriver.Endpoint{URL: "http://service.example/"}, o), `{}`)
	if lookups != 1 || err == nil {
		t.Errorf("%d look-ups, %v", lookups, err)
	}
}

func TestSecrets(t *testing.T) {
	const secret = "s3cr3t-t0k3n\"x"
	var have http.Header
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		have = r.Header
		told, _ := json.Marshal(map[string]any{"headers": r.Header})
		answer(w, string(told))
	})
	e := httpdriver.Endpoint{URL: base, Headers: map[string]string{"X-Version": "2"},
		Secrets: map[string]nacre.Secret{"Authorization": nacre.NewSecret("Bearer " + secret)}}
	raw, err := do(open(t, e, here()), `{}`)
	if err != nil || have.Get("Authorization") != "Bearer "+secret || have.Get("X-Version") != "2" {
		t.Errorf("have %v, %v", have, err)
	}
	if strings.Contains(raw, "s3cr3t") || !json.Valid([]byte(raw)) {
		t.Errorf("the answer repeats the secret: %s", raw)
	}
	if _, err := httpdriver.New(httpdriver.Endpoint{Method: "GET", URL: base, Secrets: map[string]nacre.Secret{"X": nacre.NewSecret("a\nb" + secret)}}, here()); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("have %v", err)
	}
}

func TestSecretsInTheURL(t *testing.T) {
	base := serve(t, echo)
	e := httpdriver.Endpoint{Method: "POST", URL: base + "/bot{token}/send?key={key}&chat={chat}", Body: json.RawMessage(`"{*}"`),
		URLSecrets: map[string]nacre.Secret{"token": nacre.NewSecret("123:s3cr3t"), "key": nacre.NewSecret("k3y-v4lue")}}
	d := open(t, e, here())
	if raw, err := do(d, `{"chat":"c","text":"t"}`); err != nil || raw != `"POST /bot[REDACTED]/send?key=[REDACTED]\u0026chat=c application/json {\"text\":\"t\"}"` {
		t.Errorf("have %s, %v", raw, err)
	}
	if _, err := do(d, `{"token":"mine"}`); err == nil || !nacre.IsNotSent(err) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("an argument in a secret's place: %v", err)
	}
	e.URL = "http://" + serveRaw(t, "") + "/bot{token}/send?key={key}"
	if _, err := do(open(t, e, here()), `{}`); err == nil || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "k3y") {
		t.Errorf("have %v", err)
	}
	for name, change := range map[string]func(*httpdriver.Endpoint){
		"without a place":  func(e *httpdriver.Endpoint) { e.URL = base },
		"empty":            func(e *httpdriver.Endpoint) { e.URLSecrets = map[string]nacre.Secret{"token": {}} },
		"also in the body": func(e *httpdriver.Endpoint) { e.Body = json.RawMessage(`{"a":"{token}"}`) },
	} {
		bad := e
		change(&bad)
		if _, err := httpdriver.New(bad, here()); err == nil {
			t.Errorf("a secret %s was accepted", name)
		}
	}
}

func TestErrorsQuoteNoArgument(t *testing.T) {
	address := serveRaw(t, "")
	_, err := do(open(t, httpdriver.Endpoint{URL: "http://" + address + "/u/{id}?q={q}&key=abc123"}, here()), `{"id":"PRIVATE","q":"PRIVATE"}`)
	if err == nil || strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), "abc123") || !strings.Contains(err.Error(), "/u/{id}") {
		t.Errorf("have %v", err)
	}
}

func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, `"through the proxy"`) })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	o := here()
	o.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	if raw, err := do(open(t, httpdriver.Endpoint{URL: "http://service.example/"}, o), `{}`); err == nil {
		t.Errorf("have %s", raw)
	}
	o.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
	if raw, err := do(open(t, httpdriver.Endpoint{URL: "http://service.example/"}, o), `{}`); raw != `"through the proxy"` {
		t.Errorf("the proxy that was told of: have %s, %v", raw, err)
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer server.Close()
	o := here()
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(server.Certificate())
	if raw, err := do(open(t, httpdriver.Endpoint{URL: server.URL}, o), `{}`); err != nil {
		t.Errorf("have %s, %v", raw, err)
	}
}

// A redirect from https to http gives the secret to everyone on the way.
func TestNoDowngrade(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("reached without TLS") })
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain, http.StatusFound) }))
	defer server.Close()
	o := here()
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(server.Certificate())
	if raw, err := do(open(t, httpdriver.Endpoint{URL: server.URL}, o), `{}`); err == nil {
		t.Errorf("have %s", raw)
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"a":"x","b":"y"}`, `{"a":"../..","b":1}`, `{"a":"%2e%2e","b":[1,"2"]}`, `{"a":"\u0000"}`, `{"a":"@evil.example/","b":"\r\n"}`} {
		f.Add(seed)
	}
	var have *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		have = r
		answer(w, `{}`)
	}))
	defer server.Close()
	d, err := httpdriver.New(httpdriver.Endpoint{Method: "POST", URL: server.URL + "/v1/{a}/end?fixed=1&b={b}", Body: json.RawMessage(`{"rest":"{*}"}`)}, here())
	if err != nil {
		f.Fatal(err)
	}
	defer d.CloseIdle()
	f.Fuzz(func(t *testing.T, arguments string) {
		if _, err := do(d, arguments); err != nil {
			return
		}
		segments := strings.Split(have.URL.EscapedPath(), "/")
		if len(segments) != 4 || segments[1] != "v1" || segments[3] != "end" || strings.Contains(segments[2], "..") && strings.Trim(segments[2], ".") == "" {
			t.Errorf("%q went to %s", arguments, have.RequestURI)
		}
		if have.URL.Query().Get("fixed") != "1" || len(have.URL.Query()) > 2 {
			t.Errorf("%q made the query %s", arguments, have.URL.RawQuery)
		}
	})
}

func BenchmarkDo(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"a":1}`) }))
	defer server.Close()
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			response, err := server.Client().Get(server.URL + "/u/7")
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
	})
	d, err := httpdriver.New(httpdriver.Endpoint{Method: "GET", URL: server.URL + "/u/{id}"}, here())
	if err != nil {
		b.Fatal(err)
	}
	defer d.CloseIdle()
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			if _, err := do(d, `{"id":7}`); err != nil {
				b.Fatal(err)
			}
		}
	})
}
