package provenance

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

const (
	// maxClock is the longest result that is nothing but what day it is, in bytes.
	maxClock = 256
	// maxDay is the longest field that is nothing but a day, in bytes.
	maxDay = 32
)

// observeNamed takes in a record that the operator's words single out. It takes what the system
// minted in it, its lists, its days, and the one address that has a name the operator wrote.
func observeNamed(l *Ledger, name string, of *mintedRecord) {
	l.minted.pointed.addMints(of.mints, name)
	l.minted.lists.observe(of.fields)
	if isIdentifier(of.mints[0]) {
		l.minted.named.addMints(of.mints[:1], name)
	}
	var addresses []string
	for _, key := range slices.Sorted(maps.Keys(of.fields)) {
		text, ok := of.fields[key].(string)
		if !ok {
			continue
		}
		if d, is := oneDay(text); is && isDay(text) && len(l.minted.days.fields) < maxKnownDays {
			l.minted.days.fields = append(l.minted.days.fields, d)
		}
		if address := addressOf(text); address != "" && isCalled(l, address) {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 1 {
		l.minted.sole.add(doc(addresses[0]), name)
	}
	observeLink(l, name, of.texts())
	l.minted.observeSaid(of)
}

// observeSaid takes in the one day in the text of a record; the days that are all of a field
// are others.
func (m *minted) observeSaid(of *mintedRecord) {
	var only day
	for _, field := range of.fields {
		text, ok := field.(string)
		if !ok || isDay(text) {
			continue
		}
		for _, d := range dates(string(normalise([]byte(text)))) {
			if only != (day{}) && d != only {
				return
			}
			only = d
		}
	}
	if only != (day{}) && len(m.days.said) < maxKnownDays {
		m.days.said = append(m.days.said, only)
	}
}

// says reports whether a day is one of these. Without a year it is the next one of its kind.
func (m *minted) says(d, today day) bool {
	return slices.ContainsFunc(m.days.said, func(said day) bool {
		if said.year == 0 && today.year != 0 {
			if since := d.since(today); since < 0 || since > maxSpan {
				return false
			}
			said.year = d.year
		}
		return said == d
	})
}

// isDay reports whether a text is nothing but a day, with or without a time: no outsider's
// sentence in which one stands.
func isDay(text string) bool {
	if len(text) > maxDay {
		return false
	}
	r := dateReader{text: string(normalise([]byte(text)))}
	for t := r.next(); t.text != ""; t = r.next() {
		if !isDigit(t.text[0]) && monthOf(t.text) == 0 && !slices.Contains(dayWords[:], t.text) {
			return false
		}
	}
	return true
}

// dayWords stand beside the day and the month in what is nothing but a day.
var dayWords = [...]string{"t", "z", "utc", "of", "am", "pm", "mon", "tue", "wed", "thu", "fri", "sat", "sun", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// texts are those of a record's own fields.
func (of *mintedRecord) texts() (docs []doc) {
	for _, key := range slices.Sorted(maps.Keys(of.fields)) {
		if text, ok := of.fields[key].(string); ok {
			docs = append(docs, read([]byte(text))...)
		}
	}
	return docs
}

// observeLink takes in the one link of texts that the operator sent for or named.
func observeLink(l *Ledger, name string, docs []doc) {
	only := ""
	for _, d := range docs {
		for _, link := range links(string(d)) {
			if only != "" && link != only {
				return
			}
			only = link
		}
	}
	if only != "" {
		l.minted.followed.addAll(read([]byte(only)), name, nil)
	}
}

// addressOf is the address that a whole text is, with or without the name that is shown;
// empty where it is none.
func addressOf(text string) string {
	if len(text) > maxPointer {
		return ""
	}
	if found := emails(string(normalise([]byte(text)))); len(found) == 1 {
		return found[0]
	}
	return ""
}

// isCalled reports whether an address has a name before its @ that the operator wrote.
func isCalled(l *Ledger, address string) bool {
	local, _, _ := strings.Cut(address, "@")
	for word := range strings.FieldsFuncSeq(local, func(r rune) bool { return strings.ContainsRune("._%+-", r) }) {
		if l.points(doc(word)) {
			return true
		}
	}
	return false
}

// observeSenders takes in who a record that the operator named says it comes from.
func observeSenders(l *Ledger, name string, from []string) {
	for _, address := range from {
		l.minted.senders.add(doc(address), name)
	}
}

// sentBy are the addresses that each record of a result says it comes from.
func sentBy(senders []mint) map[uintptr][]string {
	from := make(map[uintptr][]string)
	for _, s := range senders {
		if address := addressOf(s.value); address != "" && s.record != nil {
			from[placeOf(s.record)] = append(from[placeOf(s.record)], address)
		}
	}
	return from
}

// observeFrom takes in whom a record says it comes from. Two that differ are enough to know that
// neither counts; of one record too many nobody has written it, which asks.
func (m *minted) observeFrom(of *mintedRecord, from []string) {
	id := string(normalise([]byte(of.mints[0])))
	known, is := m.facts.from[id]
	if !is && len(m.facts.from) == maxRecords {
		return
	}
	for _, address := range from {
		if len(known) < 2 && !slices.Contains(known, address) {
			known = append(known, address)
		}
	}
	if len(known) > 0 {
		m.facts.from[id] = known
	}
}

// wrote reports whether an address is the one that a record comes from whose id is a trusted
// value of the call. Of two that claim to have written it, neither is.
func (m *minted) wrote(v *value, values []value) bool {
	return slices.ContainsFunc(values, func(about value) bool {
		return about.kind == nacre.KindID && about.origin.Provenance.Label() == nacre.Trusted && slices.ContainsFunc(about.forms, func(n needle) bool {
			from := m.facts.from[string(n.text)]
			return len(from) == 1 && v.is(from[0])
		})
	})
}

// addressesOf adds to what was found the different addresses that are all of a field of a record, or
// of an object in it, until there are two.
func addressesOf(fields map[string]any, found []string) []string {
	for _, field := range fields {
		if len(found) > 1 {
			break
		}
		switch x := field.(type) {
		case string:
			if address := addressOf(x); address != "" && address == string(normalise([]byte(x))) && !slices.Contains(found, address) {
				found = append(found, address)
			}
		case map[string]any:
			found = addressesOf(x, found)
		}
	}
	return found
}

// observeTrusted takes in what a trusted result says of what the operator named: the
// records that their words single out, and what day it is.
func observeTrusted(l *Ledger, r Result, value any) {
	if today, is := clockOf(r); is {
		l.wishes.today = today
	}
	p := picker{found: recordsOf(value)}
	p.count()
	sentFor := len(p.records) == 1 && l.sentFor(r.Arguments)
	for _, of := range p.records {
		if !sentFor && !l.singledOut(&p, of) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(of.fields)) {
			if text, ok := of.fields[key].(string); ok && len(text) <= maxIdentifier {
				l.minted.looked.addAll(read([]byte(text)), r.Source.Name, nil)
			}
		}
	}
}

// clockOf is what day it is by a result that says nothing else, and was asked nothing.
func clockOf(r Result) (day, bool) {
	arguments := bytes.TrimSpace(r.Arguments)
	if len(r.Result) > maxClock || len(arguments) > 0 && string(arguments) != "{}" {
		return day{}, false
	}
	found := dates(string(normalise(r.Result)))
	if len(found) != 1 || found[0].year == 0 {
		return day{}, false
	}
	return found[0], true
}

// recordsOf are the records of a result: the one that it is, or those of its list.
func recordsOf(value any) (found []mint) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			if record, ok := element.(map[string]any); ok && len(record) > 0 && len(found) < maxMinted {
				found = append(found, mint{record: record})
			}
		}
	case map[string]any:
		found = append(found, mint{record: v})
	}
	return found
}
