package sqlitefile

import "encoding/binary"

// A page of a tree begins with its kind, after the file's header on page 1. SQLite's
// file format, parts 1.3, 1.5 and 1.6, has the places below.
const (
	fileHeader   = 100 // bytes
	reservedAt   = 20  // of the file's header: the bytes of each page's end that are an extension's
	freelistAt   = 32  // of the file's header: the first trunk of the freelist
	freeBlockAt  = 1   // of a tree page's header
	cellsAt      = 3
	contentAt    = 5
	innerHeader  = 12 // bytes
	leafHeader   = 8
	maxPageBytes = 65536
)

// Kinds of tree pages, the first byte. Of every other page that byte is the highest of
// a page's number: 0 in a file of less than 64 GiB.
const (
	innerIndex, innerTable = 2, 5
	leafIndex, leafTable   = 10, 13
)

// unused overwrites the bytes of a page in which nothing is stored: between its list of
// cells and the cells, and in the blocks between cells. It tells whether it changed
// something. A page of another kind, or whose header does not fit it, is left as it is
// and is not known.
func unused(page []byte, header, reserved int) (changed, known bool) {
	end := len(page) - reserved
	if end < header+innerHeader {
		return false, false
	}
	start, ok := afterHeader(page[header], header)
	if !ok {
		return false, page[header] == 0
	}
	number := func(at int) int { return int(binary.BigEndian.Uint16(page[at:])) }
	gap, content := start+2*number(header+cellsAt), number(header+contentAt)
	if content == 0 {
		content = maxPageBytes
	}
	if gap > content || content > end {
		return false, false
	}
	changed = zero(page[gap:content])
	// Blocks go up, or they are in a ring.
	for block, last := number(header+freeBlockAt), content-1; block != 0; {
		if block <= last || block+4 > end {
			return changed, false
		}
		size := number(block + 2)
		if size < 4 || block+size > end {
			return changed, false
		}
		changed = zero(page[block+4:block+size]) || changed
		last, block = block, number(block)
	}
	return changed, true
}

func afterHeader(kind byte, header int) (start int, tree bool) {
	switch kind {
	case innerIndex, innerTable:
		return header + innerHeader, true
	case leafIndex, leafTable:
		return header + leafHeader, true
	}
	return 0, false
}

// zero clears bytes, and tells whether there was something in them.
func zero(b []byte) (had bool) {
	for _, c := range b {
		if c != 0 {
			clear(b)
			return true
		}
	}
	return false
}

// leavesOf reads a trunk of the freelist: the next one, 0 at the end, and the pages that
// are free.
func leavesOf(trunk []byte) (next uint32, leaves []uint32, ok bool) {
	if len(trunk) < 8 {
		return 0, nil, false
	}
	next = binary.BigEndian.Uint32(trunk)
	n := int64(binary.BigEndian.Uint32(trunk[4:]))
	if n > int64(len(trunk)-8)/4 {
		return 0, nil, false
	}
	for i := range n {
		leaves = append(leaves, binary.BigEndian.Uint32(trunk[8+4*i:]))
	}
	return next, leaves, true
}
