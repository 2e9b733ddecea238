package provenance

import (
	"fmt"
	"strings"
)

// dateKind is the kind of docs that are a day: with its year, without one where
// the text has none, and as the day of some year.
const dateKind = "\x01t"

// months are the English ones, which a date in words is read by; dates in
// digits have no language. Any beginning of three letters or more is one.
var months = [...]string{
	"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
}

const (
	// maxDates is how many dates of one text are read.
	maxDates = 4 << 10
	// maxRange is how many tokens behind the month "may 18th, 2024 to 20th" ends.
	maxRange = 5
)

// day is a date; a year of 0 is any.
type day struct{ year, month, date int }

// spelled are the docs that say a day was written.
func (d day) spelled() []string {
	if d.year == 0 {
		return []string{fmt.Sprintf("%s--%02d-%02d", dateKind, d.month, d.date)}
	}
	return []string{
		fmt.Sprintf("%s%04d-%02d-%02d", dateKind, d.year, d.month, d.date),
		fmt.Sprintf("%s*-%02d-%02d", dateKind, d.month, d.date),
	}
}

// sought are the docs of which one must have been written for the day to be
// seen: a day without a year is seen in every year.
func (d day) sought() []string {
	bare := fmt.Sprintf("%s--%02d-%02d", dateKind, d.month, d.date)
	if d.year == 0 {
		return []string{bare, fmt.Sprintf("%s*-%02d-%02d", dateKind, d.month, d.date)}
	}
	return []string{bare, fmt.Sprintf("%s%04d-%02d-%02d", dateKind, d.year, d.month, d.date)}
}

func (d day) valid() bool {
	return d.month >= 1 && d.month <= 12 && d.date >= 1 && d.date <= 31 && (d.year == 0 || d.year >= 1000 && d.year <= 9999)
}

// token is a run of digits or of letters, and what stands behind it.
type token struct {
	text   string
	number int  // of digits; -1 for letters and what is no number of a date
	after  byte // the one character between it and the next, or 0
	// ordinal is set of 1st, 2nd, 3rd, 4th.
	ordinal bool
}

// dates reads the days in a normalised text: 2024-05-18, 2024/5/18, 18.5.2024,
// may 18th, 2024, 18 may, may 18 to 20, 18 to 20 may. What may be read in two ways,
// as 5/6/2024, is read in none.
func dates(text string) (found []day) {
	r := dateReader{text: text}
	var window [7]token // window[4] is the one looked at
	for range 3 {
		copy(window[:], window[1:])
		window[6] = r.next()
	}
	open := 0 // how many tokens on a range may end that begins with the last day
	for ; window[4].text != "" && len(found) < maxDates; open-- {
		d, worded, ok := dayAt(window[2:])
		switch {
		case ok && worded:
			if first, is := firstOf(window[:4], d); is {
				found = append(found, first)
			}
			found, open = append(found, d), maxRange
		case ok:
			found, open = append(found, d), 0
		case open > 0 && window[3].goesOn() && window[4].isDate():
			last := found[len(found)-1]
			found = append(found, day{last.year, last.month, window[4].number})
		}
		copy(window[:], window[1:])
		window[6] = r.next()
	}
	return found
}

// firstOf is the day that a range begins with which ends on d. It goes by the four tokens before
// the month: "18 to 20 may", "18-20 may", "18th and 20th of may".
func firstOf(before []token, d day) (day, bool) {
	end := len(before) - 1
	if before[end].text == "of" {
		end--
	}
	first := before[end-1]
	if first.after != '-' {
		first = token{}
		if before[end-1].goesOn() || before[end-1].text == "and" {
			first = before[end-2]
		}
	}
	if before[end].number != d.date || !first.isDate() {
		return day{}, false
	}
	return day{d.year, d.month, first.number}, true
}

// isDate reports whether a token may be the day of a month.
func (t token) isDate() bool {
	return t.number > 0 && t.number <= 31 && len(t.text) <= 2 && t.after != ':'
}

// goesOn reports whether a range of days goes on behind a token.
func (t token) goesOn() bool {
	return t.text == "to" || t.text == "until" || t.text == "till" || t.text == "through" || t.number > 0 && t.after == '-'
}

// dayAt is the date whose second part, or month in words, stands in the middle of
// five tokens.
func dayAt(w []token) (d day, worded, ok bool) {
	before, at, after := w[1], w[2], w[3]
	switch {
	case before.after == '-' && at.after == '-' && len(before.text) == 4, before.after == '/' && at.after == '/' && len(before.text) == 4:
		d = day{before.number, at.number, after.number} // 2024-05-18, 2024/5/18
	case before.after == '.' && at.after == '.' && len(after.text) == 4:
		d = day{after.number, at.number, before.number} // 18.5.2024
	case before.after == '/' && at.after == '/' && len(after.text) == 4:
		d = day{after.number, at.number, before.number}
		if d.month > 12 {
			d.month, d.date = d.date, d.month
		} else if d.date <= 12 && d.date != d.month {
			return day{}, false, false // the British read another day than the Americans
		}
	default:
		d, ok = dayInWords(w)
		return d, true, ok
	}
	return d, false, d.valid()
}

// dayInWords reads "may 18th, 2024" and "18th of may 2024" around the month.
func dayInWords(w []token) (day, bool) {
	before, at, after := w[1], w[2], w[3]
	month := monthOf(at.text)
	if month == 0 {
		return day{}, false
	}
	if before.text == "of" {
		before = w[0]
	}
	hour := at.after != ' ' || w[4].text == "am" || w[4].text == "pm" // "10 december, 9 am"
	d := day{month: month}
	switch {
	case before.isDate() && before.after == ' ' && hour:
		d.date = before.number
	case after.isDate():
		d.date = after.number
		if len(w[4].text) == 4 && w[4].number > 0 {
			d.year = w[4].number
		}
	case before.number > 0:
		d.date = before.number
	}
	if after.number > 0 && len(after.text) == 4 && d.date > 0 {
		d.year = after.number
	}
	return d, d.valid()
}

func monthOf(word string) int {
	if len(word) < 3 {
		return 0
	}
	for i, m := range months {
		if strings.HasPrefix(m, word) {
			return i + 1
		}
	}
	if word == "sept" {
		return 9
	}
	return 0
}

// dateReader reads the tokens of a text.
type dateReader struct {
	text string
	at   int
}

// next returns the next token; its text is empty at the end.
func (r *dateReader) next() (t token) {
	for r.at < len(r.text) && !isDigit(r.text[r.at]) && !isLetter(r.text[r.at]) {
		r.at++
	}
	start := r.at
	digits := r.at < len(r.text) && isDigit(r.text[r.at])
	for r.at < len(r.text) && (digits && isDigit(r.text[r.at]) || !digits && isLetter(r.text[r.at])) {
		r.at++
	}
	t.text, t.number = r.text[start:r.at], -1
	if digits && len(t.text) <= 4 {
		t.number = 0
		for i := range len(t.text) {
			t.number = t.number*10 + int(t.text[i]-'0')
		}
		t.ordinal = r.ordinal()
	}
	if r.at+1 < len(r.text) && (isDigit(r.text[r.at+1]) || isLetter(r.text[r.at+1])) {
		t.after = r.text[r.at]
	}
	return t
}

// ordinal passes over, and reports, the letters behind a day: 1st, 2nd, 3rd, 4th.
func (r *dateReader) ordinal() bool {
	rest := r.text[r.at:]
	for _, suffix := range [...]string{"st", "nd", "rd", "th"} {
		if strings.HasPrefix(rest, suffix) && (len(rest) == 2 || !isLetter(rest[2]) && !isDigit(rest[2])) {
			r.at += len(suffix)
			return true
		}
	}
	return false
}

// dateAliases are the docs of the days in a text.
func dateAliases(text string) (found []doc) {
	if !strings.ContainsAny(text, "0123456789") {
		return nil
	}
	for _, d := range dates(text) {
		for _, s := range d.spelled() {
			found = append(found, doc(s))
		}
	}
	return found
}

// date adds the spellings of the one day that a value is; where it is none, or
// several, those of any text.
func (f *forms) date(value []byte) {
	text := string(normalise(value))
	if len(text) > maxAtom {
		return
	}
	if found := dates(text); len(found) == 1 {
		for _, s := range found[0].sought() {
			f.add(s, true)
		}
		return
	}
	f.text(value)
}
