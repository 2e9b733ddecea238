package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/plugin"
)

const credentialToken = "token"

// readToken reads the bot's token. It stands in a header, so it holds nothing that ends one.
func readToken(ctx context.Context, s plugin.Setup) (string, error) {
	secret, err := s.Credential(ctx, credentialToken)
	if err != nil {
		return "", authError("The bot has no token: set token in [access.discord.credentials]")
	}
	token := secret.Reveal()
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{16,128}$`).MatchString(token) {
		return "", authError("The token is not one of a bot's, which has three parts with dots between them: the application's page has it at Bot, Reset Token")
	}
	return token, nil
}

func authError(message string) error {
	return &plugin.ToolError{Code: plugin.CategoryAuth, Message: message}
}

// The codes by which Discord says why it refuses, where the HTTP status does not say enough.
const (
	codeNoInteraction = 10062  // it waits no longer
	codeAcknowledged  = 40060  // the interaction was answered before
	codeHasThread     = 160004 // the message began a thread before
)

// refused is Discord's no, with its own number for the reason.
type refused struct {
	chat.Refusal
	code int
}

func (r *refused) Unwrap() error { return &r.Refusal }

// api calls Discord's HTTP API as the bot.
type api struct {
	base   *url.URL
	http   *http.Client
	now    func() time.Time
	token  atomic.Pointer[string]
	limits limits
}

// call asks one method of a path. params are JSON, or url.Values in the address. Its error says
// nothing of the token: it is [chat.ErrUnreached] or a *refused. It does not ask where Discord
// said before that it is too early.
func (a *api) call(ctx context.Context, method string, path []string, params, result any) error {
	key := bucket(method, path)
	if pause := a.limits.pause(key, a.now()); pause > 0 {
		return &refused{Refusal: chat.Refusal{Why: chat.TooOften, Said: "Discord said to wait", Pause: pause}}
	}
	address := a.base.JoinPath(path...)
	if query, ok := params.(url.Values); ok {
		address.RawQuery, params = query.Encode(), nil
	}
	said, err := chat.AskBy(ctx, a.http, method, address.String(), map[string]string{
		"User-Agent": "DiscordBot (https://github.com/nacre-dev/nacre, 1.0)", "Authorization": "Bot " + *a.token.Load(),
	}, params)
	if err != nil {
		return err
	}
	return a.read(key, said, result)
}

func (a *api) read(key string, said chat.Answer, result any) error {
	var failed struct {
		Code   int     `json:"code"`
		After  float64 `json:"retry_after"` // seconds
		Global bool    `json:"global"`
	}
	if said.Status >= http.StatusMultipleChoices {
		_ = json.Unmarshal(said.Data, &failed) // a page of a proxy's says nothing more
	}
	pause := a.limits.heed(key, said, failed.After, failed.Global, a.now())
	switch {
	case said.Status >= http.StatusMultipleChoices:
		return refusal(said.Status, failed.Code, pause)
	case said.Status == http.StatusNoContent || result == nil:
		return nil
	case json.Unmarshal(said.Data, result) != nil:
		return chat.ErrUnreached
	}
	return nil
}

// refusal is an answer that says no. Only an answer of which nobody knows whether the method
// did something before has no meaning.
func refusal(status, code int, pause time.Duration) error {
	said := fmt.Sprintf("Discord said %d", status)
	if code > 0 {
		said += fmt.Sprintf(" (%d)", code)
	}
	why := chat.Unknown
	switch {
	case status == http.StatusTooManyRequests:
		why = chat.TooOften
	case status == http.StatusUnauthorized:
		why = chat.Revoked
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		why = chat.NotTaken
	}
	return &refused{chat.Refusal{Why: why, Said: said, Pause: pause}, code}
}

// maxLimits is how many limits are known at once.
const maxLimits = 1000

// limits are how long Discord wants no more of some calls. The zero value knows of none; it is
// safe for concurrent use.
type limits struct {
	mu    sync.Mutex
	until map[string]time.Time
	all   time.Time
}

// bucket is the calls that Discord counts together: those of one method and one channel.
func bucket(method string, path []string) string {
	return method + " " + strings.Join(path[:min(len(path), 3)], "/")
}

func (l *limits) pause(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.until[key]
	if l.all.After(until) {
		until = l.all
	}
	return until.Sub(now)
}

// heed keeps what an answer says of the calls after it, and gives how long another try is
// useless.
func (l *limits) heed(key string, said chat.Answer, after float64, global bool, now time.Time) time.Duration {
	limited := said.Status == http.StatusTooManyRequests
	if !limited && said.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	header := "X-RateLimit-Reset-After"
	if limited {
		header = "Retry-After"
	}
	if after <= 0 {
		after, _ = strconv.ParseFloat(said.Header.Get(header), 64) // none, or one that is no number, is a second
	}
	pause := chat.Pause(int(math.Ceil(min(max(after, 1), math.MaxInt32))))
	l.mu.Lock()
	defer l.mu.Unlock()
	if global || said.Header.Get("X-RateLimit-Global") != "" {
		l.all = now.Add(pause)
		return pause
	}
	if l.until == nil || len(l.until) >= maxLimits {
		l.until = map[string]time.Time{}
	}
	l.until[key] = now.Add(pause)
	return pause
}

// verify tries the token, and the way to the gateway (D-29).
func (h *handler) verify(ctx context.Context, s plugin.Setup) error {
	token, err := readToken(ctx, s)
	if err != nil {
		return err
	}
	h.api.token.Store(&token)
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var me struct {
		ID  string `json:"id"`
		Bot bool   `json:"bot"`
	}
	err = h.api.call(ctx, http.MethodGet, []string{"users", "@me"}, nil, &me)
	why, _, said := chat.Refused(err)
	switch {
	case why == chat.Revoked:
		return authError("Discord does not know the token: the application's page makes another one at Bot, Reset Token")
	case err != nil && !said:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Discord was not reached: hosts in [access.discord] needs \"" + chat.Listed(h.api.base) + "\", and Discord's API has to answer there"}
	case err != nil:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "The token could not be tried: " + err.Error()}
	case !isID(me.ID):
		return configError("api is not Discord's API: its users/@me names nobody")
	case !me.Bot:
		return authError("The token is a person's: Discord allows programs only the tokens of bots")
	}
	address, err := h.gateway(ctx)
	if err != nil {
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Discord did not say where its gateway is"}
	}
	conn, err := h.dial(ctx, address)
	if err != nil {
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "Discord's gateway was not reached: hosts in [access.discord] needs \"*.discord.gg:443\""}
	}
	_ = conn.Close() // it was only tried
	return nil
}

// gateway asks where connections are made.
func (h *handler) gateway(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var answer struct {
		URL   string `json:"url"`
		Limit struct {
			Remaining *int  `json:"remaining"`
			After     int64 `json:"reset_after"` // milliseconds
		} `json:"session_start_limit"`
	}
	if err := h.api.call(ctx, http.MethodGet, []string{"gateway", "bot"}, nil, &answer); err != nil {
		return "", err
	}
	if left := answer.Limit.Remaining; left != nil && *left <= 0 {
		seconds := int(min(answer.Limit.After/1000+1, math.MaxInt32))
		return "", &refused{Refusal: chat.Refusal{Why: chat.TooOften, Said: "Discord lets the bot begin no more connections today", Pause: chat.Pause(seconds)}}
	}
	if !h.isGateway(answer.URL) {
		return "", chat.ErrUnreached
	}
	return answer.URL, nil
}

// isGateway tells whether a connection may be made to an address.
func (h *handler) isGateway(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Hostname() != "" && u.User == nil && (u.Scheme == "wss" || u.Scheme == "ws" && h.api.base.Scheme == "http")
}
