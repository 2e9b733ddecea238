package main_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// signInServer is an MCP server and its authorization server, which registers clients, asks
// for PKCE and the resource, and gives each refresh token once.
type signInServer struct {
	tools http.Handler

	mu        sync.Mutex
	how       string // what is wrong with it
	waits     int    // how often who has a code is told to wait
	challenge string
	life      int
	good      []string
	refresh   string
	made      int
	seen      []string // tokens that the MCP server was shown
}

func (s *signInServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const at = "https://example.com"
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/register" {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(v)
	}
	refuse := func() { w.WriteHeader(http.StatusBadRequest); _, _ = w.Write([]byte(`{"error":"invalid_grant"}`)) }
	switch r.URL.Path {
	case "/mcp":
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.seen = append(s.seen, token)
		if !slices.Contains(s.good, token) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+at+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Host = "localhost"
		s.mu.Unlock()
		defer s.mu.Lock()
		s.tools.ServeHTTP(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		answer(map[string]any{"resource": at + "/mcp", "authorization_servers": []string{at}, "scopes_supported": []string{"read", "write"}})
	case "/.well-known/oauth-authorization-server":
		answer(map[string]any{
			"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "registration_endpoint": at + "/register", "revocation_endpoint": at + "/revoke", "device_authorization_endpoint": at + "/device",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/register":
		var asked map[string]any
		_ = json.NewDecoder(r.Body).Decode(&asked)
		asked["client_id"] = "nacre-1"
		answer(asked)
	case "/authorize":
		q := r.URL.Query()
		s.challenge = q.Get("code_challenge")
		if q.Get("resource") != at+"/mcp" || q.Get("code_challenge_method") != "S256" || q.Get("scope") != "read" {
			refuse()
			return
		}
		back := url.Values{"code": {"the-code"}, "state": {q.Get("state")}, "iss": {map[bool]string{true: "https://evil.example", false: at}[s.how == "another issuer"]}}
		if s.how == "a refusal" {
			back = url.Values{"error": {"access_denied"}, "state": {q.Get("state")}}
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case "/device":
		if r.Form.Get("resource") != at+"/mcp" || r.Form.Get("scope") != "read" || r.Form.Get("client_id") != "nacre-1" {
			refuse()
			return
		}
		answer(map[string]any{"device_code": "the-device-code", "user_code": "WDJB-MJHT", "verification_uri": at + "/type", "expires_in": 600, "interval": 1})
	case "/token":
		byCode := r.Form.Get("grant_type") == "urn:ietf:params:oauth:grant-type:device_code" && r.Form.Get("device_code") == "the-device-code" && r.Form.Get("client_id") == "nacre-1"
		if s.waits--; byCode && (s.waits >= 0 || s.how == "a refusal") {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": map[bool]string{true: "authorization_pending", false: "access_denied"}[s.waits >= 0]})
			return
		}
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		first := r.Form.Get("code") == "the-code" && base64.RawURLEncoding.EncodeToString(sum[:]) == s.challenge
		if r.Form.Get("resource") != at+"/mcp" || !first && !byCode && (s.refresh == "" || r.Form.Get("refresh_token") != s.refresh) {
			refuse()
			return
		}
		s.made++
		token := fmt.Sprintf("mcp-access-token-%d", s.made)
		s.refresh = fmt.Sprintf("mcp-refresh-token-%d", s.made)
		s.good = append(s.good, token)
		answer(map[string]any{"access_token": token, "refresh_token": s.refresh, "token_type": "Bearer", "expires_in": s.life, "scope": map[bool]string{true: "read write", false: "read"}[s.how == "more scopes"]})
	case "/revoke":
		s.good, s.refresh = nil, ""
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// signingIn is an installation with a plugin whose handler is such a server.
func signingIn(t *testing.T) (*installation, *signInServer, *httptest.Server) {
	t.Helper()
	tools := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	tools.AddTool(&mcp.Tool{Name: "remote_say", Description: "d", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "from afar"}}}, nil
		})
	s := &signInServer{life: 3600, tools: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil)}
	web := httptest.NewTLSServer(s)
	t.Cleanup(web.Close)
	proxy := httptest.NewServer(&testpeer.Proxy{To: web.Listener.Addr().String()})
	t.Cleanup(proxy.Close)
	i := install(t)
	i.env = append(i.env, "SSL_CERT_FILE="+i.certificateOf(web), "HTTPS_PROXY="+proxy.URL)
	i.config(fmt.Sprintf("[groups.main]\ntools = [\"remote_say\"]\n[access.remote]\nhosts = [\"example.com:443\"]\n[access.remote.credentials]\nkey = { value_oauth = %q }\n[egress.pin]\n\"example.com:443\" = %q\n",
		i.signIn(), web.Listener.Addr()))
	i.write("home/.local/share/nacre/plugins/remote/manifest.json", `{"description": "d", "version": "1.0.0", "hosts": ["example.com"],
		"mcp": {"url": "https://example.com/mcp", "credential": "key"}, "install": {"credentials": [{"key": "key", "description": "k", "required": true}]},
		"provides": {"tools": [{"name": "remote_say", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {}}}]}}`)
	return i, s, web
}

// signIn is the file of the sign-in.
func (i *installation) signIn() string {
	return filepath.Join(i.work, "home/.config/nacre/credentials/notes.oauth")
}

// tokenEnds lets the token that is kept be over.
func (i *installation) tokenEnds() {
	i.t.Helper()
	data, err := os.ReadFile(i.signIn())
	var kept map[string]any
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	kept["expires"] = "2020-01-01T00:00:00Z"
	if data, err = json.Marshal(kept); err == nil {
		err = os.WriteFile(i.signIn(), data, 0o600)
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

// signsIn signs in as a person does: in a browser.
func (i *installation) signsIn(web *httptest.Server) result {
	i.t.Helper()
	command := i.command(filepath.Join(bin, "nacre"), "credentials", "login", "notes", "--url", "https://example.com/mcp", "--scope", "read")
	var out bytes.Buffer
	command.Stdout = &out
	told, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		i.t.Fatal(err)
	}
	var said strings.Builder
	page := ""
	lines := bufio.NewScanner(told)
	for page == "" && lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		_, page, _ = strings.Cut(lines.Text(), "sign in here: ")
	}
	if page != "" {
		i.isNacresOwn(backFrom(page))
		browser := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "example.com:") {
					address = web.Listener.Addr().String()
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			},
		}}
		if resp, err := browser.Get(page); err == nil {
			_ = resp.Body.Close()
		}
		browser.CloseIdleConnections()
	}
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
	}
	return result{exitCode(command.Wait()), out.String(), said.String()}
}

// backFrom is the page of this machine that a sign-in comes back to.
func backFrom(page string) string {
	at, _ := url.Parse(page) // an empty one is no page either
	return at.Query().Get("redirect_uri")
}

// M-36: a person signs in at an MCP server once, and its plugin is given tokens that are refreshed.
// Nothing of them is inside or in what nacre records, and a sign-out revokes them.
func TestAPersonSignsInAtAnMCPServer(t *testing.T) {
	t.Parallel()
	i, s, web := signingIn(t)
	i.project()
	has(t, i.play("a task", "ipc remote_say '{}'")[0], "UNKNOWN_TOOL")
	i.recorded("work", "needs sign-in", "nacre credentials login notes")
	i.nacre("approvals", "waiting").want(t, 0, "credential", "needs sign-in: nobody has signed in yet", "nacre credentials login notes --url")
	i.signsIn(web).want(t, 0, "signed in at example.com", "it is refreshed", "value_oauth = ")
	i.nacre("exec", "--session", "one", "--", "ipc", "remote_say", "{}").want(t, 0, "from afar")
	s.mu.Lock()
	if s.made != 1 || !slices.Contains(s.seen, "mcp-access-token-1") {
		t.Errorf("%d tokens were made, and the server was shown %v", s.made, s.seen)
	}
	s.good = nil
	s.mu.Unlock()
	i.tokenEnds()
	i.nacre("exec", "--session", "two", "--", "ipc", "remote_say", "{}").want(t, 0, "from afar")
	s.mu.Lock()
	if s.made != 2 || !slices.Contains(s.seen, "mcp-access-token-2") {
		t.Errorf("%d tokens were made, and the server was shown %v", s.made, s.seen)
	}
	last := s.refresh
	s.refresh = ""
	s.mu.Unlock()
	i.tokenEnds()
	i.nacre("exec", "--session", "three", "--", "ipc", "remote_say", "{}").want(t, 1, "UNKNOWN_TOOL")
	i.recorded("three", "needs sign-in", "invalid_grant", "nacre credentials login notes --url https://example.com/mcp")
	s.refresh = last
	hasNoSecret(t, i.state(), "mcp-access-token")
	hasNoSecret(t, i.state(), "mcp-refresh-token")
	i.nacre("credentials", "logout", "notes").want(t, 0, "revoked, and its file is gone")
	if s.mu.Lock(); s.refresh != "" {
		t.Error("it is not revoked")
	}
	s.mu.Unlock()
	i.nacre("credentials", "logout", "notes").want(t, 2, "there is no sign-in notes")
}

// M-35, M-36: a sign-in that is not what was asked for is not kept.
func TestASignInThatIsNotWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"another issuer": "issuer", "a refusal": "access_denied", "more scopes": "more scopes than were asked for",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			i, s, web := signingIn(t)
			s.how = how
			i.signsIn(web).want(t, 3, want)
			if len(s.good) > 0 {
				t.Errorf("%v are good", s.good)
			}
			i.nacre("credentials", "logout", "notes").want(t, 2, "there is no sign-in")
		})
	}
}

// M-36: where there is no browser, a person types a code on another device. A token that is more than was
// asked for, and a no, leave nothing.
func TestAPersonSignsInWithACode(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{"": "signed in at example.com", "a refusal": "access_denied", "more scopes": "more scopes than were asked for"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			i, s, _ := signingIn(t)
			s.how, s.waits = how, 1
			r := i.nacre("credentials", "login", "notes", "--url", "https://example.com/mcp", "--scope", "read", "--device")
			r.want(t, map[bool]int{true: 0, false: 3}[how == ""], want, "type the code WDJB-MJHT here: https://example.com/type")
			r.hasNoSecret(t, "the-device-code", "mcp-access-token-1", "mcp-refresh-token-1")
			hasNoSecret(t, filepath.Join(i.work, "home/.config/nacre"), "the-device-code")
			if how != "" {
				i.nacre("credentials", "logout", "notes").want(t, 2, "there is no sign-in")
				return
			}
			i.nacre("exec", "--session", "one", "--", "ipc", "remote_say", "{}").want(t, 0, "from afar")
			hasNoSecret(t, i.state(), "mcp-access-token-1")
			i.nacre("credentials", "logout", "notes").want(t, 0, "revoked, and its file is gone")
		})
	}
}
