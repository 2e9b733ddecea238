// Package command holds what all commands of nacre share. It has one start of the program with its
// streams and environment, and the exit codes that scripts rely on. It says how an error is told and
// which code it ends with, and how arguments are read. The commands themselves are in the rooms beside
// this one, and the table of them is in cmd/nacre.
//
// It knows no part of an installation that runs anything: rooms that need one
// are handed the function that opens it.
package command

import (
	"io"
	"os"
	"os/user"
	"sync/atomic"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// Env is one start of nacre: what every command works with.
type Env struct {
	Stdin          *os.File
	Stdout, Stderr *os.File
	Getenv         func(string) string
	Version        string
	// Interrupted tells whether somebody asked this process to end.
	Interrupted func() bool
	// Classify gives the exit code of an error that this room does not know, and
	// false for one that nobody knows. It may be nil.
	Classify func(error) (code int, known bool)
	// JSON is whether --json was given. It is set once the command line is read.
	JSON bool

	// Unwritten keeps why standard output did not take all that was written there for people, as where
	// it is a file on a full disk. Nil keeps nothing.
	Unwritten *atomic.Pointer[error]

	ending *terminal.Ending // nil bounds nothing
}

// ToldToEnd says what is closed when this process is told to end: from then on, a terminal that
// takes no output holds it up for some seconds, and no longer.
func (e *Env) ToldToEnd(told <-chan struct{}) { e.ending = terminal.NewEnding(told) }

// Printer writes for people, to stream.
func (e *Env) Printer(stream *os.File) *terminal.Printer {
	return terminal.New(e.Out(stream), e.Style(stream))
}

// Style is what stream can show.
func (e *Env) Style(stream *os.File) terminal.Style {
	style := terminal.Detect(terminal.Is(stream), e.Getenv)
	if terminal.Is(stream) {
		style.Columns = terminal.Columns(stream)
	}
	return style
}

// Words is stream, for sentences that no printer writes.
func (e *Env) Words(stream *os.File) io.Writer {
	return terminal.Writer(e.Out(stream), terminal.Detect(terminal.Is(stream), e.Getenv))
}

// Out is stream as it is written to; see [Env.ToldToEnd].
func (e *Env) Out(stream *os.File) io.Writer {
	switch {
	case terminal.Is(stream):
		return e.ending.Writer(stream)
	case stream == e.Stdout && e.Unwritten != nil:
		return kept{stream, e.Unwritten}
	}
	return stream
}

// kept keeps the first error of a stream.
type kept struct {
	io.Writer
	first *atomic.Pointer[error]
}

// Write implements [io.Writer].
func (k kept) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if err != nil {
		k.first.CompareAndSwap(nil, &err)
	}
	return n, err
}

// PrintJSON writes one object or array on a line of its own, to standard output.
func (e *Env) PrintJSON(v any) error { return terminal.JSON(e.Stdout, v) }

// Operator is who gives the command: the operating system's word, not the environment's.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "operator"
}
