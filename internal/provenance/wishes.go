package provenance

import (
	"slices"
	"strings"
	"time"
)

// The bounds of what is understood of the operator's words. What is over them says
// nothing more, which asks.
const (
	maxWished     = 8 << 10 // tokens that are read of one text
	maxVocabulary = 4 << 10
	maxSpans      = 64
	maxKnownDays  = 256
	maxSpan       = 366 // days
	maxDate       = 31
	// maxWeekdays is within how many days from today a day of the week lies that was named.
	maxWeekdays = 13
	week        = 7
	minStem     = 3
	// minShort is the shortest beginning of a word that stands for it, as prod for production.
	minShort = 4
)

// wishes are what the operator's words say beyond the values in them: which words they
// use, and which days they reckon with. Words are English, as the names of months are.
type wishes struct {
	// vocabulary is their words, by stem and as they are.
	vocabulary map[string]struct{}
	// days are those that they wrote, spans how many days there are between one day and
	// another, sinceToday between today and one.
	days              []day
	spans, sinceToday []int
	weekdays          [week]bool
	// ordinals are the days of a month that they spoke of without one, as "the 19th".
	ordinals [maxDate + 1]bool
	// monthEnds are the months of whose end they speak; 0 is this one, -1 the next.
	monthEnds []int
	// superlatives are how they pick one of several.
	superlatives []superlative
	// today is the day that a trusted clock has told.
	today day
	// spoken is how they name things and people.
	spoken spoken
}

// hear takes in a text of the operator, normalised.
func (w *wishes) hear(text string) {
	for _, d := range dates(text) {
		if len(w.days) < maxKnownDays {
			w.days = append(w.days, d)
		}
	}
	r := dateReader{text: text}
	var tokens []token
	for len(tokens) < maxWished {
		t := r.next()
		if t.text == "" {
			break
		}
		tokens = append(tokens, t)
	}
	if w.vocabulary == nil {
		w.vocabulary = make(map[string]struct{})
	}
	for i, t := range tokens {
		if len(w.vocabulary) < maxVocabulary && len(t.text) <= maxIdentifier {
			w.vocabulary[t.text], w.vocabulary[stem(t.text)] = struct{}{}, struct{}{}
		}
		w.reckon(tokens, i)
		if s, is := superlativeOf(tokens, i); is && len(w.superlatives) < maxSpans && !slices.Contains(w.superlatives, s) {
			w.superlatives = append(w.superlatives, s)
		}
	}
}

// around is the text of a token near another one; empty where there is none.
func around(tokens []token, i int) string {
	if i < 0 || i >= len(tokens) {
		return ""
	}
	return tokens[i].text
}

// reckon reads what the token at i says of days.
func (w *wishes) reckon(tokens []token, i int) {
	if t := tokens[i]; t.ordinal && t.number <= maxDate {
		w.ordinals[t.number] = true
	}
	switch text := tokens[i].text; text {
	case "today", "tonight":
		w.sinceToday = span(w.sinceToday, 0)
	case "yesterday":
		w.sinceToday = span(w.sinceToday, -1)
	case "tomorrow":
		w.sinceToday = span(w.sinceToday, 1)
		if around(tokens, i-1) == "after" {
			w.sinceToday = span(w.sinceToday, 2)
		}
	case "day", "days", "night", "nights":
		w.count(tokens, i, 1)
	case "week", "weeks":
		w.count(tokens, i, week)
	case "end":
		w.monthEnd(tokens[i+1:])
	default:
		for at := range w.weekdays {
			w.weekdays[at] = w.weekdays[at] || text == strings.ToLower(time.Weekday(at).String())
		}
	}
}

func span(spans []int, days int) []int {
	if len(spans) == maxSpans || slices.Contains(spans, days) {
		return spans
	}
	return append(spans, days)
}

// count reads "two weeks later", "one night longer", "the day after", "the next week"
// around the unit at i.
func (w *wishes) count(tokens []token, i, unit int) {
	before, after := around(tokens, i-1), around(tokens, i+1)
	back := after == "before" || after == "earlier" || after == "ago" || after == "prior"
	number := i - 1
	if before == "more" {
		number--
	}
	n := 0
	switch {
	case before == "next" || before == "following":
		n = 1
	case before == "previous" || before == "preceding":
		n, back = 1, true
	case number >= 0 && tokens[number].number > 0:
		n = tokens[number].number
	case number >= 0:
		n = slices.Index(numerals[:], tokens[number].text) + 1
	}
	if n == 0 && (after == "after" || after == "before") || before == "a" {
		n = 1
	}
	if n *= unit; n == 0 || n > maxSpan {
		return
	}
	if back {
		n = -n
	}
	w.spans = span(w.spans, n)
}

// numerals are the numbers that are written in words.
var numerals = [...]string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// monthEnd reads what stands behind the word end: "of april", "of next month".
func (w *wishes) monthEnd(rest []token) {
	month := 0
	for i := range min(len(rest), 4) {
		switch text := rest[i].text; {
		case text == "of" || text == "the" || text == "this":
			continue
		case text == "next":
			month = -1
			continue
		case text == "month":
		case monthOf(text) > 0:
			month = monthOf(text)
		default:
			return
		}
		w.monthEnds = span(w.monthEnds, month)
		return
	}
}

// reckons reports whether a day is one that the operator's words reckon, from today,
// from a day that they wrote, or from one of a record that they named.
func (w *wishes) reckons(d day, named []day, now time.Time) bool {
	if d.year == 0 {
		return false
	}
	today := w.now(now)
	if today.year != 0 {
		since := d.since(today)
		if slices.Contains(w.sinceToday, since) || slices.Contains(w.spans, since) ||
			since >= 0 && since <= maxWeekdays && w.weekdays[d.time().Weekday()] || w.endsMonth(d, today) ||
			w.ordinals[d.date] && d.year == today.year && d.month == today.month {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(w.days, named), func(from day) bool {
		if from.year == 0 {
			from.year = d.year
		}
		return slices.Contains(w.spans, d.since(from)) || w.ordinals[d.date] && d.year == from.year && d.month == from.month
	})
}

// now is what day it is, by a trusted clock of the session or else by the kernel's.
func (w *wishes) now(kernel time.Time) day {
	if w.today.year == 0 && !kernel.IsZero() {
		return day{kernel.Year(), int(kernel.Month()), kernel.Day()}
	}
	return w.today
}

// endsMonth reports whether a day is the end of a month of which the operator spoke, and
// which is not long past nor far away.
func (w *wishes) endsMonth(d, today day) bool {
	since := d.since(today)
	if since < -maxSpan || since > maxSpan || d.time().AddDate(0, 0, 1).Day() != 1 {
		return false
	}
	ahead := 12*(d.year-today.year) + d.month - today.month
	return slices.Contains(w.monthEnds, d.month) || ahead == 0 && slices.Contains(w.monthEnds, 0) || ahead == 1 && slices.Contains(w.monthEnds, -1)
}

func (d day) time() time.Time {
	return time.Date(d.year, time.Month(d.month), d.date, 0, 0, 0, 0, time.UTC)
}

// since is how many days a day is after another one.
func (d day) since(from day) int { return int(d.time().Sub(from.time()) / (24 * time.Hour)) }

// chooses reports whether the operator's words have all words of one of a few choices, in any form.
// Of two that they have the agent may take either, as of two that stand there as they are.
func (w *wishes) chooses(choice string, all []string) bool {
	return slices.Contains(all, choice) && w.names(choice)
}

func (w *wishes) names(choice string) bool {
	parts := partsOf(strings.ToLower(choice))
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(part string) bool { return !w.says(part) })
}

// partsOf are the words of a choice, or of another name of a system.
func partsOf(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" _-./:*", r) })
}

// says reports whether the operator wrote a word, a form of it, or its beginning.
func (w *wishes) says(word string) bool {
	if _, is := w.vocabulary[word]; is {
		return true
	}
	if _, is := w.vocabulary[stem(word)]; is {
		return true
	}
	for short := minShort; short < len(word); short++ {
		if _, is := w.vocabulary[word[:short]]; is {
			return true
		}
	}
	return false
}

// replies reports whether the operator wants somebody to be answered, or written to.
func (w *wishes) replies() bool {
	return w.spoken.addresses || w.says("reply") || w.says("answer") || w.says("respond")
}

// wantsAll reports whether the operator spoke of all of something.
func (w *wishes) wantsAll() bool {
	return slices.ContainsFunc([]string{"all", "each", "every", "everybody", "everyone", "everything"}, func(word string) bool {
		_, is := w.vocabulary[word]
		return is
	})
}

// speaksOfLinks reports whether the operator wrote of a link.
func (w *wishes) speaksOfLinks() bool {
	return w.says("link") || w.says("links") || w.says("linked") || w.says("url")
}

// common are the words of English that say nothing of what is spoken of. It is never
// written to.
var common = func() map[string]struct{} {
	set := make(map[string]struct{})
	for word := range strings.FieldsSeq("about after again also anything because been before being best both call could does done down each else even every everybody everyone everything find first from give have here into just keep know last like look made make many message more most much must need next only open other over please read same send should show some something such take tell text than thank thanks that their them then there these they thing this those time today tomorrow under until very want were what when where whether which while will with without would write your") {
		set[word] = struct{}{}
	}
	return set
}()

// stem is a word without the endings of its forms: closing, closed and close are clos, and
// keller and kellers are kell. A word that is short is its own.
func stem(word string) string {
	if root, ok := strings.CutSuffix(word, "ies"); ok && len(root) >= minStem {
		return root
	}
	if root, ok := strings.CutSuffix(word, "s"); ok && len(root) >= minStem && root[len(root)-1] != 's' {
		word = root
	}
	for _, ending := range [...]string{"ied", "y"} {
		if root, ok := strings.CutSuffix(word, ending); ok && len(root) >= minStem {
			return root
		}
	}
	for _, ending := range [...]string{"ing", "ion", "ed", "er", "e"} {
		root, ok := strings.CutSuffix(word, ending)
		if n := len(root); ok && n >= minStem {
			if root[n-1] == root[n-2] { // ship, shipping
				root = root[:n-1]
			}
			return root
		}
	}
	return word
}
