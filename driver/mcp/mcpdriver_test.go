package mcpdriver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	mcpdriver "github.com/nacre-dev/nacre/driver/mcp"
)

func open(t *testing.T, s mcpdriver.Server) *mcpdriver.Client {
	t.Helper()
	c, err := mcpdriver.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// tools are the tools of a server by capability.
func tools(t *testing.T, c *mcpdriver.Client) map[nacre.CapabilityID]nacre.Tool {
	t.Helper()
	listed, _, err := c.Tools(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := map[nacre.CapabilityID]nacre.Tool{}
	for _, tool := range listed {
		all[tool.Capability.ID] = tool
	}
	return all
}

func call(tool nacre.Tool, arguments string) (string, error) {
	raw, err := tool.Driver.Do(context.Background(), nacre.Invocation{Arguments: json.RawMessage(arguments)})
	return string(raw), err
}

// overHTTP serves over loopback.
func overHTTP(t *testing.T, protocol string) mcpdriver.Server {
	t.Helper()
	over := make(chan struct{})
	server := newServer(over)
	options := &mcp.StreamableHTTPOptions{Stateless: protocol == "2026-07-28", PropagateRequestCancellation: true} // the newer one knows no sessions
	listener := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
	t.Cleanup(func() {
		close(over)
		listener.Close()
	})
	return mcpdriver.Server{Name: "peer", Endpoint: mcpdriver.Endpoint{URL: listener.URL, Cleartext: true}, Protocol: protocol}
}

// everywhere runs a test over both transports in both revisions.
func everywhere(t *testing.T, test func(t *testing.T, s mcpdriver.Server)) {
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		t.Run("stdio "+protocol, func(t *testing.T) {
			s := command(t, "sdk")
			s.Protocol = protocol
			test(t, s)
		})
		t.Run("http "+protocol, func(t *testing.T) {
			test(t, overHTTP(t, protocol))
		})
	}
}

func TestTools(t *testing.T) { // K-13
	everywhere(t, func(t *testing.T, s mcpdriver.Server) {
		c := open(t, s)
		if c.Protocol() != s.Protocol {
			t.Errorf("have revision %s, want %s", c.Protocol(), s.Protocol)
		}
		listed, warnings, err := c.Tools(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range listed {
			got := tool.Capability
			if got.Safety != nacre.Destructive || got.Returns != nacre.Untrusted || got.Sensitivity != nacre.SensitiveSecrets || !strings.HasPrefix(got.ContentHash, "sha256:") {
				t.Errorf("%s: have %v %v %v %q", got.ID, got.Safety, got.Returns, got.Sensitivity, got.ContentHash)
			}
		}
		echo := listed[slices.IndexFunc(listed, func(tool nacre.Tool) bool { return tool.Capability.ID == "peer.echo" })].Capability
		if echo.Tool != "peer_echo" || !slices.Equal(echo.Sinks, []string{"text"}) || !strings.Contains(string(echo.Schema), `"additionalProperties":false`) {
			t.Errorf("have %+v", echo)
		}
		if either := tools(t, c)["peer.either"].Capability; !slices.Equal(either.Sinks, []string{"a", "b"}) {
			t.Errorf("have %+v", either)
		}
		all := strings.Join(warnings, "\n")
		if !strings.Contains(all, `"free-form" is left out: schema: arguments.filter is an object with any properties`) {
			t.Errorf("have %s", all)
		}
		if !strings.Contains(all, `"composed" is left out: its arguments are under "allOf"`) {
			t.Errorf("have %s", all)
		}
	})
}

func TestResults(t *testing.T) { // K-13
	everywhere(t, func(t *testing.T, s mcpdriver.Server) {
		all := tools(t, open(t, s))
		for _, c := range []struct{ name, arguments, want, err string }{
			{"peer.echo", `{"text":"hello"}`, `{"content":[{"type":"text","text":"{\"text\":\"hello\"}"}]}`, ""},
			{"peer.structured", ``, `{"id": 12345678901234567890}`, ""},
			{"peer.inexact", ``, "", "would not be kept exactly"},
			{"peer.fails", `{}`, "", "HANDLER_ERROR: no such invoice"},
			{"peer.huge", `{}`, "", "over the limit"},
		} {
			have, err := call(all[nacre.CapabilityID(c.name)], c.arguments)
			if have != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || nacre.IsNotSent(err) {
				t.Errorf("%s\nhave %.200s, %v\nwant %s, %s", c.name, have, err, c.want, c.err)
			}
		}
	})
}

func TestACallOutOfTime(t *testing.T) {
	everywhere(t, func(t *testing.T, s mcpdriver.Server) {
		all := tools(t, open(t, s))
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := all["peer.hang"].Driver.Do(ctx, nacre.Invocation{})
		if !errors.Is(err, context.DeadlineExceeded) || nacre.IsNotSent(err) {
			t.Errorf("have %v", err)
		}
		if _, err := call(all["peer.echo"], `{"text":"still there"}`); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

func TestAServerIsGivenNothingToAsk(t *testing.T) {
	s := command(t, "sdk")
	s.Protocol = "2025-11-25"
	have, err := call(tools(t, open(t, s))["peer.sample"], `{}`)
	if err != nil || !strings.Contains(have, "asked: true") {
		t.Errorf("have %s, %v", have, err)
	}
}

// A server that changes what it says of a tool after it was reviewed is not called.
func TestRugPull(t *testing.T) { // K-13
	everywhere(t, func(t *testing.T, s mcpdriver.Server) {
		now := time.Unix(1_700_000_000, 0)
		s.Now = func() time.Time { return now }
		c := open(t, s)
		before := tools(t, c)
		if _, err := call(before["peer.echo"], `{"text":"x"}`); err != nil {
			t.Fatal(err)
		}
		if _, err := call(before["peer.change"], `{}`); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute) // where no notice came, age does it
		_, err := call(before["peer.echo"], `{"text":"x"}`)
		if err == nil || !strings.Contains(err.Error(), "register it again") || !nacre.IsNotSent(err) {
			t.Fatalf("have %v", err)
		}
		if _, err := call(before["peer.structured"], `{}`); err != nil {
			t.Errorf("a tool that did not change: %v", err)
		}
		after := tools(t, c)
		if before["peer.echo"].Capability.ContentHash == after["peer.echo"].Capability.ContentHash {
			t.Error("the content hash is what it was")
		}
		if have, err := call(after["peer.echo"], `{}`); err != nil || !strings.Contains(have, "changed") {
			t.Errorf("registered again: have %s, %v", have, err)
		}
		if _, err := call(before["peer.echo"], `{"text":"x"}`); err == nil {
			t.Error("the old registration came back to life")
		}
		if _, err := call(after["peer.withdraw"], `{}`); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute)
		if _, err := call(after["peer.echo"], `{}`); err == nil || !nacre.IsNotSent(err) {
			t.Errorf("a tool that is gone: %v", err)
		}
	})
}

func TestACrash(t *testing.T) { // K-13
	c := open(t, command(t, "sdk"))
	all := tools(t, c)
	if _, err := call(all["peer.crash"], `{}`); err == nil || nacre.IsNotSent(err) {
		t.Errorf("have %v", err)
	}
	if err := c.Close(); err != nil {
		t.Logf("close: %v", err) // how it ended is its own affair
	}
	_, err := call(all["peer.echo"], `{"text":"x"}`)
	var unavailable interface{ Unavailable() bool }
	if !errors.As(err, &unavailable) || !unavailable.Unavailable() || !nacre.IsNotSent(err) {
		t.Errorf("have %v", err)
	}
}

func TestMessagesTooLarge(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s mcpdriver.Server) {
		if have, err := call(tools(t, open(t, s))["peer.monstrous"], `{}`); err == nil || nacre.IsNotSent(err) {
			t.Errorf("have %.80s, %v", have, err)
		}
	})
}

func TestTheEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("A_STANDING_SECRET", "s3cr3t")
	s := command(t, "sdk")
	s.SecretEnv = map[string]nacre.Secret{"TOKEN": nacre.NewSecret("given")}
	have, err := call(tools(t, open(t, s))["peer.environment"], `{}`)
	if err != nil || strings.Contains(have, "s3cr3t") || strings.Contains(have, "PATH=") || !strings.Contains(have, "TOKEN=given") {
		t.Errorf("have %s, %v", have, err)
	}
}

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"garbage", "flood", "gone"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if c, err := mcpdriver.Open(context.Background(), command(t, mode)); err == nil {
				_ = c.Close()
				t.Error("opened")
			}
		})
	}
	for _, mode := range []string{"twice", "pages"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if _, _, err := open(t, command(t, mode)).Tools(context.Background()); err == nil {
				t.Error("its tools were accepted")
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		s := command(t, "silent")
		s.Timeout = 100 * time.Millisecond
		if _, err := mcpdriver.Open(context.Background(), s); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("have %v", err)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		t.Parallel()
		s := command(t, "deaf")
		s.Timeout = time.Second
		c := open(t, s)
		one := tools(t, c)["peer.one"]
		if _, err := call(one, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`); err == nil || nacre.IsNotSent(err) {
			t.Errorf("have %v", err)
		}
	})
	t.Run("stubborn", func(t *testing.T) { // goleak and the test's end say that it was ended
		t.Parallel()
		c := open(t, command(t, "stubborn"))
		tools(t, c)
		_ = c.Close()
	})
}

func TestNothingWasSentOverHTTP(t *testing.T) { // K-13
	c := open(t, overHTTP(t, "2025-11-25"))
	all := tools(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := all["peer.echo"].Driver.Do(ctx, nacre.Invocation{}); !nacre.IsNotSent(err) {
		t.Errorf("have %v", err)
	}
}

// The SDK sends the notice beside the call's return: whichever came first decided
// what was said of the call.
func TestTheNoticeOfACallGivenUpIsNotTheCall(t *testing.T) { // K-13
	var notices atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { notices.Add(1) }))
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if sent, err := mcpdriver.Sent(ctx, server.URL); sent || err != nil || notices.Load() != 1 {
		t.Errorf("have sent %v, %v, and %d notices", sent, err, notices.Load())
	}
}

func TestHTTP(t *testing.T) {
	t.Run("a redirect is refused", func(t *testing.T) {
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
		defer elsewhere.Close()
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
		defer server.Close()
		if c, err := mcpdriver.Open(context.Background(), mcpdriver.Server{Name: "peer", Endpoint: mcpdriver.Endpoint{URL: server.URL, Cleartext: true}}); err == nil {
			_ = c.Close()
			t.Error("opened")
		}
	})
	t.Run("secrets are sent and not shown", func(t *testing.T) {
		var have atomic.Value
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			have.Store(r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusUnauthorized)
		}))
		defer server.Close()
		_, err := mcpdriver.Open(context.Background(), mcpdriver.Server{Name: "peer", Endpoint: mcpdriver.Endpoint{URL: server.URL, Cleartext: true,
			Secrets: map[string]nacre.Secret{"Authorization": nacre.NewSecret("Bearer s3cr3t")}}})
		if have.Load() != "Bearer s3cr3t" || err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("have %v, %v", have.Load(), err)
		}
	})
}

func TestServersThatAreRefused(t *testing.T) {
	good := mcpdriver.Server{Name: "peer", Endpoint: mcpdriver.Endpoint{URL: "https://mcp.example.com/"}}
	for name, change := range map[string]func(*mcpdriver.Server){
		"no name":              func(s *mcpdriver.Server) { s.Name = "" },
		"a dotted name":        func(s *mcpdriver.Server) { s.Name = "a.b" },
		"no way to it":         func(s *mcpdriver.Server) { s.URL = "" },
		"two ways to it":       func(s *mcpdriver.Server) { s.Command = []string{"/bin/true"} },
		"cleartext":            func(s *mcpdriver.Server) { s.URL = "http://mcp.example.com/" },
		"a user in the URL":    func(s *mcpdriver.Server) { s.URL = "https://u:p@mcp.example.com/" },
		"no host":              func(s *mcpdriver.Server) { s.URL = "https:///x" },
		"a negative timeout":   func(s *mcpdriver.Server) { s.Timeout = -1 },
		"an unknown word":      func(s *mcpdriver.Server) { s.Unannotated = "bogus" },
		"an unknown class":     func(s *mcpdriver.Server) { s.Classes = map[string]nacre.SafetyClass{"x": 9} },
		"an unusable secret":   func(s *mcpdriver.Server) { s.Secrets = map[string]nacre.Secret{"X": nacre.NewSecret("a\nb")} },
		"no such command":      func(s *mcpdriver.Server) { s.URL, s.Command = "", []string{"/nonexistent/server"} },
		"a connection refused": func(s *mcpdriver.Server) { s.URL, s.Cleartext = "http://127.0.0.1:1/", true },
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			change(&s)
			if c, err := mcpdriver.Open(context.Background(), s); err == nil {
				_ = c.Close()
				t.Error("opened")
			}
		})
	}
}
