// Command worker does jobs in the background, each under a grant that somebody else was
// given and has narrowed for it. It has neither a person to ask nor an agent to trust: what
// the token does not allow does not happen.
//
//	worker -dir DIR <jobs.jsonl
//
// A job is a line {"token":…,"holder":…,"arguments":…}. It prints a line for each: the
// frame, or the reason. SIGTERM ends it after the job that has begun.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/embed/shop"
	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/kernel"
)

// drain is how long a job that has begun has to finish.
const drain = 10 * time.Second

type job struct {
	Token string `json:"token"`
	// Session is that of whom the token was granted to, Holder who presents it.
	Session   nacre.SessionID `json:"session"`
	Holder    string          `json:"holder"`
	Arguments json.RawMessage `json:"arguments"`
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	dir := flag.String("dir", "", "where what outlasts the process is kept")
	flag.Parse()
	if *dir == "" {
		return errors.New("worker: -dir is needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := shop.Open(ctx, *dir, "worker", nil)
	if err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		err = errors.Join(err, s.Close(late))
	}()
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 2*grant.MaxText)
	for ctx.Err() == nil && lines.Scan() {
		if err := out.Encode(done(s, lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// result is what became of a job.
type result struct {
	Facts  []string          `json:"facts,omitempty"`
	Rows   []json.RawMessage `json:"rows,omitempty"`
	Reason nacre.ReasonCode  `json:"reason,omitempty"`
	Why    string            `json:"why,omitempty"`
}

// done does one job to its end: a signal does not cut it off.
func done(s *shop.Shop, line []byte) result {
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return result{Why: fmt.Sprintf("the line is no job: %v", err)}
	}
	token, err := grant.Parse(j.Token)
	if err != nil {
		return result{Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	frame, err := s.Invoke(ctx, token, shop.Agent(j.Session), kernel.Input{Arguments: j.Arguments, Caller: j.Holder, Mode: nacre.ModeTable})
	switch {
	case errors.Is(err, nacre.ErrTokenRevoked), errors.Is(err, nacre.ErrTokenExpired):
		return result{Reason: nacre.ReasonTokenRefused, Why: "the grant is over: " + err.Error()}
	case err != nil:
		var refusal *nacre.Refusal
		if errors.As(err, &refusal) {
			return result{Reason: refusal.Reason, Why: refusal.Message}
		}
		return result{Why: err.Error()}
	}
	return result{Facts: frame.Facts, Rows: frame.Rows}
}
