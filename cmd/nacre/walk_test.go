package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// documented are the config and the commands of a section of docs/serve.md.
func documented(t *testing.T, section string) (config string, commands []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(text, -1)
	if !found || len(blocks) != 2 || blocks[0][1] != "toml" {
		t.Fatalf("docs/serve.md, %q: want a config and commands, have %q", section, blocks)
	}
	return blocks[0][2], strings.Split(strings.TrimSpace(blocks[1][2]), "\n")
}

// input is a JSON object for a tool.
func input(t *testing.T, fields map[string]any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func tool(name string, in json.RawMessage) scriptedmodel.Turn {
	return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: name, Input: in}}}
}

// listens is a chat that stays open, and what it has shown.
func (i *installation) listens(as string) (shown func() string) {
	i.t.Helper()
	path := i.write("chat-of-"+as, "")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		i.t.Fatal(err)
	}
	chat := i.command(filepath.Join(bin, "nacre"), "chat", "--as", as)
	chat.Stdout, chat.Stderr = out, out
	typed, err := chat.StdinPipe()
	if err := errors.Join(err, chat.Start(), out.Close()); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		_ = typed.Close() // the end of what is typed ends it
		_ = chat.Wait()
	})
	return func() string { return fileText(path) }
}

// The walk of the seed's full request life cycle, D-32 to D-36, as docs/serve.md tells it. A
// reminder for five o'clock is asked for on the local channel and answered there, and at five the
// schedule of the group says so on it.
func TestAReminderForFive(t *testing.T) {
	t.Parallel()
	config, commands := documented(t, "Try it: a reminder for five")
	i, server := thinks(t, config, scriptedmodel.Script{
		Turns: []scriptedmodel.Turn{
			tool("create_reminder", input(t, map[string]any{"title": "Buy milk", "due": "2099-02-17T17:00:00+01:00"})),
			{Expect: &scriptedmodel.Expect{Contains: []string{"created"}}, Tools: []scriptedmodel.Tool{
				{Name: "send_local", Input: input(t, map[string]any{"recipient": "ada", "body": "Done! I will remind you at five."})},
			}},
			{Text: "Sent."},
		},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{Contains: "The schedule task-"}, Turns: []scriptedmodel.Turn{
			tool("list_reminders", input(t, map[string]any{})),
			{Expect: &scriptedmodel.Expect{Contains: []string{"Buy milk"}}, Tools: []scriptedmodel.Tool{
				{Name: "send_local", Input: input(t, map[string]any{"recipient": "ada", "body": "It is five: buy milk."})},
			}},
			{Text: "Told."},
		}}},
	})
	_, stop := i.serve()
	shown := i.listens("ada")
	// The page's commands, but that five o'clock is in a few seconds.
	for n, want := range []string{"nacre serve", "nacre chat --as ada --once", "nacre schedule add --group family --at 17:00"} {
		if !strings.HasPrefix(commands[n], want) {
			t.Fatalf("docs/serve.md: command %d is %q, want %s …", n+1, commands[n], want)
		}
	}
	run := func(line string) string {
		out, err := i.command("sh", "-c", line).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		return string(out)
	}
	has(t, run(commands[1]), "family   Done! I will remind you at five.")
	five := time.Now().Add(8 * time.Second).UTC().Format(time.RFC3339)
	has(t, run(strings.Replace(commands[2], "17:00", five, 1)), "added")
	until(t, "the schedule's message", func() bool { return strings.Contains(shown(), "It is five: buy milk.") })
	until(t, "the end of its tick", func() bool { s := i.schedules(); return len(s) == 1 && s[0].Last != nil && s[0].Last.State == "done" })
	if have := i.schedules()[0].Last.At.UTC().Format(time.RFC3339); have != five {
		t.Errorf("it was due at %s, want %s", have, five)
	}
	calendar := fileText(i.state("data/reminders/family/Personal.ics"))
	has(t, calendar, "SUMMARY:Buy milk", "DUE:20990217T160000Z")
	asked := string(server.Requests()[0].Body)
	has(t, asked, "create_reminder", "send_local", "milk")
	if n := len(server.Requests()); n != 6 {
		t.Errorf("the model was asked %d times, want 6", n)
	}
	stop()
	sessions := i.nacre("sessions", "list").stdout
	has(t, sessions, "message", "schedule", "serve")
	i.nacre("audit", "verify").want(t, 0)
}

// brokenReminders answers the first call with an error of its own, and no other.
const brokenReminders = `#!/bin/sh
n=0
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case $line in
  *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":null}' ;;
  *'"method":"shutdown"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":null}'; exit 0 ;;
  *'"method":"handleRequest"'*)
    n=$((n+1))
    if [ $n = 1 ]; then
      echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32000,"message":"x","data":{"code":"ECONNREFUSED","message":"Connection refused","retriable":true}}}'
    fi ;;
  esac
done
`

// tracker is GitHub's or Gitea's API for issues, behind TLS.
type tracker struct {
	prefix, authorization string

	mu     sync.Mutex
	issues []map[string]any
}

func (s *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != s.authorization:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path != s.prefix+"/repos/acme/nacre/issues":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		made := map[string]any{}
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, json.Unmarshal(body, &made)); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		made["number"] = len(s.issues) + 42
		s.issues = append(s.issues, made)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(made) // the client may be gone
	default:
		_ = json.NewEncoder(w).Encode(append([]map[string]any{}, s.issues...)) // as above
	}
}

func (s *tracker) filed() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]any{}, s.issues...)
}

// The troubleshooting walk of the seed, D-30 and D-35, from the message to the issue. A tool fails,
// the agent finds out how and asks, and the operator agrees on the chat and again in a second
// terminal. The issue has both sides.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	for service, forge := range map[string]*tracker{
		"github": {prefix: "", authorization: "Bearer Zq8-forge-token"},
		"gitea":  {prefix: "/api/v1", authorization: "token Zq8-forge-token"},
	} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			troubleshooting(t, service, forge)
		})
	}
}

func troubleshooting(t *testing.T, name string, forge *tracker) {
	t.Helper()
	address, ca := service(t, forge.ServeHTTP)
	shell := func(lines ...string) scriptedmodel.Tool {
		return scriptedmodel.Tool{Name: "shell", Input: input(t, map[string]any{"command": strings.Join(lines, "\n"), "timeout_s": 120})}
	}
	send := func(body string) scriptedmodel.Tool {
		return scriptedmodel.Tool{Name: "send_local", Input: input(t, map[string]any{"recipient": "ada", "body": body})}
	}
	i, _ := thinks(t, "", scriptedmodel.Script{
		Turns: []scriptedmodel.Turn{
			{Tools: []scriptedmodel.Tool{shell(
				`create() { ipc create_reminder '{"title":"Buy milk","due":"2099-02-17T17:00:00Z"}'; }`,
				`create; create & create & create & wait`, // three at once, and all of them time out
			)}},
			{Expect: &scriptedmodel.Expect{Contains: []string{"HANDLER_ERROR", "PLUGIN_TIMEOUT"}}, Tools: []scriptedmodel.Tool{
				{Name: "get_diagnostics", Input: input(t, map[string]any{"last_n": 20, "filter_outcome": "error"})},
				{Name: "get_session_info", Input: input(t, map[string]any{})}, {Name: "list_tools", Input: input(t, map[string]any{"query": "report a bug"})},
			}},
			{Expect: &scriptedmodel.Expect{Contains: []string{"PLUGIN_TIMEOUT", "DEGRADED", "ECONNREFUSED", `"group":"main"`, "create_bug_report"}}, Tools: []scriptedmodel.Tool{
				shell(`ipc get_diagnostics '{"last_n":20,"filter_outcome":"error"}' > /workspace/group/seen`),
				send("The reminders do not answer. Shall I file a bug report?"),
			}},
			{Text: "Asked."},
		},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{Contains: "Yes, file it"}, Turns: []scriptedmodel.Turn{
			{Tools: []scriptedmodel.Tool{shell(
				`ids=$(grep -o '"correlation":"[0-9a-f]*"' /workspace/group/seen | cut -d: -f2 | sort -u | paste -sd, -)`,
				`ipc create_bug_report '{"title":"create_reminder times out @maintainer","description":"I tried four times. See /home/ada/x.","severity":"medium","correlation_ids":['"$ids"']}'`,
			)}},
			{Expect: &scriptedmodel.Expect{Contains: []string{`"number":42,"url":"https://` + map[string]string{"github": "", "gitea": "git."}[name] + `example.com/acme/nacre/issues/42"`}},
				Tools: []scriptedmodel.Tool{send("Filed issue #42.")}},
			{Text: "Told."},
		}}},
	})
	host, base := "api.example.com", "https://api.example.com"
	if name == "gitea" {
		host, base = "git.example.com", "https://git.example.com"
	}
	config := fileText(filepath.Join(i.work, "home/.config/nacre/config.toml"))
	config += "[groups.main]\ntools = [\"*_reminder*\", \"create_bug_report\", \"send_local\"]\n[[route]]\nchannel = \"local\"\nsender = \"ada\"\ngroup = \"main\"\nsession = \"resume\"\noperator = true\n"
	i.config(config + i.access("bug_report", host, address, "token", "Zq8-forge-token") +
		fmt.Sprintf("[plugins.bug_report]\nservice = %q\nrepository = \"acme/nacre\"\nbase_url = %q\nca = %q\n", name, base, ca))
	i.breaks("reminders")
	_, stop := i.serve()
	i.nacre("chat", "--as", "ada", "--once", "Remind me to buy milk at five").want(t, 0, "Shall I file a bug report?")
	if len(forge.filed()) != 0 {
		t.Error("filed before anybody agreed")
	}
	answered := i.begin("chat", "--as", "ada", "--once", "Yes, file it")
	until(t, "the question", func() bool { return len(i.questions()) > 0 })
	q := i.question()
	if q.Capability != "bug_report.create_bug_report" || len(forge.filed()) != 0 {
		t.Errorf("have %+v, %d issues", q, len(forge.filed()))
	}
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	finish(t, answered).want(t, 0, "main     Filed issue #42.")
	stop()
	issues := forge.filed()
	if len(issues) != 1 {
		t.Fatalf("have %v", issues)
	}
	body, _ := issues[0]["body"].(string)
	has(t, body, "I tried four times. See [path]", "Severity: **medium**", "PLUGIN_TIMEOUT", "ECONNREFUSED", "| create_reminder |")
	hasNo(t, fmt.Sprint(issues[0]), "@maintainer", "Zq8-forge-token", i.work)
	hasNoSecret(t, i.state(), "Zq8-forge-token")
	i.nacre("audit", "verify").want(t, 0)
}

// breaks puts a plugin in the place of a built-in one that hardly answers.
func (i *installation) breaks(plugin string) {
	i.t.Helper()
	folder := "home/.local/share/nacre/plugins/" + plugin + "/"
	manifest, err := os.ReadFile("../../plugin/testdata/" + plugin + ".json")
	if err != nil {
		i.t.Fatal(err)
	}
	i.write(folder+"manifest.json", string(manifest))
	if err := os.Chmod(i.write(folder+"handler", brokenReminders), 0o700); err != nil {
		i.t.Fatal(err)
	}
}
