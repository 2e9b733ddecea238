package redact

import (
	"fmt"
	"io"
	"strings"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

// The limits of a Writer's memory, in bytes.
const (
	// MaxHeld is how much is held back for a line or a private key to end.
	MaxHeld = 64 << 10
	// Overlap is how much of a line that is longer is looked at again with what follows.
	Overlap = encoded.Overlap
	// maxSticky is how many lines that are joined with the next are held back.
	maxSticky = 64
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
	// wait is how much must be held before it is looked at again: where nothing
	// could be passed on, more must come first.
	wait  int
	found int
	err   error
	// table is the one whose rows go on in what is held.
	table *table
}

// Writer returns a Writer that passes redacted text on to w.
func (*Engine) Writer(w io.Writer) *Writer { return &Writer{engine: shared(), to: w, open: -1} }

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
// that goes on, the last of which is not joined with the next.
func (w *Writer) settled() int {
	if len(w.held) > MaxHeld {
		return w.forced()
	}
	if len(w.held) < w.wait {
		return 0
	}
	end := w.closed()
	for range maxSticky {
		line := strings.LastIndexByte(view(w.held[:max(0, end-1)]), '\n') + 1
		if end == 0 || !w.engine.goesOn(view(w.held[line:end])) {
			break
		}
		end = line
	}
	return end
}

// closed is where the last whole line ends, or the one before a private key:
// what stands on its line may be the name of something.
func (w *Writer) closed() int {
	if w.open < 0 || w.open >= w.lines {
		return w.lines
	}
	return lineOf(w.held, w.open)
}

// lineOf is where the line that holds i begins.
func lineOf(text []byte, i int) int { return strings.LastIndexByte(view(text[:i]), '\n') + 1 }

// forced is up to where is passed on what has no end.
func (w *Writer) forced() int {
	end := w.closed()
	if end == 0 {
		end = len(w.held) - Overlap
	}
	return end
}

// pass writes what is held up to end, but no half of a secret.
func (w *Writer) pass(end int, all bool) {
	if w.err != nil || end == 0 {
		return
	}
	found, open, tables := w.engine.findOpen(view(w.held), w.table)
	if !all {
		if len(w.held) <= MaxHeld {
			end = min(end, lineOf(w.held, open))
		}
		end = w.uncut(found, end)
		w.wait = 0
		if end == 0 {
			w.wait = len(w.held) + len(w.held)/4
			return
		}
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
	w.table = tableAt(tables, max(at, end), len(w.held))
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

// uncut moves an end out of the secret that it would cut in two: before its
// line, for a secret is known by its name, or behind it.
func (w *Writer) uncut(found []span, end int) int {
	for _, f := range found {
		if f.start < end && f.end > end {
			if line := lineOf(w.held, f.start); line > 0 {
				return line
			}
			return f.end
		}
	}
	return end
}

// goesOn reports whether a line may hold a part of something that the next holds the rest of. That
// may be a literal that is joined, a line that is continued, the name of a value, or a block of
// base64.
func (e *Engine) goesOn(line string) bool {
	line = strings.TrimRight(line, " \t\r\n")
	if line == "" {
		return true
	}
	switch line[len(line)-1] {
	case '\\', '"', '\'', '`', '(', '>', '-':
		return true
	case '+', '.', '&', '|', '~':
		rest := strings.TrimRight(line, "+.&|~ \t")
		return rest == "" || strings.IndexByte("\"'`:", rest[len(rest)-1]) >= 0
	case '=':
		return len(line) > encoded.MinSoft
	}
	tail := len(line)
	for tail > 0 && encoded.IsSextet(line[tail-1]) && len(line)-tail < encoded.MinWrapped {
		tail--
	}
	return len(line)-tail >= encoded.MinWrapped || e.kindOf(strings.TrimRight(line[max(0, len(line)-2*maxName):], ",\"' ")) != notSecret
}

func (w *Writer) write(p []byte) {
	if w.err == nil && len(p) > 0 {
		_, w.err = w.to.Write(p)
	}
}
