package workcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

const (
	// detachedPatience is how long a question waits for somebody who comes back, where
	// the config does not say.
	detachedPatience = 8 * time.Hour
	// maxSaid is how much is kept of what a run says before it has begun, in bytes.
	maxSaid = 64 << 10
)

// detaching begins work in a process of its own, which outlives this terminal (U-23).
type detaching struct {
	*command.Env
	// started shows a person what began.
	started func(assembly.SessionInfo)
	// beside says that the command tells its events on a descriptor beside its streams.
	beside bool
	// quiet, where it is set and true, leaves nothing to tell but the session's name.
	quiet  *bool
	detach bool
	// detached is set in that process.
	detached bool
}

func (d *detaching) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&d.detach, "detach", false, "go on without this terminal; nacre attach NAME comes back to it")
	flags.BoolVar(&d.detached, "detached", false, "")
	_ = flags.MarkHidden("detached") // it is there
}

// begin starts the same command in a process of its own, gives it the task, and returns
// when its session is there.
func (d *detaching) begin(c *cobra.Command, args []string, task string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	work := exec.CommandContext(context.WithoutCancel(c.Context()), executable, d.again(c, args)...)
	work.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, and no signal of one
	work.Stdin = strings.NewReader(task)
	failed, err := work.StderrPipe()
	if err != nil {
		return err
	}
	said, tells, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = said.Close() }() // it was only read
	if d.beside {
		work.ExtraFiles = []*os.File{tells}
	} else {
		work.Stdout = tells
	}
	if err := errors.Join(work.Start(), tells.Close()); err != nil {
		return err
	}
	stop := context.AfterFunc(c.Context(), func() { _ = work.Process.Signal(syscall.SIGTERM) }) // it may have ended
	defer stop()
	why := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(failed, maxSaid)) // what could be read
		why <- text
	}()
	info, begun := untilStarted(said)
	if !begun {
		return d.notBegun(work, <-why)
	}
	return d.tell(info)
}

// again are the words that start the same command detached.
func (d *detaching) again(c *cobra.Command, args []string) []string {
	words := append(strings.Fields(c.CommandPath())[1:], "--detached", "--json")
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"detach", "prompt-file", "json"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			words = append(words, "--"+f.Name+"="+value)
		}
	})
	return append(append(words, "--"), args...)
}

// untilStarted reads events until the session is there. What follows is for nobody.
func untilStarted(from io.Reader) (info assembly.SessionInfo, begun bool) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var event struct {
			Event string
			Data  json.RawMessage
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Event == eventStarted {
			return info, json.Unmarshal(event.Data, &info) == nil
		}
	}
	return info, false
}

// notBegun ends as the process did that began nothing.
func (d *detaching) notBegun(work *exec.Cmd, why []byte) error {
	err := work.Wait()
	text := strings.TrimPrefix(string(bytes.TrimSpace(why)), "nacre: ")
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		return command.ExitWith(ended.ExitCode(), errors.New(orUnsaid(text)))
	case err != nil:
		return err
	}
	return command.ExitWith(command.ExitFailed, errors.New(orUnsaid(text)))
}

func orUnsaid(text string) string {
	if text == "" {
		return "the run ended before it began, and did not say why"
	}
	return text
}

// tell says that the run goes on, and how a person comes back to it.
func (d *detaching) tell(info assembly.SessionInfo) error {
	if d.JSON {
		return d.PrintJSON(map[string]any{"event": eventStarted, "data": info})
	}
	p := d.Printer(d.Stdout)
	if d.quiet != nil && *d.quiet {
		p.Line("%s", info.Session)
		return nil
	}
	d.started(info)
	p.Field("detached", "it goes on without this terminal")
	p.Field("next", "nacre attach %[1]s · nacre logs -f %[1]s · nacre ps · nacre sessions stop %[1]s", info.Session)
	return nil
}

// leave lets go of the streams of whoever started this process: they may be gone.
func leave(streams ...*os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, stream := range streams {
		_ = replace(int(null.Fd()), int(stream.Fd())) // both are open
	}
	return null.Close()
}

// maxPrinted is how much of what a detached command prints is kept as one event, in bytes.
const maxPrinted = 32 << 10

// printed is what a detached command printed, on either of its streams.
type printed struct {
	Text string `json:"text"`
}

// recorded runs something on no streams of ours. What it prints is kept with the session.
func (cmd execCommand) recorded(ctx context.Context, rt *assembly.Runtime, e assembly.Exec, k *kept, run running) (result assembly.ExecResult, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return result, err
	}
	defer func() { _ = null.Close() }() // it has nothing
	read, write, err := os.Pipe()
	if err != nil {
		return result, err
	}
	e.Stdin, e.Stdout, e.Stderr = null, write, write
	told := make(chan struct{}) // closed when the session's log is there
	tell, once := e.Started, sync.OnceFunc(func() { close(told) })
	e.Started = func(info assembly.SessionInfo) {
		tell(info)
		once()
	}
	all := make(chan struct{})
	go func() {
		defer close(all)
		k.prints(after{told, read})
	}()
	result, err = run(ctx, rt, e)
	once()
	err = errors.Join(err, write.Close())
	<-all
	return result, errors.Join(err, read.Close())
}

// prints keeps what is printed, in whole lines as far as they are not too long: a secret
// is known by what stands around it.
func (k *kept) prints(from io.Reader) {
	held := make([]byte, 0, maxPrinted)
	for {
		n, err := from.Read(held[len(held):maxPrinted])
		held = held[:len(held)+n]
		end := bytes.LastIndexByte(held, '\n') + 1
		if end == 0 && len(held) == maxPrinted || err != nil {
			end = len(held)
		}
		if end > 0 {
			k.write(eventPrinted, printed{string(held[:end])})
			held = append(held[:0], held[end:]...)
		}
		if err != nil {
			return
		}
	}
}
