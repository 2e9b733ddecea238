package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of the configuration.
const (
	maxHooks  = 8
	minSecret = 16   // bytes
	maxURL    = 2048 // bytes
)

// perMinute is how many messages of one hook are published.
const perMinute = 60

// hook is one sender, and where answers to it go.
type hook struct {
	name   string
	preset string
	reply  *url.URL // nil: nothing can be sent to it
	key    string   // of the credential
	secret []byte
	rate   bucket
}

func configError(format string, values ...any) error {
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: fmt.Sprintf(format, values...)}
}

// readHooks reads the configuration, which fits its schema.
func readHooks(config json.RawMessage) (map[string]*hook, error) {
	var c struct {
		Hooks []struct {
			Name, Preset, Secret string
			ReplyURL             string `json:"reply_url"`
		}
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, configError("hooks: %v", err)
	}
	if len(c.Hooks) > maxHooks {
		return nil, configError("%d hooks: at most %d", len(c.Hooks), maxHooks)
	}
	hooks, keys := map[string]*hook{}, map[string]string{}
	form := regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	for _, entry := range c.Hooks {
		k := &hook{name: entry.Name, preset: orElse(entry.Preset, presetGeneric), key: orElse(entry.Secret, "secret"), rate: bucket{left: perMinute}}
		switch {
		case !form.MatchString(k.name):
			return nil, configError("hook %.80q: a name is 1–64 lower-case letters, digits, _ and -", k.name)
		case hooks[k.name] != nil:
			return nil, configError("hook %q is there twice", k.name)
		case keys[k.key] != "":
			return nil, configError("hooks %q and %q have one secret, so that each could speak for the other: set \"secret\" to another of the plugin's credentials", keys[k.key], k.name)
		case !isPreset(k.preset):
			return nil, configError("hook %q: unknown preset %.40q", k.name, k.preset)
		}
		if entry.ReplyURL != "" {
			u, err := url.Parse(entry.ReplyURL)
			if err != nil || len(entry.ReplyURL) > maxURL || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
				return nil, configError("hook %q: reply_url is an address such as https://example.com/reply", k.name)
			}
			k.reply = u
		}
		hooks[k.name], keys[k.key] = k, k.name
	}
	return hooks, nil
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func (k *hook) readSecret(ctx context.Context, s plugin.Setup) error {
	secret, err := s.Credential(ctx, k.key)
	if err != nil {
		return &plugin.ToolError{Code: plugin.CategoryAuth, Message: fmt.Sprintf("hook %s has no secret: set %s in [access.webhook.credentials]", k.name, k.key)}
	}
	if k.secret = []byte(secret.Reveal()); len(k.secret) < minSecret {
		return &plugin.ToolError{Code: plugin.CategoryAuth, Message: fmt.Sprintf("the secret of hook %s is shorter than %d bytes: make it longer, here and at the sender", k.name, minSecret)}
	}
	return nil
}

// bucket lets so many messages through in a minute.
type bucket struct {
	mu   sync.Mutex
	left float64
	last time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.last).Minutes(); passed > 0 {
		b.left, b.last = min(perMinute, b.left+passed*perMinute), now
	}
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
