package brain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line a brain may write, in bytes.
const MaxLine = 64 << 20

// errLineTooLong is a line over MaxLine: a broken or hostile brain.
var errLineTooLong = fmt.Errorf("a line is longer than %d MiB", MaxLine>>20)

// lineReader reads lines without ever holding more than one of MaxLine bytes.
type lineReader struct {
	r *bufio.Reader
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, 64<<10)}
}

// next returns a line without its end, owned by the caller. A last line
// without an end is a line: a cut stream is the protocol's business.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine+1 {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > 0 && len(line) <= MaxLine:
			return line, nil
		case len(line) > MaxLine:
			return nil, errLineTooLong
		default:
			return nil, err
		}
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// ear passes on the lines of a brain's complaints, each cut to maxGarbled bytes,
// until nobody listens.
type ear struct {
	lines chan string
	stop  chan struct{}
	line  []byte
}

func (e *ear) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		whole := part[len(part)-1] == '\n'
		e.line = append(e.line, part[:min(len(part), maxGarbled-len(e.line))]...)
		if !whole {
			continue
		}
		select {
		case e.lines <- string(e.line):
		case <-e.stop:
		}
		e.line = e.line[:0]
	}
	return len(p), nil
}
