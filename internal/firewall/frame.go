package firewall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
)

// Limits are how much of one result is shown: rows, fields of an object,
// characters of all that is shown, and containers inside of each other in a row.
type Limits struct{ Rows, Fields, Chars, Depth int }

// Within keeps limits between what the smallest frame takes and most.
func (l Limits) Within(most Limits) Limits {
	return Limits{
		Rows: min(max(l.Rows, 1), most.Rows), Fields: min(max(l.Fields, 1), most.Fields),
		Chars: min(max(l.Chars, MinChars), most.Chars), Depth: min(max(l.Depth, 1), most.Depth),
	}
}

// DefaultLimits are those of K-14.
func DefaultLimits() Limits {
	return Limits{Rows: FrameRows, Fields: FrameFields, Chars: FrameChars, Depth: FrameDepth}
}

const (
	// MinChars is what the smallest frame takes, handle included: no limit of
	// characters goes below it.
	MinChars = 400
	// summaryRows is how many rows a summary shows, as an example.
	summaryRows = 10
	// maxWarnings and warningChars bound the host's own words in a frame.
	maxWarnings, warningChars = 4, 200
	// frameBytes is about what a frame takes beside facts and rows.
	frameBytes = 512
	// maxHandleID is the longest id of a handle.
	maxHandleID = 64
	// maxRawDepth is the deepest result that is shown raw.
	maxRawDepth = 100
)

// The warnings of a frame.
const (
	warnRaw      = "raw mode requires admin role; falling back to summary."
	warnRawLarge = "The result is larger than what raw mode shows; falling back to summary."
	warnNarrowed = "What is not allowed for this grant was left out."
	warnRest     = "Not all of the result is shown. Ask for less, or for one part."
	warnHandle   = "Not all of the result is shown. Expand the handle for the rest: by offset, or by a path of cut."
	// WarnBudget is for a result that is shown in less than the mode that was
	// asked for, because a Budget runs out.
	WarnBudget = "The session's output budget is running out: less is shown than was asked for."
)

// Permitted is the mode that a principal may have of the one that was asked
// for: raw is for the role admin, and what is no mode shows nothing.
func Permitted(mode nacre.Mode, admin bool) nacre.Mode {
	switch {
	case mode > nacre.ModeRaw:
		return nacre.ModeHandleOnly
	case mode == nacre.ModeRaw && !admin:
		return nacre.ModeSummary
	}
	return mode
}

// Request says how a result is to be shown. The zero value shows nothing but
// counts: its limits are zero.
type Request struct {
	Mode nacre.Mode
	// Admin is set where the principal has the role admin, which ModeRaw needs.
	Admin  bool
	Label  nacre.Label
	Limits Limits
	// Keep stores the result and gives out the handle of a frame. It is called
	// at most once, and not where all that may be seen of the result is shown.
	// Nil, and a nil handle, mean that the frame has none.
	Keep func() *nacre.Handle
	// Handle, where not nil, is that of the frame whatever it shows: the result
	// is a page of what the handle stands for. Keep is not called then.
	Handle *nacre.Handle
	// Room is where the frame is made; nil means in one of its own.
	Room *Room
	// PathOf is the path to the i-th row of the result from all that the handle stands for. Nil
	// means that the result is all of it.
	PathOf func(i int) string
	// Warnings are the host's own words, at most four of 200 characters.
	Warnings []string
}

// View is what may be seen of a result, as JSON of at most Limits.Chars characters.
type View struct {
	Result json.RawMessage
	// Frame is what Result says; nil where the result was passed on as it is.
	Frame *nacre.Frame
	// Redacted are the paths in Result of what was replaced.
	Redacted []string
	// Framed is set where Result is a frame.
	Framed bool
	Label  nacre.Label
}

// Forward passes a result that is within limits on as it is, but for secrets,
// where no other mode than summary is asked for (D-10). Any other becomes a frame.
func (r *Result) Forward(q Request, redactor Redactor) (View, error) {
	if q.Mode == nacre.ModeSummary && r.Whole(q.Limits) {
		out, paths, err := redactor.JSON(r.raw)
		if err != nil {
			return View{}, fmt.Errorf("result: %w", err)
		}
		if len(paths) == 0 || Runes(out) <= q.Limits.Chars {
			return View{Result: out, Redacted: paths, Label: q.Label}, nil
		}
	}
	return r.Frame(q, redactor)
}

// Frame shows a result in a frame (K-14). Equal results give equal frames, but
// for the handle.
func (r *Result) Frame(q Request, redactor Redactor) (View, error) {
	q.Limits.Chars = max(q.Limits.Chars, MinChars)
	b := builder{result: r, limits: q.Limits, redactor: redactor, keep: q.Keep, in: q.Room, pathOf: q.PathOf}
	if b.in == nil {
		b.in = new(Room)
	}
	defer b.in.leave()
	b.frame = nacre.Frame{Mode: Permitted(q.Mode, q.Admin), Label: q.Label, Facts: []string{}, Rows: []json.RawMessage{}, Warnings: []string{}}
	if q.Handle != nil {
		b.hold(q.Handle)
	}
	b.warnAll(q.Warnings)
	if r.narrowed {
		b.warn(warnNarrowed)
	}
	if r.capped {
		b.warn("Only " + strconv.Itoa(r.granted) + " rows are granted.")
	}
	if b.frame.Mode == nacre.ModeRaw {
		done, err := b.raw()
		if done || err != nil {
			return b.view, err
		}
		b.frame.Mode = nacre.ModeSummary
		b.warn(warnRawLarge)
	} else if q.Mode == nacre.ModeRaw {
		b.warn(warnRaw)
	}
	return b.framed()
}

// framed shows facts and rows; the result is kept where they are not all of it.
func (b *builder) framed() (View, error) {
	if b.mayShowAll() {
		warnings := b.frame.Warnings
		whole, err := b.fill()
		switch {
		case err != nil:
			return View{}, err
		case whole:
			b.done()
			return b.view, nil
		}
		b.frame.Facts, b.frame.Rows, b.frame.Warnings = []string{}, []json.RawMessage{}, warnings
	}
	if b.keep != nil && b.frame.Handle == nil && len(b.result.rows) > 0 {
		b.hold(b.keep())
	}
	if _, err := b.fill(); err != nil {
		return View{}, err
	}
	b.done()
	return b.view, nil
}

// mayShowAll reports whether it is worth a try to do without a handle.
func (b *builder) mayShowAll() bool {
	r := b.result
	return b.keep != nil && b.frame.Handle == nil && (b.shownRows() == r.granted || b.factIsAll()) && b.frame.Mode != nacre.ModeHandleOnly &&
		r.fields <= b.limits.Fields && r.depth <= b.limits.Depth && len(r.raw) <= b.limits.Chars
}

// builder makes one frame.
type builder struct {
	result   *Result
	limits   Limits
	redactor Redactor
	keep     func() *nacre.Handle
	pathOf   func(i int) string
	in       *Room
	frame    nacre.Frame
	view     View
	paths    []string
	// left is how many characters facts and rows may still take.
	left int
	// cuts are the paths of what is shown in part.
	cuts []string
	// facts are those that were written; fits is set where there is room for all.
	facts []string
	fits  bool
	// written are facts and rows as the frame's JSON has them, where all of them are in it;
	// they stand in the room.
	written []byte
	// size is about what the frame takes, in bytes, but for its words.
	size int
}

// warnAll takes over the host's own words.
func (b *builder) warnAll(warnings []string) {
	for _, warning := range warnings[:min(len(warnings), maxWarnings)] {
		clean, _ := b.redactor.String(valid(warning))
		b.warn(runes(clean, warningChars))
	}
}

func (b *builder) warn(text string) { b.frame.Warnings = append(b.frame.Warnings, text) }

func (b *builder) hold(h *nacre.Handle) {
	if h == nil || len(h.ID) > maxHandleID {
		return
	}
	b.frame.Handle = &nacre.Handle{ID: h.ID, Rows: h.Rows, Expires: h.Expires.UTC().Truncate(time.Second), Label: b.frame.Label}
}

// grantedBytes is how many bytes of the result may be seen.
func (r *Result) grantedBytes() int {
	if !r.capped {
		return len(r.raw)
	}
	if r.granted == 0 {
		return 0
	}
	return int(r.rows[r.granted-1].end - r.rows[0].start)
}

// room leaves out warnings, the last ones first, until the frame fits with
// nothing in it, and sets what is left for facts and rows.
func (b *builder) room(rest string) {
	empty := b.frame
	empty.Omitted = nacre.Omitted{Rows: b.result.granted, Bytes: b.result.grantedBytes()}
	var written [1024]byte
	for {
		empty.Warnings = append(b.frame.Warnings[:len(b.frame.Warnings):len(b.frame.Warnings)], rest)
		frame, _ := appendFrame(written[:0], &empty, nil)
		b.left = b.limits.Chars - cost(frame)
		if b.left >= 0 || len(b.frame.Warnings) == 0 {
			return
		}
		b.frame.Warnings = b.frame.Warnings[:len(b.frame.Warnings)-1]
	}
}

// raw shows the whole result, and reports whether it could.
func (b *builder) raw() (bool, error) {
	r := b.result
	if r.capped || r.depth > maxRawDepth || len(r.raw) > 4*b.limits.Chars {
		return false, nil
	}
	b.room("")
	clean, paths, err := b.redactor.JSON(append(append([]byte(`{"raw":`), r.raw...), '}'))
	if err != nil {
		return false, fmt.Errorf("result: %w", err)
	}
	eachMember(clean, func(_, value []byte) { b.frame.Raw = value })
	if cost(b.frame.Raw)+len(`"raw":,`) > b.left {
		b.frame.Raw = nil
		return false, nil
	}
	b.paths, b.size = paths, len(clean)
	b.done()
	return true, nil
}

// fill puts facts and rows into the frame, redacted together, and reports
// whether they are all of what may be seen.
func (b *builder) fill() (whole bool, err error) {
	rest := warnRest
	if b.frame.Handle != nil {
		rest = warnHandle
	}
	b.room(rest)
	doc, changed, err := b.document()
	if err != nil {
		return false, err
	}
	clean, paths, err := b.redactor.JSON(doc)
	if err != nil {
		return false, fmt.Errorf("frame: %w", err)
	}
	b.paths, b.size = paths, len(clean)
	b.nameCuts()
	shown := b.take(clean, bytes.Equal(clean, doc))
	if b.factIsAll() && len(b.frame.Facts) == b.result.granted {
		return !changed, nil
	}
	b.frame.Omitted.Rows = b.result.granted - len(b.frame.Rows)
	b.frame.Omitted.Bytes = max(b.result.grantedBytes()-shown, 0)
	if changed || b.frame.Omitted.Rows > 0 {
		b.warn(rest)
		return false, nil
	}
	return true, nil
}

// nameCuts says what is shown in part, where a handle shows the whole of it. A path
// whose names hold what is redacted is not said.
func (b *builder) nameCuts() {
	b.frame.Cut = nil
	if b.frame.Handle == nil {
		return
	}
	b.left -= cutCost(b.cuts)
	for _, path := range b.cuts {
		if _, hidden := b.redactor.String(path); !hidden {
			b.frame.Cut = append(b.frame.Cut, nacre.Cut{Path: path})
		}
	}
}

// take puts what fits of a redacted document into the frame, and tells how
// many bytes of rows that is. Where it is the same as it was before, all does
// that fitted then.
func (b *builder) take(clean []byte, same bool) (shown int) {
	b.written = nil
	if same && b.fits {
		b.written = clean[len(`{`) : len(clean)-len(`}`)]
		if b.frame.Rows = make([]json.RawMessage, 0, len(b.in.rows)); b.facts != nil {
			b.frame.Facts = b.facts
		}
		for _, row := range b.in.rows {
			b.frame.Rows = append(b.frame.Rows, row.of(clean))
			shown += int(row.end - row.start)
		}
		return shown
	}
	left, c := b.left, cursor{data: clean}
	next := func(first bool) ([]byte, bool) {
		if !c.more(first, ']') {
			return nil, false
		}
		start := c.at
		c.skip(2)
		v := clean[start:c.at:c.at]
		left -= cost(v) + 1
		return v, true
	}
	open := func() bool {
		c.key()
		return c.take('[')
	}
	b.frame.Facts, b.frame.Rows = make([]string, 0, len(b.facts)), make([]json.RawMessage, 0, len(b.in.rows))
	if !c.take('{') || !open() {
		return 0
	}
	for v, ok := next(true); ok; v, ok = next(false) {
		if left >= 0 {
			b.frame.Facts = append(b.frame.Facts, plain(v))
		}
	}
	if !c.take(',') || !open() {
		return 0
	}
	for v, ok := next(true); ok && left >= 0; v, ok = next(false) {
		b.frame.Rows = append(b.frame.Rows, v)
		shown += len(v)
	}
	return shown
}

// document is what would be shown, before it is redacted.
func (b *builder) document() (doc []byte, changed bool, err error) {
	b.cuts = nil
	p := printer{redactor: b.redactor, long: max(textLimit, b.limits.Chars*textLimit/FrameChars), out: slices.Grow(b.in.doc[:0], min(b.limits.Chars, len(b.result.raw)+factsBytes)+frameBytes)}
	p.out = append(p.out, `{"facts":[`...)
	left := b.left
	facts, err := b.told()
	if err != nil {
		return nil, false, err
	}
	b.facts, b.in.rows = facts, b.in.rows[:0]
	for i, fact := range facts {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		start := len(p.out)
		facts[i] = clip(fact, 4*factChars, b.redactor)
		p.out = appendQuoted(p.out, facts[i])
		left -= cost(p.out[start:]) + 1
	}
	b.fits = left >= 0
	p.out = append(p.out, `],"rows":[`...)
	for i := range b.shownRows() {
		mark := len(p.out)
		if i > 0 {
			p.out = append(p.out, ',')
		}
		spent, ok := p.row(b.result, i, left, b)
		if !ok {
			p.out = p.out[:mark]
			break
		}
		left -= spent
		b.in.rows = append(b.in.rows, span{uint32(mark + min(i, 1)), uint32(len(p.out))})
	}
	b.cuts, b.in.doc = p.cuts, append(p.out, ']', '}')
	return b.in.doc, p.changed, nil
}

// told are the facts of the frame's mode.
func (b *builder) told() ([]string, error) {
	switch {
	case b.frame.Mode == nacre.ModeSummary:
		return b.result.facts(b.redactor, b.in)
	case b.frame.Mode == nacre.ModeTable && b.result.shape != sole:
		return []string{"Total rows: " + strconv.Itoa(b.result.granted)}, nil
	}
	return nil, nil
}

// factIsAll reports whether the result is one short value, of which the fact
// leaves nothing out.
func (b *builder) factIsAll() bool {
	r := b.result
	return b.frame.Mode == nacre.ModeSummary && r.shape == sole && r.first() != '{' && len(r.raw) <= factChars
}

// shownRows is how many rows the frame's mode shows where there is room.
func (b *builder) shownRows() int {
	r := b.result
	switch {
	case b.frame.Mode == nacre.ModeHandleOnly || b.limits.Depth <= 0:
		return 0
	case b.factIsAll():
		return 0
	case b.frame.Mode == nacre.ModeSummary:
		return min(r.granted, b.limits.Rows, summaryRows)
	}
	return min(r.granted, b.limits.Rows)
}

// row writes the i-th row, and tells what it costs. The first one is written with shorter texts,
// and then with fewer fields, until it is within left. Any other is written so or not at all. A row
// that is alone has all the room.
func (p *printer) row(r *Result, i, left int, b *builder) (spent int, ok bool) {
	mark, changed, cuts, l := len(p.out), p.changed, len(p.cuts), b.limits
	if r.plain && r.fields <= l.Fields && r.widest <= l.Fields && r.depth <= l.Depth { // then it is written as it is
		if spent = cost(r.row(i)) + 1; spent <= left {
			p.out = append(p.out, r.row(i)...)
			return spent, true
		}
	}
	p.text, p.fields = p.long, l.Fields
	if r.granted == 1 {
		p.text = max(left-8-cutBytes, p.long) // but for quotes, ellipsis and the path
	}
	p.path = p.path[:0]
	if b.pathOf != nil {
		p.path = append(p.path, b.pathOf(i)...)
	} else {
		p.path = append(p.path, r.PathOf(i)...)
	}
	for p.text >= leastText {
		p.out, p.cuts, p.in = p.out[:mark], p.cuts[:cuts], cursor{data: r.row(i)}
		p.value(l.Depth)
		if spent = cost(p.out[mark:]) + 1 + cutCost(p.cuts[cuts:]); spent <= left {
			return spent, true
		}
		p.changed = true
		if i > 0 {
			break
		}
		if p.text <= p.long {
			p.fields = (p.fields + 1) / 2
			p.text /= 2
		} else {
			p.text = max(p.text/2, p.long)
		}
	}
	p.changed, p.cuts = changed || i == 0, p.cuts[:cuts]
	return 0, false
}

// done encodes the frame.
func (b *builder) done() {
	out, rows := appendFrame(make([]byte, 0, b.size+frameBytes), &b.frame, b.written)
	for i, row := range b.frame.Rows { // where they stand now is not used again
		b.frame.Rows[i] = out[rows : rows+len(row) : rows+len(row)]
		rows += len(row) + 1
	}
	b.view = View{Result: out, Frame: &b.frame, Redacted: b.paths, Framed: true, Label: b.frame.Label}
}

// appendFrame writes a frame as JSON, without escapes that JSON does not ask for, and tells
// where its first row stands. written are its facts and rows, where they were written before.
func appendFrame(out []byte, f *nacre.Frame, written []byte) (_ []byte, rows int) {
	out = append(append(append(out, `{"mode":"`...), f.Mode.String()...), `",`...)
	if written != nil {
		out = append(out, written...)
	} else {
		out = append(appendTexts(append(out, `"facts":[`...), f.Facts), `],"rows":[`...)
		for i, row := range f.Rows {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, row...)
		}
		out = append(out, ']')
	}
	rows = len(out)
	for _, row := range f.Rows {
		rows -= len(row) + 1 // what stands behind it is a comma or the end
	}
	if f.Raw != nil {
		out = append(append(out, `,"raw":`...), f.Raw...)
	}
	out = append(appendTexts(append(out, `,"warnings":[`...), f.Warnings), ']')
	if h := f.Handle; h != nil {
		out = appendQuoted(append(out, `,"handle":{"id":`...), h.ID)
		out = strconv.AppendInt(append(out, `,"rows":`...), int64(h.Rows), 10)
		out = h.Expires.AppendFormat(append(out, `,"expires":"`...), time.RFC3339)
		out = append(append(out, `","label":"`...), h.Label.String()...)
		out = append(out, `"}`...)
	}
	out = strconv.AppendInt(append(out, `,"omitted":{"rows":`...), int64(f.Omitted.Rows), 10)
	out = strconv.AppendInt(append(out, `,"bytes":`...), int64(f.Omitted.Bytes), 10)
	out = append(out, '}')
	for i, cut := range f.Cut {
		if i == 0 {
			out = append(out, `,"cut":[`...)
		}
		out = append(appendQuoted(append(out, `{"path":`...), cut.Path), '}', ',')
	}
	if len(f.Cut) > 0 {
		out[len(out)-1] = ']'
	}
	out = append(append(out, `,"label":"`...), f.Label.String()...)
	return append(out, `"}`...), rows
}

func appendTexts(out []byte, texts []string) []byte {
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendQuoted(out, text)
	}
	return out
}
