package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Fetch reads a file. Where it is, Slack says by itself: what an event says of that is not
// believed, because the bot's token goes there.
func (h *handler) Fetch(ctx context.Context, _ chat.Place, f chat.File) ([]byte, error) {
	var about struct {
		File struct {
			Address string `json:"url_private_download"`
		} `json:"file"`
	}
	if _, err := h.api.speak(ctx, "files.info", url.Values{"file": {f.ID}}, &about); err != nil {
		return nil, err
	}
	if !h.api.holdsFiles(about.File.Address) {
		return nil, chat.ErrUnreached
	}
	return chat.Download(ctx, h.api.http, about.File.Address, map[string]string{"Authorization": "Bearer " + h.api.tokens.Load().bot})
}

// holdsFiles tells whether an address is of the service itself, or of its host for files.
func (a *api) holdsFiles(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.User == nil && u.Scheme == a.base.Scheme && (u.Host == a.base.Host || u.Host == "files."+a.base.Host)
}

// postFile shares a file in three steps, of which the last one alone makes it seen.
func (h *handler) postFile(ctx context.Context, to, thread string, file chat.Attachment) (chat.Place, error) {
	var upload struct {
		Address string `json:"upload_url"`
		ID      string `json:"file_id"`
	}
	sized := url.Values{"filename": {file.Name}, "length": {strconv.FormatInt(file.Bytes, 10)}}
	if _, err := h.api.speak(ctx, "files.getUploadURLExternal", sized, &upload); err != nil {
		return chat.Place{}, unseen(err)
	}
	if !isID(upload.ID, files) || !h.api.holdsFiles(upload.Address) {
		return chat.Place{}, unseen(chat.ErrUnreached)
	}
	said, err := chat.Ask(ctx, h.api.http, upload.Address, nil, file)
	switch {
	case err != nil:
		return chat.Place{}, unseen(err)
	case said.Status != http.StatusOK:
		return chat.Place{}, unseen(&chat.Refusal{Said: "Slack said " + strconv.Itoa(said.Status)})
	}
	done := map[string]any{"channel_id": to, "files": []map[string]string{{"id": upload.ID, "title": file.Name}}}
	if thread != "" {
		done["thread_ts"] = thread
	}
	_, err = h.api.speak(ctx, "files.completeUploadExternal", done, &struct{}{})
	return chat.Place{Chat: to, Thread: thread}, err
}

// unseen is an error of what comes before a file is seen: it may be tried again.
func unseen(err error) error {
	why, pause, said := chat.Refused(err)
	if said && why != chat.Unknown {
		return err
	}
	return &chat.Refusal{Why: chat.TooOften, Said: err.Error(), Pause: pause}
}
