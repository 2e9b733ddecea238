package tripwire

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DecoyRandom is how many random bytes the decoys of one session are made of.
const DecoyRandom = 160

// Decoy is a credential that opens nothing. Nobody has a use for it but whoever
// looks for credentials.
type Decoy struct {
	// Name says where it lies inside, such as ~/.aws/credentials.
	Name string
	// Shown says that ordinary commands print it.
	Shown bool
	value string
}

// DecoyFile is a file that holds decoys.
type DecoyFile struct {
	// Path is below the agent's home.
	Path string
	Data []byte
}

// Decoys are those of one session, unlike any other's.
type Decoys struct {
	// Files lie in the agent's home, Env is added to its environment.
	Files []DecoyFile
	Env   []string

	needles []needle
	filter  filter
}

// needle is one form of a decoy's value.
type needle struct {
	decoy Decoy
	text  string // in lower case where fold is set
	fold  bool
}

// The alphabets of what looks like a credential.
const (
	upper32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	base62  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// NewDecoys makes the decoys of a session from DecoyRandom random bytes. They
// lie where no tool takes a credential from unless it is told to.
func NewDecoys(random []byte) (*Decoys, error) {
	if len(random) < DecoyRandom {
		return nil, fmt.Errorf("decoys want %d random bytes", DecoyRandom)
	}
	draw := func(n int, alphabet string) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = alphabet[int(random[i])%len(alphabet)]
		}
		random = random[n:]
		return string(text)
	}
	keyID, key := "AKIA"+draw(16, upper32), draw(40, base62)
	token, deploy := "ghp_"+draw(36, base62), "dpl_"+draw(32, base62)
	const aws, git, env = "~/.aws/credentials", "~/.git-credentials", "$DEPLOY_TOKEN"
	d := &Decoys{
		Files: []DecoyFile{
			{".aws/credentials", fmt.Appendf(nil, "[prod-admin]\naws_access_key_id = %s\naws_secret_access_key = %s\n", keyID, key)},
			{".git-credentials", fmt.Appendf(nil, "https://deploy:%s@git.corp.internal\n", token)},
		},
		Env: []string{"DEPLOY_TOKEN=" + deploy},
	}
	for _, decoy := range []Decoy{{aws, false, keyID}, {aws, false, key}, {git, false, token}, {env, true, deploy}} {
		d.needles = append(d.needles, forms(decoy)...)
	}
	for _, n := range d.needles {
		if len(n.text) < 2*block {
			return nil, errors.New("a decoy's form is too short to be told from chance")
		}
		d.filter.add(n.text)
	}
	return d, nil
}

// forms are the spellings in which a value is looked for. It is looked for as it is in any case,
// backwards, with its letters rotated, in hexadecimal, and as the codes of its characters. It is
// looked for, too, within what was encoded in base32 or base64, in that twice or in both.
func forms(d Decoy) []needle {
	low := strings.ToLower(d.value)
	backwards := []byte(low)
	slices.Reverse(backwards)
	list := []needle{
		{d, low, true}, {d, string(backwards), true}, {d, strings.Map(rotated, low), true}, {d, hex.EncodeToString([]byte(d.value)), true},
	}
	for shift := range 5 {
		for _, encoding := range []*base32.Encoding{base32.StdEncoding, base32.HexEncoding} {
			text := encoding.WithPadding(base32.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", shift) + d.value))
			list = append(list, needle{d, strings.ToLower(text[(shift*8+4)/5 : (shift+len(d.value))*8/5]), true})
		}
	}
	for shift := range 3 {
		standard := base64Core(base64.RawStdEncoding, d.value, shift)
		list = append(list, needle{d, standard, false}, needle{d, hex.EncodeToString([]byte(standard)), true})
		if urls := base64Core(base64.RawURLEncoding, d.value, shift); urls != standard {
			list = append(list, needle{d, urls, false})
		}
		list = append(list, needle{d, base64Core(base64.RawStdEncoding, hex.EncodeToString([]byte(d.value)), shift), false})
		for outer := range 3 {
			list = append(list, needle{d, base64Core(base64.RawStdEncoding, standard, outer), false})
		}
	}
	for _, format := range []string{"%d", "%03o"} {
		var codes strings.Builder
		for _, c := range []byte(d.value) {
			fmt.Fprintf(&codes, format, c)
		}
		list = append(list, needle{d, codes.String(), false})
	}
	return list
}

// base64Core is what a text's base64 has in common wherever it begins: the first and
// the last characters hold bits of what is beside it.
func base64Core(encoding *base64.Encoding, text string, shift int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + text))
	return encoded[(shift*8+5)/6 : (shift+len(text))*8/6]
}

// rotated is a small letter, 13 further on.
func rotated(c rune) rune {
	if c >= 'a' && c <= 'z' {
		return 'a' + (c-'a'+13)%26
	}
	return c
}

// Find looks for a decoy in a text, in all its forms. It finds it, too, where single characters are
// written as %41 or \u0041, and where others stand between them: ends of lines, spaces, the dots of
// a host's name.
func (d *Decoys) Find(text []byte) (Decoy, bool) {
	if found, ok := d.find(text); ok {
		return found, true
	}
	plain, changed := unescape(text)
	if changed {
		if found, ok := d.find(plain); ok {
			return found, true
		}
	}
	if joined, changed := join(plain); changed {
		return d.find(joined)
	}
	return Decoy{}, false
}

// The characters of all forms, a bit for each: digits, letters, and + - / _.
const (
	formsBelow64 = 0x03ff<<'0' | 1<<'+' | 1<<'-' | 1<<'/'
	formsAbove64 = 0x07fffffe | 0x07fffffe<<32 | 1<<('_'-64)
)

// join leaves out what is no character of a form, and the escapes of JSON for
// the ends of lines.
func join(text []byte) (joined []byte, changed bool) {
	joined = make([]byte, len(text))
	n := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) && strings.IndexByte("nrt", text[i+1]) >= 0 {
			i++
			continue
		}
		joined[n] = c // overwritten by the next, unless it counts: noise would mislead a branch
		is := uint64(formsBelow64)
		if c >= 64 {
			is = formsAbove64
		}
		n += int(is >> (c & 63) & 1 &^ uint64(c>>7))
	}
	return joined[:n], n < len(text)
}

// Stream looks for decoys in a stream that comes in pieces.
type Stream struct {
	decoys *Decoys
	tail   []byte
}

// keep is how much of a piece is looked at again with the next: the longest
// form, with each character escaped.
const keep = 6 * 128

// Stream begins one.
func (d *Decoys) Stream() *Stream { return &Stream{decoys: d} }

// Next looks at the next piece.
func (s *Stream) Next(piece []byte) (Decoy, bool) {
	seam := append(s.tail, piece[:min(len(piece), keep)]...)
	if found, ok := s.decoys.Find(seam); ok {
		return found, true
	}
	if len(piece) > keep {
		if found, ok := s.decoys.Find(piece); ok {
			return found, true
		}
		seam = piece
	}
	s.tail = append(s.tail[:0:0], seam[max(0, len(seam)-keep):]...)
	return Decoy{}, false
}

const (
	// block is how many bytes are compared at once. Every form is at least two
	// blocks long, so that one block of it begins at a multiple of block.
	block = 8
	// fold8 makes ASCII letters lower case; what else it changes is compared again.
	fold8      = 0x2020202020202020
	filterBits = 18
	// manyBlocks is about how many blocks the forms of all decoys have.
	manyBlocks = 10_000
)

// filter knows the blocks that occur in needles, so that most of a text is
// passed over a block at a time.
type filter struct {
	bits   [1 << (filterBits - 6)]uint64
	blocks map[uint64]struct{}
}

func (f *filter) add(text string) {
	if f.blocks == nil {
		f.blocks = make(map[uint64]struct{}, manyBlocks)
	}
	for i := 0; i+block <= len(text); i++ {
		b := load([]byte(text[i : i+block]))
		f.blocks[b] = struct{}{}
		h := slot(b)
		f.bits[h>>6] |= 1 << (h & 63)
	}
}

func (f *filter) may(b uint64) bool {
	h := slot(b)
	if f.bits[h>>6]&(1<<(h&63)) == 0 {
		return false
	}
	_, there := f.blocks[b]
	return there
}

func load(b []byte) uint64 {
	_ = b[7]
	return (uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56) | fold8
}

func slot(b uint64) uint64 { return b * 0x9e3779b97f4a7c15 >> (64 - filterBits) }

func (d *Decoys) find(text []byte) (Decoy, bool) {
	for i := 0; i+block <= len(text); i += block {
		if !d.filter.may(load(text[i : i+block])) {
			continue
		}
		for _, n := range d.needles {
			from, to := max(0, i-len(n.text)), min(len(text), i+block+len(n.text))
			if n.in(string(text[from:to])) {
				return n.decoy, true
			}
		}
	}
	return Decoy{}, false
}

func (n needle) in(text string) bool {
	if n.fold {
		text = strings.ToLower(text)
	}
	return strings.Contains(text, n.text)
}

// unescape reads %41 and \u0041 as the characters that they stand for.
func unescape(text []byte) (plain []byte, changed bool) {
	done := 0
	for i := 0; ; {
		next := bytes.IndexAny(text[i:], `%\`)
		if next < 0 {
			break
		}
		i += next
		from, digits := i+1, 2
		if text[i] == '\\' {
			from, digits = i+2, 4
		}
		c, ok := code(text, from, digits)
		if !ok || digits == 4 && text[i+1] != 'u' {
			i++
			continue
		}
		plain = append(append(plain, text[done:i]...), c)
		i = from + digits
		done = i
	}
	return append(plain, text[done:]...), done > 0
}

// code is the ASCII character that hexadecimal digits stand for.
func code(text []byte, from, digits int) (byte, bool) {
	if from+digits > len(text) {
		return 0, false
	}
	value := 0
	for _, c := range text[from : from+digits] {
		switch {
		case '0' <= c && c <= '9':
			value = value<<4 | int(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			value = value<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return byte(value), value < 0x80
}
