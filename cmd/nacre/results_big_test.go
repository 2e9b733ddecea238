package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/plugin"
)

// bigServer is an MCP server whose tools answer as much as they are asked for: text of so
// many bytes, bytes that are no UTF-8, and text without an end.
const bigServer = `import json, sys

def send(message):
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()

for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        send({**answer, "result": {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "big", "version": "1"}}})
    elif asked["method"] == "tools/list":
        send({**answer, "result": {"tools": [
            {"name": "text", "inputSchema": {"type": "object", "required": ["bytes"], "additionalProperties": False, "properties": {"bytes": {"type": "integer"}}}},
            {"name": "endless", "inputSchema": {"type": "object", "additionalProperties": False}}]}})
    elif asked["method"] == "tools/call":
        size = asked["params"]["arguments"].get("bytes", -1)
        front = b'{"jsonrpc":"2.0","id":' + str(asked["id"]).encode() + b',"result":{"content":[{"type":"text","text":"'
        if size == -1:
            sys.stdout.buffer.write(front)
            while True:
                sys.stdout.buffer.write(b"x" * 65536)
        text = b"caf\xe9 \xff" if size == -2 else b"x" * size
        sys.stdout.buffer.write(front + text + b'"}]}}\n')
        sys.stdout.buffer.flush()
    else:
        send({**answer, "error": {"code": -32601, "message": "unknown"}})
`

const bigManifest = `{"description": "Answers at any length", "version": "1.0.0", "mcp": {"command": ["python3", "server.py"]}, "provides": {"tools": [
  {"name": "text", "description": "Answer so much", "safety_class": "READ", "returns": "trusted", "deadline_seconds": 600,
   "arguments_schema": {"type": "object", "required": ["bytes"], "additionalProperties": false, "properties": {"bytes": {"type": "integer"}}}},
  {"name": "endless", "description": "Answer without an end", "safety_class": "READ", "returns": "trusted", "deadline_seconds": 5,
   "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`

// most is the most memory that a running nacre has had, in bytes.
func most(t *testing.T, r *running) int {
	t.Helper()
	for line := range strings.Lines(fileText("/proc/" + strconv.Itoa(r.Process.Pid) + "/status")) {
		if kib, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("nacre does not run")
	return 0
}

// K-31, D-14: what an MCP server answers is held whole, paged or refused with a sentence, in bounded memory,
// and the session goes on. It answers 64 MiB, exactly the limit, a byte more, text without an end, and no
// UTF-8.
func TestAnMCPServerThatAnswersTooMuch(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "python3")
	i := install(t)
	i.project()
	i.write("home/.local/share/nacre/plugins/big/manifest.json", bigManifest)
	i.write("home/.local/share/nacre/plugins/big/server.py", bigServer)
	i.config("[groups.main]\ntools = [\"text\", \"endless\"]\n")
	limit := plugin.MaxResult - len(`{"content":[{"type":"text","text":""}]}`)
	script := `ask() { ipc text "{\"bytes\":$1}" >"$2" 2>&1; }
		pause() { touch "$1"; until test -e "go-$1"; do sleep 0.05; done; }
		ask 10 small; pause begun; ask 67108864 huge; ask ` + strconv.Itoa(limit) + ` exact; ask ` + strconv.Itoa(limit+1) + ` over; ask -2 broken; ask 10 after; pause grown; ipc endless "{}" >endless 2>&1
		until ask 10 again && grep -q xxxxxxxxxx again; do sleep 0.2; done`
	r := i.begin("exec", "-q", "--session", "work", "--project", "p", "--", "sh", "-c", script)
	p := filepath.Join(i.work, "p")
	let := func(name string) int {
		eventually(t, name, func() bool { return isThere(filepath.Join(p, name)) })
		had := most(t, r)
		if err := os.WriteFile(filepath.Join(p, "go-"+name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		return had
	}
	before := let("begun")
	if grown := let("grown") - before; grown > 48<<20 {
		t.Errorf("nacre grew by %d MiB over a result of 64 MiB", grown>>20)
	}
	finish(t, r).want(t, 0)
	for name, want := range map[string][]string{
		"small": {`"xxxxxxxxxx"`}, "huge": {"HANDLER_ERROR", "Response exceeded maximum size"}, "exact": {`"handle"`, "Expand the handle for the rest"},
		"over": {"HANDLER_ERROR", "Response exceeded maximum size"}, "after": {`"xxxxxxxxxx"`}, "again": {`"xxxxxxxxxx"`}, "endless": {`"code":"`},
	} {
		has(t, fileText(filepath.Join(p, name)), want...)
	}
	hasNo(t, fileText(filepath.Join(p, "broken")), "\xe9", "\xff")
	hasNo(t, fileText(filepath.Join(p, "endless")), "xxxx")
	i.nacre("audit", "verify").want(t, 0)
}

// K-31: the same of a page that is fetched.
func TestAPageThatIsTooMuch(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	const told = 96 << 10 // of a page at once, as docs/http-fetch.md says
	block := []byte(strings.Repeat("x", 1<<16))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil { // "endless", or no UTF-8
			if r.URL.Path == "/broken" {
				_, _ = w.Write([]byte("caf\xe9 \xff"))
				return
			}
			size = 1 << 40
		}
		for size > 0 && r.Context().Err() == nil {
			n, err := w.Write(block[:min(size, len(block))])
			if err != nil {
				return
			}
			size -= n
		}
	}))
	t.Cleanup(server.Close)
	i.config(fmt.Sprintf("[groups.main]\ntools = [\"http_fetch\"]\n[access.http_fetch]\nhosts = [\"pkg.example:80/http\"]\n[egress.pin]\n\"pkg.example:80\" = %q\n", server.Listener.Addr()))
	fetch := func(path string) string {
		return `ipc http_fetch '{"url":"http://pkg.example/` + path + `","max_bytes":98304}' >` + path + ` 2>&1`
	}
	script := strings.Join([]string{
		fetch("10"), "touch begun; until test -e go; do sleep 0.05; done", fetch("67108864"), fetch(strconv.Itoa(told)), fetch(strconv.Itoa(told + 1)),
		fetch("endless"), fetch("broken"), "touch grown; until test -e end; do sleep 0.05; done",
	}, "; ")
	r := i.begin("exec", "-q", "--session", "work", "--project", "p", "--", "sh", "-c", script)
	p := filepath.Join(i.work, "p")
	let := func(name, answer string) int {
		eventually(t, name, func() bool { return isThere(filepath.Join(p, name)) })
		had := most(t, r)
		if err := os.WriteFile(filepath.Join(p, answer), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		return had
	}
	before := let("begun", "go")
	if grown := let("grown", "end") - before; grown > 48<<20 {
		t.Errorf("nacre grew by %d MiB over a page of 64 MiB", grown>>20)
	}
	finish(t, r)
	said := func(name string) string { return fileText(filepath.Join(p, name)) }
	has(t, said("10"), "xxxxxxxxxx")
	for _, cut := range []string{"67108864", strconv.Itoa(told + 1), "endless"} {
		has(t, said(cut), `"truncated":true`)
	}
	hasNo(t, said(strconv.Itoa(told)), `"truncated":true`)
	has(t, said("broken"), "caf")
	hasNo(t, said("broken"), "\xe9 \xff")
	i.nacre("audit", "verify").want(t, 0)
}
