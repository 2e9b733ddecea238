// Command handler is the local plugin: a channel for the person at this
// machine, whose end is `nacre chat`.
//
// It promises that only the one who owns the folder of its socket can speak on it. What was said is
// there again after a reconnection, up to a limit. A sender's name is what that person says it is:
// it routes messages and proves nothing.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // standard output belongs to the protocol
	if err := serve(os.Stdin, out, time.Now); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve speaks the protocol. Where the host serves channels, which the first
// line says, the handler listens; the handler of a single session does not.
func serve(in io.Reader, out io.Writer, now func() time.Time) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h := &hub{now: now, rooms: map[string]map[*client]bool{}}
	var s *server
	return plugin.ServeOn(plugin.Handler{
		Initialize: func(ctx context.Context, setup plugin.Setup) error {
			h.setup, h.history = setup, history{filepath.Join(setup.DataDir, "history")}
			if err := os.MkdirAll(h.history.dir, 0o700); err != nil || !hasChannels(first) {
				return err
			}
			var err error
			s, err = listen(ctx, filepath.Join(setup.DataDir, plugin.ListenSocket), h)
			return err
		},
		HandleEvent: h.event,
		Tools:       map[nacre.ToolName]plugin.ToolFunc{"send_local": plugin.Tool(h.send)},
		Shutdown: func(context.Context) error {
			if s == nil {
				return nil
			}
			return s.close()
		},
	}, io.MultiReader(bytes.NewReader(first), lines), out)
}

func hasChannels(first []byte) bool {
	var m plugin.Message
	var p plugin.InitializeParams
	return json.Unmarshal(first, &m) == nil && m.Method == plugin.MethodInitialize && json.Unmarshal(m.Params, &p) == nil && p.ChannelTicket != ""
}
