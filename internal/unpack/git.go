package unpack

import (
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
)

const (
	// packHeader is the size of what stands before a pack's objects.
	packHeader = 12
	// maxVarint is how many bytes a size or an offset in a pack has at most.
	maxVarint = 10
	// hashSize is the size of the name of what a delta is of, in SHA-1.
	hashSize = 20
	// zlibSum is the size of what stands behind a zlib text.
	zlibSum = 4
)

// The kinds of objects in a pack (gitformat-pack). A delta says what it adds as it is.
const (
	packCommit, packTag         = 1, 4
	packDeltaAt, packDeltaNamed = 6, 7
)

// noPack looks at the version, where it came already.
func noPack(head []byte) bool {
	const versionAt = 4
	if len(head) < versionAt+4 {
		return false
	}
	version := binary.BigEndian.Uint32(head[versionAt:])
	return version != 2 && version != 3
}

// openPack reads the objects of a pack, one after the other.
func openPack(r flate.Reader, all *spent) (io.Reader, error) {
	var head [packHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if noPack(head[:]) {
		return nil, errors.New("no pack")
	}
	return &pack{r: r, all: all, left: binary.BigEndian.Uint32(head[8:])}, nil
}

// pack is what is left of one.
type pack struct {
	r    flate.Reader
	all  *spent
	left uint32
	// text is of the object that is open, or nil.
	text io.Reader
}

// Read implements io.Reader.
func (p *pack) Read(b []byte) (int, error) {
	for {
		if p.text == nil {
			if err := p.next(); err != nil {
				return 0, err
			}
		}
		n, err := p.text.Read(b)
		if errors.Is(err, io.EOF) {
			p.all.leaveInflater(p.text)
			p.text = nil
			_, err = io.CopyN(io.Discard, p.r, zlibSum)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens an object, behind its kind, size and what it is a delta of.
func (p *pack) next() error {
	if p.left == 0 {
		return io.EOF
	}
	p.left--
	first, err := p.varint()
	if err != nil {
		return err
	}
	switch kind := first >> 4 & 7; {
	case kind == packDeltaAt:
		_, err = p.varint()
	case kind == packDeltaNamed:
		_, err = io.CopyN(io.Discard, p.r, hashSize)
	case kind < packCommit || kind > packTag:
		err = errors.New("no object")
	}
	if err != nil {
		return err
	}
	var head [2]byte
	if _, err = io.ReadFull(p.r, head[:]); err != nil {
		return err
	}
	if !isZlib(head[:]) {
		return errors.New("no zlib")
	}
	p.text, err = openDeflate(p.r, p.all)
	return err
}

// varint passes over a number, and gives its first byte.
func (p *pack) varint() (first byte, err error) {
	for i := range maxVarint {
		c, err := p.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = c
		}
		if c&0x80 == 0 {
			return first, nil
		}
	}
	return 0, errors.New("a number too long")
}
