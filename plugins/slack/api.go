package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/plugin"
)

// The keys of the tokens, as the manifest has them.
const (
	credentialBot = "bot_token"
	credentialApp = "app_token"
)

// tokens are the two of an app: with one it speaks, with the other it listens.
type tokens struct{ bot, app string }

// readTokens reads the tokens. They stand in a header, so they hold nothing that ends one.
func readTokens(ctx context.Context, s plugin.Setup) (t tokens, err error) {
	for _, one := range []struct {
		key, begins, from string
		to                *string
	}{
		{credentialBot, "xoxb-", "OAuth & Permissions", &t.bot},
		{credentialApp, "xapp-", "Basic Information, App-Level Tokens", &t.app},
	} {
		secret, err := s.Credential(ctx, one.key)
		if err != nil {
			return tokens{}, authError("There is no " + one.key + ": set it in [access.slack.credentials]")
		}
		*one.to = secret.Reveal()
		if !regexp.MustCompile(`^` + one.begins + `[A-Za-z0-9-]{10,256}$`).MatchString(*one.to) {
			return tokens{}, authError("The " + one.key + " is not one that begins with " + one.begins + ": the app's page has it at " + one.from)
		}
	}
	return t, nil
}

func authError(message string) error {
	return &plugin.ToolError{Code: plugin.CategoryAuth, Message: message}
}

// api calls methods of the Web API.
type api struct {
	base   *url.URL
	http   *http.Client
	tokens atomic.Pointer[tokens]
}

// speak calls a method as the bot.
func (a *api) speak(ctx context.Context, method string, params, result any) (http.Header, error) {
	return a.call(ctx, a.tokens.Load().bot, method, params, result)
}

// call asks one method. Its error says nothing of the token: it is [chat.ErrUnreached] or a
// *chat.Refusal.
func (a *api) call(ctx context.Context, token, method string, params, result any) (http.Header, error) {
	said, err := chat.Ask(ctx, a.http, a.base.JoinPath(method).String(), map[string]string{"User-Agent": "nacre-slack/1.0", "Authorization": "Bearer " + token}, params)
	if err != nil {
		return nil, err
	}
	if said.Status == http.StatusTooManyRequests {
		return nil, tooOften(said.Header)
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if json.Unmarshal(said.Data, &answer) != nil {
		if said.Status != http.StatusOK {
			return nil, &chat.Refusal{Said: "Slack said " + strconv.Itoa(said.Status)} // a proxy's, or a page
		}
		return nil, chat.ErrUnreached
	}
	if !answer.OK {
		return nil, refusal(answer.Error, said.Header)
	}
	if json.Unmarshal(said.Data, result) != nil {
		return nil, chat.ErrUnreached
	}
	return said.Header, nil
}

func tooOften(header http.Header) error {
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if err != nil {
		seconds = 1
	}
	return &chat.Refusal{Why: chat.TooOften, Said: "Slack said ratelimited", Pause: chat.Pause(int(seconds))}
}

// refusal is an answer that says no. Only an answer of which nobody knows whether the method
// did something before has no meaning.
func refusal(said string, header http.Header) error {
	if !regexp.MustCompile(`^[a-z_]{1,64}$`).MatchString(said) {
		return &chat.Refusal{Said: "Slack said no"}
	}
	why := chat.NotTaken
	switch said {
	case "ratelimited", "rate_limited":
		return tooOften(header)
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type":
		why = chat.Revoked
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		why = chat.Unknown
	}
	return &chat.Refusal{Why: why, Said: "Slack said " + said}
}

// identity is what the bot is to Slack.
type identity struct {
	Team       string `json:"team_id"`
	Enterprise string `json:"enterprise_id"`
	User       string `json:"user_id"`
}

// whoami asks Slack for it once.
func (h *handler) whoami(ctx context.Context) (*identity, error) {
	if known := h.self.Load(); known != nil {
		return known, nil
	}
	var me identity
	if _, err := h.api.speak(ctx, "auth.test", struct{}{}, &me); err != nil {
		return nil, err
	}
	h.self.Store(&me)
	return &me, nil
}

// wanted are the rights without which the bot cannot speak.
func wanted() []string { return []string{"chat:write"} }

// verify tries both tokens, and the way to the socket (D-29).
func (h *handler) verify(ctx context.Context, s plugin.Setup) error {
	t, err := readTokens(ctx, s)
	if err != nil {
		return err
	}
	h.api.tokens.Store(&t)
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var me identity
	header, err := h.api.speak(ctx, "auth.test", struct{}{}, &me)
	why, _, refused := chat.Refused(err)
	switch {
	case why == chat.Revoked:
		return authError("Slack does not know bot_token: install the app in the workspace again, and take the token from OAuth & Permissions")
	case err != nil && !refused:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Slack was not reached: hosts in [access.slack] needs \"" + chat.Listed(h.api.base) + "\", and Slack's Web API has to answer there"}
	case err != nil:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "bot_token could not be tried: " + err.Error()}
	case !isID(me.Team, teams) || !isID(me.User, people):
		return configError("api is not Slack's Web API: its auth.test names no team")
	}
	if granted := header.Get("X-OAuth-Scopes"); granted != "" {
		for _, right := range wanted() {
			if !strings.Contains(","+strings.ReplaceAll(granted, " ", "")+",", ","+right+",") {
				return authError("The bot has no right " + right + ": add it at OAuth & Permissions, Bot Token Scopes, and install the app again")
			}
		}
	}
	return h.verifySocket(ctx)
}

func (h *handler) verifySocket(ctx context.Context) error {
	address, err := h.socket(ctx)
	switch why, _, refused := chat.Refused(err); {
	case why == chat.Revoked:
		return authError("Slack does not know app_token: make one at Basic Information, App-Level Tokens, with the right connections:write")
	case refused:
		return authError("Slack opens no socket (" + err.Error() + "): switch Socket Mode on, and give app_token the right connections:write")
	case err != nil:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Slack did not say where its socket is"}
	}
	conn, err := h.dial(ctx, address)
	if err != nil {
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Slack's socket was not reached: hosts in [access.slack] needs \"*.slack.com:443\""}
	}
	_ = conn.Close() // it was only tried
	return nil
}
