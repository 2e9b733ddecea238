package servecmd

import (
	"bufio"
	"cmp"
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

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/socket"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/plugin"
)

type chatCommand Commands

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

func (cmd chatCommand) command() *cobra.Command {
	var c chat
	made := &cobra.Command{
		Use: "chat", Short: "talk to an agent that nacre serve starts",
		Long: `Sends what you type to nacre serve, line by line, and shows the answers as they
come. [[route]] in the config says which group answers. What was said before is
shown again, the last 50 lines. Ctrl-D ends it; with input that is not a terminal it
ends with the answer to the last line.

With --once it sends one message and waits for the answer to it: exit 0, 1 where
none will come, or 124 where none came in time.`,
		Example: "  nacre chat\n  nacre chat --once \"what is due today?\" --timeout 2m\n  nacre chat --as ada --group family",
		Args:    command.NoArguments,
		RunE: func(made *cobra.Command, _ []string) error {
			if made.Flags().Changed("once") && strings.TrimSpace(c.once) == "" {
				return command.Usage("--once needs a message")
			}
			if c.timeout <= 0 {
				return command.Usage("--timeout %s: write how long to wait, such as 2m", c.timeout)
			}
			c.as = cmp.Or(c.as, cmp.Or(cmd.Getenv("USER"), "uid-"+strconv.Itoa(os.Getuid())))
			return cmd.chat(made.Context(), c)
		},
	}
	made.Flags().StringVar(&c.as, "as", "", "who you are: the sender that routes are matched with (default $USER)")
	made.Flags().StringVar(&c.group, "group", "", "the chat you write in, for a route with chat = \"…\"")
	made.Flags().StringVar(&c.once, "once", "", "send this, wait for the answer, and end")
	made.Flags().DurationVar(&c.timeout, "timeout", chatWait, "how long to wait for an answer, with --once or at the end of the input")
	return made
}

// chatEvent is a line of the plugin's.
type chatEvent struct {
	Kind string    `json:"kind"`
	From string    `json:"from,omitempty"`
	Chat string    `json:"chat,omitempty"`
	Body string    `json:"body,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// For names the message that it is the answer to, or about.
	For     string `json:"for,omitempty"`
	History bool   `json:"history,omitempty"`
}

var errChatEnded = errors.New("nacre serve has ended the chat: start it: nacre serve")

func (cmd chatCommand) chat(ctx context.Context, c chat) error {
	paths, err := registry.ResolvePaths(cmd.Getenv)
	if err != nil {
		return err
	}
	conn, err := socket.Dial(ctx, filepath.Join(paths.PluginData(), chatPlugin, plugin.ListenSocket))
	if err != nil {
		return command.ExitWith(command.ExitNotReady, errors.New("nobody takes messages here: start it: nacre serve"))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	t := &talk{env: cmd.Env, chat: c, conn: conn, events: make(chan chatEvent), ended: make(chan struct{})}
	read := make(chan struct{})
	go func() { defer close(read); t.read() }()
	err = t.run(ctx)
	close(t.ended)
	_ = conn.Close() // which ends reading
	<-read
	if ctx.Err() != nil {
		return command.Exit(command.ExitInterrupted)
	}
	return err
}

// talk is a chat that is open.
type talk struct {
	env    *command.Env
	chat   chat
	conn   net.Conn
	events chan chatEvent // closed when the plugin says no more
	ended  chan struct{}
	// said and heard are how many messages were sent, and how many of them the plugin has taken or
	// refused. last names the last that it took.
	said, heard int
	last        string
}

// note follows what became of what was said. over reports that nothing more will come
// of the last message: it was answered, refused, or nobody answers it.
func (t *talk) note(e chatEvent) (over bool) {
	switch e.Kind {
	case "sent":
		t.heard++
		t.last = e.For
	case "error":
		t.heard++
		return t.heard == t.said
	case "message", "notice":
		return t.heard == t.said && e.For == t.last && e.For != ""
	}
	return false
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
		return command.ExitWith(command.ExitNotReady, errChatEnded)
	}
	if body != "" {
		t.said++
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
			return command.ExitWith(command.ExitNotReady, errors.New("the plugin local does not answer: nacre doctor says why"))
		case e, ok := <-t.events:
			switch {
			case !ok:
				return command.ExitWith(command.ExitNotReady, errChatEnded)
			case e.Kind == "error":
				return command.Usage("%s", e.Body)
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

// await shows what comes up to the end of the last message. With --once it shows
// nothing that is about another one.
func (t *talk) await() error {
	late := time.NewTimer(t.chat.timeout)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return command.ExitWith(command.ExitTimeout, fmt.Errorf("no answer within %s: nacre sessions list shows whether an agent works on it", t.chat.timeout))
		case e, ok := <-t.events:
			if !ok {
				return command.ExitWith(command.ExitNotReady, errChatEnded)
			}
			over := t.note(e)
			if over || t.chat.once == "" || e.Kind == "sent" {
				if err := t.show(e); err != nil {
					return err
				}
			}
			if over && e.Kind != "message" {
				return command.Exit(command.ExitFailed)
			}
			if over {
				return nil
			}
		}
	}
}

// converse sends lines as they are typed and shows answers as they come.
func (t *talk) converse(ctx context.Context) error {
	typed := make(chan string)
	go t.typed(ctx, typed) // ends with the input: a terminal cannot be told to stop, and the program ends soon
	over := true
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case text, ok := <-typed:
			if !ok && !over && !terminal.Is(t.env.Stdin) {
				return t.await()
			}
			if !ok {
				return nil
			}
			if err := t.say(text); err != nil {
				return err
			}
			over = false
		case e, ok := <-t.events:
			if !ok {
				return command.ExitWith(command.ExitNotReady, errChatEnded)
			}
			over = t.note(e) || over
			if err := t.show(e); err != nil {
				return err
			}
		}
	}
}

func (t *talk) typed(ctx context.Context, to chan<- string) {
	defer close(to)
	lines := bufio.NewScanner(t.env.Typed())
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
	if t.env.JSON {
		return t.env.PrintJSON(e)
	}
	switch e.Kind {
	case "error", "notice":
		t.env.Printer(t.env.Stderr).Field("nacre", "%s", e.Body)
	case "message", "own":
		p := t.env.Printer(t.env.Stdout)
		lines := strings.Split(strings.TrimRight(e.Body, "\n"), "\n")
		p.Field(terminal.Escape(e.From), "%s", lines[0])
		for _, line := range lines[1:] {
			p.Line("         %s", line)
		}
	}
	return nil
}
