package main

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Limits of what is asked for after a connection was lost.
const (
	maxPages = 5   // of a conversation or a thread
	pageSize = 100 // messages
	maxTries = 6   // of one page
	hearsAll = "all"
)

// heard is what is known of a conversation or of a thread. That is the newest message that was
// taken, who wrote it, and whether everything there is heard or only what names the bot.
type heard struct {
	chat, thread  string
	stamp, sender string
	all           bool
}

func heardKey(conversation, thread string) string {
	return strings.TrimSuffix(conversation+"/"+thread, "/")
}

// remember keeps what was heard last, so that what is written while nobody listens can be
// asked for.
func (l *listener) remember(e event) {
	at := e.place()
	key := heardKey(at.Chat, at.Thread)
	l.marks.Remember(key, func(value string) string {
		known, mode := heardOf(key, value), ""
		if known.all || e.Channel[0] == 'D' || e.Type == "message" {
			mode = hearsAll
		}
		if !later(e.Stamp, known.stamp) {
			return ""
		}
		return strings.TrimSpace(e.Stamp + " " + e.sender() + " " + mode)
	})
}

func heardOf(key, value string) (of heard) {
	of.chat, of.thread, _ = strings.Cut(key, "/")
	for i, part := range strings.Fields(value) {
		switch i {
		case 0:
			of.stamp = part
		case 1:
			of.sender = part
		default:
			of.all = part == hearsAll
		}
	}
	return of
}

// later tells whether a message is newer than another; any is newer than none.
func later(stamp, than string) bool {
	a, _, _ := strings.Cut(stamp, ".")
	b, _, _ := strings.Cut(than, ".")
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return stamp > than
}

// missed brings what was written while there was no connection: Slack brings again what was
// not acknowledged, but only for some minutes. What was taken before has the same name.
func (l *listener) missed(ctx context.Context, behind map[string]string) {
	for key, value := range behind {
		of := heardOf(key, value)
		if !isID(of.chat, conversations) || !isStamp(of.stamp) || of.thread != "" && !isStamp(of.thread) {
			l.marks.Asked(key)
			continue
		}
		list, err := l.since(ctx, of)
		if err != nil {
			if why, _, refused := chat.Refused(err); refused && why == chat.NotTaken {
				chat.Note("what was written to %s meanwhile is not told: %v", of.chat, err)
				l.marks.Asked(key)
			}
			continue // the next connection asks
		}
		for _, e := range list {
			if l.offer(ctx, e, func() {}) != nil {
				return
			}
		}
		l.marks.Asked(key)
	}
}

// offer puts a message where it waits for the host.
func (l *listener) offer(ctx context.Context, e event, taken func()) error {
	return l.inbox.Offer(ctx, len(e.Text), func(ctx context.Context) error { return l.take(ctx, e) }, taken)
}

// since are the messages of persons after the one that was heard last, in the order in which
// they were written, with those in threads that began since.
func (l *listener) since(ctx context.Context, of heard) (list []event, err error) {
	all, err := l.history(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if of.thread == "" && e.Replies > 0 && e.Thread == e.Stamp {
			replies, err := l.history(ctx, heard{chat: of.chat, thread: e.Stamp, stamp: e.Stamp})
			if err != nil {
				return nil, err
			}
			list = append(list, l.forUs(of, replies)...)
		}
	}
	list = append(list, l.forUs(of, all)...)
	slices.SortStableFunc(list, func(a, b event) int {
		switch {
		case a.Stamp == b.Stamp:
			return 0
		case later(a.Stamp, b.Stamp):
			return 1
		}
		return -1
	})
	return list, nil
}

// forUs are those that an event would have brought.
func (l *listener) forUs(of heard, all []event) (list []event) {
	me := l.self.Load()
	for _, e := range all {
		e.Channel = of.chat
		if e.UserTeam != "" {
			e.Team = e.UserTeam
		}
		if team, user, _ := strings.Cut(of.sender, ":"); e.Team == "" && user == e.User {
			e.Team = team // whoever is known already; an id says nothing without its team
		}
		named := me != nil && strings.Contains(e.Text, "<@"+me.User+">")
		if later(e.Stamp, of.stamp) && (of.all || named) && e.personal() && e.says(me) && !e.commands() {
			list = append(list, e)
		}
	}
	return list
}

// history asks for the pages of one conversation or thread.
func (l *listener) history(ctx context.Context, of heard) (all []event, err error) {
	method, params := "conversations.history", url.Values{"channel": {of.chat}, "oldest": {of.stamp}, "limit": {strconv.Itoa(pageSize)}}
	if of.thread != "" {
		method = "conversations.replies"
		params.Set("ts", of.thread)
	}
	for range maxPages {
		var page struct {
			Messages []event `json:"messages"`
			Next     struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := l.patiently(ctx, method, params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Messages...)
		if page.Next.Cursor == "" {
			return all, nil
		}
		params.Set("cursor", page.Next.Cursor)
	}
	chat.Note("more was written to %s meanwhile than is asked for", of.chat)
	return all, nil
}

// patiently asks again where Slack said that it is too often, or was not reached.
func (l *listener) patiently(ctx context.Context, method string, params url.Values, result any) error {
	for try := range maxTries {
		asking, cancel := context.WithTimeout(ctx, chat.CallTime)
		_, err := l.api.speak(asking, method, params, result)
		cancel()
		why, pause, refused := chat.Refused(err)
		if err == nil || refused && why != chat.TooOften && why != chat.Unknown || try == maxTries-1 {
			return err
		}
		if err := l.world.Wait(ctx, max(pause, chat.Backoff(try))); err != nil {
			return err
		}
	}
	return chat.ErrUnreached
}
