package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/agent"
	"github.com/nacre-dev/nacre/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noEnv(string) string { return "" }

func do(t *testing.T, tools agent.Tools, name, input string) agent.Result {
	t.Helper()
	if tools.Getenv == nil {
		tools.Getenv = noEnv
	}
	return tools.Do(t.Context(), name, json.RawMessage(input))
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(data)
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInputIsReadStrictly(t *testing.T) {
	tools := agent.Tools{Dir: t.TempDir(), Getenv: noEnv}
	for name, c := range map[string]struct{ tool, input, want string }{
		"an unknown tool":         {"sudo", `{}`, "unknown tool"},
		"an unknown key":          {"shell", `{"command":"true","cwd":"/"}`, `unknown key "cwd"`},
		"a key in another case":   {"shell", `{"Command":"true"}`, "unknown key"},
		"a key twice":             {"shell", `{"command":"true","command":"false"}`, "duplicate"},
		"a wrong type":            {"shell", `{"command":["true"]}`, "command"},
		"null":                    {"shell", `{"command":null}`, "null"},
		"no object":               {"shell", `"true"`, "shell:"},
		"no JSON":                 {"shell", `{"command":`, "shell:"},
		"an empty command":        {"shell", `{"command":" "}`, "empty"},
		"a NUL in a command":      {"shell", `{"command":"a\u0000b"}`, "NUL"},
		"a huge command":          {"shell", `{"command":"` + strings.Repeat("x", 200<<10) + `"}`, "at most"},
		"no time":                 {"shell", `{"command":"true","timeout_s":0}`, "timeout_s"},
		"a fraction of a second":  {"shell", `{"command":"true","timeout_s":1.5}`, "timeout_s"},
		"too much time":           {"shell", `{"command":"true","timeout_s":999999}`, "timeout_s"},
		"no path":                 {"read", `{}`, "path"},
		"a NUL in a path":         {"read", `{"path":"a\u0000"}`, "path"},
		"line 0":                  {"read", `{"path":"a","offset":0}`, "offset"},
		"too many lines":          {"read", `{"path":"a","limit":1000000}`, "limit"},
		"no content":              {"write", `{"path":"a"}`, "content"},
		"nothing to replace":      {"edit", `{"path":"a","old":"","new":"x"}`, "old"},
		"a replacement by itself": {"edit", `{"path":"a","old":"x","new":"x"}`, "old"},
		"a url without a scheme":  {"fetch", `{"url":"example.com"}`, "http"},
		"a file url":              {"fetch", `{"url":"file:///etc/passwd"}`, "http"},
		"two bodies":              {"fetch", `{"url":"http://e.example","body":"x","body_file":"y"}`, "one of"},
		"a bad method":            {"fetch", `{"url":"http://e.example","method":"GET /x"}`, "method"},
		"a header with a CRLF":    {"fetch", `{"url":"http://127.0.0.1:1","headers":{"A":"b\r\nC: d"}}`, "header"},
		"a missing file":          {"read", `{"path":"none"}`, "no such file"},
		"a missing directory":     {"list", `{"path":"none"}`, "no such file"},
		"a missing body":          {"fetch", `{"url":"http://e.example","body_file":"none"}`, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tools.Do(t.Context(), c.tool, json.RawMessage(c.input))
			if !r.IsError || !strings.Contains(r.Text, c.want) {
				t.Errorf("%+v, want an error with %q", r, c.want)
			}
		})
	}
}

func TestShellRunsInItsDirectoryAndTellsTheExitCode(t *testing.T) {
	dir := t.TempDir()
	r := do(t, agent.Tools{Dir: dir}, "shell", `{"command":"pwd; echo oops >&2; exit 5"}`)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Text != real+"\noops\n" || !r.IsError || r.ExitCode == nil || *r.ExitCode != 5 {
		t.Errorf("%+v, want both outputs and exit 5", r)
	}
	r = do(t, agent.Tools{Dir: dir}, "shell", `{"command":"kill -KILL $$"}`)
	if r.ExitCode == nil || *r.ExitCode != 137 {
		t.Errorf("%+v, want 137 for a signal", r)
	}
	r = do(t, agent.Tools{Dir: dir}, "shell", `{"command":"cat"}`)
	if r.IsError || r.Text != "" {
		t.Errorf("%+v, want an empty standard input", r)
	}
}

func TestShellEndsItsGroupWhenTheCommandEnds(t *testing.T) {
	dir := t.TempDir()
	r := do(t, agent.Tools{Dir: dir}, "shell", `{"command":"sleep 300 & echo $! > pid"}`)
	if r.IsError {
		t.Fatalf("%+v", r)
	}
	gone(t, filepath.Join(dir, "pid"))
}

func TestShellEndsWithItsTimeAndWithItsContext(t *testing.T) {
	dir := t.TempDir()
	const command = `{"command":"echo before; (echo $$; sleep 300) > pid","timeout_s":1}`
	r := do(t, agent.Tools{Dir: dir}, "shell", command)
	if !r.IsError || !strings.Contains(r.Text, "before\n[timed out after 1s") || r.ExitCode != nil {
		t.Errorf("%+v, want what was said and that time was over", r)
	}
	gone(t, filepath.Join(dir, "pid"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = agent.Tools{Dir: dir, Getenv: noEnv}.Do(ctx, "shell", json.RawMessage(`{"command":"sleep 300"}`))
	if !r.IsError || !strings.Contains(r.Text, "[stopped]") {
		t.Errorf("%+v, want stopped", r)
	}
}

// gone waits until the process whose number is in the file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // init reaps it later
	})
}

func TestShellIsNotHeldByAProcessThatLeftItsGroup(t *testing.T) {
	dir := t.TempDir()
	r := do(t, agent.Tools{Dir: dir}, "shell", `{"command":"(setsid sh -c 'echo $$ > pid; sleep 300' &) ; while [ ! -s pid ]; do :; done; echo end"}`)
	if r.IsError || r.Text != "end\n" {
		t.Errorf("%+v, want its own end", r)
	}
	data, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && pid > 1 {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // what the test itself left behind
	}
}

func TestLongOutputKeepsItsBeginningAndItsEnd(t *testing.T) {
	r := do(t, agent.Tools{}, "shell", `{"command":"echo first; i=0; while [ $i -lt 40000 ]; do echo 0123456789-$i; i=$((i+1)); done; echo last"}`)
	if len(r.Text) > 300<<10 || !strings.HasPrefix(r.Text, "first\n") || !strings.HasSuffix(r.Text, "0123456789-39999\nlast\n") {
		t.Errorf("%d bytes, from %.20q to %.20q", len(r.Text), r.Text, r.Text[len(r.Text)-20:])
	}
	if !strings.Contains(r.Text, "bytes left out") {
		t.Error("nothing says that bytes are missing")
	}
	r = do(t, agent.Tools{}, "shell", `{"command":"head -c 1000 /dev/urandom"}`)
	if data, err := json.Marshal(r.Text); err != nil || !json.Valid(data) {
		t.Errorf("binary output is no text: %v", err)
	}
}

func TestReadGivesLinesAndNothingButFiles(t *testing.T) {
	dir := t.TempDir()
	tools := agent.Tools{Dir: dir, Getenv: func(string) string { return dir }}
	put(t, dir, "a", "one\ntwo\nthree\n")
	put(t, dir, "bare", "no end")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		input, want string
		isError     bool
	}{
		"a whole file":           {`{"path":"a"}`, "one\ntwo\nthree\n", false},
		"some lines":             {`{"path":"a","offset":2,"limit":1}`, "two\n[more follows from line 3]", false},
		"the last line":          {`{"path":"a","offset":3,"limit":1}`, "three\n", false},
		"lines after the end":    {`{"path":"a","offset":9}`, "", false},
		"a line without its end": {`{"path":"bare"}`, "no end", false},
		"the home directory":     {`{"path":"~/bare"}`, "no end", false},
		"an absolute path":       {`{"path":` + quote(filepath.Join(dir, "bare")) + `}`, "no end", false},
		"a pipe":                 {`{"path":"pipe"}`, "not a regular file", true},
		"a device":               {`{"path":"/dev/zero"}`, "not a regular file", true},
		"a directory":            {`{"path":"."}`, "not a regular file", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(t, tools, "read", c.input)
			if r.IsError != c.isError || !strings.HasSuffix(r.Text, c.want) || (c.want == "" && r.Text != "") {
				t.Errorf("%+v, want %q", r, c.want)
			}
		})
	}
}

func TestWriteAndEditReplaceFilesWhole(t *testing.T) {
	dir := t.TempDir()
	tools := agent.Tools{Dir: dir}
	have := func(name, want string) {
		t.Helper()
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; want %q", name, data, err, want)
		}
	}
	if r := do(t, tools, "write", `{"path":"new/deep/a","content":"x x"}`); r.IsError {
		t.Errorf("%+v", r)
	}
	have("new/deep/a", "x x")
	if r := do(t, tools, "write", `{"path":"empty","content":""}`); r.IsError {
		t.Errorf("%+v", r)
	}
	have("empty", "")
	if r := do(t, tools, "edit", `{"path":"new/deep/a","old":"x","new":"y"}`); !r.IsError || !strings.Contains(r.Text, "2 times") {
		t.Errorf("%+v, want a refusal: it is there twice", r)
	}
	have("new/deep/a", "x x")
	if r := do(t, tools, "edit", `{"path":"new/deep/a","old":"x","new":"y","all":true}`); r.IsError {
		t.Errorf("%+v", r)
	}
	have("new/deep/a", "y y")
	if r := do(t, tools, "edit", `{"path":"new/deep/a","old":"z","new":"y"}`); !r.IsError {
		t.Errorf("%+v, want a refusal: it is not there", r)
	}

	script := put(t, dir, "script", "old")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("script", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if r := do(t, tools, "write", `{"path":"link","content":"new"}`); r.IsError {
		t.Errorf("%+v", r)
	}
	have("script", "new")
	if info, err := os.Lstat(filepath.Join(dir, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if info, err := os.Stat(script); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is lost: %v, %v", info, err)
	}
	if r := do(t, tools, "write", `{"path":"/dev/null","content":"x"}`); !r.IsError {
		t.Errorf("%+v, want a refusal: no regular file", r)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".brain-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestListNamesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "b", "")
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if r := do(t, agent.Tools{Dir: dir}, "list", `{}`); r.Text != "a/\nb\nc@\n" {
		t.Errorf("%+v", r)
	}
}

func proxied(address string) func(string) string {
	return func(name string) string {
		if name == "HTTP_PROXY" || name == "HTTPS_PROXY" {
			return address
		}
		return ""
	}
}

func TestFetchAsksTheProxyForEveryHost(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "data", "secret")
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("X-A"))
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "denied: %s is not allowed", r.Host)
	}))
	defer proxy.Close()
	tools := agent.Tools{Dir: dir, Getenv: proxied(proxy.URL)}
	for name, c := range map[string]struct{ input, asked string }{
		"plain":    {`{"url":"http://a.example/x","method":"POST","body_file":"data","headers":{"X-A":"b"}}`, "POST a.example b"},
		"tls":      {`{"url":"https://a.example/x"}`, "CONNECT a.example:443 "},
		"loopback": {`{"url":"http://127.0.0.1:9/"}`, "GET 127.0.0.1:9 "},
		"by name":  {`{"url":"http://localhost:9/"}`, "GET localhost:9 "},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			r := do(t, tools, "fetch", c.input)
			if !r.IsError || !strings.Contains(r.Text, "is not allowed") {
				t.Errorf("%+v, want the proxy's own words", r)
			}
			if len(asked) != 1 || asked[0] != c.asked {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
		})
	}
}

func TestFetchBoundsRedirectsAndAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		switch {
		case r.URL.Path == "/long":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 20<<20)) // the client hangs up before the end
		case err == nil && n > 0:
			http.Redirect(w, r, "/?n="+strconv.Itoa(n-1), http.StatusFound)
		default:
			_, _ = fmt.Fprint(w, "here")
		}
	}))
	defer server.Close()
	tools := agent.Tools{}
	if r := do(t, tools, "fetch", `{"url":"`+server.URL+`/?n=5"}`); r.IsError || !strings.HasPrefix(r.Text, "HTTP 200 OK") || !strings.HasSuffix(r.Text, "here") {
		t.Errorf("%+v, want the fifth redirect followed", r)
	}
	if r := do(t, tools, "fetch", `{"url":"`+server.URL+`/?n=6"}`); !r.IsError || !strings.Contains(r.Text, "redirects") {
		t.Errorf("%+v, want a refusal", r)
	}
	if r := do(t, tools, "fetch", `{"url":"`+server.URL+`/long"}`); len(r.Text) > 300<<10 || !strings.Contains(r.Text, "left out") {
		t.Errorf("%d bytes, want them cut", len(r.Text))
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := agent.Tools{Getenv: proxied("http://" + silent.Addr().String())}.Do(ctx, "fetch", json.RawMessage(`{"url":"https://a.example"}`))
	if !r.IsError {
		t.Errorf("%+v, want an error", r)
	}
}

func TestMainSaysHowToUseIt(t *testing.T) {
	for name, args := range map[string][]string{
		"no command":       nil,
		"another command":  {"loop"},
		"a flag too many":  {"replay", "--fast"},
		"a limit of words": {"replay", "--max-turns", "many"},
		"a limit of none":  {"replay", "--max-turns", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, complaint bytes.Buffer
			code := agent.Main(agent.World{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &complaint, Getenv: noEnv})
			if code != 2 || out.Len() > 0 || !strings.Contains(complaint.String(), "usage: brain replay") {
				t.Errorf("code %d, out %q, complaint %q", code, &out, &complaint)
			}
		})
	}
}

func TestReplayPrintsEventsForEveryRecording(t *testing.T) {
	head := `{"v":1,"name":"n"}` + "\n"
	for name, c := range map[string]struct {
		recording string
		kind      brain.EventKind
		code      int
	}{
		"of nothing":      {head, brain.Done, 0},
		"of words":        {head + `{"say":"x"}`, brain.Done, 0},
		"of failing tool": {head + `{"tool":"none","input":{}}` + "\n" + `{"tool":"shell","input":[]}`, brain.Done, 0},
		"that is broken":  {"{", brain.Error, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out, complaint bytes.Buffer
			code := agent.Main(agent.World{Args: []string{"replay"}, Stdin: strings.NewReader(c.recording), Stdout: &out, Stderr: &complaint, Getenv: noEnv})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			var last brain.Event
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Kind != c.kind || code != c.code {
				t.Errorf("code %d, last line %s, %v", code, lines[len(lines)-1], err)
			}
		})
	}
}

func FuzzToolInput(f *testing.F) {
	f.Add("read", []byte(`{"path":"a","offset":1,"limit":2}`))
	f.Add("list", []byte(`{"path":"."}`))
	f.Add("none", []byte(`{"path":"a"`))
	f.Fuzz(func(t *testing.T, tool string, input []byte) {
		if tool != "read" && tool != "list" {
			tool = "none" // what a fuzzer thinks of may be read, and nothing else
		}
		agent.Tools{Dir: t.TempDir(), Getenv: noEnv}.Do(t.Context(), tool, input)
	})
}
