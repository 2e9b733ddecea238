package gitwire

import (
	"bufio"
	"compress/zlib"
	"crypto/sha1" // #nosec G505 -- git's object ids
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxHistory is how much of a pack is read for its commits, and maxTexts what they may unpack to, in bytes.
	maxHistory = 4 << 20
	maxTexts   = 16 << 20
	// maxCommit is the longest commit that is read, in bytes, and maxCommits how many are.
	maxCommit  = 1 << 20
	maxCommits = 32 << 10
	// MaxMemory is what reading a push takes at most, in bytes: what was read, while it grows, the
	// texts of its commits, and what they are found by.
	MaxMemory = 2*(maxHistory+maxCommands) + maxTexts + 4*maxCommit + maxCommits*perCommit
	perCommit = 256
	// packHead is the size of what stands before a pack's objects.
	packHead = 12
	// maxDigits is how many bytes a number in a pack has at most.
	maxDigits = 9
)

// The kinds of objects in a pack (gitformat-pack).
const (
	kindCommit, kindTag = 1, 4
	kindDeltaAt         = 6
	kindDeltaOf         = 7
)

// Move is what a push does to a ref that is there already.
type Move struct{ Ref, Old, New string }

// Admit reads the commands of a push, and the commits that show what follows. It gives back what was read, also
// where it refuses.
func Admit(r io.Reader, scope Scope) (read []byte, err error) {
	read, moves, err := Commands(r, scope)
	if err != nil {
		return read, err
	}
	commits, err := Follow(r, moves)
	return append(read, commits...), err
}

// Follow reads the commits at the beginning of the pack of a push, and gives back what was read, also where it
// refuses. It refuses a push that moves a ref to a commit of which those commits do not show that it follows
// the ref's former one. Such a push is forced, or cannot be told from one that is.
func Follow(r io.Reader, moves []Move) (read []byte, err error) {
	if len(moves) == 0 {
		return nil, nil
	}
	h := history{in: bufio.NewReader(io.TeeReader(io.LimitReader(r, maxHistory), (*appended)(&read))), idSize: len(moves[0].New) / 2, at: map[int64]string{}, named: map[string]string{}}
	_ = h.read() // what cannot be read shows nothing
	for _, m := range moves {
		if !h.follows(m.New, m.Old) {
			return read, Refusal(fmt.Sprintf("the push of %s is forced, or cannot be told from one that is: its commits do not show that they follow %.12s", m.Ref, m.Old))
		}
	}
	return read, nil
}

// history is what a pack shows of commits: their texts, by where they are in the pack and by their ids.
type history struct {
	in     *bufio.Reader
	idSize int
	passed int64 // how many bytes of the pack were read
	texts  int   // how many bytes of text are kept
	at     map[int64]string
	named  map[string]string
	z      io.ReadCloser // unpacks one text after the other
}

var errNoHistory = errors.New("no commit, or one that is too large")

// ReadByte implements io.ByteReader, so that an object is unpacked to its end and no further.
func (h *history) ReadByte() (byte, error) {
	c, err := h.in.ReadByte()
	if err == nil {
		h.passed++
	}
	return c, err
}

// Read implements io.Reader.
func (h *history) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	h.passed += int64(n)
	return n, err
}

// read takes the commits of the pack, up to the first object that is none. git writes them first.
func (h *history) read() error {
	var head [packHead]byte
	if _, err := io.ReadFull(h, head[:]); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint32(head[4:]); string(head[:4]) != "PACK" || version != 2 && version != 3 {
		return errNoHistory
	}
	for range binary.BigEndian.Uint32(head[8:]) {
		if err := h.next(); err != nil {
			return err
		}
	}
	return nil
}

// next takes one object.
func (h *history) next() error {
	start := h.passed
	kind, size, err := h.header()
	if err != nil {
		return err
	}
	base := ""
	switch kind {
	case kindCommit, kindTag:
	case kindDeltaAt:
		var back int64
		back, err = h.offset()
		base = h.at[start-back]
	case kindDeltaOf:
		id := make([]byte, h.idSize)
		_, err = io.ReadFull(h, id)
		base = h.named[hex.EncodeToString(id)]
	default:
		return errNoHistory
	}
	if delta := kind == kindDeltaAt || kind == kindDeltaOf; err != nil || delta && base == "" {
		return errors.Join(err, errNoHistory)
	}
	text, err := h.unpacked(size)
	if err == nil && base != "" {
		text, err = patched(base, text)
	}
	if err != nil || kind == kindTag {
		return err
	}
	if h.texts += len(text); h.texts > maxTexts || len(h.named) == maxCommits {
		return errNoHistory
	}
	h.at[start], h.named[h.id(text)] = text, text
	return nil
}

// header reads the kind and the size of an object.
func (h *history) header() (kind byte, size int64, err error) {
	c, err := h.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	kind, size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = h.ReadByte(); err != nil || shift > 4+7*maxDigits/2 {
			return 0, 0, errors.Join(err, errNoHistory)
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// offset reads how far back the base of a delta is.
func (h *history) offset() (int64, error) {
	c, err := h.ReadByte()
	back := int64(c & 0x7f)
	for i := 0; err == nil && c&0x80 != 0; i++ {
		if i > maxDigits/2 {
			return 0, errNoHistory
		}
		c, err = h.ReadByte()
		back = (back+1)<<7 | int64(c&0x7f)
	}
	return back, err
}

// unpacked reads the text of an object, to its end.
func (h *history) unpacked(size int64) (string, error) {
	if size > maxCommit || h.texts+int(size) > maxTexts {
		return "", errNoHistory
	}
	if err := h.open(); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(h.z, size+1)) // reads the end, and so the sum
	if err == nil && int64(len(text)) != size {
		err = errNoHistory
	}
	return string(text), err
}

// open begins a text, with the same decoder as those before.
func (h *history) open() (err error) {
	if again, ok := h.z.(zlib.Resetter); ok {
		return again.Reset(h, nil)
	}
	h.z, err = zlib.NewReader(h)
	return err
}

// id is the name that git gives a commit.
func (h *history) id(text string) string {
	named := fmt.Sprintf("commit %d\x00%s", len(text), text)
	if h.idSize == sha256.Size {
		sum := sha256.Sum256([]byte(named))
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum([]byte(named)) // #nosec G401 -- git's object ids
	return hex.EncodeToString(sum[:])
}

// follows tells whether the commits that were read lead from one commit back to another.
func (h *history) follows(from, to string) bool {
	seen := map[string]bool{from: true}
	for open := []string{from}; len(open) > 0; {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		if id == to {
			return true
		}
		for _, parent := range parents(h.named[id]) {
			if !seen[parent] {
				seen[parent] = true
				open = append(open, parent)
			}
		}
	}
	return false
}

// parents are those that a commit names, as git reads them: behind its tree, and before all else.
func parents(commit string) (ids []string) {
	tree, rest, _ := strings.Cut(commit, "\n")
	if id, ok := strings.CutPrefix(tree, "tree "); !ok || !isID(id) {
		return nil
	}
	for {
		line, after, more := strings.Cut(rest, "\n")
		id, ok := strings.CutPrefix(line, "parent ")
		if !ok || !more || !isID(id) {
			return ids
		}
		ids, rest = append(ids, id), after
	}
}

// patched makes of a text what a delta says.
func patched(base, delta string) (string, error) {
	from, delta, ok := number(delta)
	size, delta, sized := number(delta)
	if !ok || !sized || from != len(base) || size > maxCommit {
		return "", errNoHistory
	}
	var made strings.Builder
	for delta != "" {
		op := delta[0]
		delta = delta[1:]
		piece := ""
		switch {
		case op == 0:
			return "", errNoHistory
		case op < 0x80 && int(op) <= len(delta):
			piece, delta = delta[:op], delta[op:]
		case op < 0x80:
			return "", errNoHistory
		default:
			if piece, delta, ok = copied(base, delta, op); !ok {
				return "", errNoHistory
			}
		}
		if made.WriteString(piece); made.Len() > size {
			return "", errNoHistory
		}
	}
	if made.Len() != size {
		return "", errNoHistory
	}
	return made.String(), nil
}

// copied is the piece of a base that an instruction of a delta names.
func copied(base, delta string, op byte) (piece, rest string, ok bool) {
	var digits [7]byte
	for i := range digits {
		if op&(1<<i) == 0 {
			continue
		}
		if delta == "" {
			return "", "", false
		}
		digits[i], delta = delta[0], delta[1:]
	}
	at := int64(digits[0]) | int64(digits[1])<<8 | int64(digits[2])<<16 | int64(digits[3])<<24
	size := int64(digits[4]) | int64(digits[5])<<8 | int64(digits[6])<<16
	if size == 0 {
		size = 0x10000
	}
	if at+size > int64(len(base)) {
		return "", "", false
	}
	return base[at : at+size], delta, true
}

// number reads a size at the beginning of a delta.
func number(s string) (n int, rest string, ok bool) {
	for i := 0; i < len(s) && i < maxDigits/2; i++ {
		n |= int(s[i]&0x7f) << (7 * i)
		if s[i]&0x80 == 0 {
			return n, s[i+1:], true
		}
	}
	return 0, "", false
}
