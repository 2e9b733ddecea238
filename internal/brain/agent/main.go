//go:build linux

// Package agent promises the brains of nacre's own that run inside the sandbox. Such a brain reads
// a recording, or asks a model what to do. It carries out each choice for real, and prints the
// normalised events as JSON lines.
//
// It decides nothing about what is allowed: it runs as the sandboxed user, and
// what it may reach is what the sandbox lets it reach. It must not be run
// outside one on a recording from someone else.
package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/guard"
)

// World is what the program is given of the world.
type World struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks up the environment; tools use it for the proxy.
	Getenv func(string) string
	// Dir is where tools work; empty means the process's own directory.
	Dir string
	// Door reaches the tools on the host; nil where there is no door.
	Door Door
	// Gates is the file of the task's gates; where it is missing there are none.
	Gates string
	// Refusals is the socket on which the host hears of each call that they refuse.
	Refusals string
	// Pause waits before a model is asked again; nil waits by the clock.
	Pause func(ctx context.Context, d time.Duration) error
}

const usage = `usage: brain replay [--max-turns N] < RECORDING
       brain anthropic|openai --model NAME [flags] < TASK
       brain gate < HOOK

replay plays a recording inside a sandbox: each tool call in it runs for real;
see docs/recording.md. The others ask a model, through the gateway that
ANTHROPIC_BASE_URL or OPENAI_BASE_URL names, with the session's token in
ANTHROPIC_API_KEY or OPENAI_API_KEY; see docs/brains.md. Events are printed as
JSON lines. gate answers a hook of Claude Code or Codex by the task's gates.

  --responses       ask openai in Responses, not in Chat Completions
  --max-turns N     answers of the model (250)
  --max-tokens N    tokens of all requests (50000000)
  --max-seconds N   time (21600)
  --context N       tokens of one request that make it shorter (160000)
  --notes FILE      what the host remembers
  --skills DIR      a folder of NAME/SKILL.md
`

// errUsage is under all errors of the command line.
var errUsage = errors.New("usage")

// Main is the program. It returns the exit code: 0 when the turn was done, 1
// when it was not, 2 on wrong usage.
func Main(w World) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, w)
	switch {
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprintf(w.Stderr, "brain: %v\n%s", err, usage) // nobody is left to tell
		return 2
	case errors.Is(err, errRefused):
		return guard.ExitDenied
	case err != nil:
		_, _ = fmt.Fprintf(w.Stderr, "brain: %v\n", err) // nobody is left to tell
		return 1
	}
	return 0
}

func run(ctx context.Context, w World) error {
	if len(w.Args) == 0 {
		return fmt.Errorf("%w: say what to do", errUsage)
	}
	name, args := w.Args[0], w.Args[1:]
	if name == brain.GateCommand && len(args) == 0 {
		return hook(ctx, w)
	}
	s := settings{turns: defaultTurns, tokens: defaultTokens, seconds: int64(defaultTime / time.Second), context: defaultContext}
	flags := flag.NewFlagSet("brain "+name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("max-turns", "", positive(func(n int64) { s.turns = int(min(n, brain.MaxTurns)) }))
	switch name {
	case brain.ReplayName:
		s.turns = 0
		if err := parse(flags, args); err != nil {
			return err
		}
		return Replay(ctx, w, s.turns)
	case brain.AnthropicName:
		s.dialect, s.keyEnv, s.urlEnv = messages{}, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"
	case brain.OpenAIName:
		s.dialect, s.keyEnv, s.urlEnv = chat{}, "OPENAI_API_KEY", "OPENAI_BASE_URL"
		flags.BoolFunc("responses", "", func(string) error { s.dialect = responses{}; return nil })
	default:
		return fmt.Errorf("%w: no brain here is called %.40q", errUsage, name)
	}
	flags.Func("max-tokens", "", positive(func(n int64) { s.tokens = n }))
	flags.Func("max-seconds", "", positive(func(n int64) { s.seconds = min(n, maxSeconds) }))
	flags.Func("context", "", positive(func(n int64) { s.context = n }))
	flags.StringVar(&s.model, "model", "", "")
	flags.StringVar(&s.notes, "notes", "", "")
	flags.StringVar(&s.skills, "skills", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if s.model == "" {
		return fmt.Errorf("%w: name a model with --model", errUsage)
	}
	return converse(ctx, w, s)
}

// maxSeconds is a year: more than any sandbox lasts.
const maxSeconds = 365 * 24 * 3600

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %.80q", errUsage, flags.Arg(0))
	}
	return nil
}

// positive reads a number from 1.
func positive(set func(n int64)) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%.40q: use a number from 1", text)
		}
		set(n)
		return nil
	}
}
