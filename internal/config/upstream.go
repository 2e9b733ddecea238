package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/nacre-dev/nacre/internal/model"
)

// DefaultOpenAIURL is where calls in OpenAI's formats go, where its key is set
// and the config names no other place.
const DefaultOpenAIURL = "https://api.openai.com"

// DefaultOpenAIKeyEnv holds its key.
const DefaultOpenAIKeyEnv = "OPENAI_API_KEY"

// Upstream is a further place that answers model calls (M-04).
type Upstream struct {
	URL     string `toml:"url"`
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
	// Dialects are what it is asked in: anthropic, openai-responses, openai-chat.
	Dialects []string `toml:"dialects"`
	// Models, where there are any, are the only ones that are asked here.
	Models []string `toml:"models"`
	// Prices is a file of prices beside config.toml; empty means the built-in ones.
	Prices string `toml:"prices"`
	// Compatible says that it is not OpenAI itself.
	Compatible bool `toml:"compatible"`
}

func (u Upstream) check() error {
	parsed, err := url.Parse(u.URL)
	switch {
	case err != nil || parsed.Host == "" || parsed.User != nil:
		return fmt.Errorf("model.upstream url = %q: write https://HOST, or http://127.0.0.1:PORT", u.URL)
	case u.KeyEnv != "" && u.KeyFile != "":
		return fmt.Errorf("model.upstream %s: name key_env or key_file, not both", u.URL)
	case strings.HasPrefix(u.KeyEnv, "sk-"):
		return fmt.Errorf("model.upstream %s: key_env names a variable; a key itself does not belong in this file", u.URL)
	case len(u.Dialects) == 0:
		return fmt.Errorf("model.upstream %s: name its dialects: anthropic, openai-responses, openai-chat", u.URL)
	}
	for _, d := range u.Dialects {
		if !model.Dialect(d).Known() {
			return fmt.Errorf("model.upstream %s: dialect %q: anthropic, openai-responses or openai-chat", u.URL, d)
		}
	}
	return nil
}

// Subscribed reports whether the operator lets the gateway use the logins of nacre login.
func (m Model) Subscribed() bool { return m.Login == model.Subscription }

func (m Model) checkLogin() error { return model.CheckLogin(m.Login, m.BaseURL, m.LoginURL) }
