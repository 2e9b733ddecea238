package terminal

import (
	"io"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// maxSequence is the longest control sequence that is kept to be judged, in bytes. What
// is longer does not pass.
const maxSequence = 4096

// Filter passes what a sealed command prints on to a terminal: text, and the control sequences of a
// list. These are colours, cursor, screen, scrolling, modes such as the mouse's and bracketed
// paste, titles and links. Writes to the clipboard, what makes the terminal type an answer, and
// what is not on the list do not pass (F-11, U-14). At the end it takes back what was left switched
// on: text that hides what is printed next, a mouse that types.
func Filter(from io.Reader) io.Reader { return Together(false)(from) }

// Dialog is Filter for a program that draws on a terminal of its own and reads it until its end.
// What asks the terminal where its cursor is, what it can do and which colours it has passes as
// well. The answers are numbers, and no word of them is the program's.
func Dialog(from io.Reader) io.Reader { return Together(true)(from) }

// Together is [Filter], or [Dialog] where asks is set, for all streams of one command: what one of them
// sets on the terminal, another may save and bring back.
func Together(asks bool) func(io.Reader) io.Reader {
	origin := &atomic.Bool{}
	return func(from io.Reader) io.Reader {
		return &filter{from: from, asks: asks, left: leftover{origin: origin}}
	}
}

type filter struct {
	from    io.Reader
	asks    bool   // the terminal may be asked
	ready   []byte // passes, and was not read yet
	err     error  // comes after it
	held    []byte // of a sequence that has begun
	tooLong bool   // held was cut
	char    []byte // of a character in UTF-8 that has begun
	left    leftover
}

const (
	enquiry, shiftOut, cancel, substitute, escape, bell = 0x05, 0x0e, 0x18, 0x1a, 0x1b, 0x07
)

// Read gives no part of a sequence where p has room for all of it: what another
// stream prints on the same terminal does not come in between.
func (f *filter) Read(p []byte) (int, error) {
	for len(f.ready) == 0 && f.err == nil && len(p) > 0 {
		var n int
		raw := make([]byte, max(1, len(p)-len(f.held)-len(f.char)))
		n, f.err = f.from.Read(raw)
		f.ready = make([]byte, 0, len(f.held)+len(f.char)+n)
		for _, b := range raw[:n] {
			f.ready = f.take(f.ready, b)
		}
		if f.err != nil {
			f.ready = append(f.ready, f.left.undone()...)
		}
	}
	n := copy(p, f.ready)
	if f.ready = f.ready[n:]; len(f.ready) > 0 {
		return n, nil
	}
	return n, f.err
}

// take adds a byte to what is held or to out.
func (f *filter) take(out []byte, b byte) []byte {
	if len(f.held) == 0 {
		return f.plain(out, b)
	}
	if b == cancel || b == substitute {
		f.drop()
		return out
	}
	if !f.isString() && !f.belongs(b) {
		f.drop() // a terminal would obey the byte at once, in the midst of the sequence
		return f.plain(out, b)
	}
	if len(f.held) < maxSequence {
		f.held = append(f.held, b)
	} else {
		f.tooLong = true
		f.held = append(f.held[:maxSequence-2], f.held[maxSequence-1], b) // its end is seen
	}
	if !f.ended() {
		return out
	}
	if !f.tooLong && passes(string(f.held), f.asks) {
		out = append(out, f.held...)
		f.left.note(string(f.held))
	}
	f.drop()
	return out
}

func (f *filter) drop() { f.held, f.tooLong = f.held[:0], false }

// plain is a byte outside of sequences. Only whole characters pass, in their one form in
// UTF-8: others are read as a control by some terminals. Controls of eight bits do not.
func (f *filter) plain(out []byte, b byte) []byte {
	if len(f.char) > 0 && b&0xc0 != 0x80 {
		f.char = f.char[:0]
	}
	switch {
	case b == escape:
		f.held = append(f.held, b)
		return out
	case b == enquiry:
		return out
	case b < utf8.RuneSelf:
		if b == shiftOut {
			f.left.charset = true
		}
		return append(out, b)
	}
	f.char = append(f.char, b)
	if !utf8.FullRune(f.char) {
		return out
	}
	if r, size := utf8.DecodeRune(f.char); size == len(f.char) && size > 1 && !unicode.IsControl(r) {
		out = append(out, f.char...)
	}
	f.char = f.char[:0]
	return out
}

// isString tells the sequences that have a text and end with ST or a bell.
func (f *filter) isString() bool {
	if len(f.held) < 2 {
		return false
	}
	switch f.held[1] {
	case ']', 'P', '_', '^', 'X', 'k':
		return true
	}
	return false
}

// belongs tells the bytes that a sequence without a text may go on with.
func (f *filter) belongs(b byte) bool { return b >= 0x20 && b < 0x7f }

func (f *filter) ended() bool {
	last := f.held[len(f.held)-1]
	switch {
	case len(f.held) < 2:
		return false
	case f.isString():
		return last == bell && f.held[1] == ']' || last == '\\' && f.held[len(f.held)-2] == escape && len(f.held) > 3
	case f.held[1] == '[':
		return len(f.held) > 2 && last >= 0x40
	}
	return last > 0x2f // after what stands between
}
