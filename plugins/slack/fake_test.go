package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/gorilla/websocket"
)

const (
	botToken = "xoxb-11-22-quietharbourbot"
	appToken = "xapp-1-A1-quietharbourapp"
	newBot   = "xoxb-11-22-anotherquietbot"
	newApp   = "xapp-1-A1-anotherquietapp"
)

// fault is what the Web API does in place of an answer to one call.
type fault func(w http.ResponseWriter)

func drop(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func says(code int, body string) fault {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // who left hears nothing
	}
}

func no(what string) fault { return says(200, fmt.Sprintf(`{"ok":false,"error":%q}`, what)) }

func limited(after string) fault {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"ok":false,"error":"ratelimited"}`)
	}
}

// greeting is what a socket does in place of serving; it returns whether it goes on to serve.
type greeting func(f *fake, c *websocket.Conn) bool

func hello(c *websocket.Conn) {
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","num_connections":1,"connection_info":{"app_id":"A1"}}`))
}

func leaves(*fake, *websocket.Conn) bool { return false }

// ends says hello, brings what waits, and then gives a reason to end.
func ends(reason string) greeting {
	return func(f *fake, c *websocket.Conn) bool {
		hello(c)
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"disconnect","reason":"`+reason+`","debug_info":{"host":"x"}}`))
		_, _, _ = c.ReadMessage()
		return false
	}
}

func speaks(kind int, what string) greeting {
	return func(_ *fake, c *websocket.Conn) bool {
		_ = c.WriteMessage(kind, []byte(what))
		return true
	}
}

// silent keeps the socket and says nothing, and not that it is alive either.
func silent(f *fake, _ *websocket.Conn) bool {
	<-f.known
	return false
}

// bringsAndDrops brings what waits, and drops the socket before anything is acknowledged.
func bringsAndDrops(f *fake, c *websocket.Conn) bool {
	hello(c)
	for _, e := range f.waiting() {
		_ = c.WriteJSON(e)
	}
	return false
}

// call is one that the fake got.
type call struct {
	method string
	params map[string]any
}

// fake is Slack: its Web API and its sockets. It keeps to Slack's rules, and misbehaves where
// it is told to. Handlers reach it as their proxy.
type fake struct {
	*httptest.Server
	t testing.TB
	// patience is how long a handler believes its socket.
	patience time.Duration
	known    chan struct{} // closed at the end, so that no socket is held
	gone     sync.WaitGroup

	mu        sync.Mutex
	over      bool // no tunnel begins
	bot, app  string
	rights    string
	where     string           // what apps.connections.open says
	last      int              // message
	history   []map[string]any // what was written
	deaf      bool             // what is written is never brought
	envelopes []map[string]any
	acked     map[string]bool
	brought   int
	sockets   map[*websocket.Conn]bool
	opened    int
	tickets   map[string]bool
	greets    []greeting
	faults    map[string][]fault
	after     map[string][]fault // done once a call had its effect: its answer is lost
	calls     []call
	// files are what Slack holds, by their ids; held is the host where it says that they are.
	files map[string]string
	held  string
}

// holds is Slack's host for files: what is read wants the bot's token, and what is given has an
// address of its own.
func (f *fake) holds(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	id, known := strings.TrimPrefix(r.URL.Path, "/files/"), false
	if _, known = f.files[id]; r.Host != "files.api.test" || err != nil || !known {
		f.t.Errorf("%s was asked for %s", r.Host, r.URL)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch token := r.Header.Get("Authorization"); {
	case r.Method == http.MethodGet && token == "Bearer "+f.bot:
		_, _ = io.WriteString(w, f.files[id]) // who left hears nothing
	case r.Method == http.MethodPost && token == "":
		f.files[id] = string(data)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

// file is what the methods for files say.
func (f *fake) file(method string, params map[string]any) (map[string]any, string) {
	switch method {
	case "files.info":
		id, _ := params["file"].(string)
		if _, ok := f.files[id]; !ok {
			return nil, "file_not_found"
		}
		return map[string]any{"file": map[string]any{"id": id, "url_private_download": f.held + "/files/" + id}}, ""
	case "files.getUploadURLExternal":
		if params["filename"] == "" || params["length"] == "" {
			return nil, "invalid_arguments"
		}
		f.files["F900"] = ""
		return map[string]any{"upload_url": f.held + "/files/F900", "file_id": "F900"}, ""
	}
	if params["channel_id"] == "C404" {
		return nil, "channel_not_found"
	}
	return map[string]any{"files": params["files"]}, ""
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, patience: time.Minute, held: "http://files.api.test", files: map[string]string{}, bot: botToken, app: appToken, rights: "chat:write,im:history", where: "ws://socket.test/link/", last: 100, known: make(chan struct{}),
		acked: map[string]bool{}, sockets: map[*websocket.Conn]bool{}, tickets: map[string]bool{}, faults: map[string][]fault{}, after: map[string][]fault{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.known)
		f.Close()
		f.mu.Lock()
		f.over = true
		for c := range f.sockets {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.gone.Wait()
	})
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		f.tunnel(w, r)
	case strings.HasPrefix(r.URL.Path, "/files/"):
		f.holds(w, r)
	case strings.HasPrefix(r.URL.Path, "/link/"):
		f.socket(w, r)
	default:
		f.method(w, r)
	}
}

// tunnel is the proxy's part: it leads to the fake itself.
func (f *fake) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Host != "socket.test:80" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	up, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		_ = conn.Close()
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	closing := func() { _, _ = conn.Close(), up.Close() }
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		closing()
		return
	}
	f.gone.Go(func() { defer closing(); _, _ = io.Copy(up, conn) })
	f.gone.Go(func() { defer closing(); _, _ = io.Copy(conn, up) })
}

// socket serves one: each address is good once.
func (f *fake) socket(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	good := f.tickets[r.URL.Path]
	delete(f.tickets, r.URL.Path)
	var greet greeting
	if len(f.greets) > 0 {
		greet, f.greets = f.greets[0], f.greets[1:]
	}
	f.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	f.mu.Lock()
	f.opened++
	f.mu.Unlock()
	if greet != nil && !greet(f, c) {
		return
	}
	hello(c)
	f.mu.Lock()
	f.sockets[c] = true
	for _, e := range f.envelopes {
		if !f.acked[e["envelope_id"].(string)] {
			_ = c.WriteJSON(e)
		}
	}
	f.mu.Unlock()
	for {
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if err := c.ReadJSON(&ack); err != nil {
			break
		}
		f.mu.Lock()
		f.acked[ack.ID] = true
		f.mu.Unlock()
	}
	f.mu.Lock()
	delete(f.sockets, c)
	f.mu.Unlock()
}

func (f *fake) method(w http.ResponseWriter, r *http.Request) {
	var params map[string]any
	data, err := io.ReadAll(r.Body) // all of it, so that the connection's end is seen
	if err != nil {
		return // it left
	}
	if form, err := url.ParseQuery(string(data)); err == nil && r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		params = map[string]any{}
		for k := range form {
			params[k] = form.Get(k)
		}
	} else if err := json.Unmarshal(data, &params); err != nil {
		f.t.Error(err)
	}
	method, found := strings.CutPrefix(r.URL.Path, "/api/")
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	f.mu.Lock()
	want := f.bot
	if method == "apps.connections.open" {
		want = f.app
	}
	f.mu.Unlock()
	if r.Host != "api.test" || !found || token != want {
		no("invalid_auth")(w)
		return
	}
	f.mu.Lock()
	f.calls = append(f.calls, call{method, params})
	if todo := f.faults[method]; len(todo) > 0 {
		f.faults[method] = todo[1:]
		f.mu.Unlock()
		todo[0](w)
		return
	}
	answer, problem := f.answer(method, params)
	todo := f.after[method]
	if len(todo) > 0 {
		f.after[method] = todo[1:]
	}
	rights := f.rights
	f.mu.Unlock()
	switch {
	case len(todo) > 0:
		todo[0](w)
	case problem != "":
		no(problem)(w)
	default:
		answer["ok"] = true
		w.Header().Set("X-OAuth-Scopes", rights)
		_ = json.NewEncoder(w).Encode(answer) // who left hears nothing
	}
}

func (f *fake) answer(method string, params map[string]any) (map[string]any, string) {
	to, _ := params["channel"].(string)
	switch method {
	case "auth.test":
		return map[string]any{"team_id": "T1", "user_id": "U0BOT", "bot_id": "B1"}, ""
	case "apps.connections.open":
		ticket := fmt.Sprintf("/link/%d", len(f.calls))
		f.tickets[ticket] = true
		return map[string]any{"url": strings.TrimSuffix(f.where, "/link/") + ticket}, ""
	case "chat.postMessage", "chat.update", "chat.postEphemeral":
		if problem := wrongMessage(params); problem != "" {
			return nil, problem
		}
		if to == "C404" { // nobody has it
			return nil, "channel_not_found"
		}
		if strings.HasPrefix(to, "U") {
			to = "D" + to[1:]
		}
		if method == "chat.postMessage" {
			f.last++
		}
		return map[string]any{"channel": to, "ts": stamp(f.last)}, ""
	case "files.info", "files.getUploadURLExternal", "files.completeUploadExternal":
		return f.file(method, params)
	}
	return f.written(method, params)
}

// written is what Slack keeps of a conversation, two messages a page: of its threads only how
// they begin.
func (f *fake) written(method string, params map[string]any) (map[string]any, string) {
	word := func(key string) string { said, _ := params[key].(string); return said }
	var list []any
	for _, e := range f.history {
		thread, _ := e["thread_ts"].(string)
		if e["channel"] != word("channel") {
			continue
		}
		m := map[string]any{}
		for k, v := range e {
			if k != "channel" && k != "channel_type" && (k != "team" || len(list)%2 == 0) {
				m[k] = v
			}
		}
		root := e["ts"] == word("ts")
		switch {
		case method == "conversations.history" && (thread == "" || thread == e["ts"]) && e["ts"].(string) > word("oldest"):
			for _, reply := range f.history {
				if reply["thread_ts"] == e["ts"] && reply["channel"] == e["channel"] {
					m["thread_ts"], m["reply_count"] = e["ts"], 1
				}
			}
			list = append([]any{m}, list...)
		case method == "conversations.replies" && (root || thread == word("ts") && e["ts"].(string) > word("oldest")):
			list = append(list, m)
		}
	}
	if method != "conversations.history" && method != "conversations.replies" {
		return nil, "unknown_method"
	}
	from, _ := strconv.Atoi(word("cursor"))
	answer := map[string]any{"messages": list[min(from, len(list)):min(from+2, len(list))]}
	if from+2 < len(list) {
		answer["response_metadata"] = map[string]any{"next_cursor": strconv.Itoa(from + 2)}
	}
	return answer, ""
}

func stamp(n int) string { return fmt.Sprintf("1700000000.%06d", n) }

// shown is what people see of a message; a problem is what Slack would say of it, or what
// nobody may be shown.
func shown(params map[string]any) (text, problem string) {
	blocks, _ := params["blocks"].([]any)
	for n, b := range blocks {
		block := b.(map[string]any)
		elements, _ := block["elements"].([]any)
		switch block["type"] {
		case "rich_text":
			for _, s := range elements {
				section := s.(map[string]any)
				if kind := section["type"]; kind != "rich_text_section" && kind != "rich_text_preformatted" {
					return "", "invalid_blocks"
				}
				for _, e := range section["elements"].([]any) {
					element := e.(map[string]any)
					said, _ := element["text"].(string)
					if element["type"] != "text" || said == "" {
						return "", "invalid_blocks"
					}
					text += said
				}
			}
		case "actions":
			ids := map[any]bool{}
			for _, e := range elements {
				button := e.(map[string]any)
				label := button["text"].(map[string]any)
				value, _ := button["value"].(string)
				if button["type"] != "button" || ids[button["action_id"]] || value == "" || len(value) > 2000 || label["type"] != "plain_text" || n == 0 {
					return "", "invalid_blocks"
				}
				ids[button["action_id"]] = true
			}
		default:
			return "", "invalid_blocks"
		}
	}
	return text, ""
}

func wrongMessage(params map[string]any) string {
	text, problem := shown(params)
	notice, _ := params["text"].(string)
	switch {
	case problem != "":
		return problem
	case strings.TrimSpace(text) == "":
		return "no_text"
	case len(utf16.Encode([]rune(text))) > 3000:
		return "msg_blocks_too_long"
	case strings.ContainsAny(notice, "<>"):
		return "somebody_would_be_called"
	case params["unfurl_links"] != false || params["unfurl_media"] != false || params["link_names"] != false || params["parse"] != "none" || params["mrkdwn"] != false:
		return "a_preview_would_be_made"
	}
	return ""
}

// brings puts something into all sockets, and into the next ones until it is acknowledged.
func (f *fake) brings(kind string, payload any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brought++
	id := fmt.Sprintf("e%d", f.brought)
	e := map[string]any{"type": kind, "envelope_id": id, "payload": payload, "accepts_response_payload": false}
	f.envelopes = append(f.envelopes, e)
	for c := range f.sockets {
		_ = c.WriteJSON(e)
	}
}

func (f *fake) waiting() (list []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.envelopes {
		if !f.acked[e["envelope_id"].(string)] {
			list = append(list, e)
		}
	}
	return list
}

// message lets a person write, and gives the stamp of the message.
func (f *fake) message(user, to, text string, more map[string]any) string {
	f.mu.Lock()
	f.last++
	ts := stamp(f.last)
	f.mu.Unlock()
	e := map[string]any{"type": "message", "channel": to, "channel_type": "channel", "user": user, "text": text, "ts": ts, "team": "T1"}
	for k, v := range more {
		e[k] = v
	}
	f.mu.Lock()
	f.history = append(f.history, e)
	deaf := f.deaf
	f.mu.Unlock()
	if deaf {
		return ts
	}
	f.brings("events_api", map[string]any{"team_id": "T1", "event_id": "Ev" + ts, "type": "event_callback", "event": e})
	return ts
}

// press lets a person press a button.
func (f *fake) press(user, value, ts, at string) {
	f.brings("interactive", map[string]any{"type": "block_actions", "user": map[string]any{"id": user, "team_id": "T1", "username": "<b>ada</b>"}, "team": map[string]any{"id": "T1"},
		"channel": map[string]any{"id": "D" + user[1:]}, "message": map[string]any{"ts": at}, "actions": []any{map[string]any{"type": "button", "block_id": "nacre", "action_id": "0", "value": value, "action_ts": ts}}})
}

func (f *fake) fails(method string, todo ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = append(f.faults[method], todo...)
}

func (f *fake) loses(method string, todo ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after[method] = append(f.after[method], todo...)
}

func (f *fake) greetsBy(todo ...greeting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.greets = append(f.greets, todo...)
}

// ends drops all sockets.
func (f *fake) ends() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.sockets {
		_ = c.Close()
	}
}

// got are the calls of one method so far.
func (f *fake) got(method string) (list []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.method == method {
			list = append(list, c.params)
		}
	}
	return list
}

func (f *fake) allAcked() bool { return len(f.waiting()) == 0 }

func (f *fake) connected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sockets) > 0
}

// lastStamp names the message that was written last.
func (f *fake) lastStamp() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stamp(f.last)
}
