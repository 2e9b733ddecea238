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
	lines := bufio.NewReaderSize(r, 64<<10)
	var line, data []byte
	some, read := false, 0
	for {
		part, err := lines.ReadSlice('\n')
		read += len(part)
		switch {
		case read > maxAnswer:
			return errAnswer
		case len(line)+len(part)+len(data) > maxEvent:
			return errEvent
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil // an event without its blank line is not one
		case err != nil:
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
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
		line = line[:0]
	}
}
