package main_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// upstreamOf serves a script on loopback until the test ends.
func upstreamOf(t *testing.T, script scriptedmodel.Script) (*scriptedmodel.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := scriptedmodel.New(script)
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(t.Context(), listener) }) // ends with the test
	t.Cleanup(func() {
		_ = listener.Close()
		done.Wait()
		for _, failure := range server.Failures() {
			t.Error(failure)
		}
	})
	return server, "http://" + listener.Addr().String()
}

// M-03, M-04: nacre's own loop in both formats works sealed on a real
// repository, through the gateway, which alone has the key.
func TestNativeBrainsWorkThroughTheGateway(t *testing.T) {
	t.Parallel()
	const key = "local-key-of-the-test"
	for name, dialect := range map[string]string{"anthropic": "anthropic", "openai": "openai-chat"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := scriptedmodel.Script{Turns: []scriptedmodel.Turn{
				{Text: "I will look.", Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"cat greeting.txt; env | grep -c LOCAL_KEY || true"}`)}}},
				{Tools: []scriptedmodel.Tool{{Name: "edit", Input: []byte(`{"path":"greeting.txt","old":"hello","new":"hello world"}`)}}},
				{Tools: []scriptedmodel.Tool{{Name: "get_session_info", Input: []byte(`{}`)}}},
				{Text: "Done."},
			}}
			server, url := upstreamOf(t, script)
			i := install(t)
			i.project()
			i.env = append(i.env, "LOCAL_KEY="+key)
			i.write("home/.config/nacre/config.toml", fmt.Sprintf(
				"[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [%q]\nprices = \"local.toml\"\n", url, dialect))
			i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
			have := i.nacre("run", "greet the world", "--brain", name, "--project", "p", "--session", "work", "--check", "grep -q 'hello world' greeting.txt")
			have.want(t, 0, "brain "+name, "merged")
			if strings.Contains(have.stdout+have.stderr, key) {
				t.Error("the key is on the screen")
			}
			if n := len(server.Requests()); n != 4 {
				t.Errorf("the model was asked %d times, want 4", n)
			}
			for _, request := range server.Requests() {
				if strings.Contains(string(request.Body), key) {
					t.Error("the brain knows the key")
				}
			}
			chain := i.nacre("audit", "show", "work", "--json")
			chain.want(t, 0, `"kind":"model.end"`, "core.get_session_info")
			if strings.Contains(chain.stdout, key) {
				t.Error("the key is in the audit")
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-03, M-04: where the operator named a place for the model, and its key is not
// there, the conversation does not go to the vendor whose key happens to be.
func TestAPlaceWithoutItsKeyIsNotReplacedByAnother(t *testing.T) {
	t.Parallel()
	vendor, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: "Done."}}})
	i := install(t)
	i.project()
	i.env = append(i.env, "ANTHROPIC_API_KEY=key-of-the-vendor")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[model]\nbase_url = %q\n[[model.upstream]]\nurl = \"https://models.example.com\"\nkey_env = \"CORP_KEY\"\ndialects = [\"anthropic\"]\n", url))
	i.nacre("run", "greet the world", "--brain", "anthropic", "--project", "p").want(t, 3, "models.example.com", "CORP_KEY is not set")
	i.nacre("run", "greet the world", "--project", "p").want(t, 3)
	i.nacre("doctor", "--no-turns").want(t, 0, "give models.example.com its key", "CORP_KEY is not set")
	if have := i.nacre("explain", "--project", "p"); strings.Contains(have.stdout, "127.0.0.1") {
		t.Errorf("another place is shown:\n%s", have.stdout)
	}
	if n := len(vendor.Requests()); n != 0 {
		t.Errorf("the vendor was asked %d times", n)
	}
}
