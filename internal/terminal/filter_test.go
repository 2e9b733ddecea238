package terminal_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// F-11, U-14: what draws passes. What writes the clipboard, makes the terminal type, or is not on the list does not,
// in whatever pieces it comes.
func TestOnlySequencesOfTheListReachTheTerminal(t *testing.T) {
	t.Parallel()
	long := "\x1b]0;" + strings.Repeat("x", 10_000) + "\a"
	for name, c := range map[string]struct{ printed, want string }{
		"text":                       {"plain ä € 😀\r\n\ttext\b\a", "plain ä € 😀\r\n\ttext\b\a"},
		"colours and cursor":         {"\x1b[1;38:5:3mred\x1b[0m\x1b[2J\x1b[H\x1b[10;5H\x1b[K\x1b[?25l\x1b[3 q\x1b[!p", "\x1b[1;38:5:3mred\x1b[0m\x1b[2J\x1b[H\x1b[10;5H\x1b[K\x1b[?25l\x1b[3 q\x1b[!p\x1b[?25h"},
		"modes, scrolling, charsets": {"\x1b[?1049h\x1b[?1006h\x1b[?2004h\x1b[1;20r\x1b7\x1b8\x1bM\x1b(B\x1b=\x1b#8", "\x1b[?1049h\x1b[?1006h\x1b[?2004h\x1b[1;20r\x1b7\x1b8\x1bM\x1b(B\x1b=\x1b#8\x1b[?7h\x1b[?2004l\x1b[?1006l\x1b[?1049l\x1b7\x1b[r\x1b8\x1b(B\x0f\x1b[0m"},
		"titles and links":           {"\x1b]2;title\a\x1b]8;;https://a.test\x1b\\a\x1b]8;;\x1b\\\x1b[22;0t", "\x1b]2;title\a\x1b]8;;https://a.test\x1b\\a\x1b]8;;\x1b\\\x1b[22;0t"},
		"links to programs":          {"a\x1b]8;;ssh://-oProxyCommand=x/\x1b\\b\x1b]8;;X-Man-Page://y\ac\x1b]8;;/etc\ad\x1b]8;id=1;HTTPS://a.test\ae\x1b]8;;\a", "abcd\x1b]8;id=1;HTTPS://a.test\ae\x1b]8;;\a"},
		"the clipboard":              {"a\x1b]52;c;eHh4\ab\x1b]52;c;?\x1b\\c", "abc"},
		"queries":                    {"a\x1b[6n\x1b[c\x1b[>c\x1b[>q\x1b[?2026$p\x1b[?u\x1b[?4m\x1b[21t\x1b[x\x1bZ\x05\x1b]11;?\a\x1bP$qm\x1b\\b", "ab"},
		"programs of the terminal":   {"a\x1b]1337;File=:AA\a\x1b]777;notify;x\a\x1b_Gq\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\\x1bPtmux;\x1b\x1b]52;c;x\a\x1b\\b\x1b[4i", "ab"},
		"controls of eight bits":     {"a\u009b6n\x9b6nb\x90q\x9cc", "a6n6nbqc"},
		"an unfinished sequence":     {"a\x1b]52;c;x", "a"},
		"one that is cancelled":      {"a\x1b[6\x18nb", "anb"},
		"one that begins another":    {"a\x1b[6\x1b[1mb", "a\x1b[1mb\x1b[0m"},
		"one that is too long":       {"a" + long + "b", "ab"},
		// An ESC ends a text for terminals, whatever comes next is obeyed; so is a control in the midst of a sequence.
		"a query in a title":               {"a\x1b]0;x\x1b[6n\ab", "ab"},
		"the clipboard in a title":         {"a\x1b]2;x\x1b]52;c;eHh4\ab", "ab"},
		"controls in a title":              {"a\x1b]0;x\ny\ab\x1b]0;x\u009c\u009b6n\ac\x1b]0;\x9c\x9b6n\x1b\\d\x1b]8;;\x05\ae", "abcde"},
		"a control in a sequence":          {"a\x1b[?\x05hb\x1b(\x05c\x1b[>\rm", "ahbc\rm"},
		"a string in a sequence":           {"a\x1b[?\u009d52;;hHh4\ab\x1b[?\x9d52;;hHh4\x1b\\c", "a52;;hHh4\ab52;;hHh4c"},
		"eight bits after an intermediate": {"a\x1b(\x9b6nb\x1b#\x9b6nc\x1b%\u009b6n", "a6nb6nc6n"},
		"another set of characters":        {"a\x1b%@\x1b%/G\x1b Gb\x1b%G", "ab\x1b%G"},
		"a control in a longer form":       {"a\xe0\x82\x9b6n\xf0\x80\x82\x9b6nb\xc1\x9bc\xed\xa0\x80d\xf4\x90\x80\x80e", "a6n6nbcde"},
		"a half of a character":            {"a\xe2\x82b\xc2\x1b[1m\x9b6n\x1b[m", "ab\x1b[1m6n\x1b[m"},
		"modes that type or lock":          {"a\x1b[?2048h\x1b[2h\x1b[12l\x1b[?1049;2048h\x1b[?9001hb", "ab"},
		"modes that were saved":            {"a\x1b[?1003s\x1b[?1003rb", "ab"},
		"a query that looks like another":  {"a\x1b[>4;?m\x1b[?4 m\x1b[22\x01tb\x1b[220t\x1b[!0pc", "a\x01tbc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, from := range map[string]io.Reader{
				"at once": strings.NewReader(c.printed), "byte by byte": iotest.OneByteReader(strings.NewReader(c.printed)),
			} {
				have, err := io.ReadAll(terminal.Filter(from))
				if err != nil || string(have) != c.want {
					t.Errorf("%s: have %q %v, want %q", way, have, err, c.want)
				}
			}
		})
	}
}

// U-01, U-14: a program that reads the terminal until its end may ask it what is answered
// in numbers, and nothing else more.
func TestADialogAsksTheTerminalForNumbersOnly(t *testing.T) {
	t.Parallel()
	const questions = "\x1b[6n\x1b[c\x1b[>c\x1b[>q\x1b[?u\x1b[?2026$p\x1b]11;?\x1b\\\x1b]4;1;?\a\x1b[18t"
	const refused = "\x1b[21t\x1b[20t\x1b[x\x1bZ\x05\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b]52;c;?\a\x1b]52;c;eHh4\a\x1b[>1;6n\x1b[?15n\x1b]0;\x1b[6n\a"
	have, err := io.ReadAll(terminal.Dialog(strings.NewReader(questions + refused)))
	if err != nil || string(have) != questions {
		t.Errorf("have %q %v, want %q", have, err, questions)
	}
}

// U-14: what a command leaves switched on is taken back at its end: it would hide what is
// printed next, or type into the shell that comes after.
func TestWhatACommandLeavesSwitchedOnIsTakenBack(t *testing.T) {
	t.Parallel()
	const saved = "\x1b[?7h\x1b(B\x0f\x1b[0m" // with the cursor, whatever the text is by then
	for name, c := range map[string]struct{ printed, undone string }{
		"nothing":                    {"text", ""},
		"all was put back":           {"\x1b[?1049;25h\x1b[?1003h\x1b[8m\x1b[2;3r\x1b]8;;http://a.test\a\x1b[0m\x1b[?1003l\x1b[r\x1b]8;;\a", "\x1b[?1049l"},
		"all of another screen":      {"\x1b[?1049h\x1b[?1049l", saved},
		"what came with the cursor":  {"\x1b[8m\x1b7\x1b[0m\x1b8", saved},
		"that of another terminal":   {"\x1b[8m\x1b[s\x1b[0m\x1b[u", saved},
		"that of a mode":             {"\x1b[8m\x1b[?1048h\x1b[0m\x1b[?1048l", saved},
		"what another stream saved":  {"\x1b8", saved},
		"a saved origin":             {"\x1b[?6h\x1b7\x1b[?6l\x1b8", "\x1b[?7h\x1b[?6l\x1b(B\x0f\x1b[0m"},
		"a link":                     {"\x1b]8;;http://a.test\x1b\\", "\x1b]8;;\x1b\\"},
		"colours and a reset":        {"\x1b]10;#000\a\x1b]11;#000\a\x1bc", "\x1b]104\a\x1b]110\a\x1b]111\a\x1b]112\a"},
		"text that cannot be seen":   {"\x1b[8m", "\x1b[0m"},
		"a mouse that types":         {"\x1b[?1003h\x1b[?1006h\x1b[?1003h", "\x1b[?1003l\x1b[?1006l"},
		"no cursor, another screen":  {"\x1b[?1049h\x1b[?25;7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"},
		"a part that scrolls":        {"\x1b[5;6r", "\x1b7\x1b[r\x1b8"},
		"lines for letters":          {"\x1b)0\x0e", "\x1b(B\x0f"},
		"keys of another protocol":   {"\x1b[>31u", "\x1b[<99u\x1b[=0u\x1b[>4m"},
		"black on black":             {"\x1b]10;#000\a\x1b]11;#000\x1b\\", "\x1b]104\a\x1b]110\a\x1b]111\a\x1b]112\a"},
		"a reset of all":             {"\x1b[?1003h\x1b[8m\x1bc", ""},
		"a sequence that is refused": {"\x1b]52;c;x\a\x1b[?1003;2048h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, from := range map[string]io.Reader{
				"at once": strings.NewReader(c.printed), "byte by byte": iotest.OneByteReader(strings.NewReader(c.printed)),
			} {
				have, err := io.ReadAll(terminal.Filter(from))
				passed := strings.NewReplacer("\x1b]52;c;x\a", "", "\x1b[?1003;2048h", "").Replace(c.printed)
				if want := passed + c.undone; err != nil || string(have) != want {
					t.Errorf("%s: have %q %v, want %q", way, have, err, want)
				}
			}
		})
	}
}

// U-14: the cursor's origin is taken back where any stream of the command has set it. After other programs that
// draw on the other screen it is not: the cursor would move over what was printed before.
func TestAnOriginThatAnotherStreamSavedIsTakenBack(t *testing.T) {
	t.Parallel()
	together := terminal.Together(false)
	for _, c := range []struct{ printed, undone string }{
		{"\x1b[?1049h\x1b[?1049l", "\x1b[?7h\x1b(B\x0f\x1b[0m"},
		{"\x1b[?6h\x1b7\x1b[?6l", ""},
		{"\x1b8", "\x1b[?7h\x1b[?6l\x1b(B\x0f\x1b[0m"},
	} {
		have, err := io.ReadAll(together(strings.NewReader(c.printed)))
		if want := c.printed + c.undone; err != nil || string(have) != want {
			t.Errorf("have %q %v, want %q", have, err, want)
		}
	}
}

// F-11: a sequence is given whole, so that what another stream prints on the same terminal
// does not complete it to another one.
func TestASequenceIsGivenWhole(t *testing.T) {
	t.Parallel()
	const sequence = "\x1b[1;31m"
	filtered := terminal.Filter(iotest.OneByteReader(strings.NewReader(strings.Repeat("x"+sequence, 50))))
	p := make([]byte, 32)
	for {
		n, err := filtered.Read(p)
		if last := strings.LastIndexByte(string(p[:n]), 0x1b); last >= 0 && n-last != len(sequence) && p[n-1] != 'x' && p[n-1] != 'm' {
			t.Fatalf("%q ends in a sequence", p[:n])
		}
		if err == io.EOF {
			return
		}
		if n == 0 {
			t.Fatal("it gives nothing, and goes on")
		}
	}
}
