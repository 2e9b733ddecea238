package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/plugin"
)

// How long a poll may take.
const (
	pollTime = 20 * time.Second // how long Telegram holds a poll that has nothing to bring
	patience = 28 * time.Second // a dead connection is noticed within 30 s (M-48)
)

const credentialToken = "token"

// api calls a bot's methods.
type api struct {
	base  *url.URL
	http  *http.Client
	token atomic.Pointer[string]
}

// readToken reads the bot's token. It stands in the address of each request, so it holds
// nothing that an address would read in another way.
func readToken(ctx context.Context, s plugin.Setup) (string, error) {
	secret, err := s.Credential(ctx, credentialToken)
	if err != nil {
		return "", &plugin.ToolError{Code: plugin.CategoryAuth, Message: "The bot has no token: set token in [access.telegram.credentials]"}
	}
	token := secret.Reveal()
	if !regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{16,128}$`).MatchString(token) {
		return "", &plugin.ToolError{Code: plugin.CategoryAuth, Message: "The token is not one of @BotFather's, such as 123456:ABC-DEF"}
	}
	return token, nil
}

// call asks one method. Its error says nothing of the token.
func (a *api) call(ctx context.Context, method string, params, result any) error {
	said, err := chat.Ask(ctx, a.http, a.base.JoinPath("bot"+*a.token.Load(), method).String(), map[string]string{"User-Agent": "nacre-telegram/1.0"}, params)
	if err != nil {
		return err
	}
	var answer struct {
		OK         bool            `json:"ok"`
		Result     json.RawMessage `json:"result"`
		Code       int             `json:"error_code"`
		Parameters struct {
			RetryAfter int `json:"retry_after"`
		} `json:"parameters"`
	}
	if json.Unmarshal(said.Data, &answer) != nil {
		if said.Status != http.StatusOK {
			return refusal(said.Status, 0) // a proxy's, or a page
		}
		return chat.ErrUnreached
	}
	if !answer.OK {
		if answer.Code == 0 {
			answer.Code = said.Status
		}
		return refusal(answer.Code, answer.Parameters.RetryAfter)
	}
	if json.Unmarshal(answer.Result, result) != nil {
		return chat.ErrUnreached
	}
	return nil
}

// refusal is an answer that says no.
func refusal(code, seconds int) error {
	why := chat.Unknown
	switch code {
	case http.StatusTooManyRequests:
		why = chat.TooOften
	case http.StatusBadRequest, http.StatusForbidden:
		why = chat.NotTaken
	case http.StatusUnauthorized, http.StatusNotFound:
		why = chat.Revoked
	case http.StatusConflict:
		why = chat.Elsewhere
	}
	return &chat.Refusal{Why: why, Said: fmt.Sprintf("the Bot API said %d", code), Pause: chat.Pause(seconds)}
}
