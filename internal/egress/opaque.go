package egress

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/http"
	"slices"
	"strings"
)

// opaque is a compressed text, or an archive, that nothing here unpacks.
type opaque struct {
	name, magic string
	// head is how much of one is looked at, in bytes.
	head int
	// first says that it counts only where a text begins: its magic number is short.
	first bool
	// is looks at as many bytes, or at fewer where the stream has no more of them
	// yet; nil where the magic number is all there is to see.
	is func(head []byte) bool
}

// opaques are what programs that pack begin with. Each is looked at closely, because
// what is taken for one is refused, wherever in a body it stands.
func opaques() []opaque {
	return []opaque{
		{"zstd", "\x28\xb5\x2f\xfd", 21, false, isZstd},
		{"xz", "\xfd7zXZ\x00", 12, false, func(head []byte) bool {
			return crc32.ChecksumIEEE(head[6:8]) == binary.LittleEndian.Uint32(head[8:])
		}},
		{"bzip2", "BZh", 10, false, func(head []byte) bool { return '1' <= head[3] && head[3] <= '9' && string(head[4:]) == "1AY&SY" }},
		{"lzma", "\x5d\x00\x00", 14, true, isLzma},
		{"lzip", "LZIP\x01", 6, false, func(head []byte) bool { return head[5]&0x1f >= 12 && head[5]&0x1f <= 29 }},
		{"lz4", "\x04\x22\x4d\x18", 6, false, func(head []byte) bool { return head[4]&0xc2 == 0x40 && head[5]&0x8f == 0 && head[5] >= 0x40 }},
		{"lz4", "\x02\x21\x4c\x18", 8, false, func(head []byte) bool { return head[7] == 0 && head[6] <= 0x84 }},
		{"snappy", "\xff\x06\x00\x00sNaPpY", 10, false, nil},
		{"lzop", "\x89LZO\x00\r\n\x1a\n", 9, false, nil},
		{"7z", "7z\xbc\xaf\x27\x1c", 6, false, nil},
		{"rar", "Rar!\x1a\x07", 6, false, nil},
		{"cab", "MSCF\x00\x00\x00\x00", 8, false, nil},
		{"compress", "\x1f\x9d", 3, true, func(head []byte) bool { return head[2]&0x60 == 0 && head[2]&0x1f >= 9 && head[2]&0x1f <= 16 }},
		{"a ZIP archive that is encrypted or not deflated", "PK\x03\x04", zipHeader, false, isOpaqueZip},
	}
}

// isZstd reads the head of a frame and of its first block (RFC 8878, 3.1.1).
func isZstd(head []byte) bool {
	const reserved, singleSegment = 1 << 3, 1 << 5
	what := head[4]
	size := 5 + []int{0, 1, 2, 4}[what&3] + []int{0, 2, 4, 8}[what>>6]
	switch {
	case what&reserved != 0:
		return false
	case what&singleSegment == 0:
		size++
	case what>>6 == 0:
		size++
	}
	block := uint32(head[size]) | uint32(head[size+1])<<8 | uint32(head[size+2])<<16
	const maxBlock, reservedBlock = 128 << 10, 3
	return block>>1&3 != reservedBlock && block>>3 <= maxBlock
}

// isLzma reads a head that has no magic number to speak of: properties, the size of
// a dictionary as programs choose it, a size that is unknown or can be, and the
// first byte of what is packed, which is none.
func isLzma(head []byte) bool {
	dictionary := binary.LittleEndian.Uint32(head[1:])
	usual := bits.OnesCount32(dictionary) == 1 || bits.OnesCount32(dictionary) == 2 && bits.OnesCount32(dictionary&(dictionary>>1)) == 1
	size := binary.LittleEndian.Uint64(head[5:])
	return usual && dictionary >= 4<<10 && (size == 1<<64-1 || size>>40 == 0 && size != 0) && head[13] == 0
}

// isOpaqueZip reads the head of a file in an archive (APPNOTE, 4.3.7 and 4.4).
func isOpaqueZip(head []byte) bool {
	const maxVersion, encrypted, maxNames = 63, 1, 4 << 10
	names := binary.LittleEndian.Uint16(head[zipNameAt:])
	if head[4] > maxVersion || names == 0 || names > maxNames {
		return false
	}
	method := binary.LittleEndian.Uint16(head[zipMethodAt:])
	if method == 0 || method == zipDeflated {
		return head[6]&encrypted != 0
	}
	return method <= 20 || method >= 93 && method <= 99
}

// opaqueScan looks for them in a stream, in time that is linear in it.
type opaqueScan struct {
	rest []byte // what one may have begun in
	seen bool   // the stream's first bytes were looked at
}

// next names what is in the stream, as far as it came, or "".
func (s *opaqueScan) next(piece []byte) string {
	text := slices.Concat(s.rest, piece)
	keep := max(0, len(text)-maxMagicOpaque+1)
	for _, o := range opaques() {
		from := 0
		for i := bytes.Index(text, []byte(o.magic)); i >= 0; i = bytes.Index(text[from:], []byte(o.magic)) {
			from += i
			switch {
			case o.first && (s.seen || from > 0):
			case len(text)-from < o.head:
				keep = min(keep, from)
			case o.is == nil || o.is(text[from:from+o.head]):
				return o.name
			}
			if o.first {
				break
			}
			from++
		}
	}
	s.seen = s.seen || keep > 0
	s.rest = slices.Clone(text[keep:])
	return ""
}

// maxMagicOpaque is the longest magic number of an opaque, in bytes.
const maxMagicOpaque = 10

// searchable are the codings of a body that can be looked into, or are none.
var searchable = []string{"gzip", "x-gzip", "deflate", "identity", "utf-8", "utf8", "amz-1.0", "none", "binary"}

// codingsOf lists the codings that headers of a name say, in small letters.
func codingsOf(headers http.Header, name string) (codings []string) {
	for _, value := range headers[name] {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = lowerASCII(strings.TrimSpace(coding)); coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	return codings
}

// searchableBody refuses a body that is said to be in a coding that is not known here.
func searchableBody(headers http.Header) error {
	codings := codingsOf(headers, "Content-Encoding")
	for _, coding := range codings {
		if !slices.Contains(searchable, coding) {
			return opaqueBody("another coding than gzip and deflate")
		}
	}
	if len(codings) > maxNested {
		return opaqueBody("more than two codings")
	}
	for _, name := range framedCodings {
		for _, coding := range codingsOf(headers, name) {
			if coding != "gzip" {
				return opaqueBody("messages in another coding than gzip")
			}
		}
	}
	return nil
}

func opaqueBody(what string) error {
	return refusal(ReasonOpaque, "a body to a host that holds a credential is looked into for what must not leave, and "+what+
		" cannot be: send it in gzip or as it is; or the operator sets canary = \"notify\" under [tripwires], and it is not looked into")
}
