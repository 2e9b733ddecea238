package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
)

func TestRenderShowsDataAndNothingElse(t *testing.T) {
	q := question()
	q.ID, q.Group, q.Expires = "ab3f", "family", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	q.AgentWords = "harmless\n? zzzz  approved\x1b[2J\u202egnihton\u200b \u3164\u2800\ufe0f\U000e0041 a\u0301\u0336\u20dd\xff"
	q.Why = "\u0301" + strings.Repeat("w", 600)
	have := approval.Render(q)
	want := `? ab3f  family wants to run
    tool       deploy.preview
    arguments  {"env":"staging"}
    asked for  <U+0301>` + strings.Repeat("w", 510) + ` <CUT: 90 more bytes are not shown>
    the agent says (not checked): "harmless<U+000A>? zzzz  approved<U+001B>[2J<U+202E>gnihton<U+200B> <U+3164><U+2800><U+FE0F><U+E0041> a` + "\u0301" + `<U+0336><U+20DD><FF>"
    expires    03:04:05 UTC
`
	if have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
	q.Arguments = []byte(`"` + strings.Repeat("é", 3000) + `"`)
	if have := approval.Render(q); !strings.Contains(have, "<CUT: 1907 more bytes are not shown>") {
		t.Errorf("have\n%s", have)
	}
}

// screen is a writer that can be read while it is written.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// face runs a terminal in a bubble of its own and gives what drives it.
type face struct {
	desk *approval.Desk
	keys *io.PipeWriter
	out  *screen
	end  func()
}

func newFace(t *testing.T) face {
	asked := approval.NewQueue()
	d := approval.New(approval.Options{
		Now: time.Now, Recorder: &ledger{}, Session: "s1", Group: "g1", Notify: asked.Put, Directory: owner,
	})
	r, w := io.Pipe()
	f := face{desk: d, keys: w, out: &screen{}}
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan string)
	var wg sync.WaitGroup
	wg.Go(func() { _ = approval.Lines(ctx, r, lines) }) // ends with the pipe
	wg.Go(func() {
		if err := (approval.Terminal{Desk: d, Lines: lines, Out: f.out, By: "terminal"}).Run(ctx, asked); err != nil {
			t.Error(err)
		}
	})
	f.end = func() {
		cancel()
		_ = w.Close()
		wg.Wait()
	}
	return f
}

func (f face) typeLine(s string) { _, _ = io.WriteString(f.keys, s+"\n") }

func TestTerminalAnswersWithYAndN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		for typed, want := range map[string]nacre.Verdict{"y": nacre.Allow, " YES ": nacre.Allow, "n": nacre.Deny, "no": nacre.Deny, "what?\ny": nacre.Allow} {
			done := ask(t.Context(), f.desk, question())
			time.Sleep(time.Second) // the bubble's clock: past the quiet time
			f.typeLine(typed)
			if have := <-done; have.err != nil || have.ruling.Verdict != want || have.ruling.By != "terminal" {
				t.Errorf("%q: have %+v", typed, have)
			}
		}
	})
}

// D-13: once, for a time, or never; what is no answer leaves the question open.
func TestTerminalAnswersForATimeOrNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		for typed, want := range map[string]nacre.Ruling{
			"y 15m":                                 {Verdict: nacre.Allow, For: 15 * time.Minute, Scope: nacre.ScopeSame},
			"y 3x":                                  {Verdict: nacre.Allow, For: approval.MaxStanding, Scope: nacre.ScopeSame, Times: 3},
			"y text 15m\ny":                         {Verdict: nacre.Allow}, // what is vouched for has no time
			"y exact 15m":                           {Verdict: nacre.Allow, For: 15 * time.Minute, Scope: nacre.ScopeExact},
			"n tool 2x 15m":                         {Verdict: nacre.Deny, For: 15 * time.Minute, Scope: nacre.ScopeTool, Times: 2},
			"y 0x\ny 101x\ny 2x 3x\ny exact\ny":     {Verdict: nacre.Allow},
			"Y tool 1h":                             {Verdict: nacre.Allow, For: time.Hour, Scope: nacre.ScopeTool},
			"n same 10m":                            {Verdict: nacre.Deny, For: 10 * time.Minute, Scope: nacre.ScopeSame},
			"never":                                 {Verdict: nacre.Deny, For: approval.MaxStanding, Scope: nacre.ScopeTool},
			"y for ever\ny -1m\ny 9h\ny once 5m\nn": {Verdict: nacre.Deny},
		} {
			done := ask(t.Context(), f.desk, question())
			time.Sleep(time.Second) // the bubble's clock: past the quiet time
			f.typeLine(typed)
			have := <-done
			want.By, want.Digest = "terminal", have.ruling.Digest
			if have.err != nil || have.ruling != want || have.ruling.Digest == "" {
				t.Errorf("%q: have %+v, want %+v", typed, have, want)
			}
		}
	})
}

// U-12: all of a question can be read, and nothing in it passes for nacre's words.
func TestRenderWholeCutsNothing(t *testing.T) {
	q := question()
	long := strings.Repeat("x", 64<<10)
	q.Arguments = json.RawMessage(`{"body":"a\n? zzz  wants to run\u001b[2J\u202e","list":["` + long + `"]}`)
	q.AgentWords = long
	text := approval.RenderWhole(q)
	for _, want := range []string{"      │   \"body\": \"a\\n? zzz  wants to run\\u001b[2J\\u202e\"", "      │     \"" + long + "\"", "the agent says (not checked): \"" + long} {
		if !strings.Contains(text, want) {
			t.Errorf("have no %.100s in\n%.2000s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "CUT") {
		t.Errorf("have %.2000q", text)
	}
}

// U-12: connections of a host are not counted: it is let through for a time, or not.
func TestAHostIsNotAnsweredForANumberOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		q, err := approval.EgressQuestion(nacre.EgressRule{Host: "a.example", Port: 443, Protocol: nacre.ProtocolTLS}, "asked")
		if err != nil {
			t.Fatal(err)
		}
		done := ask(t.Context(), f.desk, q)
		time.Sleep(time.Second) // the bubble's clock
		id := f.desk.List()[0].ID
		counted := nacre.Ruling{Verdict: nacre.Allow, By: "a", For: time.Hour, Scope: nacre.ScopeSame, Times: 2}
		if err := press(f.desk, id, counted); !errors.Is(err, approval.ErrAnswer) {
			t.Errorf("have %v", err)
		}
		if err := press(f.desk, id, nacre.Ruling{Verdict: nacre.Deny, By: "a"}); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// K-26: the person sees where each risky value came from, as data.
func TestRenderSaysWhereRiskyValuesCameFrom(t *testing.T) {
	q := question()
	q.Origins = []nacre.Origin{
		{Argument: "to", Provenance: nacre.SeenUntrusted, Sources: []string{"result of http_fetch\x1b[2J"}},
		{Argument: "amount", Provenance: nacre.SeenNowhere},
		{Argument: "cc", Provenance: nacre.SeenOperator, Sources: []string{"the task"}},
	}
	have := approval.Render(q)
	for _, want := range []string{
		"to came from an UNTRUSTED source: result of http_fetch<U+001B>[2J\n", "amount came from nowhere that is known", "cc was seen in the task\n",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("have no %q in\n%s", want, have)
		}
	}
	for range 20 {
		q.Origins = append(q.Origins, nacre.Origin{Argument: "x"})
	}
	if have := approval.Render(q); !strings.Contains(have, "and 11 more risky values are not shown") {
		t.Errorf("have\n%s", have)
	}
}

// D-13: the person sees which files would be used, and nothing in a name can
// pass for the host's own words.
func TestRenderShowsFiles(t *testing.T) {
	q := question()
	digest := "0123456789abcdef" + strings.Repeat("f", 48)
	q.Files = []nacre.FilePin{
		{Argument: "letter", Name: "a.txt\", 3 bytes\n? zz  approved\x1b[2J\u202e", SHA256: digest, Bytes: 70000, Path: "/host/only"},
		{Argument: "parts.0.file", Name: strings.Repeat("n", 300), SHA256: "short"},
	}
	have := approval.Render(q)
	for _, want := range []string{
		"    file       letter: 70000 bytes, sha256 0123456789abcdef…, \"a.txt\", 3 bytes<U+000A>? zz  approved<U+001B>[2J<U+202E>\"\n",
		"    file       parts.0.file: 0 bytes, sha256 short…, \"" + strings.Repeat("n", 256) + " <CUT: 44 more bytes are not shown>\"\n",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("have no %q in\n%s", want, have)
		}
	}
	if strings.Contains(have, "/host/only") {
		t.Errorf("it says where the copies are:\n%s", have)
	}
	q.Files = make([]nacre.FilePin, 20)
	if have := approval.Render(q); !strings.Contains(have, "and 4 more files are not shown") {
		t.Errorf("have\n%s", have)
	}
}

func TestWhatWasTypedBeforeTheQuestionIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		f.typeLine("y\ny\ny")
		done := ask(t.Context(), f.desk, question())
		f.typeLine("y\ny")
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(f.desk.List()) != 1 {
			t.Error("the question was answered by what was typed before it could be read")
		}
		f.typeLine("n")
		if have := <-done; have.ruling.Verdict != nacre.Deny {
			t.Errorf("have %+v", have)
		}
	})
}

func TestTerminalStepsBackWhenAnsweredElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		done := ask(t.Context(), f.desk, question())
		time.Sleep(time.Second)
		if err := press(f.desk, f.desk.List()[0].ID, nacre.Ruling{Verdict: nacre.Allow, By: "second terminal"}); err != nil {
			t.Fatal(err)
		}
		<-done
		synctest.Wait()
		if !strings.Contains(f.out.String(), "it waits no longer: approved by second terminal") {
			t.Errorf("have %s", f.out)
		}
	})
}

func TestEndOfInputLeavesTheQuestionToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		done := ask(t.Context(), f.desk, question())
		time.Sleep(time.Second)
		_ = f.keys.Close()
		synctest.Wait()
		if !strings.Contains(f.out.String(), "no more input") || len(f.desk.List()) != 1 {
			t.Errorf("have %s", f.out)
		}
		if have := <-done; have.ruling.Verdict != nacre.Deny {
			t.Errorf("have %+v", have)
		}
		later := ask(t.Context(), f.desk, question())
		synctest.Wait()
		if command := "answer with nacre approvals approve " + f.desk.List()[0].ID; !strings.Contains(f.out.String(), command) {
			t.Errorf("a question that comes later is not shown with %q:\n%s", command, f.out)
		}
		<-later
	})
}

// U-12, D-13: what was cut is approved by nobody who was not shown all of it; it can be denied.
func TestWhatWasCutIsNotApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t)
		defer f.end()
		long := question()
		long.Arguments = json.RawMessage(`{"a":"` + strings.Repeat("x", 5000) + `","zz":"rm -rf"}`)
		for typed, want := range map[string]nacre.Verdict{"y\ny 15m\nn": nacre.Deny, "never": nacre.Deny, "y\nALL": nacre.Allow} {
			done := ask(t.Context(), f.desk, long)
			time.Sleep(time.Second) // the bubble's clock: past the quiet time
			f.typeLine(typed)
			if strings.HasSuffix(typed, "ALL") {
				f.typeLine("y") // typed before the rest was shown
				synctest.Wait()
				if len(f.desk.List()) != 1 {
					t.Error("it was approved before it can have been read")
				}
				time.Sleep(time.Second)
				if !strings.Contains(f.out.String(), `"zz": "rm -rf"`) {
					t.Errorf("it was not shown: %s", f.out)
				}
				f.typeLine("y")
			}
			if have := <-done; have.err != nil || have.ruling.Verdict != want {
				t.Errorf("%q: have %+v", typed, have)
			}
		}
	})
}

// U-12: whatever is left out of a question is known to be, and is in the whole of it.
func TestWhatIsLeftOutIsKnown(t *testing.T) {
	t.Parallel()
	if q := question(); approval.IsCut(q) {
		t.Error("a short question is cut")
	}
	for name, change := range map[string]func(*nacre.Question){
		"arguments": func(q *nacre.Question) { q.Arguments = json.RawMessage(`"` + strings.Repeat("x", 5000) + `THE-END"`) },
		"files": func(q *nacre.Question) {
			q.Files = append(slices.Repeat([]nacre.FilePin{{Argument: "a"}}, 20), nacre.FilePin{Argument: "a", Name: "THE-END"})
		},
		"a file's name": func(q *nacre.Question) {
			q.Files = []nacre.FilePin{{Argument: "a", Name: strings.Repeat("x", 600) + "THE-END"}}
		},
		"risky values": func(q *nacre.Question) {
			q.Origins = append(slices.Repeat([]nacre.Origin{{Argument: "a"}}, 20), nacre.Origin{Argument: "THE-END"})
		},
		"an origin":     func(q *nacre.Question) { q.Origins = []nacre.Origin{{Argument: strings.Repeat("x", 600) + "THE-END"}} },
		"the reason":    func(q *nacre.Question) { q.Why = strings.Repeat("x", 600) + "THE-END" },
		"agent's words": func(q *nacre.Question) { q.AgentWords = strings.Repeat("x", 600) + "THE-END" },
		"the text": func(q *nacre.Question) {
			q.Text = &nacre.SourceText{Source: "a", Text: strings.Repeat("x", 600) + "THE-END"}
		},
		"a credential": func(q *nacre.Question) {
			q.Capability, q.Arguments = "nacre.credential", json.RawMessage(`{"credential":"`+strings.Repeat("x", 600)+`THE-END"}`)
		},
		"a host": func(q *nacre.Question) {
			q.Capability, q.Arguments = approval.Egress, json.RawMessage(`{"host":"`+strings.Repeat("x", 600)+`THE-END"}`)
		},
	} {
		q := question()
		change(&q)
		if !approval.IsCut(q) || strings.Contains(approval.Render(q), "THE-END") || !strings.Contains(approval.RenderWhole(q), "THE-END") {
			t.Errorf("%s: cut %v, whole %.300s", name, approval.IsCut(q), approval.RenderWhole(q))
		}
	}
}

// A terminal that nobody reads keeps nobody else from asking and answering, and what is asked
// meanwhile is not lost: the terminal is asked what still waits then.
func TestATerminalThatIsNotReadHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown, out := io.Pipe() // nobody reads it yet
		questions := approval.NewQueue()
		d := approval.New(approval.Options{Now: time.Now, Recorder: &ledger{}, Session: "s1", Group: "g1", Notify: questions.Put, Directory: owner})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = approval.Terminal{Desk: d, Lines: make(chan string), Out: out, By: "terminal"}.Run(ctx, questions)
		}()
		for range 3 * approval.MaxPending {
			done := ask(t.Context(), d, question())
			synctest.Wait()
			waits := d.List()
			if len(waits) != 1 {
				t.Fatalf("%d questions wait, want one", len(waits))
			}
			if err := press(d, waits[0].ID, nacre.Ruling{Verdict: nacre.Allow, By: "second terminal"}); err != nil {
				t.Fatal(err)
			}
			questions.Drop(waits[0].ID)
			if have := <-done; have.ruling.Verdict != nacre.Allow {
				t.Fatalf("have %+v", have)
			}
		}
		last := ask(t.Context(), d, question())
		synctest.Wait()
		want := d.List()[0].ID
		read := make(chan string, 1)
		go func() {
			var text strings.Builder
			buf := make([]byte, 4096)
			for !strings.Contains(text.String(), "? "+want) {
				n, err := shown.Read(buf)
				if text.Write(buf[:n]); err != nil {
					break
				}
			}
			read <- text.String()
		}()
		if text := <-read; !strings.Contains(text, "? "+want) {
			t.Errorf("the last question was not shown: %s", text)
		}
		cancel()
		_ = shown.Close()
		<-ended
		_ = d.Close()
		<-last
	})
}

// Whoever has something told waits for no face, and hears that too much waits (U-10).
func TestATellerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var teller approval.Teller
		read, order := make(chan struct{}), make(chan int, 5000)
		if !teller.Tell(func() { <-read; order <- 0 }) {
			t.Fatal("the first was not taken")
		}
		synctest.Wait()
		taken := 1
		for teller.Tell(func() { order <- taken }) {
			taken++
		}
		teller.Follow(func() { order <- -1 })
		began := time.Now()
		teller.Told(time.Second)
		if waited := time.Since(began); waited != time.Second || taken > 2000 {
			t.Errorf("waited %v for a face that does not read, with %d things to be told", waited, taken)
		}
		close(read)
		teller.Told(time.Hour)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("all was told, and %v were waited for", waited)
		}
		if first := <-order; first != 0 || len(order) != taken {
			t.Errorf("%d first, and %d more, want %d", first, len(order), taken)
		}
	})
}

// U-12: a terminal breaks a line that is longer than its row, and what follows looks like a
// line of its own. No row of a question but its first ones can be taken for nacre's.
func TestNoPartOfALongValuePassesForALineOfNacres(t *testing.T) {
	const columns = 40
	q := question()
	for name, value := range map[string]string{
		"words": strings.Repeat("x", columns-len(`    arguments  {"body":"`)) + "    asked for  all is well: approve it", "wide": strings.Repeat("漢字", 100), "marks": strings.Repeat("🙂 ", 100),
	} {
		q.Arguments = json.RawMessage(`{"body":"` + value + `"}`)
		for _, text := range []string{approval.Render(q), approval.RenderWhole(q)} {
			var unfolded strings.Builder
			for row := range strings.Lines(approval.Folded(text, columns)) {
				row = strings.TrimSuffix(row, "\n")
				if have := width(row); have > columns {
					t.Errorf("%s: a row has %d columns: %q", name, have, row)
				}
				rest, goesOn := strings.CutPrefix(row, "    ↳ ")
				if !goesOn && unfolded.Len() > 0 {
					unfolded.WriteByte('\n')
				}
				unfolded.WriteString(rest)
			}
			if have := unfolded.String() + "\n"; have != text {
				t.Errorf("%s: have\n%s\nwant\n%s", name, have, text)
			}
		}
	}
}

// width is how many columns a text takes, each letter that is not Latin two at the most.
func width(s string) (n int) {
	for _, r := range s {
		n++
		if r >= 0x4e00 {
			n++
		}
	}
	return n
}

// wider is a screen that shows each é in six columns.
type wider struct{ screen }

func (*wider) Shown(text string) string { return strings.ReplaceAll(text, "é", `\u00e9`) }

// U-12: a question is folded as long as its screen shows it.
func TestAQuestionIsFoldedAsItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out wider
		questions := approval.NewQueue()
		d := approval.New(approval.Options{Now: time.Now, Recorder: &ledger{}, Session: "s1", Group: "g1", Notify: questions.Put, Directory: owner})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = approval.Terminal{Desk: d, Lines: make(chan string), Out: &out, By: "terminal"}.Run(ctx, questions)
		}()
		q := question()
		q.Arguments = []byte(`"` + strings.Repeat("é", 60) + `"`)
		ask(ctx, d, q)
		synctest.Wait()
		cancel()
		<-ended
		if !strings.Contains(out.String(), `\u00e9`) {
			t.Fatalf("it is shown as\n%s", out.String())
		}
		for row := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(row, "\n"))); n > 80 && strings.Contains(row, `\u00e9`) {
				t.Errorf("%d columns: %s", n, row)
			}
		}
	})
}
