package main_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

const (
	token  = "123456:AAbbCCddEEffGGhhIIjj"
	second = "123456:a-second-token-of-it"
)

// fault is what a Bot API server does in place of an answer to one call.
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

func no(code, after int) fault {
	more := ""
	if after > 0 {
		more = fmt.Sprintf(`,"parameters":{"retry_after":%d}`, after)
	}
	return says(code, fmt.Sprintf(`{"ok":false,"error_code":%d,"description":"no, and your token is %s"%s}`, code, token, more))
}

// call is one that the fake got.
type call struct {
	method string
	params map[string]any
}

// fake is a Bot API server that keeps to Telegram's rules, and misbehaves where it is told
// to. Handlers reach it as their proxy.
type fake struct {
	*httptest.Server
	t     testing.TB
	known chan struct{} // closed at the end, so that no poll is held

	mu      sync.Mutex
	token   string
	updates []map[string]any
	next    int64
	last    int64 // message
	asked   int64 // the highest offset
	faults  map[string][]fault
	// after are done once a call had its effect: its answer is lost.
	after map[string][]fault
	calls []call
	// files are what can be fetched, by their places; wrong is a place that getFile tells in
	// place of theirs.
	files   map[string]string
	wrong   string
	fetched int
}

// formed are the parameters of a method that is given a file; nil for any other one.
func formed(r *http.Request) map[string]any {
	if r.ParseMultipartForm(4<<20) != nil {
		return nil
	}
	params := map[string]any{}
	for name, values := range r.MultipartForm.Value {
		params[name] = values[0]
	}
	for name, files := range r.MultipartForm.File {
		if in, err := files[0].Open(); err == nil {
			content, _ := io.ReadAll(in) // it is in memory
			params[name] = files[0].Filename + ": " + string(content)
		}
	}
	return params
}

// download gives a file, to whoever knows the token.
func (f *fake) download(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.files[strings.TrimPrefix(r.URL.Path, "/file/bot"+f.token+"/")]
	if r.Host != "api.test" || !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	f.fetched++
	_, _ = io.WriteString(w, content) // who left hears nothing
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, token: token, next: 700, last: 9000, known: make(chan struct{}), faults: map[string][]fault{}, after: map[string][]fault{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { close(f.known); f.Close() })
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/file/") {
		f.download(w, r)
		return
	}
	params := formed(r)
	if params == nil && json.NewDecoder(r.Body).Decode(&params) != nil {
		return // it left
	}
	_, _ = io.Copy(io.Discard, r.Body) // all of it, so that the connection's end is seen
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	f.mu.Lock()
	if r.Host != "api.test" || len(parts) != 2 || parts[0] != f.token {
		f.mu.Unlock()
		no(http.StatusUnauthorized, 0)(w)
		return
	}
	method := parts[1]
	f.calls = append(f.calls, call{method, params})
	if todo := f.faults[method]; len(todo) > 0 {
		f.faults[method] = todo[1:]
		f.mu.Unlock()
		todo[0](w)
		return
	}
	f.mu.Unlock()
	answer, problem := f.answer(method, params, r)
	f.mu.Lock()
	todo := f.after[method]
	if len(todo) > 0 {
		f.after[method] = todo[1:]
	}
	f.mu.Unlock()
	switch {
	case len(todo) > 0:
		todo[0](w)
	case problem != "":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"ok":false,"error_code":400,"description":%q}`, problem)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": answer}) // who left hears nothing
	}
}

// newest is the id of the newest message of all chats.
func (f *fake) newest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *fake) answer(method string, params map[string]any, r *http.Request) (any, string) {
	switch method {
	case "getMe":
		return map[string]any{"id": 123456, "is_bot": true, "first_name": "nacre"}, ""
	case "getUpdates":
		return f.poll(int64(params["offset"].(float64)), r), ""
	case "answerCallbackQuery":
		if text, _ := params["text"].(string); len([]rune(text)) > 200 {
			return nil, "Bad Request: text is too long"
		}
		return true, ""
	case "getFile":
		f.mu.Lock()
		defer f.mu.Unlock()
		place := "documents/" + params["file_id"].(string)
		if _, ok := f.files[place]; !ok {
			return nil, "Bad Request: wrong file_id"
		}
		if f.wrong != "" {
			place = f.wrong
		}
		return map[string]any{"file_id": params["file_id"], "file_path": place}, ""
	case "sendDocument":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.last++
		return map[string]any{"message_id": f.last}, ""
	case "sendMessage", "editMessageText":
		if problem := wrongButtons(params); problem != "" {
			return nil, problem
		}
		if problem := wrongText(params); problem != "" {
			return nil, problem
		}
		if int64(params["chat_id"].(float64)) == 404 {
			return nil, "Bad Request: chat not found"
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if method == "sendMessage" {
			f.last++
			return map[string]any{"message_id": f.last}, ""
		}
		return map[string]any{"message_id": params["message_id"]}, ""
	}
	return nil, "Not Found: method not found"
}

// poll holds a poll for a little, which is long for a test.
func (f *fake) poll(offset int64, r *http.Request) []map[string]any {
	for wait := 0; ; wait++ {
		f.mu.Lock()
		f.asked = max(f.asked, offset)
		var list []map[string]any
		for _, u := range f.updates {
			if u["update_id"].(int64) >= offset {
				list = append(list, u)
			}
		}
		f.updates = list // what was confirmed never comes again
		f.mu.Unlock()
		if len(list) > 0 || wait == 50 {
			return append([]map[string]any{}, list[:min(len(list), 100)]...)
		}
		select {
		case <-f.known:
			return []map[string]any{}
		case <-r.Context().Done():
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// wrongText is what Telegram would say of a text.
func wrongText(params map[string]any) string {
	text, _ := params["text"].(string)
	for _, t := range tag.FindAllString(text, -1) {
		if !strings.Contains("<code></code><pre></pre>", t) {
			return "Bad Request: can't parse entities: unsupported tag " + t
		}
	}
	if params["parse_mode"] != "HTML" || params["link_preview_options"].(map[string]any)["is_disabled"] != true {
		return "Bad Request: a preview would be made"
	}
	shown := html.UnescapeString(tag.ReplaceAllString(text, ""))
	if strings.TrimSpace(shown) == "" {
		return "Bad Request: message text is empty"
	}
	if len(utf16.Encode([]rune(shown))) > 4096 {
		return "Bad Request: message is too long"
	}
	return ""
}

// wrongButtons is what Telegram would say of the buttons of a message.
func wrongButtons(params map[string]any) string {
	markup, _ := params["reply_markup"].(map[string]any)
	rows, _ := markup["inline_keyboard"].([]any)
	for _, row := range rows {
		for _, b := range row.([]any) {
			if data, _ := b.(map[string]any)["callback_data"].(string); data == "" || len(data) > 64 {
				return "Bad Request: BUTTON_DATA_INVALID"
			}
		}
	}
	return ""
}

// says lets a person write, and gives the number of the message.
func (f *fake) says(from int64, chat int64, text string, more map[string]any) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	kind := "private"
	if chat < 0 {
		kind = "supergroup"
	}
	m := map[string]any{"message_id": f.last, "date": 1, "text": text, "chat": map[string]any{"id": chat, "type": kind},
		"from": map[string]any{"id": from, "is_bot": false, "first_name": "<b>Ada</b>", "username": "ada"}}
	for k, v := range more {
		m[k] = v
	}
	f.updates = append(f.updates, map[string]any{"update_id": f.next, "message": m})
	f.next++
	return f.last
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

func (f *fake) confirmed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked >= f.next
}

// presses lets a person press a button of a message.
func (f *fake) presses(from, chat, message int64, data, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updates = append(f.updates, map[string]any{"update_id": f.next, "callback_query": map[string]any{
		"id": id, "from": map[string]any{"id": from, "is_bot": false}, "data": data, "message": map[string]any{"message_id": message, "chat": map[string]any{"id": chat, "type": "private"}},
	}})
	f.next++
}
