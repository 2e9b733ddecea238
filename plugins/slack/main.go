// Command handler is the slack plugin: a channel to a Slack app's conversations, over Socket
// Mode, so that nothing listens.
//
// It promises that a message is brought to the host until the host has taken it, and only then
// acknowledged to Slack. What comes twice has the same name, by which the host takes it once. A
// sender is the ids that Slack gave the team and the person, never a name. Whoever has no route is
// told nothing.
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
	h := &handler{world: w, listens: listens, chats: &chat.Channel{Name: channel, Title: "Slack", Limit: maxText, World: w}}
	h.chats.Service = h
	return plugin.ServeOn(plugin.Handler{
		Initialize:  h.initialize,
		HandleEvent: h.chats.Event,
		Tools:       map[nacre.ToolName]plugin.ToolFunc{"send_slack": plugin.Tool(h.send), "read_slack_file": plugin.Tool(h.chats.Read)},
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
	self    atomic.Pointer[identity] // once Slack has said it

	end       context.CancelFunc
	listening sync.WaitGroup
}

func (h *handler) initialize(ctx context.Context, s plugin.Setup) error {
	var c struct{ API string }
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return configError("slack: %v", err)
	}
	base, err := chat.Base(c.API)
	if err != nil {
		return configError("api is the address of Slack's Web API, such as https://slack.com/api")
	}
	t, err := readTokens(ctx, s)
	if err != nil {
		return err
	}
	h.setup, h.chats.Setup, h.api = s, s, &api{base: base, http: h.world.Client()}
	h.api.tokens.Store(&t)
	if err := h.chats.Open(); err != nil {
		return err
	}
	if !h.listens {
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h.end = end
	l := &listener{handler: h, marks: chat.Marks{Kept: h.chats.Kept}, inbox: chat.NewInbox(h.world, h.chats.Known.Has)}
	h.listening.Go(func() { l.listen(life) })
	return nil
}

func configError(format string, values ...any) error {
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: fmt.Sprintf(format, values...)}
}

type sendArgs struct{ Recipient, Body string }

func (h *handler) send(ctx context.Context, r *plugin.Request, args sendArgs) (any, error) {
	if !isID(args.Recipient, conversations) {
		return nil, chat.Refuse("UNKNOWN_RECIPIENT", false, "recipient is the id of a conversation, as it stands in the message, such as C012AB3CD")
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
