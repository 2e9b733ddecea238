package firewall

// maxRoom is the largest buffer that a Room keeps, in bytes.
const maxRoom = 64 << 10

// Room is the memory that a frame is made in, so that the next one needs none
// of its own. The zero value is empty; it is for one frame at a time. Nothing
// of a frame stays in it.
type Room struct {
	columns          [topColumns]column
	text, pairs, doc []byte
	rows             []span
}

// leave drops what the last frame has left.
func (r *Room) leave() {
	clear(r.columns[:])
	for _, b := range []*[]byte{&r.text, &r.pairs, &r.doc} {
		if *b = (*b)[:0]; cap(*b) > maxRoom {
			*b = nil
		}
	}
}
