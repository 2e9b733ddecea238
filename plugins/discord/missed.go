package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Limits of what is asked for after a connection was lost for good.
const (
	maxPages = 5   // of one channel
	pageSize = 100 // messages
	maxTries = 6   // of one page
)

// missed brings what was written while there was no connection. A session that goes on needs
// none of it: Discord brings what it missed by itself. What was taken before has the same name.
func (l *listener) missed(ctx context.Context, behind map[string]string) {
	for id, value := range behind {
		of := readHeard(value)
		if !isID(id) || !isID(of.last) {
			l.marks.Asked(id)
			continue
		}
		list, err := l.since(ctx, id, of)
		if err != nil {
			if why, _, refused := chat.Refused(err); refused && why == chat.NotTaken {
				l.marks.Asked(id) // it is gone, or a thread that never began
			}
			continue // the next connection asks
		}
		for _, m := range list {
			if l.offer(ctx, m, func() {}) != nil {
				return
			}
		}
		l.marks.Asked(id)
	}
}

// since are the messages of persons after the one that was heard last, in the order in which
// they were written.
func (l *listener) since(ctx context.Context, id string, of heard) (list []message, err error) {
	after, left := of.last, maxPages
	for full := true; full; left-- {
		if left == 0 {
			chat.Note("more was written to %s meanwhile than is asked for", id)
			break
		}
		var page []message
		query := url.Values{"after": {after}, "limit": {strconv.Itoa(pageSize)}}
		if err := l.patiently(ctx, []string{"channels", id, "messages"}, query, &page); err != nil {
			return nil, err
		}
		for _, m := range page {
			if !isID(m.ID) || !later(m.ID, of.last) {
				continue
			}
			if later(m.ID, after) {
				after = m.ID
			}
			if m.Channel, m.Guild = id, ""; of.mode != hearsAlone {
				m.Guild = id // which it is does not matter, and is not said here
			}
			if l.forUs(m) && !m.commands() {
				list = append(list, m)
			}
		}
		full = len(page) >= pageSize
	}
	slices.SortFunc(list, func(a, b message) int {
		if later(a.ID, b.ID) {
			return 1
		}
		return -1
	})
	return list, nil
}

// patiently asks again where Discord said that it is too often, or was not reached.
func (h *handler) patiently(ctx context.Context, path []string, query url.Values, result any) error {
	for try := range maxTries {
		asking, cancel := context.WithTimeout(ctx, chat.CallTime)
		err := h.api.call(asking, http.MethodGet, path, query, result)
		cancel()
		why, pause, refused := chat.Refused(err)
		if err == nil || refused && why != chat.TooOften && why != chat.Unknown || try == maxTries-1 {
			return err
		}
		if err := h.world.Wait(ctx, max(pause, chat.Backoff(try))); err != nil {
			return err
		}
	}
	return chat.ErrUnreached
}
