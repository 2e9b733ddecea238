package pluginhost

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of what a handler may ask back.
const (
	maxCallbacks       = 16   // at once, for each plugin
	maxTicketCallbacks = 1000 // for each request
	maxTopic           = 128  // bytes
	// maxChannelMinute is how many messages that are taken, and credentials, a channel has in a
	// minute, and maxCallsMinute how many calls of all kinds. They are so many that strangers who
	// write and press do not use up what an operator needs.
	maxChannelMinute = 600
	maxCallsMinute   = 60_000
)

// Scope is whose request a service is asked for. It comes from the host's
// own books, never from the handler (D-26).
type Scope struct {
	Plugin      nacre.PluginName
	Group       nacre.Group
	Session     nacre.SessionID
	Correlation nacre.Correlation
	// Channel is set for what a channel publishes on its own account: the one of
	// the manifest's channels that the payload names. There is no request then,
	// and group, session and correlation are empty.
	Channel string
}

// Services answer handlers. Each answer is JSON and must hold nothing beyond
// the scope's group. A nil service is refused. The ctx ends with the request.
type Services struct {
	AuditLog    func(ctx context.Context, s Scope, f plugin.AuditFilter) (json.RawMessage, error)
	ToolCatalog func(ctx context.Context, s Scope) (json.RawMessage, error)
	SessionInfo func(ctx context.Context, s Scope) (json.RawMessage, error)
	// Credential reads a secret that the plugin's manifest lists.
	Credential func(ctx context.Context, name nacre.PluginName, key string) (nacre.Secret, error)
	// Publish takes an event. With s.Channel set it is a message, on
	// [plugin.TopicInbound]; otherwise its topic is below "<plugin>.". The payload
	// is one JSON object of at most [plugin.MaxEvent] bytes, with no key twice.
	Publish func(ctx context.Context, s Scope, topic string, payload json.RawMessage) error
	// Press takes a press on a button that a channel of s.Channel showed, and Pair somebody
	// who asks to be paired there. Channel is the host's word in both.
	Press func(ctx context.Context, s Scope, p plugin.Press) (plugin.Pressed, error)
	Pair  func(ctx context.Context, s Scope, p plugin.Pairing) (code string, err error)
	// Command does what somebody asks of the host itself there.
	Command func(ctx context.Context, s Scope, p plugin.Command) (said string, err error)
}

// A refused is a refusal whose words the handler may see; what a service
// itself said stays with the host.
type refused string

func (r refused) Error() string { return string(r) }

// Refuse is an error of a service whose words the handler may see.
func Refuse(words string) error { return refused(words) }

// tooOften refuses a call beyond what a minute may have. A channel cannot help how
// much is written on it: this is no fault, unless nothing stops the handler.
type tooOften struct {
	refused
	relentless bool
}

// relentless is how many times the rate a handler may call before that is a fault.
const relentless = 10

const errNotOffered = refused("this host does not offer the service")

// A ticket lets the handler of one request ask for that request's scope.
type ticket struct {
	serve func(method string, p plugin.Service) (json.RawMessage, error)
	calls int
	// admit, where set, limits calls in place of the count for one request.
	admit func() error
}

// use counts a call. It is not for concurrent use.
func (t *ticket) use() error {
	if t.admit != nil {
		return t.admit()
	}
	if t.calls++; t.calls > maxTicketCallbacks {
		return refused("too many callbacks in one request")
	}
	return nil
}

func newTicket() string { return rand.Text() }

// forRequest serves everything, within the request's scope.
func (g *guest) forRequest(ctx context.Context, scope Scope, files []nacre.FilePin) *ticket {
	s := g.opts.Services
	return &ticket{serve: func(method string, p plugin.Service) (json.RawMessage, error) {
		switch {
		case method == plugin.MethodCredential:
			return g.credential(ctx, p.Key)
		case method == plugin.MethodAuditLog && s.AuditLog != nil:
			var f plugin.AuditFilter
			if p.Filters != nil {
				f = *p.Filters
			}
			return s.AuditLog(ctx, scope, f)
		case method == plugin.MethodToolCatalog && s.ToolCatalog != nil:
			return s.ToolCatalog(ctx, scope)
		case method == plugin.MethodSessionInfo && s.SessionInfo != nil:
			return s.SessionInfo(ctx, scope)
		case method == plugin.MethodPublish && s.Publish != nil:
			return g.publish(ctx, scope, p)
		case method == plugin.MethodReadFile:
			return readPart(files, p)
		}
		return nil, errNotOffered
	}}
}

// publish takes an event of the plugin's own, and no other: what the core or
// another plugin says is not a handler's to say.
func (g *guest) publish(ctx context.Context, scope Scope, p plugin.Service) (json.RawMessage, error) {
	own, ok := strings.CutPrefix(p.Topic, string(scope.Plugin)+".")
	if !ok || len(p.Topic) > maxTopic || !madeOfWords(own) {
		return nil, refused(fmt.Sprintf("with a request's ticket publish topics below %s. only, in lower case", scope.Plugin))
	}
	if _, err := readPayload(p.Payload); err != nil {
		return nil, err
	}
	return json.RawMessage("true"), g.opts.Services.Publish(ctx, scope, p.Topic, p.Payload)
}

// forChannel serves a channel as long as its process lives: credentials, and
// the messages that it receives (D-33).
func (g *guest) forChannel(life context.Context) *ticket {
	messages := &rate{what: "messages and credentials", limit: maxChannelMinute, now: g.opts.Now}
	calls := &rate{what: "calls", limit: maxCallsMinute, now: g.opts.Now}
	return &ticket{admit: calls.admit, serve: func(method string, p plugin.Service) (json.RawMessage, error) {
		switch {
		case method == plugin.MethodCredential:
			if err := messages.admit(); err != nil {
				return nil, err
			}
			return g.credential(life, p.Key)
		case method == plugin.MethodPublish && g.opts.Services.Publish != nil:
			return g.receive(life, p, messages)
		case method == plugin.MethodPublish:
			return nil, errNotOffered
		}
		return nil, refused("a channel's ticket is for publishEvent and readCredential")
	}}
}

// receive takes a message of one of the plugin's own channels. One that no route takes counts for
// nothing in their rate.
func (g *guest) receive(ctx context.Context, p plugin.Service, messages *rate) (json.RawMessage, error) {
	if topics := []string{plugin.TopicInbound, plugin.TopicPress, plugin.TopicPair, plugin.TopicCommand}; !slices.Contains(topics, p.Topic) {
		return nil, refused("with a channel's ticket publish these only: " + strings.Join(topics, ", "))
	}
	members, err := readPayload(p.Payload)
	if err != nil {
		return nil, err
	}
	channel := ""
	for _, m := range members {
		if m.Key == "channel" {
			channel, _ = wire.Text(m.Value) // what is no text is no channel of anybody
		}
	}
	if channel == "" || !slices.Contains(g.found.Manifest.Provides.Channels, channel) {
		return nil, refused("the payload's channel is none of the manifest's provides.channels")
	}
	scope := Scope{Plugin: g.found.Name, Channel: channel}
	if p.Topic != plugin.TopicInbound {
		return fromFace(ctx, g.opts.Services, scope, p)
	}
	if err := messages.admit(); err != nil {
		return nil, err
	}
	switch err := g.opts.Services.Publish(ctx, scope, p.Topic, p.Payload); {
	case errors.Is(err, plugin.ErrDropped):
		messages.giveBack()
		return json.RawMessage("false"), nil
	case err != nil:
		return nil, err
	}
	return json.RawMessage("true"), nil
}

// fromFace takes what a person did at a face that the plugin shows.
func fromFace(ctx context.Context, services Services, scope Scope, p plugin.Service) (json.RawMessage, error) {
	if services.Press == nil || services.Pair == nil || services.Command == nil {
		return nil, errNotOffered
	}
	dec := json.NewDecoder(bytes.NewReader(p.Payload))
	dec.DisallowUnknownFields()
	var answer any
	var err error
	switch p.Topic {
	case plugin.TopicCommand:
		var asked plugin.Command
		if dec.Decode(&asked) != nil {
			return nil, refused("the payload of " + p.Topic + " is channel, user, name and session")
		}
		answer, err = services.Command(ctx, scope, asked)
	case plugin.TopicPair:
		var asked plugin.Pairing
		if dec.Decode(&asked) != nil {
			return nil, refused("the payload of " + p.Topic + " is channel and user")
		}
		answer, err = services.Pair(ctx, scope, asked)
	default:
		var press plugin.Press
		if dec.Decode(&press) != nil {
			return nil, refused("the payload of " + p.Topic + " is channel, user and button")
		}
		answer, err = services.Press(ctx, scope, press)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

func readPayload(payload json.RawMessage) ([]wire.Member, error) {
	members, err := wire.Object(payload, wire.Limits{Message: plugin.MaxEvent})
	if err != nil {
		return nil, refused(fmt.Sprintf("the payload is one JSON object of at most %d bytes, with no key twice", plugin.MaxEvent))
	}
	return members, nil
}

// madeOfWords reports whether a topic is words of a–z, digits, _ and - with dots between.
func madeOfWords(topic string) bool {
	for word := range strings.SplitSeq(topic, ".") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return false
		}
	}
	return true
}

// rate limits calls in each minute. It is safe for concurrent use.
type rate struct {
	what  string // of calls they are, in a refusal
	limit int
	now   func() time.Time

	mu    sync.Mutex
	used  int
	began time.Time
}

func (r *rate) admit() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.began) >= time.Minute || now.Before(r.began) {
		r.began, r.used = now, 0
	}
	if r.used++; r.used > r.limit {
		return tooOften{refused(fmt.Sprintf("at most %d %s of a channel in a minute: try again later", r.limit, r.what)), r.used > relentless*r.limit}
	}
	return nil
}

// giveBack uncounts a call that was admitted.
func (r *rate) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = max(0, r.used-1)
}

// forInitialize serves credentials alone, to initialize and verify: there is no
// group.
func (g *guest) forInitialize(ctx context.Context) *ticket {
	return &ticket{serve: func(method string, p plugin.Service) (json.RawMessage, error) {
		if method != plugin.MethodCredential {
			return nil, refused("only readCredential is served here")
		}
		return g.credential(ctx, p.Key)
	}}
}

func (g *guest) credential(ctx context.Context, key string) (json.RawMessage, error) {
	listed := slices.ContainsFunc(g.found.Manifest.Install.Credentials, func(c plugin.Credential) bool { return c.Key == key })
	if !listed {
		return nil, refused("the manifest does not list this credential")
	}
	secret, err := g.secret(ctx, key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(secret.Reveal())
}

// secret reads a credential that the manifest lists.
func (g *guest) secret(ctx context.Context, key string) (nacre.Secret, error) {
	if g.opts.Services.Credential == nil {
		return nacre.Secret{}, errNotOffered
	}
	return g.opts.Services.Credential(ctx, g.found.Name, key)
}

// readService decodes strictly: a filter by group or session is refused, not ignored.
func readService(params json.RawMessage) (p plugin.Service, err error) {
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	return p, dec.Decode(&p)
}
