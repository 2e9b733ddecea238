package redact

// shape is a form that is known by what stands in its middle.
type shape struct {
	infix string
	// before is what stands before the infix and least how long it is, after
	// and its least are the same for what follows.
	before      class
	beforeLeast int
	after       class
	afterLeast  int
	// afterMost is how long what follows may be.
	afterMost int
}

// shapes are the published ones.
var shapes = []shape{
	{".atlasv1.", alnum, 14, dashed, 60, 80},  // Terraform Cloud
	{"q~", tilded, 4, tilded, 31, 40},         // Microsoft Entra client secret
	{"-us", hexed, 32, digit, 1, 2},           // Mailchimp
	{":apa91b", dashed, 11, dashed, 100, 300}, // Firebase Cloud Messaging
	{"azdo", alnum, 76, alnum, 4, 4},          // Azure DevOps
}

func (s *shape) check(h *hunt, start, end int) (span, bool) {
	from := start
	for from > 0 && start-from <= s.beforeLeast && s.before.has(h.text[from-1]) {
		from--
	}
	stop := h.run(s.after, end)
	if n := stop - end; start-from < s.beforeLeast || n < s.afterLeast || n > s.afterMost {
		return span{}, false
	}
	switch s.infix {
	case "q~":
		if h.text[start] != 'Q' || !isDigit(h.text[start-1]) {
			return span{}, false
		}
		from = start - 4
	case "-us":
		if start-from != s.beforeLeast || alnum.has(h.byteAt(stop)) {
			return span{}, false
		}
	}
	return span{from, stop}, true
}

// The parts of a Discord bot's token: its number as base64, a time, a MAC.
const (
	minBotID  = 23
	maxBotID  = 30
	botTime   = 6
	minBotMAC = 27
	maxBotMAC = 40
)

// discord is the token whose first part ends the run, if it is one.
func discord(s string, run span) (span, bool) {
	from := run.end // its number is letters and digits: a sign before them is not its own
	for from > run.start && run.end-from <= maxBotID+1 && alnum.has(s[from-1]) {
		from--
	}
	if from == run.start && from > 0 && s[from-1] == '\\' {
		from++ // the letter of an escape
	}
	if n := run.end - from; n < minBotID || n > maxBotID || s[from] < 'M' || s[from] > 'O' {
		return span{}, false
	}
	mid := runEnd(s, dashed, run.end+1)
	end := runEnd(s, dashed, mid+1)
	if s[min(run.end, len(s)-1)] != '.' || mid-run.end-1 != botTime || end-mid-1 < minBotMAC || end-mid-1 > maxBotMAC || s[mid] != '.' {
		return span{}, false
	}
	return span{from, end}, true
}

// runEnd is where a run of c from i on ends, or a limit.
func runEnd(s string, c class, i int) int {
	for limit := i + 2*maxBotMAC; i < len(s) && i < limit && c.has(s[i]); {
		i++
	}
	return i
}
