package pluginhost

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of what a handler may ask back.
const (
	maxCallbacks       = 16   // at once, for each plugin
	maxTicketCallbacks = 1000 // for each request
)

// Scope is whose request a service is asked for. It comes from the host's
// own books, never from the handler (D-26).
type Scope struct {
	Plugin      nacre.PluginName
	Group       nacre.Group
	Session     nacre.SessionID
	Correlation nacre.Correlation
}

// Services answer handlers. Each answer is JSON and must hold nothing beyond
// the scope's group. A nil service is refused. The ctx ends with the request.
type Services struct {
	AuditLog    func(ctx context.Context, s Scope, f plugin.AuditFilter) (json.RawMessage, error)
	ToolCatalog func(ctx context.Context, s Scope) (json.RawMessage, error)
	SessionInfo func(ctx context.Context, s Scope) (json.RawMessage, error)
	// Credential reads a secret that the plugin's manifest lists.
	Credential func(ctx context.Context, name nacre.PluginName, key string) (nacre.Secret, error)
	Publish    func(ctx context.Context, s Scope, topic string, payload json.RawMessage) error
}

// A refused is a refusal whose words the handler may see; what a service
// itself said stays with the host.
type refused string

func (r refused) Error() string { return string(r) }

const errNotOffered = refused("this host does not offer the service")

// A ticket lets the handler of one request ask for that request's scope.
type ticket struct {
	serve func(method string, p plugin.Service) (json.RawMessage, error)
	calls int
}

func newTicket() string { return rand.Text() }

// forRequest serves everything, within the request's scope.
func (u *unit) forRequest(ctx context.Context, scope Scope) *ticket {
	s := u.opts.Services
	return &ticket{serve: func(method string, p plugin.Service) (json.RawMessage, error) {
		switch {
		case method == plugin.MethodCredential:
			return u.credential(ctx, p.Key)
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
			return json.RawMessage("true"), s.Publish(ctx, scope, p.Topic, p.Payload)
		}
		return nil, errNotOffered
	}}
}

// forInitialize serves credentials alone: there is no group yet.
func (u *unit) forInitialize(ctx context.Context) *ticket {
	return &ticket{serve: func(method string, p plugin.Service) (json.RawMessage, error) {
		if method != plugin.MethodCredential {
			return nil, refused("only readCredential is served before the first request")
		}
		return u.credential(ctx, p.Key)
	}}
}

func (u *unit) credential(ctx context.Context, key string) (json.RawMessage, error) {
	listed := slices.ContainsFunc(u.found.Manifest.Install.Credentials, func(c plugin.Credential) bool { return c.Key == key })
	if !listed {
		return nil, refused("the manifest does not list this credential")
	}
	if u.opts.Services.Credential == nil {
		return nil, errNotOffered
	}
	secret, err := u.opts.Services.Credential(ctx, u.found.Name, key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(secret.Reveal())
}

// readService decodes strictly: a filter by group or session is refused, not ignored.
func readService(params json.RawMessage) (p plugin.Service, err error) {
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	return p, dec.Decode(&p)
}
