package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/nacre-dev/nacre/internal/egress"
)

// game is one request that tries to use the credential for what it is not
// leased for, or one that is in order. Without want, it is refused, and the
// host sees nothing.
type game struct {
	name, method, target string
	headers              []string // "Name: value"
	authority            string   // "" means example.com
	want                 int      // a status that is not 200
	through              string   // the target that the host must see
}

// games are played over both versions.
func games() []game {
	return append(movedGames(), []game{
		{name: "in order", method: "GET", target: "/repos/acme/x", through: "/repos/acme/x"},
		{name: "the port is named", method: "GET", target: "/user", authority: "example.com:443", through: "/user"},
		{name: "the host in other letters", method: "GET", target: "/user", authority: "EXAMPLE.com", through: "/user"},
		{name: "below a prefix without a slash", method: "GET", target: "/user/keys", through: "/user/keys"},
		{name: "dots that are no segment", method: "GET", target: "/repos/acme/v1..v2...x", through: "/repos/acme/v1..v2...x"},
		{name: "an escaped slash below the prefix", method: "GET", target: "/repos/acme/a%2Fb", through: "/repos/acme/a%2Fb"},
		{name: "an escaped percent sign", method: "GET", target: "/repos/acme/100%25", through: "/repos/acme/100%25"},
		{name: "UTF-8", method: "GET", target: "/repos/acme/%C3%A9", through: "/repos/acme/%C3%A9"},
		{name: "a query with anything", method: "GET", target: "/user?a=../..//;&b=%2e%2e", through: "/user?a=../..//;&b=%2e%2e"},
		{name: "headers that say nothing of who asks", method: "POST", target: "/user", through: "/user", headers: []string{
			"Idempotency-Key: 1", "X-Amz-Meta-Source: a", "X-Amz-Server-Side-Encryption-Customer-Key: b", "X-Github-Api-Version: 2022-11-28",
			"Access-Control-Request-Method: PUT", "X-Requested-With: XMLHttpRequest", "Referer: https://example.com/user", "X-Callback-Url: https://example.com/",
			"X-Upload-Path: a", "X-Request-Id: c", "Mcp-Session-Id: g", "X-Partition-Key: h", "Surrogate-Key: i", "X-User-Id: j", "Content-Location: /x", "X-Payment-Method: k", "Prefer: d", "If-None-Match: e", "Origin: https://example.com", "X-Goog-User-Project: f",
		}},
		{name: "what an object's metadata is called", method: "POST", target: "/user", through: "/user", headers: []string{
			"X-Amz-Meta-Copy-From: a", "X-Goog-Meta-Copy-Source: b", "X-Ms-Meta-Run-As: c", "X-Object-Meta-Sudo: d", "X-Amz-Meta-X-Forwarded-Host: e",
		}},
		{name: "a query with words like these", method: "GET", target: "/user?sudoers=1&user=bob&author=eve&run_assessment=1", through: "/user?sudoers=1&user=bob&author=eve&run_assessment=1"},
		{name: "a proxy's word that looks like metadata", method: "GET", target: "/user", headers: []string{"X-Forwarded-Meta-Host: a"}},
		{name: "a copy's source that looks like metadata", method: "POST", target: "/user", headers: []string{"X-Amz-Copy-Source-Meta-X: a"}},
		{name: "a layer of another repository", method: "POST", target: "/repos/acme/blobs/uploads/?mount=sha256:a&from=evil%2Frepo", through: "/repos/acme/blobs/uploads/"},
		{name: "one behind escapes", method: "POST", target: "/repos/acme/blobs/%75ploads/?%66rom=evil/repo&a=1", through: "/repos/acme/blobs/%75ploads/?a=1"},
		{name: "an upload of a layer", method: "POST", target: "/repos/acme/blobs/uploads/?digest=sha256:a", through: "/repos/acme/blobs/uploads/?digest=sha256:a"},
		{name: "a query with such words", method: "GET", target: "/user?from=1&mount=2", through: "/user?from=1&mount=2"},
		{name: "an empty query", method: "GET", target: "/user?", through: "/user"},

		{name: "another path", method: "GET", target: "/repos/evil/x"},
		{name: "the root", method: "GET", target: "/"},
		{name: "the prefix as part of a word", method: "GET", target: "/users"},
		{name: "the prefix's letters in upper case", method: "GET", target: "/Repos/acme/x"},
		{name: "the prefix escaped", method: "GET", target: "/%72epos/acme/x"},
		{name: "dot segments", method: "GET", target: "/repos/acme/../evil", want: 400},
		{name: "one dot", method: "GET", target: "/repos/./acme/x", want: 400},
		{name: "dots at the end", method: "GET", target: "/repos/acme/..", want: 400},
		{name: "escaped dots", method: "GET", target: "/repos/acme/%2e%2e/evil", want: 400},
		{name: "half escaped dots", method: "GET", target: "/repos/acme/.%2E/evil", want: 400},
		{name: "escaped dots and slash", method: "GET", target: "/repos/acme/%2e%2e%2fevil", want: 400},
		{name: "an escaped slash before dots", method: "GET", target: "/repos/acme/x%2f..%2f..%2fevil", want: 400},
		{name: "dots escaped twice", method: "GET", target: "/repos/acme/%252e%252e/evil", want: 400},
		{name: "dots escaped three times", method: "GET", target: "/repos/acme/%25252e%25252e/evil", want: 400},
		{name: "escaped more often than anybody does", method: "GET", target: "/repos/acme/%2525252525252541", want: 400},
		{name: "dots escaped twice beside no escape", method: "GET", target: "/repos/acme/%25zz/%252e%252e/evil", want: 400},
		{name: "dots in too many bytes", method: "GET", target: "/repos/acme/%c0%ae%c0%ae/evil", want: 400},
		{name: "wide dots", method: "GET", target: "/repos/acme/%EF%BC%8E%EF%BC%8E/evil", want: 400},
		{name: "a wide slash", method: "GET", target: "/repos/acme/x%EF%BC%8F..", want: 400},
		{name: "double slash", method: "GET", target: "/repos/acme//x", want: 400},
		{name: "double slash at the beginning", method: "GET", target: "//evil/repos/acme/x", want: 400},
		{name: "a double slash, escaped", method: "GET", target: "/repos/acme/%2fx", want: 400},
		{name: "backslash", method: "GET", target: `/repos/acme\..\evil`, want: 400},
		{name: "an escaped backslash", method: "GET", target: "/repos/acme/%5c..%5cevil", want: 400},
		{name: "parameters", method: "GET", target: "/repos/acme/..;/evil", want: 400},
		{name: "parameters, escaped", method: "GET", target: "/repos/acme/..%3b/evil", want: 400},
		{name: "parameters of a plain segment", method: "GET", target: "/repos/acme;x/y", want: 400},
		{name: "a zero byte", method: "GET", target: "/repos/acme/x%00.json", want: 400},
		{name: "an escaped line end", method: "GET", target: "/repos/acme/x%0d%0aX-Evil:%201", want: 400},
		{name: "half an escape", method: "GET", target: "/repos/acme/%2", want: 400},
		{name: "no escape", method: "GET", target: "/repos/acme/%zz", want: 400},
		{name: "a fragment", method: "GET", target: "/user#/evil", want: 400},
		{name: "a dot and a space", method: "GET", target: "/repos/acme/..%20/evil", want: 400},

		{name: "another method", method: "DELETE", target: "/user"},
		{name: "a method in small letters", method: "get", target: "/user"},
		{name: "TRACE", method: "TRACE", target: "/user"},
		{name: "a method of the host's own", method: "PURGE", target: "/user"},
		{name: "another method in a header", method: "POST", target: "/user", headers: []string{"X-HTTP-Method-Override: DELETE"}},
		{name: "another method in a header, with underscores", method: "POST", target: "/user", headers: []string{"x_http_method_override: DELETE"}},
		{name: "another method in the query", method: "POST", target: "/user?_method=DELETE"},
		{name: "another method in the query, escaped", method: "POST", target: "/user?%5Fmethod=DELETE"},
		{name: "another method in the query, after a semicolon", method: "POST", target: "/user?a=b;_method=DELETE"},
		{name: "another method in the query, with underscores", method: "POST", target: "/user?X_HTTP_METHOD_OVERRIDE=DELETE"},
		{name: "another method in the query, as another framework reads it", method: "POST", target: "/user?%24httpMethod=DELETE"},
		{name: "another method in the query, as a third one does", method: "POST", target: "/user?__method=DELETE"},
		{name: "another method in a header of one word", method: "POST", target: "/user", headers: []string{"X-HTTP-MethodOverride: DELETE"}},
		{name: "another method in a header, in other letters", method: "POST", target: "/user", headers: []string{"X_Http-METHOD_override: DELETE"}},
		{name: "another path in a header", method: "GET", target: "/user", headers: []string{"X-Original-URL: /evil"}},
		{name: "another method in the query, as PHP reads it", method: "POST", target: "/user?+_method=DELETE"},
		{name: "another path to copy from", method: "POST", target: "/user", headers: []string{"X-Amz-Copy-Source: /evil/key"}},
		{name: "another path to copy a part from", method: "POST", target: "/user", headers: []string{"x-goog-copy-source: evil/key"}},
		{name: "another address to copy from", method: "POST", target: "/user", headers: []string{"X-Ms-Copy-Source: https://evil.example/x"}},
		{name: "another object to copy from", method: "POST", target: "/user", headers: []string{"X-Copy-From: /evil/key"}},
		{name: "another object to rename", method: "POST", target: "/user", headers: []string{"X-Amz-Rename-Source: /evil/key"}},
		{name: "objects that one is made of", method: "POST", target: "/user", headers: []string{"X-Object-Manifest: evil/prefix"}},
		{name: "another path behind a proxy", method: "GET", target: "/user", headers: []string{"X-Envoy-Original-Path: /evil"}},
		{name: "a proxy's word on who asks", method: "GET", target: "/user", headers: []string{"X-Forwarded-User: root"}},
		{name: "a framework's inner request", method: "GET", target: "/user", headers: []string{"X-Middleware-Subrequest: pages/_middleware"}},
		{name: "another client", method: "GET", target: "/user", headers: []string{"True-Client-IP: 127.0.0.1"}},
		{name: "another path in another header", method: "GET", target: "/user", headers: []string{"X-Rewrite-Url: /evil"}},

		{name: "another authority", method: "GET", target: "/user", authority: "evil.example", want: 421},
		{name: "a host below", method: "GET", target: "/user", authority: "a.example.com", want: 421},
		{name: "another port", method: "GET", target: "/user", authority: "example.com:8443", want: 421},
		{name: "a dot at the end", method: "GET", target: "/user", authority: "example.com.", want: 421},
		{name: "user info", method: "GET", target: "/user", authority: "x@example.com", want: 421},
		{name: "two names", method: "GET", target: "/user", authority: "example.com, evil.example", want: 421},
		{name: "an address", method: "GET", target: "/user", authority: "127.0.0.1", want: 421},
		{name: "another host in a header", method: "GET", target: "/user", headers: []string{"X-Forwarded-Host: evil.example"}},
		{name: "another host in the standard's header", method: "GET", target: "/user", headers: []string{"Forwarded: host=evil.example"}},
	}...)
}

// movedGames name what a server, or a proxy before it, takes in place of the request's own.
func movedGames() (games []game) {
	for _, header := range []string{
		"X-Request-URI", "X-Request-Url", "X-Invoke-Path", "X-Matched-Path", "X-Waws-Unencoded-Url", "X-Backend-Host", "X-Upstream-Host",
		"X-Proxy-Url", "Proxy-Host", "X-Target-Url", "X-Script-Name", "Script_Name", "X-Now-Route-Matches", "X-Nextjs-Rewrite", "X-Copy-Destination",
		"X-Parse-Http-Method", "X-Raw-Path", "X-Origin-Host", "X-Replaced-Path", "X-Real-Uri", "X-Internal-Path", "X_Request_Uri", "X-Redirect-To",
		"X-Host-Override-Path", "X-HTTP-Host-Override", "X-Host-Override", "Host_Override", "X-Path-Override", "X-Uri-Override", "Method-Override", "X-HTTP-Method-Overrides",
		"X-OriginalUrl", "X-Orig-Url", "X-HTTP-DestinationURL", "X-Requested-Method", "X-Original-Authority", "X-Path-Rewrite", "X-Method", "X-Http-Verb", "X-Path", "X-Url",
		"X-Virtual-Host", "X-Forwarded", "X-Forward-For", "X-Upyun-Move-Source", "X-Move-From",
	} {
		games = append(games, game{name: header, method: "GET", target: "/user", headers: []string{header + ": /evil"}})
	}
	return games
}

// forAnother are requests on behalf of another user: without the header the host
// would do them as the operator. The host must not see them.
func forAnother() []game {
	var list []game
	for _, name := range []string{
		"Impersonate-User", "Impersonate-Group", "Impersonate-Extra-Scopes", "impersonate_user", "X-Impersonate", "X-Goog-Impersonated-User", "Sudo", "SUDO", "X-Sudo",
		"X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes", "Remote-User", "Remote_User", "X-WebAuth-User", "Es-Security-Runas-User", "X-Run-As", "X-On-Behalf-Of",
		"X-MarkLogic-OnBehalfOf", "X-Redmine-Switch-User", "X-Goog-Authenticated-User-Email", "As-User", "MSCRMCallerID", "CallerObjectId",
	} {
		list = append(list, game{name: "for another, header " + name, method: "POST", target: "/user", headers: []string{name + ": mine"}})
	}
	for _, name := range []string{"sudo", "SUDO", "%73udo", "_switch_user", "runas", "run_as", "run.as", "doAs", "impersonate", "impersonated_user", "on_behalf_of", "onBehalfOf", "sudo[]"} {
		list = append(list, game{name: "for another, parameter " + name, method: "GET", target: "/user?a=1&" + name + "=mine"})
	}
	return list
}

// stripped are headers and parameters that say who asks: the host must not see "mine".
func stripped() []game {
	var list []game
	for _, name := range []string{
		"Authorization", "authorization", "AUTHORIZATION", "Proxy-Authorization", "Cookie", "Cookie2", "X-Api-Key", "x-api-key", "Api-Key", "X_Api_Key",
		"X-Auth-Token", "X-Auth-Email", "X-Auth-Key", "X-Access-Token", "Private-Token", "Job-Token", "Deploy-Token", "X-Vault-Token", "X-Goog-Api-Key",
		"X-Amz-Security-Token", "X-Amz-Date", "X-Csrf-Token", "X-Client-Secret", "X-Shopify-Access-Token", "Ocp-Apim-Subscription-Key", "DD-API-KEY",
		"DD-APPLICATION-KEY", "X-Authorization", "X-Forwarded-Authorization", "Authorization_", "X-Figma-Token", "Circle-Token",
		// proofs of it
		"X-Client-Cert", "Ssl-Client-Cert", "X-Ms-Client-Principal",
		"Authentication", "Authenticate", "Authorisation", "Auth", "X-Trello-Auth", "X-Registry-Auth", "Sentry_Auth", "Bearer", "X-Bearer", "X-CSRFToken", "XSRFToken", "Key", "X-Key",
		"Client-Key", "X-User-Key", "X-Admin-Key", "X-Consumer-Key", "X-License-Key", "X-ClickHouse-Key", "CB-ACCESS-PASSPHRASE", "X-Session-Id", "X-GitHub-OTP", "X-WSSE", "X-JFrog-Art-Api",
		"X-Goog-Iap-Jwt-Assertion", "DPoP", "Signature", "Signature-Input", "X-Hub-Signature-256", "X-Functions-Key", "X-Parse-Master-Key", "Aeg-Sas-Key",
	} {
		list = append(list, game{name: "header " + name, method: "GET", target: "/user", headers: []string{name + ": mine"}, through: "/user"})
	}
	for _, name := range []string{"access_token", "ACCESS_TOKEN", "access%5Ftoken", "%61ccess_token", "api_key", "private_token", "X-Amz-Signature", "client_secret", "access_token[]",
		"api-key", "X-Api-Key", "access-token", "access.token", "access+token", "access[token", "access%5Btoken"} {
		list = append(list, game{name: "parameter " + name, method: "GET", target: "/user?a=1&" + name + "=mine&b=2", through: "/user?a=1&b=2"})
	}
	for _, name := range []string{"token", "key"} { // what is no secret is a page's, or an object's
		secret := "ghp_" + strings.Repeat("a1B2c3D4", 5)[:36]
		list = append(list, game{name: "a secret " + name, method: "GET", target: "/user?a=1&" + name + "=" + secret + "&b=2", through: "/user?a=1&b=2"},
			game{name: "a plain " + name, method: "GET", target: "/user?" + name + "=page-2", through: "/user?" + name + "=page-2"})
	}
	return list
}

func (g game) host() string {
	if g.authority == "" {
		return "example.com"
	}
	return g.authority
}

func (g game) over1(t *testing.T, v *vault) int {
	t.Helper()
	text := g.method + " " + g.target + " HTTP/1.1\r\nHost: " + g.host() + "\r\n"
	for _, h := range g.headers {
		text += h + "\r\n"
	}
	return v.say(t, text+"\r\n")
}

// over2 writes the frames by hand: no client would send most of these.
func (g game) over2(t *testing.T, v *vault) int {
	t.Helper()
	fields := [][2]string{{":method", g.method}, {":scheme", "https"}, {":authority", g.host()}, {":path", g.target}}
	for _, h := range g.headers {
		name, value, _ := strings.Cut(h, ": ")
		fields = append(fields, [2]string{strings.ToLower(name), value})
	}
	return over2(t, v, fields)
}

// over2 sends one header block and gives the status that came back; 400 where
// the stream or the connection was reset.
func over2(t *testing.T, v *vault, fields [][2]string) int {
	t.Helper()
	conn := v.raw(t, "h2")
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, bufio.NewReader(conn))
	_ = framer.WriteSettings()
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true})
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return http.StatusBadRequest
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			code, _ := strconv.Atoi(f.PseudoValue("status"))
			return code
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return http.StatusBadRequest
		}
	}
}

// M-22: over both versions the same requests get through, as they were sent, with the credential
// and with nothing of the agent's own. All others are refused and recorded, and the host never
// hears of them.
func TestGamesWithTheCredential(t *testing.T) {
	all := slices.Concat(games(), stripped(), forAnother())
	if len(all) < 80 {
		t.Errorf("%d games", len(all))
	}
	allowed, denied := 0, 0
	for version, play := range map[string]func(game, *testing.T, *vault) int{"HTTP/1.1": game.over1, "HTTP/2": game.over2} {
		for _, g := range all {
			t.Run(version+"/"+g.name, func(t *testing.T) {
				v := newVault(t, nil, nil)
				code := play(g, t, v)
				if g.through != "" {
					allowed++
					checkThrough(t, v, g, code)
					return
				}
				denied++
				if g.want == 0 {
					g.want = 403
				}
				if code != g.want && code != 400 {
					t.Errorf("status %d, want %d", code, g.want)
				}
				if n := len(v.requests()); n != 0 {
					t.Errorf("the host got %+v", v.requests())
				}
			})
		}
	}
	t.Logf("%d let through, %d refused", allowed, denied)
}

func checkThrough(t *testing.T, v *vault, g game, code int) {
	t.Helper()
	got := v.requests()
	if code != 200 || len(got) != 1 || got[0].target != g.through || got[0].host != "example.com" || got[0].header.Get("Authorization") != "Bearer "+theSecret {
		t.Fatalf("status %d, the host got %+v", code, got)
	}
	for name, values := range got[0].header {
		if strings.Contains(strings.Join(values, " "), "mine") || len(values) > 1 {
			t.Errorf("%s: %q went through", name, values)
		}
	}
}

// M-22: what could be framed in two ways is refused over HTTP/1.1.
func TestSmugglingIsRefused(t *testing.T) {
	const second = "GET /evil HTTP/1.1\r\nHost: example.com\r\n\r\n"
	for name, text := range map[string]string{
		"both framings":            "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
		"two lengths":              "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n" + second,
		"lengths in one":           "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0, 44\r\n\r\n" + second,
		"a signed length":          "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: +5\r\n\r\nhello",
		"another coding":           "POST /user HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a coding spelled oddly":   "POST /user HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"a folded line":            "GET /user HTTP/1.1\r\nHost: example.com\r\nX-A: b\r\n c\r\n\r\n",
		"a space before the colon": "GET /user HTTP/1.1\r\nHost : example.com\r\n\r\n",
		"two hosts":                "GET /user HTTP/1.1\r\nHost: example.com\r\nHost: evil.example\r\n\r\n",
		"no host":                  "GET /user HTTP/1.1\r\nX: y\r\n\r\n",
		"bare line ends":           "GET /user HTTP/1.1\nHost: example.com\n\n",
		"a bare return":            "GET /user HTTP/1.1\r\nHost: example.com\r\nX: a\rb\r\n\r\n",
		"an absolute target":       "GET https://example.com/user HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"another absolute target":  "GET https://evil.example/user HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"an asterisk":              "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"a tunnel in the tunnel":   "CONNECT evil.example:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"HTTP/0.9":                 "GET /user\r\n\r\n",
		"HTTP/2.0 in words":        "GET /user HTTP/2.0\r\nHost: example.com\r\n\r\n",
		"a websocket":              "GET /user HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
		"an upgrade to HTTP/2":     "GET /user HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
		"announced trailers":       "POST /user HTTP/1.1\r\nHost: example.com\r\nTrailer: Authorization\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another expectation":      "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\nExpect: more\r\n\r\nx",
		"a large head":             "GET /user HTTP/1.1\r\nHost: example.com\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n",
		"many headers":             "GET /user HTTP/1.1\r\nHost: example.com\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n",
	} {
		v := newVault(t, nil, nil)
		code := v.say(t, text)
		if code < 400 || len(v.requests()) != 0 {
			t.Errorf("%s: status %d, the host got %+v", name, code, v.requests())
		}
		if len(v.log.find("denied")) != 1 {
			t.Errorf("%s: no record, or more than one", name)
		}
	}
}

// M-22: a form cannot make the host act on another method than the credential's.
func TestAFormDoesNotChangeTheMethod(t *testing.T) {
	const form, parts = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; " + name + "\r\n\r\nDELETE\r\n--b--\r\n"
	}
	for name, c := range map[string]struct {
		kind, body string
		through    bool
	}{
		"first":                           {form, "_method=DELETE&a=b", false},
		"last":                            {form, "a=b&_method=delete", false},
		"escaped":                         {form, "a=b&%5f%6dethod=DELETE", false},
		"with a space before it":          {form, "+_method=DELETE", false},
		"after a long value":              {form, "a=" + strings.Repeat("x", 100_000) + "&_method=DELETE", false},
		"a part":                          {parts, part(`name="_method"`), false},
		"a part without quotes":           {parts, part(`name=_method`), false},
		"a part in other letters":         {parts, part(`NAME="_METHOD"`), false},
		"a part after a large one":        {parts, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + strings.Repeat("y", 100_000) + "\r\n" + part(`name="_method"`), false},
		"as a value":                      {form, "a=_method&http_method=GET&x_method=b", true},
		"in a part's text":                {parts, part(`name="text"; filename="_method"`) + `<form enctype="multipart/form-data"> <input name="_method" value="put">`, true},
		"a part behind a long parameter":  {parts, part(`x="` + strings.Repeat("y", 6_000) + `"; name="_method"`), false},
		"a part behind one too long":      {parts, part(`x="` + strings.Repeat("y", 60_000) + `"; name="_method"`), false},
		"a folded part":                   {parts, "--b\r\nContent-Disposition: form-data;\r\n name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", false},
		"a part folded twice":             {parts, "--b\r\nContent-Disposition:\r\n\tform-data;\r\n  name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", false},
		"a folded part of bare lines":     {parts, "--b\nContent-Disposition:\n form-data; name=_method\n\nDELETE\n--b--\n", false},
		"a part of bare returns":          {parts, "--b\rContent-Disposition: form-data; name=_method\r\rDELETE\r--b--\r", false},
		"a part with a quoted pair":       {parts, part(`name="_\method"`), false},
		"a part named in pieces":          {parts, part(`name*0="_met"; name*1="hod"`), false},
		"a part named with its charset":   {parts, part(`name*=utf-8''%5fmethod`), false},
		"a part with a space":             {parts, "--b\r\nContent-Disposition : form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", false},
		"a part without a type":           {parts, "--b\r\nContent-Disposition: name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", false},
		"a part in another header":        {parts, "--b\r\nX-Content-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", false},
		"a part with an identity":         {parts, "--b\r\nContent-ID: <_method>\r\n\r\nDELETE\r\n--b--\r\n", false},
		"two boundaries":                  {parts + "; boundary=b", part(`name="_method"`), false},
		"a form with a broken parameter":  {form + "; charset=a; charset=b", "_method=DELETE", false},
		"a mail with a long header":       {parts, part(`name="mail"; filename="a.eml"`)[:len("--b\r\nContent-Disposition: form-data; name=\"mail\"; filename=\"a.eml\"\r\n\r\n")] + "Subject: x\r\nContent-Disposition: attachment; filename=\"" + strings.Repeat("y", 20_000) + "\"\r\n\r\ntext\r\n--b--\r\n", true},
		"a script with long lines":        {parts, part(`name="dump"`) + "-- a comment\nINSERT '" + strings.Repeat("content-disposition ", 2_000) + "'\n", true},
		"a folded part that is plain":     {parts, "--b\r\nContent-Disposition: form-data;\r\n name=\"a\"\r\n\r\n_method\r\n--b--\r\n", true},
		"in a body that is no form":       {"application/json", `{"text": "_method=DELETE"}`, true},
		"in upper case, with underscores": {form, "X_HTTP_METHOD_OVERRIDE=DELETE", false},
		"another framework's":             {form, "_http_method=DELETE", false},
		"a third one's":                   {form, "_HttpMethod=DELETE", false},
		"behind many spaces":              {form, strings.Repeat("+", 3000) + "_method=DELETE", false},
		"behind many escaped spaces":      {form, strings.Repeat("%20", 3000) + "_method=DELETE", false},
		"without a type":                  {"", "a=b&_method=DELETE", false},
		"in another character set":        {form + "; charset=ibm037", "m=1", false},
		"in letters of two bytes":         {form + ";charset=UTF-16", "m=1", false},
		"for another user":                {form, "a=b&sudo=root", false},
		"for another user, in a part":     {parts, part(`name="sudo"`), false},
		"a part with an encoded word":     {parts, part(`name="=?utf-8?q?_method?="`), false},
		"JSON":                            {"application/json", `{"a": 1, "_method": "DELETE"}`, false},
		"JSON, escaped":                   {"application/json", `{"\u005fmethod": "DELETE"}`, false},
		"JSON of another type":            {"application/vnd.api+json", `{"x-http-method-override": "DELETE"}`, false},
		"JSON behind a text":              {"application/json", `{"a": "\"}{", "b": [{"c": 1}], "_method": "DELETE"}`, false},
		"JSON for another user":           {"application/json", `{"sudo": "root"}`, false},
		"JSON with a mark":                {"application/json", jsonMark + `{"_method": "DELETE"}`, false},
		"JSON with a comment":             {"application/json", `{/*"*/"_method": "DELETE"}`, false},
		"JSON in letters of two bytes":    {"application/json", "{\x00\"\x00_\x00m\x00", false},
		"JSON that is said to be text":    {"text/plain", ` {"_method": "DELETE"}`, false},
		"JSON without a type":             {"", `{"_method": "DELETE"}`, false},
		"a second document":               {"application/x-ndjson", "{\"a\": 1}\n{\"_method\": \"DELETE\"}\n", false},
		"JSON that is plain":              {"application/json", `{"method": "card", "a": {"_method": "DELETE", "sudo": 1}, "b": ["_method", {"_method": 1}], "c": "_method", "sudoers": -1.5e+3, "d": null}`, true},
		"a list":                          {"application/json", `["_method", {"_method": 1}]`, true},
		"a text":                          {"text/plain", `it's _method=DELETE & {"_method": 1}`, true},
		"a program":                       {"text/javascript", `x = {"_method": 1}`, true},
		"bytes without a type":            {"application/octet-stream", `_method=DELETE`, true},
		"nothing":                         {form, "", true},
	} {
		bothVersions(t, func(t *testing.T, http2 bool) {
			v := newVault(t, nil, nil)
			resp, err := v.client(t, http2).Post("https://example.com/user", c.kind, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if c.through != (resp.StatusCode == 200) {
				t.Errorf("%s: have %d", name, resp.StatusCode)
			}
			for _, got := range v.requests() {
				if !c.through && got.body == c.body {
					t.Errorf("%s: the host got all of it", name)
				}
			}
		})
	}
}

const jsonMark = "\xef\xbb\xbf"

// M-22: what is packed is unpacked before its names are read, and what cannot be is refused.
func TestAPackedFormDoesNotChangeTheMethod(t *testing.T) {
	t.Parallel()
	plain, moved := `{"a": "_method"}`, `{"a": "`+strings.Repeat("b", 100_000)+`", "_method": "DELETE"}`
	for name, c := range map[string]struct {
		coding, body string
		want         int
	}{
		"gzip":               {"gzip", string(packed(t, gzipped, []byte(moved))), 403},
		"deflate":            {"deflate", string(packed(t, zlibbed, []byte(moved))), 403},
		"bare deflate":       {"deflate", string(packed(t, deflated, []byte(moved))), 403},
		"twice":              {"gzip, gzip", string(packed(t, gzipped, packed(t, gzipped, []byte(moved)))), 403},
		"another coding":     {"br", plain, 415},
		"gzip that is plain": {"gzip", string(packed(t, gzipped, []byte(plain))), 200},
		"coded as it is":     {"identity", plain, 200},
		"coded, and moved":   {"identity", moved, 403},
	} {
		v := newVault(t, nil, nil)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/user", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Content-Encoding", c.coding)
		answer, err := v.client(t, true).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: have %d, want %d", name, answer.StatusCode, c.want)
		}
		for _, got := range v.requests() {
			if c.want != 200 && got.body == c.body {
				t.Errorf("%s: the host got all of it", name)
			}
		}
	}
}

// A body that turns out malformed never reaches its end at the host.
func TestAMalformedBodyIsCut(t *testing.T) {
	for name, body := range map[string]string{
		"trailers": "5\r\nhello\r\n0\r\nAuthorization: mine\r\n\r\n", "an extension": "5;x=y\r\nhello\r\n0\r\n\r\n",
		"no size": "zz\r\n", "bare line ends": "5\nhello\n0\n\n",
	} {
		v := newVault(t, nil, nil)
		code := v.say(t, "POST /user HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		if code < 400 {
			t.Errorf("%s: status %d", name, code)
		}
		for _, r := range v.requests() {
			if strings.Contains(fmt.Sprint(r.header), "mine") {
				t.Errorf("%s: the host got %+v", name, r)
			}
		}
	}
}

// A pipelined request is one of its own, judged like every other.
func TestEachPipelinedRequestIsJudged(t *testing.T) {
	v := newVault(t, nil, nil)
	conn := v.raw(t)
	_, _ = io.WriteString(conn, "POST /user HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhelloGET /evil HTTP/1.1\r\nHost: example.com\r\n\r\nGET /user HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	r := bufio.NewReader(conn)
	for i, want := range []int{200, 403, 200} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("answer %d: %v %v", i, resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if len(v.requests()) != 2 {
		t.Errorf("the host got %+v", v.requests())
	}
}

// M-22: header blocks that no client would send, over HTTP/2.
func TestHeaderBlocksOverHTTP2(t *testing.T) {
	plain := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "example.com"}, {":path", "/user"}}
	for name, fields := range map[string][][2]string{
		"another Host beside the authority": append(plain[:4:4], [2]string{"host", "evil.example"}),
		"two paths":                         append(plain[:4:4], [2]string{":path", "/evil"}),
		"two authorities":                   append(plain[:4:4], [2]string{":authority", "evil.example"}),
		"no authority":                      {plain[0], plain[1], plain[3]},
		"no path":                           {plain[0], plain[1], plain[2]},
		"an empty path":                     {plain[0], plain[1], plain[2], {":path", ""}},
		"an absolute path":                  {plain[0], plain[1], plain[2], {":path", "https://evil.example/user"}},
		"a path without a slash":            {plain[0], plain[1], plain[2], {":path", "user"}},
		"an asterisk":                       {plain[0], plain[1], plain[2], {":path", "*"}},
		"a space in the path":               {plain[0], plain[1], plain[2], {":path", "/user HTTP/1.1"}},
		"a line end in the path":            {plain[0], plain[1], plain[2], {":path", "/user\r\nX: y"}},
		"a pseudo header that is none":      append(plain[:4:4], [2]string{":protocol", "websocket"}),
		"a header before the pseudo ones":   append([][2]string{{"x", "y"}}, plain...),
		"upper case":                        append(plain[:4:4], [2]string{"X-Upper", "y"}),
		"a header of the connection":        append(plain[:4:4], [2]string{"connection", "authorization"}),
		"a coding":                          append(plain[:4:4], [2]string{"transfer-encoding", "chunked"}),
		"an upgrade":                        append(plain[:4:4], [2]string{"upgrade", "websocket"}),
		"a line end in a value":             append(plain[:4:4], [2]string{"x", "a\r\nauthorization: mine"}),
		"a name with a colon":               append(plain[:4:4], [2]string{"x:y", "a"}),
		"a length that is not the body's":   append(plain[:4:4], [2]string{"content-length", "5"}),
		"trailers that are announced":       append(plain[:4:4], [2]string{"trailer", "authorization"}),
		"a tunnel in the tunnel":            {{":method", "CONNECT"}, {":authority", "evil.example:443"}},
	} {
		v := newVault(t, nil, nil)
		if code := over2(t, v, fields); code < 400 || len(v.requests()) != 0 {
			t.Errorf("%s: status %d, the host got %+v", name, code, v.requests())
		}
	}
	v := newVault(t, nil, nil)
	if code := over2(t, v, append(plain[:4:4], [2]string{"host", "example.com"})); code != 200 {
		t.Errorf("the same Host beside the authority: %d", code)
	}
}

// The name in the hello is the CONNECT's there too.
func TestTheHelloOfAnOpenedHostIsChecked(t *testing.T) {
	for name, bytes := range map[string][]byte{"another name": hello("evil.example", nil), "no name": hello("", nil), "no TLS": []byte("GET / HTTP/1.1\r\n\r\n")} {
		v := newVault(t, nil, nil)
		conn := dial(t, v.socket)
		_, _ = io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\n\r\n")
		_, _ = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")))
		_, _ = conn.Write(bytes)
		if n, err := conn.Read(make([]byte, 1)); n == 1 && err == nil {
			// an alert
			v.log.await(t, "denied", 1)
		}
		if len(v.log.find(egress.OutcomeAnswered)) != 0 || len(v.log.await(t, "denied", 1)) != 1 {
			t.Errorf("%s: no refusal", name)
		}
	}
}
