package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/display"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a chat.
const (
	chatPlugin  = "local"          // whose channel it is
	chatWait    = 5 * time.Minute  // for an answer
	chatReady   = 10 * time.Second // for the plugin to say what was said before
	chatLine    = 1 << 20          // bytes of one line from the plugin
	chatMaximum = 64 << 10         // bytes of one line from the person
)

// chat is one end of the local channel.
type chat struct {
	as, group, once string
	timeout         time.Duration
}

func (a *app) chatCommand() *cobra.Command {
	var c chat
	command := &cobra.Command{
		Use: "chat", Short: "talk to an agent that nacre serve starts",
		Long: `Sends what you type to nacre serve, line by line, and shows the answers as they
come. [[route]] in the config says which group answers. What was said before is
shown again, the last 50 lines. Ctrl-D ends it; with input that is no terminal it
ends with the answer to the last line.

With --once it sends one message and waits for the answer: exit 0, or 124 where
none came in time.`,
		Example: "  nacre chat\n  nacre chat --once \"what is due today?\" --timeout 2m\n  nacre chat --as ada --group family",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("once") && strings.TrimSpace(c.once) == "" {
				return usage("--once needs a message")
			}
			if c.timeout <= 0 {
				return usage("--timeout %s: write how long to wait, such as 2m", c.timeout)
			}
			c.as = orElse(c.as, orElse(a.getenv("USER"), "uid-"+strconv.Itoa(os.Getuid())))
			return a.chat(cmd.Context(), c)
		},
	}
	command.Flags().StringVar(&c.as, "as", "", "who you are: the sender that routes are matched with (default $USER)")
	command.Flags().StringVar(&c.group, "group", "", "the chat you write in, for a route with chat = \"…\"")
	command.Flags().StringVar(&c.once, "once", "", "send this, wait for the answer, and end")
	command.Flags().DurationVar(&c.timeout, "timeout", chatWait, "how long to wait for an answer, with --once or at the end of the input")
	return command
}

// chatEvent is a line of the plugin's.
type chatEvent struct {
	Kind    string    `json:"kind"`
	From    string    `json:"from,omitempty"`
	Chat    string    `json:"chat,omitempty"`
	Body    string    `json:"body,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	History bool      `json:"history,omitempty"`
}

var errChatEnded = errors.New("nacre serve has ended the chat: start it: nacre serve") //nolint:gochecknoglobals // a sentinel

func (a *app) chat(ctx context.Context, c chat) error {
	paths, err := registry.ResolvePaths(a.getenv)
	if err != nil {
		return err
	}
	conn, err := dialChat(ctx, filepath.Join(paths.PluginData(), chatPlugin, plugin.ListenSocket))
	if err != nil {
		return &exitError{exitNotReady, errors.New("nobody takes messages here: start it: nacre serve")}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	t := &talk{app: a, chat: c, conn: conn, events: make(chan chatEvent), ended: make(chan struct{})}
	read := make(chan struct{})
	go func() { defer close(read); t.read() }()
	err = t.run(ctx)
	close(t.ended)
	_ = conn.Close() // which ends reading
	<-read
	if ctx.Err() != nil {
		return &exitError{code: exitInterrupted}
	}
	return err
}

// dialChat connects to the plugin's socket. The name is opened once and without
// following a link, and what was opened is connected to: it may be too long for
// the address of a socket, and the folder is the plugin's.
func dialChat(ctx context.Context, name string) (net.Conn, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // O_PATH: nothing to lose
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is no socket", name)
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
}

// talk is a chat that is open.
type talk struct {
	app    *app
	chat   chat
	conn   net.Conn
	events chan chatEvent // closed when the plugin says no more
	ended  chan struct{}
}

func (t *talk) read() {
	defer close(t.events)
	lines := bufio.NewScanner(t.conn)
	lines.Buffer(nil, chatLine)
	for lines.Scan() {
		var e chatEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			return
		}
		select {
		case t.events <- e:
		case <-t.ended:
			return
		}
	}
}

func (t *talk) say(body string) error {
	line, err := json.Marshal(map[string]string{"sender": t.chat.as, "chat": t.chat.group, "body": body})
	if err != nil {
		return err
	}
	if _, err := t.conn.Write(append(line, '\n')); err != nil {
		return &exitError{exitNotReady, errChatEnded}
	}
	return nil
}

func (t *talk) run(ctx context.Context) error {
	if err := t.greet(); err != nil {
		return err
	}
	if t.chat.once != "" {
		if err := t.say(t.chat.once); err != nil {
			return err
		}
		return t.await()
	}
	return t.converse(ctx)
}

// greet says who is there, and shows what was said before.
func (t *talk) greet() error {
	if err := t.say(""); err != nil {
		return err
	}
	late := time.NewTimer(chatReady)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return &exitError{exitNotReady, errors.New("the plugin local does not answer: nacre doctor says why")}
		case e, ok := <-t.events:
			switch {
			case !ok:
				return &exitError{exitNotReady, errChatEnded}
			case e.Kind == "error":
				return usage("%s", e.Body)
			case e.Kind == "ready":
				return nil
			case t.chat.once == "":
				if err := t.show(e); err != nil {
					return err
				}
			}
		}
	}
}

// await shows what comes up to the first answer.
func (t *talk) await() error {
	late := time.NewTimer(t.chat.timeout)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return &exitError{exitTimeout, fmt.Errorf("no answer within %s: nacre sessions list shows whether an agent works on it", t.chat.timeout)}
		case e, ok := <-t.events:
			if !ok {
				return &exitError{exitNotReady, errChatEnded}
			}
			if err := t.show(e); err != nil {
				return err
			}
			if e.Kind == "error" || e.Kind == "notice" {
				return &exitError{code: exitFailed}
			}
			if e.Kind == "message" {
				return nil
			}
		}
	}
}

// converse sends lines as they are typed and shows answers as they come.
func (t *talk) converse(ctx context.Context) error {
	typed := make(chan string)
	go t.typed(ctx, typed) // ends with the input: a terminal cannot be told to stop, and the program ends soon
	waiting := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case text, ok := <-typed:
			if !ok && waiting && !isTerminal(t.app.stdin) {
				return t.await()
			}
			if !ok {
				return nil
			}
			if err := t.say(text); err != nil {
				return err
			}
			waiting = true
		case e, ok := <-t.events:
			if !ok {
				return &exitError{exitNotReady, errChatEnded}
			}
			if e.Kind != "own" && e.Kind != "sent" {
				waiting = false
			}
			if err := t.show(e); err != nil {
				return err
			}
		}
	}
}

func (t *talk) typed(ctx context.Context, to chan<- string) {
	defer close(to)
	lines := bufio.NewScanner(t.app.stdin)
	lines.Buffer(nil, chatMaximum)
	for lines.Scan() {
		text := strings.ToValidUTF8(lines.Text(), "�")
		if strings.TrimSpace(text) == "" {
			continue
		}
		select {
		case to <- text:
		case <-ctx.Done():
			return
		case <-t.ended:
			return
		}
	}
}

// show prints a line of the plugin's; nothing in it reaches the terminal as it is.
func (t *talk) show(e chatEvent) error {
	if t.app.json {
		return printJSON(t.app.stdout, e)
	}
	switch e.Kind {
	case "error", "notice":
		t.app.printer(t.app.stderr).Field("nacre", "%s", e.Body)
	case "message", "own":
		p := t.app.printer(t.app.stdout)
		lines := strings.Split(strings.TrimRight(e.Body, "\n"), "\n")
		p.Field(display.Escape(e.From), "%s", lines[0])
		for _, line := range lines[1:] {
			p.Line("         %s", line)
		}
	}
	return nil
}
