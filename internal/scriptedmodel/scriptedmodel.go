// Package scriptedmodel promises a model server that plays a script instead of
// thinking: Anthropic Messages, OpenAI Responses and OpenAI Chat Completions,
// streaming or not, for tests, demos and doctor's canary. It checks what it is sent and keeps what was wrong for
// [Server.Failures]. It is not a model, it bills nothing, and it must not face
// anything but loopback.
//
// A script is one JSON object; unknown keys are errors:
//
//	{
//	  "forbid": ["sk-ant-real"],          // must occur in no header and no body
//	  "want_header": {"x-api-key": "sk"}, // must arrive with exactly this value
//	  "login": {"access": "a", "refresh": "r", "account": "x"}, // a subscription, see Login
//	  "turns": [                          // the conversation, one element per answer
//	    {
//	      "expect": {"contains": ["fix it"], "matches": ["(?i)bug"], "tools": ["Bash"],
//	                 "no_tools": ["WebFetch"], "model": "claude-.*", "error": false},
//	      "thinking": "hm",               // a thinking block, optional
//	      "text": "Looking.",             // a text block, optional
//	      "tools": [{"name": "Bash", "input": {"command": "ls"}}],
//	      "stop": "tool_use",             // default: tool_use with tools, else end_turn
//	      "usage": {"input_tokens": 10, "output_tokens": 5},
//	      "fault": {"status": 529, "times": 2, "retry_after": 1}
//	    }
//	  ],
//	  "others": [                         // side requests: titles, quota checks, sub-agents
//	    {"match": {"model": "haiku"}, "turns": [{"text": "A title"}]}
//	  ]
//	}
//
// Which turn is played is read from the request alone: the number of answers by the assistant in its history. So
// a retry gets the same turn, and a resumed session goes on where it was. The first of others whose match fits
// answers; else the main turns do. An expectation looks at the last message that is not the system's: its text
// and the results of its tools. error says whether a result must be (true) or must not be (false) an error.
//
// One script plays in every dialect. The stop reasons are Anthropic's words, and become those of the dialect. A
// tool is called by the type under which it was offered (a function, a freeform tool, the local shell with its
// action as input). OpenAI's dialects have no mark for a tool's error: a result that begins with "error" is one.
// Their results of parallel calls are one message.
//
// A tool's "raw" is sent in place of its input, and need not be JSON. The first of its "else" that is offered is
// called where it is not. A fault is one of the following. status is answered so many times (times, 0 for
// always), with retry_after in seconds. cut_after lets the stream break off after so many events, with times as
// above, and error_after lets it end in an error event. hang answers nothing until the client leaves. too_long
// refuses the conversation as longer than the model can read, in the vendor's words. delay_ms waits before each
// event, huge is a text of so many bytes, and no_usage does not say what the answer cost.
package scriptedmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"
)

const (
	// MaxScript is the largest script in bytes.
	MaxScript = 8 << 20
	// MaxBody is the largest request in bytes.
	MaxBody = 64 << 20
	// maxKept is how many failures and requests are kept.
	maxKept = 1000
)

// Script is what a server plays; see the package comment.
type Script struct {
	Forbid     []string          `json:"forbid,omitempty"`
	WantHeader map[string]string `json:"want_header,omitempty"`
	Turns      []Turn            `json:"turns"`
	Others     []Other           `json:"others,omitempty"`
	// Login, where it is set, is the only way in.
	Login *Login `json:"login,omitempty"`
}

// Other answers requests that are not of the main conversation.
type Other struct {
	Match Match  `json:"match"`
	Turns []Turn `json:"turns"`
}

// Match selects requests; every part that is set must fit. Model and Contains
// are regular expressions, on the model's id and on all text of system and messages.
type Match struct {
	Model    string `json:"model,omitempty"`
	Contains string `json:"contains,omitempty"`
	// NoTools selects requests that offer no tools.
	NoTools bool `json:"no_tools,omitempty"`
	// Path is the request's path, such as /v1/messages/count_tokens.
	Path string `json:"path,omitempty"`
}

// Turn is one answer.
type Turn struct {
	Expect   *Expect `json:"expect,omitempty"`
	Thinking string  `json:"thinking,omitempty"`
	Text     string  `json:"text,omitempty"`
	Tools    []Tool  `json:"tools,omitempty"`
	Stop     string  `json:"stop,omitempty"`
	Usage    *Usage  `json:"usage,omitempty"`
	Fault    *Fault  `json:"fault,omitempty"`
}

// Expect is what a turn must be asked with.
type Expect struct {
	Contains []string `json:"contains,omitempty"`
	Matches  []string `json:"matches,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	NoTools  []string `json:"no_tools,omitempty"`
	Model    string   `json:"model,omitempty"`
	Error    *bool    `json:"error,omitempty"`
}

// Tool is one call that the model makes. Its id is made from the turn and its place.
type Tool struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
	// Raw is sent in place of Input.
	Raw string `json:"raw,omitempty"`
	// Else is called where this tool is not offered; the first of them that is.
	Else []Tool `json:"else,omitempty"`
}

// Usage is what a turn claims to have used, in tokens.
type Usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	// Reasoning is the part of Output that was thought, for OpenAI's dialects.
	Reasoning int64 `json:"reasoning_tokens,omitempty"`
}

// Fault is how a turn goes wrong.
type Fault struct {
	Status     int  `json:"status,omitempty"`
	Times      int  `json:"times,omitempty"`
	RetryAfter int  `json:"retry_after,omitempty"`
	CutAfter   int  `json:"cut_after,omitempty"`
	ErrorAfter int  `json:"error_after,omitempty"`
	Hang       bool `json:"hang,omitempty"`
	TooLong    bool `json:"too_long,omitempty"`
	DelayMS    int  `json:"delay_ms,omitempty"`
	Huge       int  `json:"huge,omitempty"`
	NoUsage    bool `json:"no_usage,omitempty"`
}

// Load reads a script from a file.
func Load(path string) (Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return Read(f)
}

// Read reads a script, and refuses one that could not be played.
func Read(r io.Reader) (Script, error) {
	d := json.NewDecoder(io.LimitReader(r, MaxScript))
	d.DisallowUnknownFields()
	var s Script
	if err := d.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("script: something follows the JSON object")
	}
	return s, s.Check()
}

// Check refuses a script that could not be played.
func (s Script) Check() error {
	if len(s.Turns) == 0 {
		return errors.New("script: no turns")
	}
	turns := append([]Turn(nil), s.Turns...)
	for _, o := range s.Others {
		if o.Match == (Match{}) || len(o.Turns) == 0 {
			return errors.New("script: each of others needs a match and turns")
		}
		if err := compile(o.Match.Model, o.Match.Contains); err != nil {
			return err
		}
		turns = append(turns, o.Turns...)
	}
	for i, t := range turns {
		if err := t.check(); err != nil {
			return fmt.Errorf("script: turn %d: %w", i, err)
		}
	}
	return nil
}

func (t Turn) check() error {
	if t.Expect != nil {
		if err := compile(append(t.Expect.Matches, t.Expect.Model)...); err != nil {
			return err
		}
	}
	var tools []Tool
	for _, tool := range t.Tools {
		tools = append(append(tools, tool), tool.Else...)
	}
	for _, tool := range tools {
		if tool.Name == "" || (tool.Raw != "" && tool.Input != nil) {
			return errors.New("a tool has a name, and input or raw")
		}
	}
	if t.Text == "" && t.Thinking == "" && len(t.Tools) == 0 && t.Fault == nil {
		return errors.New("nothing is said: give text, tools or a fault")
	}
	return nil
}

func compile(patterns ...string) error {
	for _, p := range patterns {
		if _, err := regexp.Compile(p); err != nil {
			return fmt.Errorf("script: %w", err)
		}
	}
	return nil
}

// Request is what the server was sent.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server plays one script. It is safe for concurrent use.
type Server struct {
	script   Script
	mu       sync.Mutex
	failures []string
	requests []Request
	// faults counts how often each turn has gone wrong.
	faults map[string]int
	// refreshes counts those of the login; revoked says that it ended.
	refreshes int
	revoked   bool
}

// New makes a server that plays the script. It opens nothing.
func New(s Script) *Server { return &Server{script: s, faults: map[string]int{}} }

// Failures are the expectations that were not met, in order; empty means that
// all that came was as expected.
func (s *Server) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.failures...)
}

// Requests are the requests that came, in order; the first 1,000.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) < maxKept {
		s.failures = append(s.failures, fmt.Sprintf(format, args...))
	}
}

const (
	headerTimeout = 30 * time.Second
	closeTimeout  = 5 * time.Second
)

// Serve answers on the listener until ctx ends, and returns when all requests have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer done()
		if srv.Shutdown(limit) != nil {
			_ = srv.Close() // what does not end in time is cut
		}
	})
	err := srv.Serve(l)
	if stop() {
		return fmt.Errorf("scripted model: %w", err)
	}
	<-ended
	return nil
}
