// Command handler is the telegram plugin: a channel to a bot's chats, over the Bot API with
// long polling.
//
// It promises that a message is brought to the host until the host has taken it, and only then
// confirmed to Telegram, so that none is lost. What comes twice has the same name, by which the
// host takes it once. A sender is the number that Telegram gave the person, never a name. Whoever
// has no route is told nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // standard output belongs to the protocol
	if err := serve(os.Stdin, out, chat.Here(patience)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve speaks the protocol. Where the host serves channels, the handler polls; the handler
// of a single session does not.
func serve(in io.Reader, out io.Writer, w chat.World) error {
	polls, in, err := chat.Served(in)
	if err != nil {
		return err
	}
	h := &handler{world: w, polls: polls, chats: &chat.Channel{Name: channel, Title: "Telegram", Limit: maxText, World: w}}
	h.chats.Service = h
	return plugin.ServeOn(plugin.Handler{
		Initialize:  h.initialize,
		HandleEvent: h.chats.Event,
		Tools:       map[nacre.ToolName]plugin.ToolFunc{"send_telegram": plugin.Tool(h.send), "read_telegram_file": plugin.Tool(h.chats.Read)},
		Verify:      h.verify,
		Shutdown:    h.shutdown,
	}, in, out)
}

// handler is the plugin as it runs.
type handler struct {
	world chat.World
	polls bool
	setup plugin.Setup
	api   *api
	chats *chat.Channel
	// held are messages that were confirmed to Telegram and that the host has not taken. They are
	// the poll's alone.
	held []update

	end     context.CancelFunc
	polling sync.WaitGroup
}

func configError(format string, values ...any) error {
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: fmt.Sprintf(format, values...)}
}

func (h *handler) initialize(ctx context.Context, s plugin.Setup) error {
	var c struct{ API string }
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return configError("telegram: %v", err)
	}
	u, err := chat.Base(c.API)
	if err != nil {
		return configError("api is the address of a Bot API server, such as https://api.telegram.org")
	}
	token, err := readToken(ctx, s)
	if err != nil {
		return err
	}
	h.setup, h.chats.Setup, h.api = s, s, &api{base: u, http: h.world.Client()}
	h.api.token.Store(&token)
	if err := h.chats.Open(); err != nil {
		return err
	}
	if !h.polls {
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h.end = end
	h.polling.Go(func() { h.poll(life) })
	return nil
}

type sendArgs struct{ Recipient, Body string }

func (h *handler) send(ctx context.Context, r *plugin.Request, args sendArgs) (any, error) {
	number, err := strconv.ParseInt(args.Recipient, 10, 64)
	if err != nil || strconv.FormatInt(number, 10) != args.Recipient || number == 0 {
		return nil, chat.Refuse("UNKNOWN_RECIPIENT", false, "recipient is the number of a chat, as it stands in the message")
	}
	return h.chats.Send(ctx, r, args.Recipient, args.Body)
}

// verify tells whether Telegram knows the token (D-29).
func (h *handler) verify(ctx context.Context, s plugin.Setup) error {
	token, err := readToken(ctx, s)
	if err != nil {
		return err
	}
	h.api.token.Store(&token)
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var me struct {
		ID    int64 `json:"id"`
		IsBot bool  `json:"is_bot"`
	}
	err = h.api.call(ctx, "getMe", struct{}{}, &me)
	var said *chat.Refusal
	switch {
	case errors.As(err, &said) && said.Why == chat.Revoked:
		return &plugin.ToolError{Code: plugin.CategoryAuth, Message: "Telegram does not know the token: ask @BotFather for it again (/token)"}
	case err != nil:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "The Bot API was not reached: hosts in [access.telegram] needs \"" + chat.Listed(h.api.base) + "\", and the Bot API has to answer there"}
	case !me.IsBot || me.ID == 0:
		return configError("api is not a Bot API server: its getMe names no bot")
	}
	return nil
}

func (h *handler) shutdown(context.Context) error {
	if h.end != nil {
		h.end()
		h.polling.Wait()
	}
	return nil
}
