package main_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
	fetch "github.com/nacre-dev/nacre/plugins/http_fetch"
)

// web is a proxy that answers for every host, as a test says.
type web struct {
	t     testing.TB
	tool  plugin.ToolFunc
	asked []*http.Request
}

func newWeb(t testing.TB, answer http.HandlerFunc) *web {
	t.Helper()
	w := &web{t: t}
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked = append(w.asked, r)
		answer(rw, r)
	}))
	t.Cleanup(proxy.Close)
	w.tool = fetch.Handler(func(string) string { return proxy.URL }).Tools["http_fetch"]
	return w
}

func page(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// call returns the answer as JSON, or the refusal.
func (w *web) call(args string) string {
	w.t.Helper()
	result, err := w.tool(w.t.Context(), &plugin.Request{Arguments: json.RawMessage(args)})
	return outcome(w.t, result, err)
}

func outcome(t testing.TB, result any, err error) string {
	t.Helper()
	var refused *plugin.ToolError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	if err != nil {
		return "error: " + err.Error()
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil || text.Len() > plugin.MaxResult {
		t.Fatalf("answer of %d bytes, %v", text.Len(), err)
	}
	return text.String()
}

func (w *web) want(args, want string) {
	w.t.Helper()
	if have := w.call(args); !strings.Contains(have, want) {
		w.t.Errorf("%s\nhave %.600s\nwant %s", args, have, want)
	}
}

func TestManifestParses(t *testing.T) {
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := plugin.ParseManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	if spec := m.Provides.Tools[0]; spec.Returns != nacre.Untrusted || spec.Safety != nacre.Read || m.Hosts[0] != plugin.AnyHost {
		t.Errorf("have %+v", m)
	}
}

// What can never be allowed is refused before anybody is asked.
func TestAddressesThatAreRefused(t *testing.T) {
	w := newWeb(t, page("text/plain", "reached"))
	for _, c := range []struct{ url, want string }{
		{"ftp://example.com/", "SCHEME"}, {"file:///etc/passwd", "SCHEME"}, {"javascript:alert(1)", "URL"}, {"HTTPS:example.com", "URL"},
		{"http://user:pw@example.com/", "USERINFO"}, {"http://user@example.com/", "USERINFO"}, {"http://@example.com/", "USERINFO"},
		{"http://127.0.0.1/", "PRIVATE"}, {"http://10.1.2.3:80/", "PRIVATE"}, {"http://169.254.169.254/latest/meta-data", "PRIVATE"},
		{"http://[::1]/", "PRIVATE"}, {"http://[::ffff:127.0.0.1]/", "PRIVATE"}, {"http://[fe80::1%25eth0]/", "PRIVATE"}, {"http://[fd00::1]/", "PRIVATE"},
		{"http://0.0.0.0/", "PRIVATE"}, {"http://224.0.0.1/", "PRIVATE"}, {"http://93.184.216.34/", "ADDRESS"}, {"http://[2606:2800::1]/", "ADDRESS"},
		{"http://127.1/", "ADDRESS"}, {"http://2130706433/", "ADDRESS"}, {"http://0x7f000001/", "ADDRESS"}, {"http://0177.0.0.1/", "ADDRESS"},
		{"http://127.0.0.1./", "PRIVATE"}, {"http://①②⑦.0.0.1/", "PRIVATE"}, {"http://127。0。0。1/", "PRIVATE"},
		{"http://localhost/", "PRIVATE"}, {"http://LOCALHOST./", "PRIVATE"}, {"http://a.localhost/", "PRIVATE"}, {"http://printer.local/", "PRIVATE"},
		{"http://metadata.google.internal/", "PRIVATE"}, {"http://intranet/", "PRIVATE"},
		{"http:///x", "URL"}, {"http://", "URL"}, {"https://example.com:0/", "URL"}, {"https://example.com:99999/", "URL"}, {"https://example.com:/", "URL"},
		{"http://exa mple.com/", "URL"}, {"http://example.com\\@evil.test/", "URL"}, {"http://example.com/\r\nX: y", "URL"}, {"http://-x.test/", "URL"},
		{"http://example.com/" + strings.Repeat("a", 2048), "URL"}, {"http://a_b\x00.test/", "URL"},
	} {
		args, err := json.Marshal(map[string]string{"url": c.url})
		if err != nil {
			t.Fatal(err)
		}
		if have := w.call(string(args)); !strings.HasPrefix(have, c.want+":") {
			t.Errorf("%q: have %s, want %s", c.url, have, c.want)
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("asked %v", w.asked)
	}
}

func TestWhatIsSent(t *testing.T) {
	w := newWeb(t, page("text/plain", "ok"))
	w.want(`{"url":"http://Example.COM/a?b=c#d","method":"GET","headers":{"accept-language":"de"}}`, `"url":"http://example.com/a?b=c"`)
	h := w.asked[0].Header
	for name, want := range map[string]string{"Accept-Language": "de", "Cookie": "", "Authorization": "", "Referer": "", "User-Agent": "nacre-http_fetch/1.0"} {
		if have := h.Get(name); have != want {
			t.Errorf("%s: have %q, want %q", name, have, want)
		}
	}
	w.want(`{"url":"http://bücher.example/"}`, `"url":"http://xn--bcher-kva.example/"`)
	for _, args := range []string{
		`{"url":"http://a.test/","headers":{"Cookie":"x"}}`, `{"url":"http://a.test/","headers":{"Authorization":"x"}}`, `{"url":"http://a.test/","headers":{"Host":"x"}}`,
		`{"url":"http://a.test/","headers":{"Accept":"a\r\nX: y"}}`, `{"url":"http://a.test/","headers":{"Proxy-Authorization":"x"}}`, `{"url":"http://a.test/","headers":{"X Y":"x"}}`,
	} {
		w.want(args, `HEADER:`)
	}
	w.want(`{"url":"http://a.test/","method":"POST"}`, `METHOD:`)
	w.want(`{"url":"http://a.test/","method":"HEAD"}`, `"status":200`)
	if len(w.asked) != 3 {
		t.Errorf("%d requests went out", len(w.asked))
	}
}

func TestRedirects(t *testing.T) {
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/private":
			rw.Header().Set("Location", "http://169.254.169.254/")
		case r.URL.Path == "/file":
			rw.Header().Set("Location", "file:///etc/passwd")
		case r.URL.Path == "/user":
			rw.Header().Set("Location", "//a:b@b.test/")
		case r.URL.Path == "/other":
			rw.Header().Set("Location", "http://denied.test/")
		case r.URL.Path == "/there":
			rw.Header().Set("Location", "http://b.test/end#x")
		case r.URL.Path == "/bad":
			rw.Header().Set("Location", "http://%zz/")
		case r.URL.Host == "denied.test":
			rw.Header().Set("X-Nacre-Reason", "not_listed")
			rw.WriteHeader(http.StatusForbidden)
			return
		case r.URL.Path == "/end":
			_, _ = io.WriteString(rw, "the end")
			return
		default:
			rw.Header().Set("Location", r.URL.Path+"x")
		}
		rw.WriteHeader(http.StatusFound)
	})
	for path, want := range map[string]string{
		"private": "PRIVATE: The page at a.test leads on, and is not followed", "file": "SCHEME:", "user": "USERINFO:", "bad": "REDIRECTS:",
		"other": "HOST_DENIED: denied.test is not among", "loop": "REDIRECTS: The page leads on more than 5 times",
		"there": `"url":"http://b.test/end","status":200,"redirects":["http://a.test/there"]`,
	} {
		w.want(`{"url":"http://a.test/`+path+`"}`, want)
	}
}

func TestRefusalsOfTheProxy(t *testing.T) {
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		host := strings.TrimSuffix(r.Host, ":443")
		reason, status := "not_listed", http.StatusForbidden
		switch host {
		case "inside.test":
			reason = "address_refused"
		case "gone.test":
			reason, status = "not_resolved", http.StatusBadGateway
		case "busy.test":
			reason, status = "too_many_connections", http.StatusServiceUnavailable
		case "odd.test":
			reason = "<script>"
		}
		rw.Header().Set("X-Nacre-Reason", reason)
		rw.WriteHeader(status)
	})
	for _, scheme := range []string{"http", "https"} {
		for host, want := range map[string]string{
			"inside.test": "PRIVATE:", "gone.test": "NOT_REACHED: gone.test is allowed", "busy.test": "BUSY:", "odd.test": "DENIED:", "x.test": "HOST_DENIED:",
		} {
			w.want(`{"url":"`+scheme+`://`+host+`/"}`, want)
		}
	}
	w.want(`{"url":"https://x.test/"}`, `the operator can add "x.test:443" to hosts in [access.http_fetch]`)
	w.want(`{"url":"http://x.test:8080/"}`, `"x.test:8080"`)
	none := &web{t: t, tool: fetch.Handler(func(string) string { return "" }).Tools["http_fetch"]}
	none.want(`{"url":"https://x.test/"}`, `HOST_DENIED: No host may be fetched from`)
}

func TestContent(t *testing.T) {
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	for _, c := range []struct{ name, kind, body, args, want string }{
		{"plain text", "text/plain", "a\r\nb\x00\x1b[31m", `{"as":"text"}`, `"content":"a\nb[31m"`},
		{"text that is cut", "text/plain", "ééé", `{"max_bytes":3}`, `"content":"é","bytes":6,"truncated":true`},
		{"text of another encoding", "text/plain; charset=iso-8859-1", "caf\xe9", `{}`, `"content":"café"`},
		{"text that names none", "text/plain", "caf\xe9", `{}`, `"content":"café"`},
		{"a page that names its encoding", "text/html", "<meta charset=windows-1251><p>\xcf\xf0\xe8", `{}`, `"content":"При"`},
		{"a page in UTF-16", "text/html", "\xff\xfea\x00b\x00", `{}`, `"content":"ab"`},
		{"a page in an encoding that is none", "text/html; charset=utf-99", "ab", `{}`, `"content":"ab"`},
		{"JSON as such", "application/json", `{"b":1e400,"a":[1,"x"]}`, `{"as":"json"}`, `"json":{"a":[1,"x"],"b":1e400}`},
		{"JSON that is none", "text/html", `<p>`, `{"as":"json"}`, `NOT_JSON:`},
		{"two documents", "application/json", `{} {}`, `{"as":"json"}`, `NOT_JSON:`},
		{"JSON with a key twice", "application/json", `{"a":1,"a":2}`, `{"as":"json"}`, `"json":{"a":2}`},
		{"JSON nested deep", "application/json", deep, `{"as":"json"}`, `NOT_JSON:`},
		{"JSON nested deep, as text", "application/json", deep, `{"as":"text"}`, `"content":"[[`},
		{"bytes", "image/png", "\x89PNG", `{"as":"base64"}`, `"content_base64":"iVBORw=="`},
		{"bytes as text", "image/png", "\x89PNG", `{}`, `"hint":"not text`},
		{"bytes that claim to be text", "text/plain", "\x00\x01\x02\xff", `{}`, `"content":"ÿ"`},
		{"no type at all", "", "<html><p>x", `{}`, `"content":"x"`},
		{"a type that is none", "text/html; charset", "<p>x", `{}`, `"bytes":4`},
		{"invisible letters", "text/plain", "a\U000e0041\u202eb\u200bc", `{}`, `"content":"abc"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
				if rw.Header()["Content-Type"] = []string{c.kind}; c.kind == "" {
					rw.Header()["Content-Type"] = nil
				}
				_, _ = io.WriteString(rw, c.body)
			})
			args := strings.Replace(c.args, "{", `{"url":"http://a.test/",`, 1)
			w.want(strings.Replace(args, ",}", "}", 1), c.want)
		})
	}
}

func compressed(t *testing.T, make func(io.Writer) io.WriteCloser, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := make(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompression(t *testing.T) {
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zl := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	raw := func(w io.Writer) io.WriteCloser {
		z, err := flate.NewWriter(w, 9)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	text, bomb := []byte("hello"), make([]byte, 64<<20)
	whole := compressed(t, gz, bytes.Repeat([]byte("some words "), 1000))
	for _, c := range []struct{ name, encoding, body, want string }{
		{"gzip", "gzip", compressed(t, gz, text), `"content":"hello"`},
		{"zlib", "deflate", compressed(t, zl, text), `"content":"hello"`},
		{"raw deflate", "deflate", compressed(t, raw, text), `"content":"hello"`},
		{"in capitals", "GZIP", compressed(t, gz, text), `"content":"hello"`},
		{"a gzip bomb", "gzip", compressed(t, gz, bomb), `"bytes":4194304,"truncated":true`},
		{"a deflate bomb", "deflate", compressed(t, raw, bomb), `"bytes":4194304,"truncated":true`},
		{"a bomb in a bomb", "gzip, gzip", compressed(t, gz, text), `ENCODING:`},
		{"brotli", "br", "x", `ENCODING:`},
		{"no gzip at all", "gzip", "plain", `ENCODING:`},
		{"half of it", "gzip", whole[:len(whole)-12], `"truncated":true`},
		{"a wrong sum", "gzip", whole[:len(whole)-8] + "\x00\x00\x00\x00" + whole[len(whole)-4:], `ENCODING:`},
	} {
		t.Run(c.name, func(t *testing.T) {
			newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/plain")
				rw.Header().Set("Content-Encoding", c.encoding)
				_, _ = io.WriteString(rw, c.body)
			}).want(`{"url":"http://a.test/"}`, c.want)
		})
	}
}

func TestServersThatMisbehave(t *testing.T) {
	t.Run("too many headers", func(t *testing.T) {
		newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
			for i := range 2000 {
				rw.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
			}
		}).want(`{"url":"http://a.test/"}`, `NOT_REACHED:`)
	})
	t.Run("an end in the middle", func(t *testing.T) {
		newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(rw, "half")
		}).want(`{"url":"http://a.test/"}`, `"content":"half"`)
	})
	t.Run("no HTTP", func(t *testing.T) {
		newWeb(t, func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "SSH-2.0-x\r\n")
				_ = conn.Close()
			}
		}).want(`{"url":"http://a.test/"}`, `NOT_REACHED:`)
	})
	t.Run("an answer without end", func(t *testing.T) {
		newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}).want(`{"url":"http://a.test/","as":"base64"}`, `"truncated":true`)
	})
	t.Run("a call that is cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWeb(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		result, err := w.tool(ctx, &plugin.Request{Arguments: json.RawMessage(`{"url":"http://a.test/"}`)})
		if have := outcome(t, result, err); !strings.HasPrefix(have, "TIMEOUT:") {
			t.Errorf("have %s", have)
		}
	})
}

func TestPages(t *testing.T) {
	for _, c := range []struct{ name, html, markdown, text string }{
		{"a page", `<html><head><title> The  title </title><style>p{}</style></head><body><h1>Head</h1><p>One <b>two</b>,
three.<p>Four<br>five<script>evil()</script><ul><li>a<li>b<ul><li>c</ul></ul>`,
			"# Head\n\nOne two, three.\n\nFour\nfive\n- a\n- b\n  - c", "Head\n\nOne two, three.\n\nFour\nfive\n- a\n- b\n  - c"},
		{"links", `<a href="/x?a=1&amp;b=2">rel</a> <a href="javascript:evil()">js</a> <a href="data:text/html,x">data</a> <a href="#top">top</a> <a href="http://u:p@b.test/(1)">user</a>`,
			"[rel](http://a.test/x?a=1&b=2) js data top [user](http://b.test/%281%29)", "rel (http://a.test/x?a=1&b=2) js data top user (http://b.test/%281%29)"},
		{"a base", `<base href="http://c.test/d/"><a href="e">x</a>`, "[x](http://c.test/d/e)", "x (http://c.test/d/e)"},
		{"what is hidden", `a<p hidden>1</p><div style="DISPLAY : none !important"><div>2</div>3</div><span style="font-size:0px">4</span><i aria-hidden=true>5</i>` +
			`<!-- 6 --><template>7</template><noscript>8</noscript><input type=hidden value=9><b style="opacity:0.0">10</b><b style="opacity:0.5">b</b><svg><text>11</text></svg>c`, "abc", "abc"},
		{"a hidden item that ends by itself", `<ul><li hidden>1<li>2</ul>`, "- 2", "- 2"},
		{"code", `<pre>a  b
  c</pre>d <code>e</code>`, "```\na  b\n  c\n```\n\nd `e`", "a  b\n  c\n\nd e"},
		{"a table", `<table><tr><th>a<th>b<tr><td>1<td>2</table>`, "a | b\n1 | 2", "a | b\n1 | 2"},
		{"a quotation", `x<blockquote>y<p>z</blockquote>w`, "x\n\n> y\n\n> z\n\nw", "x\n\ny\n\nz\n\nw"},
		{"an image", `<img alt="A  cat" src=x>`, "[image: A cat]", "[image: A cat]"},
		{"entities", `&lt;b&gt; &amp; &#x202e;x`, "<b> & \u202ex", "<b> & \u202ex"},
		{"nothing", ``, "", ""},
	} {
		for as, want := range map[string]string{"markdown": c.markdown, "text": c.text} {
			w := newWeb(t, page("text/html; charset=utf-8", c.html))
			var have struct{ Content, Title string }
			if err := json.Unmarshal([]byte(w.call(`{"url":"http://a.test/","as":"`+as+`"}`)), &have); err != nil {
				t.Fatal(err)
			}
			if want = strings.ReplaceAll(want, "\u202e", ""); have.Content != want {
				t.Errorf("%s as %s:\nhave %q\nwant %q", c.name, as, have.Content, want)
			}
		}
	}
	newWeb(t, page("text/html", "<title> The \n title</title>x")).want(`{"url":"http://a.test/"}`, `"title":"The title"`)
}

// Pages that are made to take long, or much.
func TestPagesThatAttack(t *testing.T) {
	for name, html := range map[string]string{
		"deep nesting": strings.Repeat("<div>", 500_000), "deep lists": strings.Repeat("<ul><li>", 200_000), "open quotations": strings.Repeat("<blockquote>x", 100_000),
		"open comments": strings.Repeat("<!--", 500_000), "many attributes": "<p " + strings.Repeat("a=b ", 500_000) + ">", "open tags": strings.Repeat("<a", 1_000_000),
		"formatting": strings.Repeat("<b><i><a href=x>", 100_000), "a long tag": "<p title='" + strings.Repeat("x", 3<<20), "tables": strings.Repeat("<table><tr><td>", 100_000),
		"hidden in hidden": strings.Repeat("<div hidden>", 300_000), "entities": strings.Repeat("&#x41;", 500_000), "long lines": strings.Repeat("\n<br>", 500_000),
	} {
		t.Run(name, func(t *testing.T) {
			newWeb(t, page("text/html", html)).want(`{"url":"http://a.test/"}`, `"status":200`)
		})
	}
}

// Whatever a server sends as HTML is turned into text that holds to the limit.
func FuzzPage(f *testing.F) {
	f.Add("<p>a<a href=b>c</a>", "text/html")
	f.Add("<pre><li><td><blockquote>x", "text/html; charset=utf-16")
	f.Add("<div hidden><p style='display:none'>", "application/xhtml+xml")
	f.Fuzz(func(t *testing.T, html, kind string) {
		have := fetch.Convert([]byte(html), kind, 100)
		if len(have) > 100 {
			t.Errorf("%d bytes", len(have))
		}
	})
}
