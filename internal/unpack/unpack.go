package unpack

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

const (
	// heldBack is how much of a compressed text is kept until what it unpacks to was seen, in
	// bytes. A decoder holds back 32 KiB of text. That takes no more unless whoever packed it wants
	// to hide it, and that is refused.
	heldBack = 64 << 10
	// HeldBody is how much of a body is: each text within another holds back its own.
	HeldBody = MaxNested * heldBack
	// maxPacked is how many compressed texts of one stream may be open at once,
	// and how many times each byte of it is unpacked at most.
	maxPacked = 8
	// maxOpen is how many texts of one body may be open at once, those within others among
	// them: each has a decoder.
	maxOpen = 2 * maxPacked
	// freeWork is how much may be unpacked of a small stream.
	freeWork = 1 << 20
	// beginWork is what it takes to begin one compressed text, in bytes that could
	// be unpacked instead: a body may be nothing but beginnings.
	beginWork = 128
	// MaxNested is how deep compressed texts are looked for in compressed ones.
	MaxNested = 2
	// maxExpansion is how many times its size a body may unpack to, with all texts
	// in it counted, once that is more than freeExpansion bytes.
	maxExpansion  = 200
	freeExpansion = 64 << 20
	// BufferSize is how much of a text is shown at once, in bytes.
	BufferSize = 32 << 10
)

// packing is a compressed text that may be anywhere in a body, and what it
// begins with.
type packing struct {
	magic string
	open  opener
	// none reports that what begins with the magic number, as far as it came, is
	// no such text; nil where only the decoder can tell.
	none func(text []byte) bool
}

// packings are gzip texts, the files of ZIP archives, and what git pushes.
func packings() []packing {
	return []packing{
		{magic: "\x1f\x8b\x08", open: openGzip}, {magic: "PK\x03\x04", open: openZip, none: notDeflated}, {magic: "PACK", open: openPack, none: noPack},
	}
}

// maxMagic is the longest magic number in bytes.
const maxMagic = 4

// Search looks at one stream, and at what compressed texts in it unpack to. Those are gzip, the
// files of ZIP archives and git's packs anywhere, and zlib and deflate where the stream begins.
// Others it does not know. It is used by one goroutine at a time.
type Search struct {
	// Inspect gives what sees one text, and what is called when that has ended.
	Inspect func() (look func([]byte) error, leave func())
	// Look sees the stream itself; nil where that is done elsewhere.
	Look func([]byte) error
	// Deflated says that the stream, or one within it, is said to be bare deflate,
	// which has no magic number.
	Deflated bool
	depth    int
	at       int64
	tail     []byte // what a magic number may have begun in
	open     []*unpacker
	// work counts the bytes that were unpacked. Whose turn it is counts.
	work int64
	// Refuse makes the error of a text that cannot be searched. Required.
	Refuse func(detail string) error
	// all is what the body and all texts within it took; of the root's making.
	all *spent
}

// spent is how many bytes a body had, and how many all texts in it unpacked to.
// It keeps what decoders leave for the next ones: of one body, no two run at a time.
type spent struct {
	in, out int64
	open    int // decoders
	gzips   []*gzip.Reader
	flates  []io.ReadCloser
	buffers [][]byte
}

// last takes what was left last; the zero value where nothing was.
func last[T any](left *[]T) (one T) {
	if n := len(*left); n > 0 {
		one, *left = (*left)[n-1], (*left)[:n-1]
	}
	return one
}

// leave keeps a decoder's reader and buffer. More than can be open at once are not.
func (a *spent) leave(r io.Reader, buf []byte) {
	if len(a.buffers) < maxPacked*MaxNested {
		a.buffers = append(a.buffers, buf)
	}
	switch r := r.(type) {
	case *gzip.Reader:
		if len(a.gzips) < maxPacked*MaxNested {
			a.gzips = append(a.gzips, r)
		}
	case *pack:
		a.leaveInflater(r.text)
	case flate.Resetter:
		a.leaveInflater(r.(io.Reader))
	}
}

// leaveInflater keeps one, if it is one.
func (a *spent) leaveInflater(r io.Reader) {
	_, resets := r.(flate.Resetter)
	if inflater, closes := r.(io.ReadCloser); resets && closes && len(a.flates) < maxPacked*MaxNested {
		a.flates = append(a.flates, inflater)
	}
}

func (a *spent) buffer() []byte {
	if buf := last(&a.buffers); buf != nil {
		return buf
	}
	return make([]byte, BufferSize)
}

// Next sees a piece. An error says that it must not leave.
func (s *Search) Next(piece []byte) error {
	if s.depth == 0 {
		if s.all == nil {
			s.all = &spent{}
		}
		s.all.in += int64(len(piece))
	}
	if s.Look != nil {
		if err := s.Look(piece); err != nil {
			return err
		}
	}
	if err := s.feed(piece); err != nil {
		return err
	}
	return s.find(piece)
}

// feed hands a piece to all that is being unpacked.
func (s *Search) feed(piece []byte) error {
	var first error
	var still []*unpacker
	for _, u := range s.open {
		if err := u.feed(piece); first == nil {
			first = err
		}
		if !u.ended() {
			still = append(still, u)
		}
	}
	s.open = still
	return first
}

// affordable refuses texts that lie within each other so as to be unpacked again
// and again.
func (s *Search) affordable() error {
	if len(s.open) >= maxPacked || s.all.open >= maxOpen || s.work > maxPacked*s.at+freeWork {
		return s.Refuse("too many compressed texts lie within each other")
	}
	return nil
}

// find begins to unpack what begins in a piece, or began at the end of the one before.
func (s *Search) find(piece []byte) error {
	if s.depth >= MaxNested {
		return nil
	}
	seen, began := len(s.tail), s.at-int64(len(s.tail))
	text := slices.Concat(s.tail, piece)
	s.at += int64(len(piece))
	s.tail = slices.Clone(text[max(0, len(text)-maxMagic+1):])
	if began == 0 && seen < 2 && len(text) >= 2 {
		for _, kind := range packedAs(text, s.Deflated) {
			if err := s.begin(kind, text); err != nil {
				return err
			}
		}
	}
	for _, p := range packings() {
		from := max(0, seen-len(p.magic)+1) // what ends before it was found in the piece before
		for i := bytes.Index(text[from:], []byte(p.magic)); i >= 0; i = bytes.Index(text[from:], []byte(p.magic)) {
			from += i
			if p.none == nil || !p.none(text[from:]) {
				if err := s.begin(p.open, text[from:]); err != nil {
					return err
				}
			}
			from += len(p.magic)
		}
	}
	return nil
}

// begin unpacks what begins with text.
func (s *Search) begin(open opener, text []byte) error {
	if err := s.affordable(); err != nil {
		return err
	}
	s.work += beginWork
	u := &unpacker{from: s}
	u.pieces, u.hungry, u.done = make(chan []byte), make(chan struct{}), make(chan struct{})
	s.all.open++
	go u.run(open)
	if err := u.feed(text); err != nil {
		return err
	}
	if !u.ended() {
		s.open = append(s.open, u)
	}
	return nil
}

// Unseen reports whether what a compressed text says may not have been seen yet.
func (s *Search) Unseen() bool { return len(s.open) > 0 }

// Finish sees the end of the stream.
func (s *Search) Finish() error {
	var first error
	for _, u := range s.open {
		if err := u.Finish(); first == nil {
			first = err
		}
	}
	s.open = nil
	return first
}

// opener makes the reader of a compressed text, which reads no byte too many.
type opener func(flate.Reader, *spent) (io.Reader, error)

// openGzip reads one text; another one behind it is found by its magic number.
func openGzip(r flate.Reader, all *spent) (io.Reader, error) {
	z := last(&all.gzips)
	if z == nil {
		z = new(gzip.Reader)
	}
	if err := z.Reset(r); err != nil {
		all.gzips = append(all.gzips, z)
		return nil, err
	}
	z.Multistream(false)
	return z, nil
}

// zipHeader is the size of what stands before a file's name in an archive, and
// where in it method and sizes are (APPNOTE, 4.3.7).
const (
	zipHeader, zipDeflated             = 30, 8
	zipMethodAt, zipNameAt, zipExtraAt = 8, 26, 28
)

// notDeflated looks at the method of a file of an archive, where it came already.
func notDeflated(head []byte) bool {
	return len(head) >= zipMethodAt+2 && binary.LittleEndian.Uint16(head[zipMethodAt:]) != zipDeflated
}

// openZip reads one file of an archive, as far as it is deflated: what is stored
// is seen as it is.
func openZip(r flate.Reader, all *spent) (io.Reader, error) {
	var head [zipHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if notDeflated(head[:]) {
		return nil, errors.New("not deflated")
	}
	names := int64(binary.LittleEndian.Uint16(head[zipNameAt:])) + int64(binary.LittleEndian.Uint16(head[zipExtraAt:]))
	if _, err := io.CopyN(io.Discard, r, names); err != nil {
		return nil, err
	}
	return openDeflate(r, all)
}

func openZlib(r flate.Reader, _ *spent) (io.Reader, error) {
	z, err := zlib.NewReader(r)
	return struct{ io.Reader }{z}, err // its Reset is no inflater's
}

func openDeflate(r flate.Reader, all *spent) (io.Reader, error) {
	inflater := last(&all.flates)
	if inflater == nil {
		return flate.NewReader(r), nil
	}
	return inflater, inflater.(flate.Resetter).Reset(r, nil)
}

// packedAs is what a stream may be that begins so, gzip aside: what begins as zlib
// does may be bare deflate all the same.
func packedAs(text []byte, deflated bool) (kinds []opener) {
	if isZlib(text) {
		kinds = append(kinds, openZlib)
	}
	if deflated {
		kinds = append(kinds, openDeflate)
	}
	return kinds
}

// isZlib reads the first two bytes (RFC 1950).
func isZlib(text []byte) bool {
	header := uint(text[0])<<8 | uint(text[1])
	return text[0]&0x0f == 8 && text[0] <= 0x78 && header%31 == 0 && header&0x20 == 0
}

// unpacker shows what a compressed text holds to a search, in step with what
// is fed to it: when feed returns, all that could be unpacked was seen.
type unpacker struct {
	from   *Search
	to     *Search // nil until the text has opened
	pieces chan []byte
	hungry chan struct{}
	done   chan struct{}
	err    error // of the search; set before done is closed
	// These are the decoder's.
	rest  []byte
	taken int64
	shown int64 // of taken, when text was last shown
	ran   bool  // it has been fed, and nobody was told that it has read it all
}

// feed hands a piece over, and waits until it was read. It is an error only
// where something was found.
func (u *unpacker) feed(piece []byte) error {
	select {
	case u.pieces <- piece:
	case <-u.done:
		return u.err
	}
	select {
	case <-u.hungry:
		return nil
	case <-u.done:
		return u.err
	}
}

// Finish says that no more comes, and waits for the decoder. It is called once.
func (u *unpacker) Finish() error {
	close(u.pieces)
	<-u.done
	return u.err
}

func (u *unpacker) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// Read gives the decoder what was fed.
func (u *unpacker) Read(p []byte) (int, error) {
	if err := u.await(); err != nil {
		return 0, err
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	u.from.work += int64(n)
	u.taken += int64(n)
	return n, nil
}

// ReadByte gives one byte, so that the decoder takes none beyond its text.
func (u *unpacker) ReadByte() (byte, error) {
	if err := u.await(); err != nil {
		return 0, err
	}
	c := u.rest[0]
	u.rest = u.rest[1:]
	u.from.work++
	u.taken++
	return c, nil
}

// await waits until there is something to read.
func (u *unpacker) await() error {
	for len(u.rest) == 0 {
		if u.taken-u.shown > heldBack { // else what it says would leave before it is seen
			u.err = u.from.Refuse("a compressed body says nothing for too long")
			return io.EOF
		}
		if u.ran {
			u.hungry <- struct{}{}
		}
		piece, more := <-u.pieces
		if u.ran = more; !more {
			return io.EOF
		}
		u.rest = piece
	}
	return nil
}

// run ends with the text, or where it is none.
func (u *unpacker) run(open opener) {
	defer close(u.done)
	all := u.from.all
	defer func() { all.open-- }()
	r, err := open(u, all)
	if err != nil {
		return
	}
	look, leave := u.from.Inspect()
	defer leave()
	u.to = &Search{
		Inspect: u.from.Inspect, Look: look, Deflated: u.from.Deflated, depth: u.from.depth + 1, all: all, Refuse: u.from.Refuse,
	}
	buf := all.buffer()
	defer func() { all.leave(r, buf) }()
	for err == nil && u.err == nil {
		var n int
		n, err = r.Read(buf)
		if all.out += int64(n); all.out > freeExpansion && all.out > all.in*maxExpansion {
			u.err = u.from.Refuse("a compressed body unpacks to more than can be searched")
			break
		}
		if n > 0 {
			u.shown = u.taken
			u.err = u.to.Next(buf[:n])
		}
	}
	if end := u.to.Finish(); u.err == nil {
		u.err = end
	}
}
