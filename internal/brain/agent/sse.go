//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits of a stream.
const (
	maxEvent  = 16 << 20
	maxAnswer = 64 << 20
)

var (
	errEvent  = fmt.Errorf("an event of more than %d MiB", maxEvent>>20)
	errAnswer = fmt.Errorf("an answer of more than %d MiB", maxAnswer>>20)
)

// events reads server-sent events and gives the data of each to hear, which
// ends the reading by an error. The end of r is no error here: whether the
// answer is whole is the dialect's to say.
func events(r io.Reader, hear func(data []byte) error) error {
	lines := &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	var data []byte
	some := false
	for {
		line, err := lines.next(len(data))
		if errors.Is(err, io.EOF) {
			return nil // an event without its blank line is not one
		}
		if err != nil {
			return err
		}
		if value, is := bytes.CutPrefix(line, []byte("data:")); is {
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		} else if len(line) == 0 && some {
			if err := hear(data); err != nil {
				return err
			}
			data, some = data[:0], false
		}
	}
}

// lineReader reads lines that end with LF, CR or both, after a byte order mark.
type lineReader struct {
	r    *bufio.Reader
	line []byte
	read int
	// cr says that an LF which comes next belongs to the line before.
	cr, begun bool
}

// next gives a line until the next call; held is what is kept of the event that
// it is of.
func (l *lineReader) next(held int) ([]byte, error) {
	for l.line = l.line[:0]; ; {
		if _, err := l.r.Peek(1); err != nil {
			return nil, err
		}
		part, _ := l.r.Peek(l.r.Buffered()) // as much as there is
		after := l.cr && part[0] == '\n'
		if l.cr = false; after {
			_, _ = l.r.Discard(1) // it was peeked at
			continue
		}
		size, end := len(part), bytes.IndexAny(part, "\r\n")
		if end >= 0 {
			l.cr, part, size = part[end] == '\r', part[:end], end+1
		}
		l.line = append(l.line, part...)
		_, _ = l.r.Discard(size)
		switch l.read += size; {
		case l.read > maxAnswer:
			return nil, errAnswer
		case len(l.line)+held > maxEvent:
			return nil, errEvent
		case end >= 0:
			if !l.begun {
				l.begun, l.line = true, bytes.TrimPrefix(l.line, []byte("\ufeff"))
			}
			return l.line, nil
		}
	}
}
