// Package signin has a person sign in at the authorization server of an MCP server, and keeps what came of it
// where credentials find it (M-36). No result holds a token.
package signin

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/oauth"
)

// patience is how long a person has to sign in.
const patience = 10 * time.Minute

// Request is for whom a person signs in.
type Request struct {
	// Server is the URL of the MCP server.
	Server string
	// ClientID is one that the authorization server knows already; empty means that nacre
	// registers itself there.
	ClientID string
	// Scopes narrow what is asked for; empty means what the server asks for.
	Scopes []string
	// Open shows the person the page where they sign in.
	Open func(page string)
	// Show, where it is set, shows the person a page and a code to type there, on any device
	// (RFC 8628), and Open is not called.
	Show func(page, code string)
}

// Done is what came of a sign-in, or of its end.
type Done struct {
	Name string `json:"name"`
	// File is what value_oauth names.
	File string `json:"file"`
	// Host is the only place that the token is sent to.
	Host    string    `json:"host,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Refreshed says that the token is replaced before it ends.
	Refreshed bool `json:"refreshed,omitempty"`
	// Left says why it was not revoked; empty where it was.
	Left string `json:"left,omitempty"`
}

// storeOf is the file of a sign-in, in the config folder.
func storeOf(inst *installation.Installation, name string) (oauth.Store, error) {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return oauth.Store{}, config.Errorf("a sign-in's name is 1–64 lower-case letters, digits and dashes")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if err := inst.Config.Egress.Outward(transport, inst.Options.Getenv); err != nil {
		return oauth.Store{}, &config.Error{Err: err}
	}
	return oauth.Store{
		Path: filepath.Join(inst.Registry.Paths().Config, config.CredentialsDir, name+lease.SignInSuffix), Now: inst.Options.Now,
		Client: &http.Client{Transport: transport, Timeout: 30 * time.Second}, Claim: inst.Registry.Paths().ClaimPort,
	}, nil
}

// SignIn has a person sign in at the authorization server of an MCP server (M-36), and keeps
// what came of it where value_oauth finds it.
func SignIn(ctx context.Context, inst *installation.Installation, name string, r Request) (Done, error) {
	store, err := storeOf(inst, name)
	if err != nil {
		return Done{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := store.SignIn(ctx, oauth.Request(r))
	if errors.Is(err, oauth.ErrServer) {
		return Done{}, config.Errorf("the sign-in %s is at no server: %w, as in nacre credentials login %s --url https://mcp.notes.example/mcp", name, err, name)
	}
	if err != nil {
		return Done{}, &installation.NotReady{What: "sign-in " + name, Err: err}
	}
	if err := store.Keep(ctx, l); err != nil {
		return Done{}, inst.Writable(err)
	}
	return Done{Name: name, File: store.Path, Host: l.Host(), Scopes: l.Scopes, Expires: l.Expires, Refreshed: l.Refresh != ""}, nil
}

// SignOut revokes a sign-in, and takes its file away.
func SignOut(ctx context.Context, inst *installation.Installation, name string) (Done, error) {
	store, err := storeOf(inst, name)
	if err != nil {
		return Done{}, err
	}
	left, err := store.Remove(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return Done{}, config.Errorf("there is no sign-in %s", name)
	}
	return Done{Name: name, File: store.Path, Left: left}, inst.Writable(err)
}
