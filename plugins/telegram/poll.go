package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// How long is waited before another try.
const (
	othersPause = 10 * time.Second // another process polls
	maxUpdates  = 100              // of one answer
)

// poll brings what was written to the host until ctx ends. Where two handlers run in one data
// folder, as while a plugin is reloaded, one of them polls: Telegram answers one.
func (h *handler) poll(ctx context.Context) {
	unlock := h.world.Lock(ctx, h.setup.DataDir)
	if unlock == nil {
		return
	}
	defer unlock()
	if err := h.chats.Kept.Load(); err != nil {
		chat.Note("what was kept cannot be read: %v", err)
	}
	h.held = readHeld(h.setup.DataDir)
	offset, failures := int64(0), 0
	outage := chat.Outage{Title: h.chats.Title, Note: chat.Note}
	for ctx.Err() == nil {
		updates, err := h.updates(ctx, offset)
		if err != nil {
			_ = h.world.Wait(ctx, h.afterFailure(ctx, err, failures, &outage)) // the loop's condition has its error
			failures++
			continue
		}
		outage.Ends()
		var more bool
		if offset, more, err = h.handle(ctx, updates, offset); err != nil && !more {
			_ = h.world.Wait(ctx, chat.Backoff(failures))
			failures++
			continue
		}
		failures = 0
	}
}

// handle takes what one poll brought and gives the offset of the next one, which confirms it.
// Presses come first: a message that the host cannot take now must not keep a person from
// deciding, perhaps on the very agent that has to end before. With an error the rest was not
// taken: it is brought again. Where a press may stand behind more messages than Telegram brings at
// once, more is true: those are held here, so that the next poll brings what stands behind them.
func (h *handler) handle(ctx context.Context, updates []update, offset int64) (next int64, more bool, err error) {
	for _, u := range updates {
		if u.Press != nil {
			h.chats.Pressed(ctx, u.Press.pressed())
		}
		if m := u.Message; m.commands() {
			at := m.place()
			h.chats.Command(ctx, chat.Said{Sender: strconv.FormatInt(m.From.ID, 10), Body: m.Text, Ref: at.ref()}, time.Unix(m.Date, 0), at.at())
		}
	}
	err = h.takeHeld(ctx)
	for i, u := range updates {
		if err == nil {
			err = h.take(ctx, u)
		}
		if err != nil && len(updates) >= maxUpdates && h.hold(updates[i:]) {
			return updates[len(updates)-1].ID + 1, true, err
		}
		if err != nil {
			return offset, false, err
		}
		if i == 0 || u.ID >= offset {
			offset = u.ID + 1 // which may be lower than before: after a quiet week numbers begin anew
		}
	}
	return offset, false, err
}

// updates is one poll. Asking from an offset on confirms all before it.
func (h *handler) updates(ctx context.Context, offset int64) (updates []update, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.world.Patience)
	defer cancel()
	wait := pollTime
	if len(h.held) > 0 { // they are tried again as soon as their pause is over
		wait = 0
	}
	err = h.api.call(ctx, "getUpdates", map[string]any{
		"offset": offset, "limit": maxUpdates, "timeout": int(wait / time.Second), "allowed_updates": []string{"message", "callback_query"},
	}, &updates)
	return updates, err
}

// afterFailure is how long to wait before the next poll.
func (h *handler) afterFailure(ctx context.Context, err error, failures int, outage *chat.Outage) time.Duration {
	pause := chat.Backoff(failures)
	if ctx.Err() != nil {
		return pause
	}
	why, wanted, refused := chat.Refused(err)
	if refused {
		outage.Refuses(err)
	}
	switch why {
	case chat.Revoked: // perhaps there is a new one by then
		if token, err := readToken(ctx, h.setup); err == nil && token != *h.api.token.Load() {
			h.api.token.Store(&token)
			return 0
		}
		chat.Note("Telegram does not know the token any more: give it a new one, and it is used within %s", chat.RevokedPause)
		return chat.RevokedPause
	case chat.Elsewhere:
		chat.Note("another program polls with the same token, or a webhook is set: end it")
		return othersPause
	case chat.Unknown, chat.TooOften, chat.NotTaken:
	}
	pause = max(wanted, pause)
	outage.Lasts(pause)
	return pause
}

// take brings a message to the host. With an error the host has not decided on it.
func (h *handler) take(ctx context.Context, u update) error {
	m := u.Message
	if m == nil || !m.personal() || m.body() == "" && len(m.files()) == 0 || m.commands() {
		return nil
	}
	sender, at := strconv.FormatInt(m.From.ID, 10), m.place()
	if m.asksToPair() {
		h.chats.Pair(ctx, sender, at.at())
		return nil
	}
	session := h.sessionOf(m)
	taken, err := h.chats.Take(ctx, chat.Said{Sender: sender, Chat: at.at().Chat, Body: m.body(), Ref: at.ref(), Session: session, Files: m.files()})
	if taken {
		h.chats.Kept.Remember(threadKey(m.Chat.ID, m.ID), session)
	}
	return err
}

// sessionOf names the conversation of a message for routes with session = "explicit": that of
// its topic, that of the message that it answers, or a new one.
func (h *handler) sessionOf(m *message) string {
	if topic := m.place().topic; topic != 0 {
		return fmt.Sprintf("topic-%d", topic)
	}
	if m.ReplyTo != nil {
		if known := h.chats.Kept.Get(threadKey(m.Chat.ID, m.ReplyTo.ID)); known != "" {
			return known
		}
	}
	return fmt.Sprintf("message-%d", m.ID)
}

func threadKey(chat, message int64) string { return fmt.Sprintf("thread/%d/%d", chat, message) }
