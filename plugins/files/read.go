package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"unicode/utf8"
)

// Limits of reading.
const (
	maxWindow  = 72 << 10 // bytes of one answer: a string on the wire has at most 100 KiB, in base64 too
	maxHashed  = 64 << 20 // bytes of a file whose digest is told
	maxScanned = 64 << 20 // bytes that are read to find a line
	sniffed    = 8 << 10  // bytes at the front that tell text from the rest
)

type readArgs struct {
	Path   string `json:"path"`
	Line   int64  `json:"line"`   // first line, from 1
	Lines  int64  `json:"lines"`  // how many
	Offset int64  `json:"offset"` // first byte, from 0
	Bytes  int64  `json:"bytes"`  // how many
	As     string `json:"as"`     // text or base64
}

// content is what files_read tells.
type content struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"` // of the whole file
	SHA256 string `json:"sha256,omitempty"`
	Binary bool   `json:"binary"`
	// Content is absent where a binary file was asked for as text.
	Content string `json:"content,omitempty"`
	Base64  string `json:"content_base64,omitempty"`
	Line    int64  `json:"line,omitempty"`
	Offset  int64  `json:"offset"`
	// NextLine or NextOffset is where to read on; absent at the end.
	NextLine   int64  `json:"next_line,omitempty"`
	NextOffset int64  `json:"next_offset,omitempty"`
	Hint       string `json:"hint,omitempty"`
}

func read(ctx context.Context, root *os.Root, args readArgs) (any, error) {
	name, err := parsePath(args.Path)
	if err != nil {
		return nil, err
	}
	byLine := args.Line > 0 || args.Lines > 0
	if byLine && (args.Offset > 0 || args.Bytes > 0 || args.As == "base64") {
		return nil, refuse("RANGE", "Give lines or bytes, not both; base64 goes by bytes")
	}
	f, info, err := openAt(root, name)
	if err != nil {
		return nil, err
	}
	c := content{Path: name, Bytes: info.Size()}
	err = c.fill(ctx, f, args, byLine)
	return c, errors.Join(err, f.Close())
}

func (c *content) fill(ctx context.Context, f *os.File, args readArgs, byLine bool) error {
	var err error
	if c.Bytes <= maxHashed {
		if c.SHA256, err = digest(ctx, f); err != nil {
			return err
		}
	}
	front := make([]byte, sniffed)
	n, err := f.ReadAt(front, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c.Binary = isBinary(front[:n])
	if c.Binary && args.As != "base64" {
		c.Hint = `not text: read it with "as": "base64"`
		return nil
	}
	if byLine {
		return c.lines(ctx, f, max(args.Line, 1), args.Lines)
	}
	return c.window(f, args)
}

// window reads bytes; text ends at the end of a character.
func (c *content) window(f io.ReaderAt, args readArgs) error {
	want := args.Bytes
	if want == 0 || want > maxWindow {
		want = maxWindow
	}
	data := make([]byte, want)
	n, err := f.ReadAt(data, args.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	data = data[:n]
	c.Offset = args.Offset
	if args.As == "base64" {
		c.Base64 = base64.StdEncoding.EncodeToString(data)
	} else {
		data = wholeRunes(data, err == nil)
		c.say(data)
	}
	if end := args.Offset + int64(len(data)); end < c.Bytes && len(data) > 0 {
		c.NextOffset = end
	}
	return nil
}

// say sets the text, or says that it is none.
func (c *content) say(data []byte) {
	if !utf8.Valid(data) {
		c.Binary, c.Hint = true, `not UTF-8 from here: read it with "as": "base64"`
		return
	}
	c.Content = string(data)
}

// wholeRunes leaves out the beginning of a character that is cut off.
func wholeRunes(data []byte, cut bool) []byte {
	for back := 1; cut && back < utf8.UTFMax && back < len(data); back++ {
		if tail := data[len(data)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-back]
			}
			break
		}
	}
	return data
}

// lines reads whole lines; one that is longer than an answer is read by bytes.
func (c *content) lines(ctx context.Context, f *os.File, first, count int64) error {
	in := bufio.NewReaderSize(io.LimitReader(io.NewSectionReader(f, 0, maxScanned), maxScanned), 64<<10)
	var text []byte
	offset, line := int64(0), int64(1)
	for ; ; line++ {
		if line%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		keep := line >= first && (count == 0 || line < first+count)
		piece, size, err := nextLine(in, keep)
		if size == 0 && err != nil {
			break
		}
		if line == first {
			c.Line, c.Offset = line, offset
		}
		if line >= first && (!keep || size > int64(maxWindow-len(text))) {
			c.NextLine, c.NextOffset = line, offset
			break
		}
		text, offset = append(text, piece...), offset+size
	}
	if c.Line == 0 && c.Bytes > 0 {
		return refuse("RANGE", "There is no line %d: the file has %d, as far as was looked", first, line-1)
	}
	if len(text) == 0 && c.NextLine > 0 {
		return refuse("LONG_LINE", "Line %d is longer than %d bytes: read on by \"offset\": %d", c.NextLine, maxWindow, c.NextOffset)
	}
	c.say(text)
	return nil
}

// nextLine reads one line with its end, of which at most an answer is kept.
func nextLine(in *bufio.Reader, keep bool) (line []byte, size int64, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		size += int64(len(piece))
		if keep && size <= maxWindow {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

func isBinary(front []byte) bool {
	return bytes.IndexByte(front, 0) >= 0 || !utf8.Valid(wholeRunes(front, len(front) == sniffed))
}

// digest is the SHA-256 of a file, in lower-case hex.
func digest(ctx context.Context, f *os.File) (string, error) {
	sum := sha256.New()
	in := io.NewSectionReader(f, 0, maxHashed+1)
	for {
		n, err := io.CopyN(sum, in, 1<<20)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil || n == 0 {
			return "", err
		}
	}
}
