package redact

import "slices"

// maxLayers is how many encodings within each other are undone. It bounds the
// work: no layer is longer than the text it was made of.
const maxLayers = 3

// dig is one search through a text and the texts that are encoded in it.
type dig struct {
	engine *Engine
	room   *room
	// begun is the table that the text goes on with, tables are those of the text.
	begun  *table
	tables []tabled
	// personal is what of the text is personal data.
	personal []personal
	// open is where a secret may begin that ends beyond the text.
	open int
}

// room is the memory for what is decoded at each depth.
type room struct {
	layers [maxLayers][spellings]layer
	blobs  [maxLayers][]byte
}

func (d *dig) rooms() *room {
	if d.room == nil {
		d.room, _ = d.engine.rooms.Get().(*room)
		if d.room == nil {
			d.room = &room{}
		}
	}
	return d.room
}

// search returns the secrets of s in no order, and where one may begin that
// ends beyond s.
func (d *dig) search(s string, depth int) (found []span, open int) {
	if depth == 0 {
		h := d.engine.findPlain(s, d.begun)
		found, open, d.tables, d.personal = h.found, h.open, h.tables, h.personal
		slices.SortFunc(d.personal, func(a, b personal) int { return a.start - b.start })
	} else {
		h := d.engine.findPlain(s, nil)
		found, open = h.found, h.open
	}
	if depth == maxLayers {
		return found, open
	}
	for p := range spellings {
		if p == escapes || depth < 2 {
			found, open = d.layers(p, s, depth, found, open)
		}
	}
	found = d.blobs(s, depth, found)
	return d.dumps(s, depth, found), open
}

// layers adds what is found where escapes are undone, a window at a time: memory
// is bounded by the window and not by the text.
func (d *dig) layers(p spelling, s string, depth int, found []span, open int) ([]span, int) {
	for w, next, ok := p.window(s, 0); ok; w, next, ok = p.window(s, next) {
		l := &d.rooms().layers[depth][p]
		l.peel(p, s, w)
		under, cut := d.search(view(l.text), depth+1)
		for _, f := range under {
			found = append(found, whole(s, l.source(f)))
		}
		if cut < len(l.text) && w.end == len(s) {
			open = min(open, l.source(span{cut, cut + 1}).start)
		}
	}
	return found, open
}

// blobs adds the runs of base64 and hexadecimal that say a secret.
func (d *dig) blobs(s string, depth int, found []span) []span {
	for run, ok := nextBlob(s, 0); ok; run, ok = nextBlob(s, run.end) {
		if f, ok := discord(s, run); ok {
			found = append(found, f)
			continue
		}
		r := d.rooms()
		r.blobs[depth] = slices.Grow(r.blobs[depth][:0], run.end-run.start)
		plain, start := decodeBlob(r.blobs[depth], s[run.start:run.end])
		if len(plain) < minPlain {
			continue
		}
		if under, _ := d.search(view(plain), depth+1); len(under) > 0 {
			found = append(found, span{run.start + start, padded(s, run.end)})
		}
	}
	return found
}

// dumps adds the lists of bytes that say a secret.
func (d *dig) dumps(s string, depth int, found []span) []span {
	for i := 0; i < len(s); {
		var room []byte
		if d.room != nil {
			room = d.room.blobs[depth][:0]
		}
		plain, at := nextDump(room, s, i)
		if len(plain) >= minDump {
			d.rooms().blobs[depth] = plain
			if under, _ := d.search(view(plain), depth+1); len(under) > 0 {
				found = append(found, at)
			}
		}
		i = at.end
	}
	return found
}

// padded is where base64's padding after end ends.
func padded(s string, end int) int {
	for n := 0; n < 2 && end < len(s) && s[end] == '='; n++ {
		end++
	}
	return end
}
