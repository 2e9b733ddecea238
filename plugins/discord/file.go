package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Fetch reads a file. Its address is good for a day, so Discord is asked for the message anew.
// The token does not go there.
func (h *handler) Fetch(ctx context.Context, at chat.Place, f chat.File) ([]byte, error) {
	room := at.Chat
	if at.Thread != "" {
		room = at.Thread
	}
	var m message
	if err := h.api.call(ctx, http.MethodGet, []string{"channels", room, "messages", at.Message}, nil, &m); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.Files, func(known file) bool { return known.ID == f.ID })
	if i < 0 {
		return nil, &chat.Refusal{Why: chat.NotTaken, Said: "the message has it no more"}
	}
	u, err := url.Parse(m.Files[i].Address)
	if err != nil || u.User != nil || u.Scheme != "https" && u.Scheme != h.api.base.Scheme {
		return nil, chat.ErrUnreached
	}
	return chat.Download(ctx, h.api.http, u.String(), nil)
}

// with is what a message is posted as: beside a file, it is a part of a form.
func (o outgoing) with(file *chat.Attachment) (any, error) {
	if file == nil {
		return o, nil
	}
	about, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return chat.Form{Fields: [][2]string{{"payload_json", string(about)}}, Field: "files[0]", File: *file}, nil
}
