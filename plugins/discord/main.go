// Command handler is the discord plugin: a channel to what a Discord bot is written, over the
// gateway, so that nothing listens.
//
// It promises that a message is brought to the host until the host has taken it. What comes twice
// has the same name, by which the host takes it once, and what was written while there was no
// connection is asked for. A sender is the number that Discord gave the person, never a name.
// Whoever has no route is told nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/plugin"
)

// patience is how long a connection on which nothing comes is believed: a dead one is noticed
// within 30 s (M-48).
const patience = 24 * time.Second

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // standard output belongs to the protocol
	if err := serve(os.Stdin, out, chat.Here(patience)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve speaks the protocol. Where the host serves channels, the handler listens; the handler
// of a single session does not.
func serve(in io.Reader, out io.Writer, w chat.World) error {
	listens, in, err := chat.Served(in)
	if err != nil {
		return err
	}
	h := &handler{world: w, listens: listens, chats: &chat.Channel{Name: channel, Title: "Discord", Limit: maxText, World: w}}
	h.chats.Service = h
	return plugin.ServeOn(plugin.Handler{
		Initialize:  h.initialize,
		HandleEvent: h.chats.Event,
		Tools:       map[nacre.ToolName]plugin.ToolFunc{"send_discord": plugin.Tool(h.send), "read_discord_file": plugin.Tool(h.chats.Read)},
		Verify:      h.verify,
		Shutdown:    h.shutdown,
	}, in, out)
}

// handler is the plugin as it runs.
type handler struct {
	world   chat.World
	listens bool
	setup   plugin.Setup
	api     *api
	chats   *chat.Channel
	marks   chat.Marks
	self    atomic.Pointer[string] // the bot's number, once Discord has said it

	end       context.CancelFunc
	listening sync.WaitGroup
}

func (h *handler) initialize(ctx context.Context, s plugin.Setup) error {
	var c struct{ API string }
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return configError("discord: %v", err)
	}
	base, err := chat.Base(c.API)
	if err != nil {
		return configError("api is the address of Discord's API, such as https://discord.com/api/v10")
	}
	token, err := readToken(ctx, s)
	if err != nil {
		return err
	}
	h.setup, h.chats.Setup, h.api = s, s, &api{base: base, http: h.world.Client(), now: h.world.Now}
	h.api.token.Store(&token)
	if err := h.chats.Open(); err != nil {
		return err
	}
	h.marks.Kept = h.chats.Kept
	if !h.listens {
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h.end = end
	l := &listener{handler: h, inbox: chat.NewInbox(h.world, h.chats.Known.Has), intents: intents, expected: map[string]bool{}}
	h.listening.Go(func() { l.listen(life) })
	return nil
}

func configError(format string, values ...any) error {
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: fmt.Sprintf(format, values...)}
}

type sendArgs struct{ Recipient, Body string }

func (h *handler) send(ctx context.Context, r *plugin.Request, args sendArgs) (any, error) {
	if !isID(args.Recipient) {
		return nil, chat.Refuse("UNKNOWN_RECIPIENT", false, "recipient is the number of a channel, as it stands in the message")
	}
	return h.chats.Send(ctx, r, args.Recipient, args.Body)
}

func (h *handler) shutdown(context.Context) error {
	if h.end != nil {
		h.end()
		h.listening.Wait()
	}
	return nil
}
