package egress

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	// maxChunkLine is the longest line of a chunk's size, in bytes.
	maxChunkLine = 18
	// maxChunkDigits bounds a chunk's size in hexadecimal digits.
	maxChunkDigits = 12
)

// chunkReader decodes a chunked body strictly: bare sizes, CRLF only, no
// extensions, no trailers. It never reads past the body's end.
type chunkReader struct {
	r    *bufio.Reader
	left int64
	// begun says that a chunk was read, so that its CRLF comes next.
	begun, ended bool
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
		if c.ended {
			return 0, io.EOF
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next reads the line before a chunk, and at the last chunk the empty line after it.
func (c *chunkReader) next() error {
	if c.begun {
		if line, err := c.line(); err != nil || line != "" {
			return badChunk(err)
		}
	}
	c.begun = true
	line, err := c.line()
	if err != nil {
		return badChunk(err)
	}
	if line == "" || len(line) > maxChunkDigits || strings.Trim(line, "0123456789abcdefABCDEF") != "" {
		return badChunk(nil)
	}
	c.left, _ = strconv.ParseInt(line, 16, 64) // hexadecimal digits only, and few
	if c.left > 0 {
		return nil
	}
	if line, err := c.line(); err != nil || line != "" {
		return badChunk(err)
	}
	c.ended = true
	return nil
}

func (c *chunkReader) line() (string, error) {
	limit := maxChunkLine
	return readLine(c.r, &limit)
}

// badChunk says why a line was not read; an end that comes too early is never taken for the body's.
func badChunk(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil && isTimeout(err):
		return err
	}
	return refusal(ReasonMalformed, "malformed chunk")
}
