package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

const (
	token    = "MTEyMjMzNDQ1NTY2Nzc4ODk5.quietA.harbourharbourharbourharbour"
	second   = "MTEyMjMzNDQ1NTY2Nzc4ODk5.quietB.harbourharbourharbourharbour"
	self     = "900"
	app      = "901"
	guild    = "700"
	room     = "500" // a channel
	private  = "42000"
	intended = 1<<9 | 1<<12 | 1<<15
	content  = 1 << 15
)

// fault is what the HTTP API does in place of an answer to one call.
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

func no(status, code int) fault {
	return says(status, fmt.Sprintf(`{"message":"no <b>","code":%d}`, code))
}

func limited(after string, more string) fault {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"message":"You are being rate limited."`+more+`}`)
	}
}

// greeting is what a socket does in place of serving; it returns whether it goes on to serve.
type greeting func(f *fake, c *websocket.Conn) bool

func leaves(*fake, *websocket.Conn) bool { return false }

func speaks(kind int, what string) greeting {
	return func(_ *fake, c *websocket.Conn) bool {
		_ = c.WriteMessage(kind, []byte(what))
		return true
	}
}

// closes says hello, hears who it is, and closes with a code.
func closes(code int) greeting {
	return func(_ *fake, c *websocket.Conn) bool {
		hello(c)
		_, _, _ = c.ReadMessage()
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "x"), time.Now().Add(time.Minute))
		return false
	}
}

// ends says hello, hears who it is, and says one thing in place of all others.
func ends(what string) greeting {
	return func(_ *fake, c *websocket.Conn) bool {
		hello(c)
		_, _, _ = c.ReadMessage()
		_ = c.WriteMessage(websocket.TextMessage, []byte(what))
		_, _, _ = c.ReadMessage()
		return false
	}
}

// silent keeps the socket and says nothing more.
func silent(f *fake, c *websocket.Conn) bool {
	hello(c)
	<-f.known
	return false
}

func hello(c *websocket.Conn) {
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":10,"d":{"heartbeat_interval":41250,"_trace":["x"]},"s":null,"t":null}`))
}

// call is one that the fake got.
type call struct {
	path   string // with its method
	params map[string]any
}

// remembered is what Discord keeps of one connection, so that another one goes on with it.
type remembered struct {
	events  []map[string]any
	intents int
	socket  *websocket.Conn
}

// fake is Discord: its HTTP API and its gateway. It keeps to Discord's rules, and misbehaves
// where it is told to. Handlers reach it as their proxy.
type fake struct {
	*httptest.Server
	t testing.TB
	// patience is how long a handler believes its connection.
	patience time.Duration
	known    chan struct{} // closed at the end, so that no socket is held
	gone     sync.WaitGroup

	mu       sync.Mutex
	over     bool // no tunnel begins
	token    string
	content  bool // the application's page lets the bot read everything
	where    string
	starts   int // how many sessions may begin
	last     int
	sessions map[string]*remembered
	opened   int
	resumed  int
	ready    int
	beats    int
	greets   []greeting
	rooms    map[string]map[string]any   // what channels are
	history  map[string][]map[string]any // what was written
	presses  map[string]int              // by their key: 1 waits, 2 was acknowledged
	faults   map[string][]fault
	after    map[string][]fault // done once a call had its effect: its answer is lost
	headers  map[string]string  // of the next answers to messages
	calls    []call
	files    map[string]string // what can be fetched, by its path
}

// holds is where Discord keeps files: nobody's token is for it.
func (f *fake) holds(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.files[r.URL.String()[len("http://cdn.test"):]]
	if r.Header.Get("Authorization") != "" {
		f.t.Error("the token went to the files' host")
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, content) // who left hears nothing
}

// formed are the parameters of a message with a file; nil for any other one.
func formed(r *http.Request) map[string]any {
	if r.ParseMultipartForm(4<<20) != nil {
		return nil
	}
	params := map[string]any{}
	if json.Unmarshal([]byte(r.FormValue("payload_json")), &params) != nil {
		return nil
	}
	in, about, err := r.FormFile("files[0]")
	if err != nil {
		return nil
	}
	content, _ := io.ReadAll(in) // it is in memory
	params["file"] = about.Filename + ": " + string(content)
	return params
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, patience: time.Minute, token: token, content: true, where: "ws://gateway.test", starts: 1000, last: 1000, known: make(chan struct{}),
		sessions: map[string]*remembered{}, rooms: map[string]map[string]any{}, history: map[string][]map[string]any{}, files: map[string]string{}, presses: map[string]int{}, faults: map[string][]fault{}, after: map[string][]fault{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.known)
		f.Close()
		f.mu.Lock()
		f.over = true
		for _, s := range f.sessions {
			if s.socket != nil {
				_ = s.socket.Close()
			}
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
	case r.URL.Path == "/":
		f.socket(w, r)
	case r.Host == "cdn.test":
		f.holds(w, r)
	default:
		f.method(w, r)
	}
}

// tunnel is the proxy's part: it leads to the fake itself.
func (f *fake) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Host != "gateway.test:80" && r.Host != "resume.test:80" {
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

func (f *fake) socket(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Get("v") != "10" || q.Get("encoding") != "json" {
		f.t.Errorf("the gateway was asked for %s", r.URL)
	}
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	f.mu.Lock()
	f.opened++
	var greet greeting
	if len(f.greets) > 0 {
		greet, f.greets = f.greets[0], f.greets[1:]
	}
	f.mu.Unlock()
	if greet != nil && !greet(f, c) {
		return
	}
	hello(c)
	var mine *remembered
	for {
		var said struct {
			Op   int `json:"op"`
			Data struct {
				Token   string `json:"token"`
				Intents int    `json:"intents"`
				Session string `json:"session_id"`
				Seq     int    `json:"seq"`
			} `json:"d"`
		}
		_, data, err := c.ReadMessage()
		if err != nil {
			break
		}
		_ = json.Unmarshal(data, &said) // the number of a heartbeat is no object
		f.mu.Lock()
		code := 0
		switch {
		case said.Op == 1:
			f.beats++
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":11}`))
		case mine != nil:
			code = 4005
		case said.Data.Token != f.token:
			code = 4004
		case said.Op == 2 && said.Data.Intents&content != 0 && !f.content:
			code = 4014
		case said.Op == 2:
			mine = f.begin(c, said.Data.Intents)
		case said.Op == 6:
			mine = f.goesOn(c, said.Data.Session, said.Data.Seq)
		default:
			code = 4001
		}
		if code != 0 {
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "x"), time.Now().Add(time.Minute))
		}
		f.mu.Unlock()
		if code != 0 {
			break
		}
	}
	f.mu.Lock()
	if mine != nil && mine.socket == c {
		mine.socket = nil
	}
	f.mu.Unlock()
}

// begin is a new session: what happened before is not told.
func (f *fake) begin(c *websocket.Conn, intents int) *remembered {
	id := fmt.Sprint("s", len(f.sessions))
	s := &remembered{socket: c, intents: intents}
	f.sessions[id] = s
	f.ready++
	s.tell("READY", map[string]any{"v": 10, "session_id": id, "resume_gateway_url": "ws://resume.test", "user": map[string]any{"id": self, "bot": true}, "application": map[string]any{"id": app}})
	return s
}

func (f *fake) goesOn(c *websocket.Conn, id string, seq int) *remembered {
	s := f.sessions[id]
	if s == nil {
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":9,"d":false}`))
		return nil
	}
	if seq > len(s.events) {
		f.t.Errorf("it goes on after %d of %d", seq, len(s.events))
	}
	s.socket = c
	f.resumed++
	for _, e := range s.events[min(seq, len(s.events)):] {
		_ = c.WriteJSON(e)
	}
	_ = c.WriteJSON(map[string]any{"op": 0, "t": "RESUMED", "s": len(s.events), "d": map[string]any{}})
	return s
}

func (s *remembered) tell(kind string, data any) {
	s.events = append(s.events, map[string]any{"op": 0, "t": kind, "s": len(s.events) + 1, "d": data})
	if s.socket != nil {
		_ = s.socket.WriteJSON(s.events[len(s.events)-1])
	}
}

func (f *fake) method(w http.ResponseWriter, r *http.Request) {
	params := formed(r)
	data, err := io.ReadAll(r.Body) // all of it, so that the connection's end is seen
	if err != nil {
		return // it left
	}
	switch {
	case params != nil: // of a form
	case len(data) > 0:
		if err := json.Unmarshal(data, &params); err != nil {
			f.t.Error(err)
		}
	default:
		params = map[string]any{}
		for key := range r.URL.Query() {
			params[key] = r.URL.Query().Get(key)
		}
	}
	path, found := strings.CutPrefix(r.URL.Path, "/api/v10/")
	f.mu.Lock()
	good := r.Header.Get("Authorization") == "Bot "+f.token
	f.mu.Unlock()
	if r.Host != "api.test" || !found || !good {
		no(401, 0)(w)
		return
	}
	path = r.Method + " " + path
	f.mu.Lock()
	f.calls = append(f.calls, call{path, params})
	if todo := f.todo(f.faults, path); todo != nil {
		f.mu.Unlock()
		todo(w)
		return
	}
	answer, status, code := f.answer(strings.Split(path[strings.Index(path, " ")+1:], "/"), r.Method, params)
	todo := f.todo(f.after, path)
	if strings.HasSuffix(path, "/messages") {
		for key, value := range f.headers {
			w.Header().Set(key, value)
		}
	}
	f.mu.Unlock()
	switch {
	case todo != nil:
		todo(w)
	case status != 0:
		no(status, code)(w)
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(answer) // who left hears nothing
	}
}

// todo is the next fault of a call: that of its own path, or of its kind.
func (f *fake) todo(of map[string][]fault, path string) fault {
	for key, list := range of {
		if len(list) > 0 && (key == path || strings.HasSuffix(path, key)) {
			of[key] = list[1:]
			return list[0]
		}
	}
	return nil
}

func (f *fake) answer(path []string, method string, params map[string]any) (answer any, status, code int) {
	switch strings.Join(path, "/") {
	case "users/@me":
		return map[string]any{"id": self, "bot": true}, 0, 0
	case "gateway/bot":
		return map[string]any{"url": f.where, "shards": 1, "session_start_limit": map[string]any{"total": 1000, "remaining": f.starts, "reset_after": 77000}}, 0, 0
	case "users/@me/channels":
		to, _ := params["recipient_id"].(string)
		if to == "404" {
			return nil, 400, 50033
		}
		return map[string]any{"id": to + "000", "type": 1}, 0, 0
	}
	switch path[0] {
	case "interactions":
		switch f.presses[path[2]] {
		case 0:
			return nil, 404, 10062
		case 2:
			return nil, 400, 40060
		}
		f.presses[path[2]] = 2
		return nil, 0, 0
	case "webhooks":
		if f.presses[path[2]] != 2 || path[1] != app {
			return nil, 404, 10015
		}
		if problem := wrongMessage(params, false); problem != 0 {
			return nil, 400, problem
		}
		return map[string]any{"id": f.number()}, 0, 0
	case "channels":
		return f.channel(path[1:], method, params)
	}
	return nil, 404, 0
}

func (f *fake) channel(path []string, method string, params map[string]any) (answer any, status, code int) {
	id := path[0]
	alone := strings.HasSuffix(id, "000")
	switch {
	case id == "404":
		return nil, 404, 10003
	case len(path) == 1:
		if known := f.rooms[id]; known != nil {
			return known, 0, 0
		}
		return map[string]any{"id": id, "type": 0, "guild_id": guild, "parent_id": "600"}, 0, 0
	case len(path) == 2 && method == http.MethodGet:
		return f.written(id, params)
	case len(path) == 4: // a thread of a message
		name, _ := params["name"].(string)
		switch {
		case alone || f.rooms[id] != nil:
			return nil, 400, 50024
		case f.rooms[path[2]] != nil:
			return nil, 400, 160004
		case name == "" || utf8.RuneCountInString(name) > 100:
			return nil, 400, 50035
		}
		f.rooms[path[2]] = map[string]any{"id": path[2], "type": 11, "parent_id": id}
		return f.rooms[path[2]], 0, 0
	case method == http.MethodGet:
		for _, m := range f.history[id] {
			if m["id"] == path[2] {
				return m, 0, 0
			}
		}
		return nil, 404, 10008
	}
	if problem := wrongMessage(params, method == http.MethodPost); problem != 0 {
		return nil, 400, problem
	}
	if len(path) == 3 {
		return map[string]any{"id": path[2], "channel_id": id}, 0, 0
	}
	return map[string]any{"id": f.number(), "channel_id": id}, 0, 0
}

// written is a page of what Discord keeps of a channel, the newest first.
func (f *fake) written(id string, params map[string]any) (answer any, status, code int) {
	if f.rooms[id] == nil && len(f.history[id]) == 0 {
		return nil, 404, 10003
	}
	most, _ := strconv.Atoi(params["limit"].(string))
	list := []map[string]any{}
	for _, m := range f.history[id] {
		if number(m["id"].(string)) > number(params["after"].(string)) && len(list) < most {
			kept := map[string]any{}
			for k, v := range m {
				if k != "guild_id" {
					kept[k] = v
				}
			}
			list = append(list, kept)
		}
	}
	slices.Reverse(list)
	return list, 0, 0
}

func number(id string) int {
	n, _ := strconv.Atoi(id)
	return n
}

func (f *fake) number() string {
	f.last++
	return strconv.Itoa(f.last)
}

// shown is what people see of a message.
func shown(params map[string]any) string {
	text, _ := params["content"].(string)
	embeds, _ := params["embeds"].([]any)
	for _, e := range embeds {
		text += e.(map[string]any)["description"].(string)
	}
	return unmarked(text)
}

// unmarked takes Discord's escapes away.
func unmarked(text string) string {
	var b strings.Builder
	escape := false
	for _, r := range text {
		if !escape && r == '\\' {
			escape = true
			continue
		}
		b.WriteRune(r)
		escape = false
	}
	return b.String()
}

// wrongMessage is what Discord says of a message, or a code of ours for what nobody may be
// shown.
func wrongMessage(params map[string]any, begins bool) int {
	text, _ := params["content"].(string)
	embeds, _ := params["embeds"].([]any)
	flags, _ := params["flags"].(float64)
	calls, _ := params["allowed_mentions"].(map[string]any)
	parse, isList := calls["parse"].([]any)
	switch {
	case utf8.RuneCountInString(text) > 2000:
		return 50035
	case strings.TrimSpace(text) == "" && len(embeds) == 0 && params["file"] == nil:
		return 50006
	case !isList || len(parse) != 0 || calls["replied_user"] != false:
		return 1 // somebody would be called
	case text != "" && int(flags)&4 == 0:
		return 2 // a preview would be made
	}
	for _, e := range embeds {
		said, _ := e.(map[string]any)["description"].(string)
		if said == "" || utf8.RuneCountInString(said) > 4096 {
			return 50035
		}
	}
	ids := map[any]bool{}
	rows, isList := params["components"].([]any)
	if !isList || len(rows) > 0 && !begins {
		return 3 // buttons that go on
	}
	for _, r := range rows {
		list := r.(map[string]any)["components"].([]any)
		if r.(map[string]any)["type"] != 1.0 || len(list) == 0 || len(list) > 5 {
			return 50035
		}
		for _, b := range list {
			button := b.(map[string]any)
			id, _ := button["custom_id"].(string)
			label, _ := button["label"].(string)
			if button["type"] != 2.0 || id == "" || len(id) > 100 || ids[id] || label == "" || utf8.RuneCountInString(label) > 80 {
				return 50035
			}
			ids[id] = true
		}
	}
	return 0
}

// happens tells all sessions, also those that are not connected, of something.
func (f *fake) happens(kind string, data map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tells(kind, data)
}

func (f *fake) tells(kind string, data map[string]any) {
	for _, s := range f.sessions {
		told := data
		if kind == "MESSAGE_CREATE" && s.intents&content == 0 && data["guild_id"] != nil && data["mentions"] == nil {
			told = map[string]any{}
			for k, v := range data {
				told[k] = v
			}
			told["content"], told["attachments"] = "", nil
		}
		s.tell(kind, told)
	}
}

// message lets a person write, and gives the number of the message.
func (f *fake) message(user, to, text string, more map[string]any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := map[string]any{"id": f.number(), "channel_id": to, "type": 0, "content": text, "author": map[string]any{"id": user, "username": "<b>ada</b>"}}
	if !strings.HasSuffix(to, "000") {
		m["guild_id"], m["member"] = guild, map[string]any{"nick": "x"}
	}
	if strings.Contains(text, "<@"+self+">") {
		m["mentions"] = []any{map[string]any{"id": self, "bot": true}}
	}
	for k, v := range more {
		m[k] = v
	}
	f.history[to] = append(f.history[to], m)
	f.tells("MESSAGE_CREATE", m)
	return m["id"].(string)
}

// press lets a person press a button, where they are alone with the bot, and gives the key of
// the press.
func (f *fake) press(user, button, at string, more map[string]any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.number()
	key := "aW50ZXJhY3Rpb24_" + id
	p := map[string]any{"id": id, "application_id": app, "token": key, "type": 3, "channel_id": user + "000", "user": map[string]any{"id": user, "username": "<b>ada</b>"},
		"message": map[string]any{"id": at}, "data": map[string]any{"component_type": 2, "custom_id": button}}
	for k, v := range more {
		p[k] = v
	}
	f.presses[key] = 1
	f.tells("INTERACTION_CREATE", p)
	f.tells("INTERACTION_CREATE", p) // which comes twice
	return key
}

func (f *fake) fails(path string, todo ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[path] = append(f.faults[path], todo...)
}

func (f *fake) loses(path string, todo ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after[path] = append(f.after[path], todo...)
}

func (f *fake) greetsBy(todo ...greeting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.greets = append(f.greets, todo...)
}

// ends drops all sockets; forgets what they were, too, where it is told to.
func (f *fake) ends(forgets bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.sessions {
		if s.socket != nil {
			_ = s.socket.Close()
		}
		if forgets {
			delete(f.sessions, id)
		}
	}
}

// got are the calls so far whose path ends so.
func (f *fake) got(path string) (list []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasSuffix(c.path, path) {
			list = append(list, c.params)
		}
	}
	return list
}

// posts are the messages that were written, each with where.
func (f *fake) posts() (list []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if to, found := strings.CutPrefix(c.path, "POST channels/"); found && strings.HasSuffix(to, "/messages") {
			c.params["channel"] = strings.TrimSuffix(to, "/messages")
			list = append(list, c.params)
		}
	}
	return list
}

// edits are the messages that were edited, each with which.
func (f *fake) edits() (list []map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if to, found := strings.CutPrefix(c.path, "PATCH channels/"); found {
			c.params["at"] = to
			list = append(list, c.params)
		}
	}
	return list
}

// has is a number that the fake counts.
func (f *fake) has(count *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *count
}

// connected tells whether a session that began is served.
func (f *fake) connected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.socket != nil {
			return true
		}
	}
	return false
}

// lastNumber names what was written last.
func (f *fake) lastNumber() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.Itoa(f.last)
}
