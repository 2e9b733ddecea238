package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// The limits of what a Reader takes from a peer beyond one message's bytes.
const (
	// MaxParts is how many frames of a message are kept.
	MaxParts = 8
	// MaxSkip is how many bytes, and maxSkipParts how many frames, of a message
	// that is over its limits are read past before the connection is given up.
	MaxSkip      = 64 << 20
	maxSkipParts = 1 << 10
	// readBuffer is a Reader's own memory, in bytes.
	readBuffer = 16 << 10
	// firstPiece is how much memory a frame gets on its peer's word alone, in
	// bytes; from there it doubles as the bytes arrive.
	firstPiece = 64 << 10
)

// ErrTooLarge is returned by Next in place of a message that was over the
// limits and was read past. The connection can go on.
var ErrTooLarge = errors.New("message over its limits")

// Item is what Next returns: a message of one or more parts, or a command.
type Item struct {
	// Parts are the caller's to keep, but for the slice that holds them, which
	// the next call of Wait or Next uses again.
	Parts [][]byte
	// Command is empty for a message.
	Command string
	Body    []byte
}

// Reader takes a peer's side of a connection apart. It is not safe for
// concurrent use.
type Reader struct {
	r *bufio.Reader
	// limit is the largest message, in bytes of all parts together.
	limit uint64
	parts [MaxParts][]byte
	peer  Version
}

// NewReader returns a Reader of messages of up to limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, readBuffer), limit: uint64(max(limit, 0))}
}

// Greeting reads the peer's greeting and refuses it at the first byte that
// cannot belong to one.
func (r *Reader) Greeting() error {
	for _, n := range [...]int{1, signatureSize, majorAt + 1, GreetingSize} {
		g, err := r.r.Peek(n)
		if refused := checkGreeting(g); refused != nil {
			return refused
		}
		if err != nil {
			return unexpected(err, n)
		}
		if n == GreetingSize {
			r.peer = Version{Major: g[majorAt], Minor: g[majorAt+1]}
		}
	}
	_, err := r.r.Discard(GreetingSize)
	return err
}

// unexpected turns an end of the stream inside something into an error that says so.
func unexpected(err error, inside int) error {
	if inside > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Wait returns when the first byte of the next item is here, or with io.EOF
// where the peer ended the connection between items.
func (r *Reader) Wait() error {
	clear(r.parts[:]) // a peer that is idle keeps no message in memory
	_, err := r.r.Peek(1)
	return err
}

// Next reads one message or command. Its errors are ErrTooLarge, after which
// it may be called again, those of ErrProtocol, and those of the reader
// beneath, io.ErrUnexpectedEOF for an end inside an item. With ErrTooLarge come
// the parts that were within the limits, so that an answer can be framed alike.
func (r *Reader) Next() (Item, error) {
	message := Item{Parts: r.parts[:0]}
	var size uint64
	for {
		flags, n, err := r.head()
		if err != nil {
			return Item{}, unexpected(err, len(message.Parts))
		}
		if flags&flagCommand != 0 {
			if len(message.Parts) > 0 {
				return Item{}, broken("a command inside a message")
			}
			return r.command(n)
		}
		if n > r.limit-size || len(message.Parts) == MaxParts {
			return message, r.skip(flags, n)
		}
		size += n
		part, err := r.read(n)
		if err != nil {
			return Item{}, err
		}
		message.Parts = append(message.Parts, part)
		if flags&flagMore == 0 {
			return message, nil
		}
	}
}

// Whole reports whether the next item is in memory already, so that Next will
// not wait for its peer. It may say no where the item is.
func (r *Reader) Whole() bool {
	b, _ := r.r.Peek(r.r.Buffered()) // what is there can be looked at
	for len(b) > 0 {
		size, flags := headSize(b[0]), b[0]
		if len(b) < size {
			return false
		}
		n := bodySize(b[:size])
		if n > uint64(len(b)-size) {
			return false
		}
		if b = b[size+int(n):]; flags&flagMore == 0 {
			return true
		}
	}
	return false
}

// headSize is how many bytes stand before the body of a frame with these flags.
func headSize(flags byte) int {
	if flags&flagLong != 0 {
		return 1 + 8
	}
	return 1 + 1
}

func bodySize(head []byte) uint64 {
	if len(head) == 1+1 {
		return uint64(head[1])
	}
	return binary.BigEndian.Uint64(head[1:])
}

// head reads a frame's flags and the size of its body.
func (r *Reader) head() (flags byte, size uint64, err error) {
	head, err := r.r.Peek(headSize(0))
	if err != nil {
		return 0, 0, unexpected(err, len(head))
	}
	flags = head[0]
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return 0, 0, broken("frame flags %#02x", flags)
	}
	if head, err = r.r.Peek(headSize(flags)); err != nil {
		return 0, 0, unexpected(err, len(head))
	}
	if size = bodySize(head); size > 1<<63-1 {
		return 0, 0, broken("a frame of %d bytes", size)
	}
	_, err = r.r.Discard(len(head))
	return flags, size, err
}

func (r *Reader) command(size uint64) (Item, error) {
	if size == 0 || size > maxCommand {
		return Item{}, broken("a command of %d bytes", size)
	}
	frame, err := r.read(size)
	if err != nil {
		return Item{}, err
	}
	name, body, ok := cut(frame[1:], uint64(frame[0]))
	if !ok || len(name) == 0 {
		return Item{}, broken("malformed command")
	}
	return Item{Command: string(name), Body: body}, nil
}

// read returns the next n bytes, which the caller has limited.
func (r *Reader) read(n uint64) ([]byte, error) {
	b := make([]byte, min(n, firstPiece))
	for at := uint64(0); ; {
		if _, err := io.ReadFull(r.r, b[at:]); err != nil {
			return nil, unexpected(err, len(b))
		}
		if at = uint64(len(b)); at == n {
			return b, nil
		}
		grown := make([]byte, min(n, 2*at))
		copy(grown, b)
		b = grown
	}
}

// skip reads past the rest of a message, whose current frame has n bytes left.
func (r *Reader) skip(flags byte, n uint64) error {
	left := uint64(MaxSkip)
	for range maxSkipParts {
		if n > left {
			return broken("a message over %d bytes", MaxSkip)
		}
		left -= n
		if _, err := r.r.Discard(int(n)); err != nil {
			return unexpected(err, 1)
		}
		if flags&flagMore == 0 {
			return ErrTooLarge
		}
		var err error
		if flags, n, err = r.head(); err != nil {
			return unexpected(err, 1)
		}
		if flags&flagCommand != 0 {
			return broken("a command inside a message")
		}
	}
	return broken("a message of over %d frames", maxSkipParts)
}
