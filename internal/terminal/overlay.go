package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
)

const (
	// guard is for how long after a question appeared no key counts: nobody has read it
	// yet. choiceGuard is the same for a choice after Ctrl-], which a paste would follow
	// at once, and a finger does not.
	guard       = 500 * time.Millisecond
	choiceGuard = 100 * time.Millisecond
	// maxHeldOutput is how much of what a program prints waits behind a question, in
	// bytes. A program that prints more waits itself.
	maxHeldOutput = 1 << 20
	// maxQuestions is how many questions are shown one after the other.
	maxQuestions = approval.MaxPending
)

// Overlay stands between a person's terminal and a program that draws on it. It passes what the
// program shows and what the person types, and puts a question in front of both. While a question
// is shown, what the program prints waits, and what it had set on the terminal is taken back and
// set again afterwards.
//
// A question is answered by Ctrl-] and then a choice, each of them one key typed by
// itself, after the guard. All else that arrives meanwhile, such as what was typed for
// the program, pastes and reports of the terminal, is the program's and never an answer
// (U-10).
type Overlay struct {
	o OverlayOptions

	mu    sync.Mutex
	room  *sync.Cond // behind a question, or none is shown
	modes state
	tail  []byte // of a sequence that has not ended
	held  []byte // printed behind a question
	keys  keys
	queue []waiting
	up    bool
	away  bool // the job is stopped
	over  bool // the program is gone, and what it printed is read to its end
	ended bool
	view
	screens
	redraw bool // the program has to, once the lock is free
}

// screens are which of the terminal's two the program is on.
type screens struct {
	// other tells whether it is the other one now. It is read without the overlay's lock,
	// which a slow terminal holds up.
	other atomic.Bool
	// wasAlternate tells the same of when the question was put in front of it.
	wasAlternate bool
}

// view is how far a person has got with the question that is shown.
type view struct {
	shownAt time.Time
	armedAt time.Time // zero before Ctrl-]
	page    int
	// pages are how many the question has, and seen how many of them were shown, from the
	// first one on.
	pages, seen int
}

// OverlayOptions of an overlay. All but Dumb, Suspends and Hear are required.
type OverlayOptions struct {
	Out io.Writer
	// Word is the host's own, which no program inside knows.
	Word  string
	Style Style
	// Size is that of the terminal, zeros where it is not known.
	Size func() (columns, rows int)
	// Redraw makes the program draw anew. It may wait.
	Redraw func()
	// Draws tells whether the program reads keys rather than lines, as one that draws does.
	Draws func() bool
	Now   func() time.Time
	// Dumb is a terminal that obeys no sequences: nothing of nacre's is written to it, and
	// [Overlay.Ask] is not for it.
	Dumb bool
	// Suspends tells whether Ctrl-Z stops the job, as where the program has no shell to
	// go back to. Nil means never.
	Suspends func() bool
	// Hear waits a moment for what the terminal sends, and returns nothing where it is
	// silent. It is called where nobody else reads the terminal; nil hears nothing.
	Hear func() []byte
}

// waiting is a question, and how it is answered.
type waiting struct {
	q      nacre.Question
	answer func(nacre.Ruling)
}

// NewOverlay makes an overlay that shows nothing.
func NewOverlay(o OverlayOptions) *Overlay {
	overlay := &Overlay{o: o}
	overlay.room = sync.NewCond(&overlay.mu)
	return overlay
}

// attention rings the bell and names what waits in the terminal's title; the program's
// own is kept and given back.
const keepTitle, giveTitle = "\x1b[22;2t", "\x1b[23;2t"
const attention = "\a\x1b]2;nacre: a question waits (Ctrl-] shows it)\x1b\\"

// Draws tells whether the program draws on the terminal: on the other screen, also where
// it reads whole lines there, or as its terminal says.
func (v *Overlay) Draws() bool { return v.other.Load() || v.o.Draws() }

// Ask shows a question in front of a program that draws, or rings for it.
func (v *Overlay) Ask(q nacre.Question, answer func(nacre.Ruling)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended || len(v.queue) >= maxQuestions {
		return
	}
	if len(v.queue) == 0 {
		v.print(keepTitle)
	}
	v.queue = append(v.queue, waiting{q, answer})
	v.print(attention)
	if !v.up && !v.away && v.Draws() {
		v.show()
	}
}

// Settled takes a question away that waits no longer, whoever answered it.
func (v *Overlay) Settled(id string) {
	v.mu.Lock()
	defer v.unlock()
	front := len(v.queue) > 0 && v.queue[0].q.ID == id
	before := len(v.queue)
	v.queue = slices.DeleteFunc(v.queue, func(w waiting) bool { return w.q.ID == id })
	if before > 0 && len(v.queue) == 0 {
		v.print(giveTitle)
	}
	switch {
	case !front || !v.up:
	case len(v.queue) == 0:
		v.hide()
	default:
		v.view = view{shownAt: v.o.Now()}
		v.draw()
	}
}

// Write shows what the program printed, or lets it wait behind a question.
func (v *Overlay) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for (v.up || v.away) && len(v.held)+len(p) > maxHeldOutput && len(v.held) > 0 && !v.over {
		v.room.Wait()
	}
	switch {
	case v.away && v.over: // the shell has the terminal, and nobody gives it back
		return len(p), nil
	case v.up || v.away:
		v.held = append(v.held, p...)
		return len(p), nil
	}
	return len(p), v.pass(p)
}

// pass shows whole sequences, so that a question never comes into the middle of one.
func (v *Overlay) pass(p []byte) error {
	all, whole := slices.Concat(v.tail, p), 0
	if n := v.modes.follow(p); n > 0 {
		whole = len(v.tail) + n
	}
	v.other.Store(v.modes.alternate())
	if len(all)-whole > maxSequence {
		whole = len(all) // nothing that is followed is so long
	}
	_, err := v.o.Out.Write(all[:whole])
	v.tail = append([]byte(nil), all[whole:]...)
	return err
}

// Tell prints what the terminal passes on to its person, in the middle of no sequence of the
// program's.
func (v *Overlay) Tell(sequence string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.print(sequence)
	}
}

// print writes nacre's own. A terminal that is gone needs none.
func (v *Overlay) print(s string) {
	if !v.o.Dumb {
		_, _ = io.WriteString(v.o.Out, s)
	}
}

// Type takes what a person typed. It returns what is the program's, and whether the job
// is to stop.
func (v *Overlay) Type(p []byte) (program []byte, suspend bool) {
	v.mu.Lock()
	all := v.keys.split(p)
	v.modes.asked.hear(all)
	var answer func()
	for _, t := range all {
		switch {
		case t.is(suspendKeys()) && v.o.Suspends != nil && v.o.Suspends():
			suspend = true
		case v.up:
			var passes bool
			if passes, answer = v.typedOver(t, len(all) == 1); passes {
				program = append(program, t.text...)
			}
		case len(v.queue) > 0 && t.is(attentionKeys()):
			v.show()
		default:
			program = append(program, t.text...)
		}
	}
	v.unlock()
	if answer != nil {
		answer()
	}
	return program, suspend
}

// unlock lets the program draw anew where it has to, which may take a moment.
func (v *Overlay) unlock() {
	redraw := v.redraw
	v.redraw = false
	v.mu.Unlock()
	if redraw {
		v.o.Redraw()
	}
}

// typedOver takes what was typed while a question is shown. It tells whether that is the
// program's, and what answers the question, where it does. alone says that nothing was
// typed with it.
func (v *Overlay) typedOver(t typed, alone bool) (program bool, answer func()) {
	now := v.o.Now()
	switch {
	case t.is(attentionKeys()):
		if alone && now.Sub(v.shownAt) >= guard && v.armedAt.IsZero() {
			v.armedAt = now
			v.draw()
		}
		return false, nil
	case v.armedAt.IsZero():
		return true, nil
	case !alone || !t.key || now.Sub(v.armedAt) < choiceGuard:
		return false, nil
	}
	return false, v.choose(t.text[0])
}

// choose is a key after Ctrl-].
func (v *Overlay) choose(key byte) (answer func()) {
	front := v.queue[0]
	switch key {
	case ' ':
		v.page++
		v.draw()
		return nil
	case 'l':
		v.hide() // Ctrl-] shows it again
		return nil
	}
	ruling, ok := approval.ByKey(front.q, key)
	if !ok || ruling.Verdict == nacre.Allow && v.seen < v.pages { // nobody has read all of it
		return nil
	}
	return func() {
		front.answer(ruling)
		v.Settled(front.q.ID)
	}
}

// show puts the first question in front of the program.
func (v *Overlay) show() {
	v.up, v.wasAlternate = true, v.modes.alternate()
	v.view = view{shownAt: v.o.Now()}
	v.print(opens(&v.modes))
	v.draw()
}

// opens takes the terminal from the program: nothing that it set is left.
func opens(modes *state) string {
	other := ""
	if !modes.alternate() {
		other = "\x18\x1b[?1049h" // which keeps what the first screen shows
	}
	return other + reset() + "\x1b[>0u\x1b[?2004h"
}

// hide gives the terminal back. What the program printed meanwhile is shown.
func (v *Overlay) hide() {
	v.up = false
	if v.away {
		return
	}
	v.print(v.modes.uncover())
	v.flush()
	v.redraw = v.redraw || v.wasAlternate
}

// uncover takes a question off the terminal, and sets again what the program had set.
func (m *state) uncover() string {
	s := "\x1b[<1u\x1b[?2004l\x1b[2J\x1b[H" + m.again()
	if !m.alternate() {
		s += "\x1b[?1049l" // and the cursor is where it was
	}
	return s
}

func (v *Overlay) flush() {
	if len(v.held) > 0 {
		_ = v.pass(v.held) // as in print
	}
	v.held = nil
	v.room.Broadcast()
}

// Resized draws a question anew that is shown.
func (v *Overlay) Resized() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.up {
		v.pages = 0 // they are others
		v.draw()
	}
}

// Leave gives the terminal back to the shell while the job is stopped. It returns what the
// terminal still answered, which is the program's. Nobody else may read the terminal.
func (v *Overlay) Leave() (program []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.up {
		v.print(opens(&v.modes))
	}
	v.away = true
	v.print("\x1b[<1u\x1b[?2004l\x1b[2J\x1b[H\x1b[?1049l")
	if !v.modes.alternate() {
		v.print("\x1b[>0u")
		if v.o.Draws() {
			v.print(lastLine) // the cursor stands where the program draws
		}
	}
	return v.settle()
}

// Return takes the terminal again, when the job goes on.
func (v *Overlay) Return() {
	v.mu.Lock()
	v.away = false
	if !v.modes.alternate() {
		v.print("\x1b[<1u")
	}
	v.print("\x1b[?1049h" + reset() + "\x1b[>0u\x1b[?2004h")
	if v.up {
		v.view = view{shownAt: v.o.Now()}
		v.draw()
	} else {
		v.print(v.modes.uncover())
		v.flush()
	}
	v.mu.Unlock()
	v.o.Redraw() // what stood on the first screen may have gone
}

// Over says that the program is gone: what is left of its output waits for nothing any more.
func (v *Overlay) Over() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.room.Broadcast()
}

// Close ends the overlay with its program: what the program left set on the terminal is
// taken back, and what the terminal still answers to it reaches no shell. Nobody else may
// read the terminal.
func (v *Overlay) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.up {
		v.hide()
	}
	v.ended, v.queue = true, nil
	if v.away { // the shell has the terminal, and nothing of the program's is set on it
		v.held = nil
		v.room.Broadcast()
		return
	}
	v.flush()
	_, _ = v.o.Out.Write(v.tail) // as in print
	v.undo()
	_ = v.settle() // nobody is there to hear it
	v.modes = state{}
}

// undo takes back what the program left set.
func (v *Overlay) undo() {
	if again := v.modes.again(); again == "" && !v.modes.alternate() && v.modes.pushed == 0 {
		return
	}
	end := "\x1b7" + reset() + "\x1b8"
	if v.modes.pushed > 0 {
		end += fmt.Sprintf("\x1b[<%du\x1b[=0u", v.modes.pushed)
	}
	if v.modes.alternate() {
		end = reset() + "\x1b[?1049l"
	}
	v.print(end + "\x1b[0m")
}

// The sizes between which a terminal is believed.
const (
	minColumns, maxColumns, usualColumns = 20, 400, 80
	minRows, maxRows, usualRows          = 6, 200, 24
)

func (v *Overlay) size() (columns, rows int) {
	columns, rows = v.o.Size()
	if columns <= 0 || rows <= 0 {
		return usualColumns, usualRows
	}
	return min(max(columns, minColumns), maxColumns), min(max(rows, minRows), maxRows)
}

// draw shows the first question, whole or a page of it.
func (v *Overlay) draw() {
	if v.away {
		return
	}
	columns, rows := v.size()
	front := v.queue[0]
	text := approval.Render(front.q)
	if approval.IsCut(front.q) {
		text = approval.RenderWhole(front.q)
	}
	var lines []string
	for line := range strings.Lines(approval.Folded(v.o.Style.shown(text), columns-1)) {
		lines = append(lines, v.o.Style.shown(strings.TrimRight(line, "\n")))
	}
	below := v.below(front.q, columns)
	if most := rows - 3; len(below) > most { // the host's word and a line of the question come before all of the keys
		below = below[1:min(len(below), most+1)]
	}
	room := max(rows-len(below)-2, 1)
	pages := max((len(lines)+room-1)/room, 1)
	if pages != v.pages { // in another size they are other pages
		v.pages, v.page, v.seen = pages, 0, 0
	}
	v.page %= pages
	if v.page == v.seen {
		v.seen++
	}
	shown := lines[v.page*room : min((v.page+1)*room, len(lines))]

	all := append([]string{v.o.Style.shown(v.heading(pages, columns)), ""}, shown...)
	all = append(all, below...)
	v.print("\x1b[0m\x1b[2J\x1b[H" + strings.Join(all, "\r\n") + "\x1b[J")
}

// heading says who asks, with the host's word, in one row: what there is no room for is left out.
func (v *Overlay) heading(pages, columns int) string {
	name := " nacre asks · " + v.o.Word + " "
	if utf8.RuneCountInString(name) > columns {
		name = " " + v.o.Word + " "
	}
	room := columns - utf8.RuneCountInString(name)
	if v.o.Style.Colour {
		name = "\x1b[7m" + name + "\x1b[0m"
	}
	var parts []string
	if more := len(v.queue) - 1; more > 0 {
		parts = append(parts, fmt.Sprintf("  %d more wait", more))
	}
	if pages > 1 {
		parts = append(parts, fmt.Sprintf("  page %d of %d", v.page+1, pages))
	}
	for _, part := range parts {
		if len(part) <= room {
			name, room = name+part, room-len(part)
		}
	}
	return name
}

// below says which keys answer.
func (v *Overlay) below(q nacre.Question, columns int) []string {
	lines := []string{""}
	if v.armedAt.IsZero() {
		return append(lines, approval.Fold("press Ctrl-] to answer. Other keys are still the program's.", columns-1, "")...)
	}
	for _, text := range []string{approval.Keys(q), "l later · space next page; what has several is approved after the last"} {
		lines = append(lines, approval.Fold(v.o.Style.shown(text), columns-1, "")...)
	}
	return lines
}

// Word draws a word of the host's own, which stands where a question is nacre's.
func Word(random func([]byte)) string {
	const consonants, vowels, syllables = "bdfgklmnprstvz", "aeiou", 4
	var b strings.Builder
	var raw [1]byte
	draw := func(letters string) {
		for {
			random(raw[:])
			if int(raw[0]) < 256/len(letters)*len(letters) { // else some would be likelier
				b.WriteByte(letters[int(raw[0])%len(letters)])
				return
			}
		}
	}
	for range syllables {
		draw(consonants)
		draw(vowels)
	}
	return b.String()
}
