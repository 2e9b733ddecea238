package main_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a server behind TLS that plugins reach through their proxy, under
// a name that the certificate of httptest has.
func service(t *testing.T, handler http.HandlerFunc) (address, ca string) {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// access lets a plugin out to the service, with a credential.
func (i *installation) access(plugin, host, address, key, secret string) string {
	return fmt.Sprintf("[access.%[1]s]\nhosts = [\"%[2]s:443\"]\n[access.%[1]s.credentials]\n%[3]s = { value_file = %[4]q }\n[egress.pin]\n\"%[2]s:443\" = %[5]q\n",
		plugin, host, key, i.write(key, secret), address)
}

// D-20: reminders on a CalDAV server, with the operator's password, through the
// plugin's own way out.
func TestRemindersOnAServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	kept := map[string]string{}
	address, ca := service(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, password, _ := r.BasicAuth()
		text, there := kept[r.URL.Path]
		etag := fmt.Sprintf(`"%x"`, len(text))
		switch {
		case password != "Zq8-calendar-pass":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == "PROPFIND" || r.Method == "REPORT":
			w.WriteHeader(http.StatusMultiStatus)
			_, _ = io.WriteString(w, `<multistatus xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">`)
			for path, text := range kept {
				_, _ = fmt.Fprintf(w, `<response><href>%s</href><propstat><prop><getetag>"%x"</getetag><C:calendar-data><![CDATA[%s]]></C:calendar-data></prop></propstat></response>`, path, len(text), text)
			}
			_, _ = io.WriteString(w, `</multistatus>`)
		case r.Method == http.MethodPut && there && r.Header.Get("If-Match") != etag, r.Method == http.MethodPut && !there && r.Header.Get("If-None-Match") != "*":
			w.WriteHeader(http.StatusPreconditionFailed)
		case r.Method == http.MethodPut:
			body, _ := io.ReadAll(r.Body)
			kept[r.URL.Path] = string(body)
			w.WriteHeader(http.StatusCreated)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	i := install(t)
	i.config(toolsConfig + "[groups.other]\ntools = [\"*_reminder*\"]\n" + i.access("reminders", "dav.example.com", address, "password", "Zq8-calendar-pass") +
		fmt.Sprintf("[plugins.reminders]\nstore = \"caldav\"\nurl = \"https://dav.example.com/\"\nuser = \"ada\"\ncalendar = \"/cal/\"\nca = %q\n", ca))
	i.nacre("exec", "-q", "--session", "one", "--", "ipc", "create_reminder", `{"title":"Buy milk","due":"2026-02-17T17:00:00+01:00"}`).want(t, 0, "created")
	listed := i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{}`)
	listed.want(t, 0, `"title":"Buy milk","due":"2026-02-17T16:00:00Z"`)
	_, rest, _ := strings.Cut(listed.stdout, `"reminder_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	i.nacre("exec", "-q", "--", "ipc", "complete_reminder", `{"reminder_id":"`+id+`"}`).want(t, 0, "completed")
	i.nacre("exec", "-q", "--", "ipc", "list_reminders", `{}`).want(t, 0, `"reminders":[]`)
	i.nacre("exec", "-q", "--group", "other", "--", "ipc", "list_reminders", `{}`).want(t, 1, "not for group")
	i.recorded("one", `"host":"dav.example.com"`, `"outcome":"allowed"`, `"source":"reminders"`)
	hasNoSecret(t, i.state(), "Zq8-calendar-pass")

	i.write("password", "another-one")
	i.nacre("exec", "-q", "--", "ipc", "get_session_info", `{}`).want(t, 0, "AUTH_ERROR")
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

// The troubleshooting walk of the seed, D-30 and D-35: a tool fails, the agent
// finds out how, a person agrees, and the issue has both sides.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	issues := []map[string]any{}
	address, ca := service(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer Zq8-forge-token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet && r.URL.Path == "/repos/acme/nacre/issues":
			_ = json.NewEncoder(w).Encode(issues)
		case r.Method == http.MethodPost && r.URL.Path == "/repos/acme/nacre/issues":
			made := map[string]any{}
			_ = json.NewDecoder(r.Body).Decode(&made)
			made["number"] = len(issues) + 42
			issues = append(issues, made)
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(made)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	i := install(t)
	i.config("[groups.main]\ntools = [\"*_reminder*\", \"create_bug_report\"]\n" + i.access("bug_report", "api.example.com", address, "token", "Zq8-forge-token") +
		fmt.Sprintf("[plugins.bug_report]\nrepository = \"acme/nacre\"\nbase_url = \"https://api.example.com\"\nca = %q\n", ca))
	folder := "home/.local/share/nacre/plugins/reminders/"
	manifest, err := os.ReadFile("../../plugin/testdata/reminders.json")
	if err != nil {
		t.Fatal(err)
	}
	i.write(folder+"manifest.json", string(manifest))
	if err := os.Chmod(i.write(folder+"handler", brokenReminders), 0o700); err != nil {
		t.Fatal(err)
	}
	r := i.begin("exec", "-q", "--session", "walk", "--", "sh", "-c", strings.Join([]string{
		`create() { ipc create_reminder '{"title":"five","due":"2026-02-17T17:00:00Z"}'; }`,
		`create; create & create & create & wait`, // three at once, and all of them time out
		`ipc get_diagnostics '{"last_n":20,"filter_outcome":"error"}' | tee seen`,
		`ids=$(grep -o '"correlation":"[0-9a-f]*"' seen | cut -d: -f2 | sort -u | paste -sd, -)`,
		`ipc create_bug_report '{"title":"create_reminder times out @maintainer","description":"I tried four times. See /home/ada/x.","severity":"medium","correlation_ids":['"$ids"']}'`,
	}, "\n"))
	limit := time.Now().Add(2 * time.Minute) // three calls have to time out first
	for len(i.questions()) == 0 && time.Now().Before(limit) {
		time.Sleep(200 * time.Millisecond)
	}
	q := i.question()
	if q.Capability != "bug_report.create_bug_report" || len(issues) != 0 {
		t.Errorf("have %+v", q)
	}
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	finish(t, r).want(t, 0, `"PLUGIN_TIMEOUT"`, `"plugin_state":"DEGRADED"`, `"original_code":"ECONNREFUSED"`, `"number":42,"url":"https://example.com/acme/nacre/issues/42"`)
	mu.Lock()
	defer mu.Unlock()
	if len(issues) != 1 {
		t.Fatalf("have %v", issues)
	}
	body, _ := issues[0]["body"].(string)
	has(t, body, "I tried four times. See [path]", "Severity: **medium**", "PLUGIN_TIMEOUT", "ECONNREFUSED", "| create_reminder |")
	hasNo(t, fmt.Sprint(issues[0]), "@maintainer", "Zq8-forge-token", i.work)
	hasNoSecret(t, i.state(), "Zq8-forge-token")
	i.nacre("audit", "verify").want(t, 0)
}
