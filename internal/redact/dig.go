package redact

import (
	"slices"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

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
	layers [maxLayers][encoded.Spellings]encoded.Layer
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
	for p := range encoded.Spellings {
		if p == encoded.Escapes || depth < 2 {
			found, open = d.layers(p, s, depth, found, open)
		}
	}
	found = d.blobs(s, depth, found)
	return d.dumps(s, depth, found), open
}

// layers adds what is found where escapes are undone, a window at a time: memory
// is bounded by the window and not by the text.
func (d *dig) layers(p encoded.Spelling, s string, depth int, found []span, open int) ([]span, int) {
	for w, next, ok := p.Window(s, 0); ok; w, next, ok = p.Window(s, next) {
		l := &d.rooms().layers[depth][p]
		l.Peel(p, s, w)
		under, cut := d.search(view(l.Text), depth+1)
		for _, f := range under {
			found = append(found, whole(s, inText(l.Source(encoded.Span{Start: f.start, End: f.end}))))
		}
		if cut < len(l.Text) && w.End == len(s) {
			open = min(open, l.Source(encoded.Span{Start: cut, End: cut + 1}).Start)
		}
	}
	return found, open
}

// blobs adds the runs of base64 and hexadecimal that say a secret.
func (d *dig) blobs(s string, depth int, found []span) []span {
	for run, ok := encoded.NextBlob(s, 0); ok; run, ok = encoded.NextBlob(s, run.End) {
		if f, ok := discord(s, inText(run)); ok {
			found = append(found, f)
			continue
		}
		r := d.rooms()
		r.blobs[depth] = slices.Grow(r.blobs[depth][:0], run.End-run.Start)
		plain, start := encoded.DecodeBlob(r.blobs[depth], s[run.Start:run.End])
		if len(plain) < encoded.MinPlain {
			continue
		}
		if under, _ := d.search(view(plain), depth+1); len(under) > 0 {
			found = append(found, span{run.Start + start, encoded.Padded(s, run.End)})
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
		plain, at := encoded.NextDump(room, s, i)
		if len(plain) >= encoded.MinDump {
			d.rooms().blobs[depth] = plain
			if under, _ := d.search(view(plain), depth+1); len(under) > 0 {
				found = append(found, inText(at))
			}
		}
		i = at.End
	}
	return found
}

func inText(s encoded.Span) span { return span{s.Start, s.End} }
