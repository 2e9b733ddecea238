package command

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// maxAnswer is the longest line that is read as an answer, in bytes.
const maxAnswer = 256

// CanAsk reports whether there is a person at a terminal to be asked.
func (e *Env) CanAsk() bool { return terminal.Is(e.Stdin) }

// Typed is what the person types, or what else standard input brings.
func (e *Env) Typed() io.Reader { return sandbox.Typed{In: e.Stdin} }

// Agrees asks the person at the terminal, on to, a question that ends with [y/N], and
// waits for their line. Where standard input is no terminal nobody is asked, and nobody
// agrees; the error says why no answer came.
func (e *Env) Agrees(ctx context.Context, to *os.File, question string) (bool, error) {
	if !e.CanAsk() {
		return false, nil
	}
	_, _ = io.WriteString(e.Words(to), question) // a terminal that is gone answers nothing
	answer := make(chan string, 1)
	go func() { answer <- readLine(e.Typed()) }() // it ends with its line, or with the program
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	}
}

// readLine reads one line and nothing behind it: what is typed next is for questions.
func readLine(from io.Reader) string {
	var line []byte
	for one := make([]byte, 1); len(line) < maxAnswer; {
		if n, err := from.Read(one); n == 0 || err != nil || one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	return string(line)
}
