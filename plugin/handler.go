package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nacre-dev/nacre"
)

// Handler is a plugin's own code. Every field may be left out; a tool that is
// in the manifest and not in Tools fails when it is called.
type Handler struct {
	// Initialize is called once, before anything else, and must return within 10 s.
	Initialize func(ctx context.Context, s Setup) error
	// Tools carry out the calls, by the names in the manifest. They may be
	// called concurrently. ctx ends when the host no longer waits.
	Tools map[nacre.ToolName]ToolFunc
	// Verify answers whether credentials and network are such that the tools can
	// work, within 10 s, for a manifest with "verify" (D-29). A *[ToolError] with
	// a category as its code tells what is wrong.
	Verify func(ctx context.Context, s Setup) error
	// HandleEvent gets the subscribed events, one after the other.
	HandleEvent func(ctx context.Context, e Envelope)
	// Shutdown is called after the last request was answered; it has 10 s.
	Shutdown func(ctx context.Context) error
	// Log gets what went wrong inside of the handler, a line at a time; nil means
	// standard error.
	Log io.Writer
}

// ToolFunc carries out one call. What it returns must be JSON of at most
// [MaxResult] bytes. A *[ToolError] reaches the agent with its message; of any other
// error, and of a panic, the agent learns nothing (D-14, D-21).
type ToolFunc func(ctx context.Context, r *Request) (any, error)

// Tool makes a ToolFunc of a function that takes its arguments as a struct.
func Tool[Args any](do func(ctx context.Context, r *Request, args Args) (any, error)) ToolFunc {
	return func(ctx context.Context, r *Request) (any, error) {
		var args Args
		if err := json.Unmarshal(r.Arguments, &args); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return do(ctx, r, args)
	}
}

// Setup is what a handler gets to start with. It may be kept: Publish works as
// long as the process lives.
type Setup struct {
	Plugin nacre.PluginName
	// Config fits the manifest's config_schema.
	Config json.RawMessage
	// DataDir is the one directory that may be written to.
	DataDir string

	service
	channel service // under the channel ticket, where there is one
}

var errNoChannels = errors.New("this host serves no channels, or the manifest provides none")

// Publish hands the host a message that a channel received (D-33). The topic is
// [TopicInbound] and the payload's key channel one of the manifest's channels.
// The host sets source and group. It is an error where the host serves no
// channels.
func (s Setup) Publish(ctx context.Context, topic string, payload any) error {
	if s.channel.ticket == "" {
		return errNoChannels
	}
	return s.channel.publish(ctx, topic, payload)
}

// Press brings a press on a button of a [Card] to the host, which decides.
func (s Setup) Press(ctx context.Context, p Press) (done Pressed, err error) {
	return done, s.ask(ctx, TopicPress, p, &done)
}

// Pair asks for the code that somebody shows to a person on the host. Without one, nobody is
// being paired: whoever asked is told nothing.
func (s Setup) Pair(ctx context.Context, p Pairing) (code string, err error) {
	return code, s.ask(ctx, TopicPair, p, &code)
}

// Command asks the host what somebody wants of it, and gives what to say to them alone: nothing
// to a stranger.
func (s Setup) Command(ctx context.Context, c Command) (said string, err error) {
	return said, s.ask(ctx, TopicCommand, c, &said)
}

func (s Setup) ask(ctx context.Context, topic string, what, answer any) error {
	if s.channel.ticket == "" {
		return errNoChannels
	}
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	said, err := s.channel.call(ctx, MethodPublish, Service{Topic: topic, Payload: raw})
	if err != nil {
		return err
	}
	return json.Unmarshal(said, answer)
}

// Credential reads a secret that the manifest lists under
// install.credentials: while Initialize or Verify runs, and at any time where
// the host serves the plugin's channels.
func (s Setup) Credential(ctx context.Context, key string) (nacre.Secret, error) {
	if s.channel.ticket != "" {
		return s.channel.Credential(ctx, key)
	}
	return s.service.Credential(ctx, key)
}

// Request is one tool call, with the host's services for as long as it lasts.
type Request struct {
	Envelope Envelope
	Tool     nacre.ToolName
	// Group is whose data may be touched: the envelope's.
	Group nacre.Group
	// Arguments fit the tool's schema, with defaults inserted.
	Arguments json.RawMessage
	// Files are the files that arguments name, by the argument's dotted path. What one of
	// them holds is read with [Request.Open].
	Files map[string]File
	// Until is when the host gives the call up.
	Until time.Time

	service
}

// AuditLog returns records of the request's group as the host gives them.
func (r *Request) AuditLog(ctx context.Context, f AuditFilter) (json.RawMessage, error) {
	return r.call(ctx, MethodAuditLog, Service{Filters: &f})
}

// ToolCatalog returns the tools of the installation.
func (r *Request) ToolCatalog(ctx context.Context) (json.RawMessage, error) {
	return r.call(ctx, MethodToolCatalog, Service{})
}

// Open reads what the file of an argument held when the call was decided on, from its first
// byte, in parts: no more than one of them is in memory. A file that the call does not name is
// an error of the first read, as is one that ends before its end.
func (r *Request) Open(ctx context.Context, argument string) io.Reader {
	f, ok := r.Files[argument]
	if int64(len(f.Content)) == f.Bytes && ok {
		return bytes.NewReader(f.Content)
	}
	return &fileReader{ctx: ctx, from: r, argument: argument, left: f.Bytes}
}

// fileReader reads a file of a request from the host.
type fileReader struct {
	ctx      context.Context //nolint:containedctx // of the request whose file is read
	from     *Request
	argument string
	part     []byte // what was brought and not read yet
	offset   int64
	left     int64 // behind part
}

// Read implements io.Reader.
func (f *fileReader) Read(to []byte) (int, error) {
	if len(f.part) == 0 {
		if _, named := f.from.Files[f.argument]; !named {
			return 0, fmt.Errorf("the call names no file in %q", f.argument)
		}
		if f.left == 0 {
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(to, f.part)
	f.part = f.part[n:]
	return n, nil
}

func (f *fileReader) next() error {
	raw, err := f.from.call(f.ctx, MethodReadFile, Service{Argument: f.argument, Offset: f.offset})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &f.part); err != nil || len(f.part) == 0 || int64(len(f.part)) > f.left {
		return fmt.Errorf("the host's answer to %s is no part of the file", MethodReadFile)
	}
	f.offset, f.left = f.offset+int64(len(f.part)), f.left-int64(len(f.part))
	return nil
}

// SessionInfo returns group, start and state of the request's session. Where a
// message on a channel of the plugin's own woke it, "message" has its channel,
// sender, chat and ref.
func (r *Request) SessionInfo(ctx context.Context) (json.RawMessage, error) {
	return r.call(ctx, MethodSessionInfo, Service{})
}

// Publish puts an event on the bus, of a topic below "<plugin>.". The host sets
// its source and group.
func (r *Request) Publish(ctx context.Context, topic string, payload any) error {
	return r.publish(ctx, topic, payload)
}

// A Refused is the host's refusal of what a handler asked of it.
type Refused struct {
	// Method is what was asked, such as [MethodPublish].
	Method string
	// Words are the host's own: they may be shown to whoever writes on the channel.
	Words string
}

// Error implements error.
func (r *Refused) Error() string { return r.Method + ": " + r.Words }

// service is the way back to the host, under one ticket.
type service struct {
	conn   *conn
	ticket string
}

// Credential reads a secret that the manifest lists under install.credentials.
func (s service) Credential(ctx context.Context, key string) (nacre.Secret, error) {
	raw, err := s.call(ctx, MethodCredential, Service{Key: key})
	if err != nil {
		return nacre.Secret{}, err
	}
	var v string
	if json.Unmarshal(raw, &v) != nil {
		return nacre.Secret{}, errors.New("the host's answer to readCredential is not a string")
	}
	return nacre.NewSecret(v), nil
}

func (s service) publish(ctx context.Context, topic string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	taken, err := s.call(ctx, MethodPublish, Service{Topic: topic, Payload: raw})
	if err == nil && string(taken) == "false" {
		return ErrDropped
	}
	return err
}

func (s service) call(ctx context.Context, method string, p Service) (json.RawMessage, error) {
	if s.conn == nil {
		return nil, errors.New("services exist only within a request from the host")
	}
	p.Ticket = s.ticket
	return s.conn.call(ctx, method, p)
}
