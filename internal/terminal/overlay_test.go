package terminal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/internal/testwait"
)

const word = "dakomelu"

// stage is an overlay over a program, with a clock of the test's.
type stage struct {
	*terminal.Overlay
	t       *testing.T
	now     time.Time
	shown   lockedText
	program strings.Builder // what the program was typed
	redraws int
	answers []nacre.Ruling
	columns int
	rows    int
	hear    func() []byte // nil: a silent terminal
}

type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newStage(t *testing.T, columns, rows int) *stage {
	t.Helper()
	s := &stage{t: t, now: time.Unix(1_700_000_000, 0), columns: columns, rows: rows}
	s.Overlay = terminal.NewOverlay(terminal.OverlayOptions{
		Out: &s.shown, Word: word, Size: func() (int, int) { return s.columns, s.rows }, Redraw: func() { s.redraws++ },
		Draws: func() bool { return true }, Now: func() time.Time { return s.now }, Suspends: func() bool { return true },
		Hear: func() []byte {
			if s.hear == nil {
				return nil
			}
			return s.hear()
		},
	})
	return s
}

func question(id string) nacre.Question {
	return nacre.Question{ID: id, Group: "main", Capability: "reminders.delete_reminder", Arguments: json.RawMessage(`{"reminder_id":"R-1"}`), Why: "it deletes", Expires: time.Unix(1_700_000_300, 0)}
}

func (s *stage) ask(q nacre.Question) {
	s.Ask(q, func(r nacre.Ruling) { s.answers = append(s.answers, r) })
}

// prints is what the program prints; since is what was shown for it.
func (s *stage) prints(text string) (since string) {
	s.t.Helper()
	before := len(s.shown.String())
	if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
		s.t.Fatalf("%d %v", n, err)
	}
	return s.shown.String()[before:]
}

// types is what a person types at once, after a while.
func (s *stage) types(text string) (since string) {
	s.now = s.now.Add(time.Second)
	return s.typesSoon(text)
}

func (s *stage) typesSoon(text string) (since string) {
	before := len(s.shown.String())
	program, _ := s.Type([]byte(text))
	s.program.Write(program)
	return s.shown.String()[before:]
}

// U-10: a question is in front of the program at once, with the host's word, and what the program
// prints waits. Ctrl-] and then a choice answer it. Then the program's terminal is set again, and
// it draws anew.
func TestAQuestionIsInFrontOfAProgram(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	s.prints("\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?25l\x1b[2;20r\x1b(0\x1b[31mdrawn")
	s.ask(question("aaaa"))
	shown := s.shown.String()
	for _, want := range []string{word, "reminders.delete_reminder", "R-1", "press Ctrl-]", "\a", "\x1b[?1000l", "\x1b[?1006l", "\x1b[?25h", "\x1b[r", "\x1b(B", "\x1b[0m"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %q", want, shown)
		}
	}
	if have := s.prints("waits"); have != "" {
		t.Errorf("shown over the question: %q", have)
	}
	if have := s.types("\x1d"); !strings.Contains(have, "y once") {
		t.Errorf("Ctrl-] shows %q", have)
	}
	after := s.types("y")
	if len(s.answers) != 1 || s.answers[0].Verdict != nacre.Allow || s.answers[0].For != 0 {
		t.Errorf("have %+v", s.answers)
	}
	for _, want := range []string{"\x1b[?1000h", "\x1b[?1006h", "\x1b[?2004h", "\x1b[?25l", "\x1b[2;20r", "\x1b(0", "\x1b[31m"} {
		if !strings.Contains(after, want) {
			t.Errorf("not set again: %q in %q", want, after)
		}
	}
	if !strings.HasSuffix(after, "waits") || s.redraws != 1 || s.program.Len() != 0 {
		t.Errorf("the program got %q, was redrawn %d times, after %q", s.program.String(), s.redraws, after)
	}
}

// U-10: whatever was typed for the program, pasted, or said by the terminal is no answer.
func TestNothingButCtrlBracketAndAChoiceAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys    func(s *stage)
		program string // what the program gets of it
	}{
		"typed ahead":                      {func(s *stage) { s.types("yes\ry") }, "yes\ry"},
		"Ctrl-] before it can be read":     {func(s *stage) { s.typesSoon("\x1d"); s.types("y") }, "y"},
		"Ctrl-] and a choice at once":      {func(s *stage) { s.types("\x1dy") }, "y"},
		"a choice that follows too fast":   {func(s *stage) { s.types("\x1d"); s.typesSoon("y") }, ""},
		"a paste":                          {func(s *stage) { s.types("\x1b[200~\x1d"); s.types("y\x1b[201~") }, "\x1b[200~\x1dy\x1b[201~"},
		"a paste after Ctrl-]":             {func(s *stage) { s.types("\x1d"); s.types("\x1b[200~"); s.types("y"); s.types("\x1b[201~") }, ""},
		"a report of the mouse":            {func(s *stage) { s.types("\x1d"); s.types("\x1b[M"); s.types("y"); s.types("y"); s.types("y") }, ""},
		"a report that ends like a choice": {func(s *stage) { s.types("\x1d"); s.types("\x1b[1;2"); s.types("y") }, ""},
		"an answer with a text":            {func(s *stage) { s.types("\x1d"); s.types("\x1b]10;rgb:"); s.types("y") }, ""},
		"Alt and a choice":                 {func(s *stage) { s.types("\x1d"); s.types("\x1by") }, ""},
		"a key that is no choice":          {func(s *stage) { s.types("\x1d"); s.types("q"); s.types("\r") }, ""},
		"a key that is let go":             {func(s *stage) { s.types("\x1b[93;5:3u"); s.types("y") }, "\x1b[93;5:3uy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 80, 24)
			s.ask(question("aaaa"))
			if c.keys(s); len(s.answers) != 0 || s.program.String() != c.program {
				t.Errorf("answered %+v; the program got %q, want %q", s.answers, s.program.String(), c.program)
			}
		})
	}
}

// U-10: Ctrl-] is known in each way in which a terminal tells of it.
func TestCtrlBracketIsKnownInEachProtocol(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"\x1d", "\x1b[93;5u", "\x1b[27;5;93~"} {
		s := newStage(t, 80, 24)
		s.ask(question("aaaa"))
		s.types(key)
		if s.types("n"); len(s.answers) != 1 || s.answers[0].Verdict != nacre.Deny {
			t.Errorf("%q: have %+v", key, s.answers)
		}
	}
}

// U-10: without a question, every byte is the program's, Ctrl-] too; Ctrl-Z stops the job.
func TestWithoutAQuestionKeysAreThePrograms(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	all := "ä\x1d\x1b\x1b[A\x1bOP\x1b[M y!\x1b[200~\x1a\x1d\x1b[201~\x1b]11;rgb:0/0/0\x1b\\\x03\x1b["
	if s.types(all); s.program.String() != all {
		t.Errorf("have %q, want %q", s.program.String(), all)
	}
	for _, key := range []string{"\x1a", "\x1b[122;5u", "\x1b[27;5;122~"} {
		if program, suspend := s.Type([]byte(key)); !suspend || len(program) != 0 {
			t.Errorf("%q: %q %v", key, program, suspend)
		}
	}
}

// U-10: a sequence that had begun ends before a question is shown, and a program that
// prints without end waits instead of filling memory.
func TestWhatAProgramPrintsNeverMixesWithAQuestion(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	if have := s.prints("a\x1b[3"); have != "a" {
		t.Errorf("have %q", have)
	}
	s.ask(question("aaaa"))
	const piece, most = 32 << 10, 1 << 20
	printed := make(chan int, 100)
	go func() {
		defer close(printed)
		for n := range cap(printed) {
			s.prints(strings.Repeat("x", piece))
			printed <- n
		}
	}()
	testwait.Until(t, "all that may wait", func() bool { return len(printed) >= most/piece })
	if held := len(printed); held > most/piece {
		t.Errorf("%d bytes wait behind a question", held*piece)
	}
	s.Settled("aaaa") // by somebody else
	testwait.Until(t, "the end of the flood", func() bool { return len(printed) == cap(printed) })
	shown := s.shown.String()
	if strings.Contains(shown[:strings.Index(shown, word)], "\x1b[3\x18") || strings.Count(shown, "x") < 100*(32<<10) {
		t.Error("output is lost, or a torn sequence is before the question")
	}
	if len(s.answers) != 0 {
		t.Errorf("have %+v", s.answers)
	}
}

// U-10: the next question gets its own guard and its own Ctrl-]. One that is left for later comes
// back with Ctrl-], in front of whatever the program painted.
func TestEachQuestionIsAnsweredByItself(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	s.ask(question("aaaa"))
	s.ask(question("bbbb"))
	s.types("\x1d")
	if shown := s.types("y"); len(s.answers) != 1 || !strings.Contains(shown, "bbbb") {
		t.Errorf("%d answers, and %q", len(s.answers), shown)
	}
	s.typesSoon("y") // a second press was for the first
	if s.types("\x1d"); len(s.answers) != 1 {
		t.Errorf("have %+v", s.answers)
	}
	s.types("l")
	if have := s.prints("nacre asks " + "painted: press y"); have == "" {
		t.Error("the program does not show")
	}
	if s.types("y"); len(s.answers) != 1 {
		t.Error("what a program painted was answered")
	}
	if shown := s.types("\x1d"); !strings.Contains(shown, word) || !strings.Contains(shown, "bbbb") {
		t.Errorf("Ctrl-] shows %q", shown)
	}
	s.types("\x1d")
	if s.types("n"); len(s.answers) != 2 {
		t.Errorf("have %+v", s.answers)
	}
}

// U-10, U-12: all of the question can be seen in a terminal of any size, and no line is
// longer than the terminal.
func TestAQuestionIsSeenWholeInAnySize(t *testing.T) {
	t.Parallel()
	q := question("aaaa")
	var values []string
	for n := range 200 {
		values = append(values, fmt.Sprintf(`"値-%03d"`, n))
	}
	q.Arguments = json.RawMessage("[" + strings.Join(values, ",") + "]")
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 6}, {0, 0}, {1, 1}, {65535, 65535}} {
		s := newStage(t, size[0], size[1])
		s.ask(q)
		s.types("\x1d")
		for range 500 {
			at := len(s.shown.String())
			s.types(" ")
			picture := strings.Split(s.shown.String()[at:], "\r\n")
			first := strings.TrimPrefix(picture[0], "\x1b[0m\x1b[2J\x1b[H")
			if size[1] >= 6 && (len(picture) > size[1] || !strings.Contains(first, word) || len([]rune(first)) > size[0]) {
				t.Fatalf("%v: %d lines, and the first is %q", size, len(picture), first)
			}
			if size[1] >= 6 && !strings.Contains(strings.Join(picture, " "), "n no") {
				t.Fatalf("%v: it does not say how to say no: %q", size, picture)
			}
		}
		shown := strings.NewReplacer("\r\n    ↳ ", "", "\r\n", "", "\x1b", "").Replace(s.shown.String())
		for _, value := range []string{"000", "099", "199"} {
			if !strings.Contains(shown, "-"+value) && !strings.Contains(strings.ReplaceAll(shown, "[J", ""), value) {
				t.Errorf("%v: %s is never shown", size, value)
			}
		}
		s.types("y")
		if len(s.answers) != 1 {
			t.Errorf("%v: have %+v", size, s.answers)
		}
	}
	if len(approval.Keys(q)) > 80+10 { // with the points, of two bytes
		t.Errorf("the keys are more than a line: %q", approval.Keys(q))
	}
}

// U-10, U-12: what a list would cut is shown whole, page by page, and is approved by nobody who has
// not come to the last page. It can be denied at once.
func TestAQuestionIsApprovedOnceAllOfItWasShown(t *testing.T) {
	t.Parallel()
	long := question("aaaa")
	long.Arguments = json.RawMessage(`{"text":"` + strings.Repeat("x", 8000) + `","zz":"THE-END"}`)
	s := newStage(t, 80, 24)
	s.ask(long)
	s.types("\x1d")
	for range 20 {
		if s.types("y"); len(s.answers) > 0 && !strings.Contains(s.shown.String(), "THE-END") {
			t.Fatal("it was approved before all of it was shown")
		}
		if len(s.answers) == 0 {
			s.types(" ")
		}
	}
	if len(s.answers) != 1 || !strings.Contains(s.shown.String(), "THE-END") || strings.Contains(s.shown.String(), "CUT") {
		t.Errorf("%d answers", len(s.answers))
	}
	s.ask(long)
	s.types("\x1d")
	for range 20 {
		s.types(" ")
	}
	s.columns, s.rows = 60, 20
	s.Resized()
	if s.types("y"); len(s.answers) != 1 {
		t.Error("pages of another size were not seen, and it was approved")
	}
	if s.types("n"); len(s.answers) != 2 || s.answers[1].Verdict != nacre.Deny {
		t.Errorf("have %+v", s.answers)
	}
}

// U-01, U-10: a job that stops gives the terminal back as a shell wants it, and takes
// it again as the program had it.
func TestAJobThatStopsGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	s.prints("\x1b[?1049h\x1b[?1003h\x1b[?25l")
	before := len(s.shown.String())
	s.Leave()
	left := s.shown.String()[before:]
	for _, want := range []string{"\x1b[?1003l", "\x1b[?25h", "\x1b[?1049l"} {
		if !strings.Contains(left, want) {
			t.Errorf("not taken back: %q in %q", want, left)
		}
	}
	if have := s.prints("waits"); have != "" {
		t.Errorf("shown to the shell: %q", have)
	}
	before = len(s.shown.String())
	s.Return()
	back := s.shown.String()[before:]
	if !strings.Contains(back, "\x1b[?1049h") || !strings.Contains(back, "\x1b[?1003h") || !strings.HasSuffix(back, "waits") || s.redraws != 1 {
		t.Errorf("have %q, %d redraws", back, s.redraws)
	}
}

// U-10: a program that ends without taking back what it set leaves the terminal usable.
func TestWhatAProgramLeavesSetIsTakenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	s.prints("\x1b[?1049h\x1b[?1000h\x1b[?2004h")
	before := len(s.shown.String())
	s.Close()
	if end := s.shown.String()[before:]; !strings.Contains(end, "\x1b[?1049l") || !strings.Contains(end, "\x1b[?1000l") || !strings.Contains(end, "\x1b[?2004l") {
		t.Errorf("have %q", end)
	}
	s.ask(question("aaaa"))
	if s.types("\x1d"); strings.Contains(s.shown.String(), "aaaa") {
		t.Error("a question is shown after the end")
	}
	clean := newStage(t, 80, 24)
	clean.prints("\x1b[31mred\x1b[0m\r\n")
	if clean.Close(); clean.shown.String() != "\x1b[31mred\x1b[0m\r\n" {
		t.Errorf("have %q", clean.shown.String())
	}
}

// U-10: what the terminal still answers to a program that is gone, or stopped, is heard until
// the last answer, so that no shell is typed it. A stopped program gets its answers, and
// neither keys nor the answer to nacre's own question. Nothing is asked for a program that
// asked nothing.
func TestNoAnswerOfTheTerminalIsTypedIntoTheShell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prints  string
		answers []string
		program string // what a stopped one gets
		left    int    // of the answers
	}{
		"nothing asked":                   {"drawn", []string{"ls\r"}, "", 1},
		"the cursor":                      {"\x1b[6n", []string{"\x1b[24;80R", "\x1b[?62c", "ls\r"}, "\x1b[24;80R", 1},
		"what it is, twice":               {"\x1b[c\x1b[0c", []string{"\x1b[?1c\x1b[?1", "c", "\x1b[?1c", "ls\r"}, "\x1b[?1c\x1b[?1c", 1},
		"a colour, and keys meanwhile":    {"\x1b]11;?\x1b\\", []string{"l", "\x1b]11;rgb:0/0/0\x1b\\s\r", "\x1b[?1c", "x"}, "\x1b]11;rgb:0/0/0\x1b\\", 1},
		"the mouse":                       {"\x1b[?1003h", []string{"\x1b[<0;1;1M", "\x1b[?1c"}, "\x1b[<0;1;1M", 0},
		"asked before the screen's reset": {"\x1b[6n\x1bc", []string{"\x1b[1;1R", "\x1b[?1c"}, "\x1b[1;1R", 0},
		"a terminal that does not answer": {"\x1b[6n", nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, stops := range []bool{true, false} {
				left := c.answers
				s := newStage(t, 80, 24)
				s.hear = func() []byte {
					if len(left) == 0 {
						return nil
					}
					heard := left[0]
					left = left[1:]
					return []byte(heard)
				}
				s.prints(c.prints)
				program := ""
				if stops {
					program = string(s.Leave())
				} else {
					s.Close()
					program = c.program
				}
				if program != c.program || len(left) != c.left {
					t.Errorf("stops %t: the program gets %q, want %q; not heard: %q", stops, program, c.program, left)
				}
				if asked := strings.HasSuffix(s.shown.String(), "\x1b[c"); asked != (c.prints != "drawn") {
					t.Errorf("stops %t: asked %t: %q", stops, asked, s.shown.String())
				}
			}
		})
	}
}

// U-10: answers that came in time are the program's, and are not waited for.
func TestAnswersThatCameAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	heard := 0
	s.hear = func() []byte { heard++; return []byte("\x1b[?1c") }
	s.prints("\x1b[c")
	s.types("\x1b[?1c")
	if s.Close(); heard != 1 || s.program.String() != "\x1b[?1c" {
		t.Errorf("heard %d times, the program got %q", heard, s.program.String())
	}
}

// U-01: what a program prints holds up nobody once the program is over: a job that was stopped is
// ended by its shell, whatever waits to be shown.
func TestWhatIsPrintedHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, 80, 24)
	s.Leave()
	left := s.shown.String()
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		for range 64 {
			_, _ = s.Write(bytes.Repeat([]byte("y\n"), 32<<10)) // 4 MiB in all
		}
	}()
	s.Over()
	<-printed
	if s.Close(); s.shown.String() != left {
		t.Errorf("shown to the shell: %q", s.shown.String()[len(left):])
	}
}

// U-01, U-10: a program that draws on the first screen and is stopped leaves the shell a line of
// its own. One that prints lines leaves the cursor where it is.
func TestAStoppedProgramLeavesTheShellItsLine(t *testing.T) {
	t.Parallel()
	for prints, want := range map[string]bool{"drawn": true, "\x1b[?1049hdrawn": false} {
		s := newStage(t, 80, 24)
		s.prints(prints)
		s.Leave()
		left := s.shown.String()
		if have := strings.HasSuffix(left, "\x1b[999B\r\n"); have != want {
			t.Errorf("%q: %t, want %t: %q", prints, have, want, left)
		}
		s.prints("more")
		if s.Close(); s.shown.String() != left {
			t.Errorf("%q: one that ends while it is stopped shows %q", prints, strings.TrimPrefix(s.shown.String(), left))
		}
	}
}
