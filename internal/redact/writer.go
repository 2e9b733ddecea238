package redact

import (
	"fmt"
	"io"
	"strings"
)

// The limits of a Writer's memory, in bytes.
const (
	// MaxHeld is how much is held back for a line or a private key to end.
	MaxHeld = 64 << 10
	// Overlap is how much of a line that is longer is looked at again with what follows.
	Overlap = 8 << 10
)

// Writer redacts a stream: logs, transcripts, the output of a program. It
// passes whole lines on and holds the last one back until it ends, so that no
// secret slips through in two halves. It must be closed to pass on the rest.
// One goroutine at a time may use it.
type Writer struct {
	engine *Engine
	to     io.Writer
	held   []byte
	// lines is where the last whole line in held ends, open where a private key
	// begins that has not ended, or -1.
	lines, open int
	found       int
	err         error
}

// Writer returns a Writer that passes redacted text on to w.
func (e *Engine) Writer(w io.Writer) *Writer { return &Writer{engine: e, to: w, open: -1} }

// Write takes all of p, or returns the error of the writer below.
func (w *Writer) Write(p []byte) (int, error) {
	taken := 0
	for taken < len(p) && w.err == nil {
		n := min(len(p)-taken, MaxHeld)
		before := len(w.held)
		w.held = append(w.held, p[taken:taken+n]...)
		taken += n
		w.look(before)
		w.pass(w.settled(), false)
	}
	if w.err != nil {
		return 0, fmt.Errorf("redacted stream: %w", w.err)
	}
	return taken, nil
}

// Close passes on what was held back. It does not close the writer below.
func (w *Writer) Close() error {
	w.pass(len(w.held), true)
	return w.err
}

// Found is how many secrets were replaced so far.
func (w *Writer) Found() int { return w.found }

// look notes the lines and keys in what was added, so that a stream of single
// bytes is not read anew for each.
func (w *Writer) look(before int) {
	from := max(0, before-2*maxLabel)
	fresh := view(w.held[from:])
	if at := strings.LastIndexByte(fresh, '\n'); at >= 0 {
		w.lines = from + at + 1
	}
	begin, end := strings.LastIndex(fresh, "-----BEGIN"), strings.LastIndex(fresh, "-----END")
	switch {
	case end > begin && strings.Contains(fresh[end+len("-----END"):], "-----"):
		w.open = -1
	case begin >= 0 && w.open < 0:
		w.open = from + begin
	}
}

// settled is up to where what is held is whole lines, outside of a private key
// that goes on.
func (w *Writer) settled() int {
	end := w.lines
	if w.open >= 0 {
		end = min(end, w.open)
	}
	if end == 0 && len(w.held) > MaxHeld {
		end = len(w.held) - Overlap
	}
	return end
}

// pass writes what is held up to end, but no half of a secret.
func (w *Writer) pass(end int, all bool) {
	if w.err != nil || end == 0 {
		return
	}
	found := w.engine.find(view(w.held))
	if !all {
		end = uncut(found, end)
	}
	at := 0
	for _, f := range found {
		if f.start >= end {
			break
		}
		w.write(w.held[at:f.start])
		w.write([]byte(Marker))
		w.found++
		at = f.end
	}
	w.write(w.held[at:max(at, end)])
	w.drop(max(at, end))
}

// drop forgets what was passed on.
func (w *Writer) drop(n int) {
	w.held = w.held[:copy(w.held, w.held[n:])]
	w.lines = max(0, w.lines-n)
	if w.open >= 0 {
		w.open = max(-1, w.open-n)
	}
}

// uncut moves an end out of the secret that it would cut in two.
func uncut(found []span, end int) int {
	for _, f := range found {
		if f.start < end && f.end > end {
			if f.start > 0 {
				return f.start
			}
			return f.end
		}
	}
	return end
}

func (w *Writer) write(p []byte) {
	if w.err == nil && len(p) > 0 {
		_, w.err = w.to.Write(p)
	}
}
