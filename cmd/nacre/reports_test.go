package main_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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
