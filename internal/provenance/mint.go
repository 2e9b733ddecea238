package provenance

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/nacre-dev/nacre"
)

// The bounds of what is read of one result for what it mints. What is over them
// was not minted, which asks.
const (
	maxRecords = 4 << 10
	maxMinted  = 16 << 10
	maxFields  = 32
	// minPointer is the shortest field that can single out its record, in
	// characters of words, and maxPointer the longest, in bytes.
	minPointer = 3
	maxPointer = 256
	// maxIdentifier is the longest value that can be minted, in bytes: what is
	// longer is text.
	maxIdentifier = 128
)

// minted is what a session knows of the values that systems made themselves.
// Each class is a set of values that are asked for whole.
type minted struct {
	// all were minted, pointed in a record that the operator's words single out, and
	// linked in one that the system itself ties to such a record.
	all, pointed, linked class
	// named are the ids of the records that the operator's words single out.
	named class
	// sent is text by authenticated authors that the operator sent for, whose links may be
	// followed. sole are addresses that stand alone in what the operator sent for and have a name
	// that the operator wrote.
	sent, sole class
	// senders are who such a record says it comes from, looked what a trusted result has
	// in one.
	senders, looked class
	days            recordDays
	// described are the ids in records that alone have a word of the operator's, and each those of
	// all that they sent for. followed is the only link in what they sent for or named.
	described, each, followed class
	// picked are the ids of those that they picked by a superlative.
	picked class
	// lists are those in the records that the operator's words single out.
	lists lists
	facts recordFacts
}

// recordFacts are what all records say: numbers are those that systems gave as numbers, from is
// whom each says that it comes from, by its id.
type recordFacts struct {
	numbers map[string]struct{}
	from    map[string][]string
}

// recordDays are the days of the records that the operator's words single out. fields are those
// that are all of a field, and said are each the only day in the text of a record.
type recordDays struct{ fields, said []day }

func newMinted() minted {
	const limit = MaxOperator / generations
	c := class{limit: limit}
	return minted{all: c, pointed: c, linked: c, named: c, sent: c, sole: c, senders: c, looked: c, described: c, each: c, followed: c, picked: c, facts: recordFacts{map[string]struct{}{}, map[string][]string{}}}
}

// Introduce says who the operator is: their own name, address, account. Each
// counts as the operator's word, and anchors nothing: an attacker may know it.
func (l *Ledger) Introduce(profile []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, who := range profile {
		l.profile.addAll(read([]byte(who)), ProfileSource, nil)
	}
}

// ProfileSource is the name of the source that is who the operator is.
const ProfileSource = "who the operator is"

// observeLinks takes in a record whose links may be followed.
func (m *minted) observeLinks(name string, record map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(record)) {
		if text, ok := record[key].(string); ok {
			m.sent.addAll(read([]byte(text)), name, nil)
		}
	}
}

// observeSent takes in a text that the operator sent for: an address that is the
// only one in it. Of a list of records each may be another outsider's, and the operator
// has sent for none of them alone.
func (l *Ledger) observeSent(name string, text []byte) {
	observeLink(l, name, read(text))
	sole := ""
	for _, d := range read(text) {
		for _, address := range emails(string(d)) {
			n := []needle{newNeedle([]byte(address), false)}
			if address == sole || len(l.profile.sources(n)) > 0 || len(l.classes[nacre.SeenOperator].sources(n)) > 0 {
				continue
			}
			if sole != "" {
				return
			}
			sole = address
		}
	}
	if isCalled(l, sole) {
		l.minted.sole.add(doc(sole), name)
	}
}

// Result is what a call has returned, with what its capability declares of it.
type Result struct {
	Source nacre.Source
	// Tool is what was called.
	Tool              nacre.ToolName
	Arguments, Result []byte
	// Mints are the places of what the system makes, Authors of who wrote a record,
	// Senders of whom it says that it comes from, see [nacre.Values].
	Mints, Authors, Senders []string
	// Framed is set where the result is the frame of a longer one.
	Framed bool
}

// ObserveMinted takes in what a result says by how it is made. It takes what the system minted in
// it, which of its records the operator's words single out, and what the operator had sent for. It
// says nothing of whom its text comes from: for that, see ObserveUnvouched.
func (l *Ledger) ObserveMinted(r Result) {
	var value any
	if json.Unmarshal(r.Result, &value) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sentFor := l.sentFor(r.Arguments)
	if frame, ok := value.(map[string]any); ok && r.Framed {
		value = frame["rows"]
	}
	if r.Source.Provenance == nacre.SeenTrusted {
		observeTrusted(l, r, value)
	}
	if records, list := value.([]any); sentFor && (!list || len(records) < 2) {
		l.observeSent(r.Source.Name, r.Result)
	}
	p := picker{}
	p.pickAll(value, r.Mints)
	minted := len(p.found)
	p.pickAll(value, r.Authors)
	p.count()
	linked := make(map[uintptr]bool) // a record may have as many authors as there is room for
	for _, m := range p.found[minted:] {
		if m.record == nil || linked[placeOf(m.record)] || !sentFor && !l.points(doc(normalise([]byte(m.value)))) {
			continue
		}
		linked[placeOf(m.record)] = true
		l.minted.observeLinks(r.Source.Name, m.record)
	}
	for _, m := range p.found {
		l.minted.all.addAll(read([]byte(m.value)), r.Source.Name, nil)
	}
	senders := picker{}
	senders.pickAll(value, r.Senders)
	observeRecords(l, r, &p, senders.found, sentFor)
}

// observeRecords takes in which records of a result the operator has named, described or
// asked for, and which belong to one that they named.
func observeRecords(l *Ledger, r Result, p *picker, senders []mint, sentFor bool) {
	name, from := r.Source.Name, sentBy(senders)
	for _, of := range slices.Concat(l.wishes.spoken.describes(p.records), l.wishes.spoken.called(p.records)) {
		l.minted.described.addMints(of.mints, name)
		l.minted.observeSaid(of)
	}
	if sentFor && (l.wishes.wantsAll() || actWords(l, r.Tool) > 0) {
		l.minted.lists.observeColumns(p.records, &l.profile)
	}
	if of := l.wishes.spoken.asks(p.records); of != nil {
		observeSenders(l, name, from[placeOf(of.fields)])
	}
	observePicked(l, r, p.records, sentFor)
	asked := sentFor || sentForDay(l, r.Arguments) || actWords(l, r.Tool) > 0
	about := l.minted.about(r.Arguments)
	spoken := numbered(l, r, p.records)
	for _, of := range p.records {
		l.minted.observeNumbers(of)
		l.minted.observeFrom(of, from[placeOf(of.fields)])
		if asked {
			l.minted.each.addMints(of.mints[:1], name)
		}
		switch alone := len(p.records) == 1; {
		case alone && sentFor || spoken[of] || l.singledOut(p, of):
			observeNamed(l, name, of)
			observeSenders(l, name, from[placeOf(of.fields)])
			if addresses := addressesOf(of.fields, nil); len(senders) == 0 && len(addresses) == 1 {
				l.minted.senders.add(doc(addresses[0]), name)
			}
		case alone && about || l.minted.refers(p, of):
			l.minted.linked.addMints(of.mints, name)
		}
	}
}

// observePicked takes in the records that the operator picked by a superlative, out of what they
// sent for or described.
func observePicked(l *Ledger, r Result, records []*mintedRecord, sentFor bool) {
	if len(l.wishes.superlatives) == 0 || !sentFor && actWords(l, r.Tool) == 0 && !l.wishes.spoken.tells(r.Arguments) {
		return
	}
	for _, s := range l.wishes.superlatives {
		if of := s.of(records); of != nil {
			l.minted.picked.addMints(of.mints[:1], r.Source.Name)
		}
	}
}

// numbered are the records of a result that the operator spoke of by their numbers, each the
// only one of its number in the session.
func numbered(l *Ledger, r Result, records []*mintedRecord) map[*mintedRecord]bool {
	nouns := nounsOf(append(r.Mints, string(r.Tool))...)
	by := make(map[string]*mintedRecord)
	for _, of := range records {
		id := of.mints[0]
		number, is := l.wishes.spoken.numbered(id, nouns)
		if !is {
			continue
		}
		if known, met := l.wishes.spoken.met[number]; met && known != id {
			id = ""
		}
		l.wishes.spoken.met[number], by[number] = id, of
	}
	found := make(map[*mintedRecord]bool)
	for number, of := range by {
		found[of] = l.wishes.spoken.met[number] != ""
	}
	return found
}

func (c *class) addMints(values []string, name string) {
	for _, value := range values {
		c.addAll(read([]byte(value)), name, nil)
	}
}

// isIdentifier reports whether a value is one that a system gives to one thing alone. A
// word, as a state or an owner, is that of many, and a number is that of another thing in
// the next table.
func isIdentifier(value string) bool {
	d := normalise([]byte(value))
	return wordLength(d, minPointer) >= minPointer && !bytes.ContainsRune(d, ' ') &&
		bytes.ContainsFunc(d, unicode.IsLetter) && bytes.ContainsFunc(d, unicode.IsDigit)
}

// sentFor reports whether one of the call's own texts is the operator's.
func (l *Ledger) sentFor(arguments []byte) bool {
	for i, d := range readValues(arguments) {
		if i == maxFields {
			return false
		}
		if l.points(d) {
			return true
		}
	}
	return false
}

// sentForDay reports whether one of the call's own texts is a day of the operator's.
func sentForDay(l *Ledger, arguments []byte) bool {
	for i, d := range readValues(arguments) {
		if i == maxFields {
			return false
		}
		if len(d) <= maxDay && l.classes[nacre.SeenOperator].hasDay(string(d)) {
			return true
		}
	}
	return false
}

// points reports whether a text, of a length that says something, stands in the
// operator's words and is not only who they are.
func (l *Ledger) points(d doc) bool {
	if len(d) > maxPointer || wordLength(d, minPointer) < minPointer {
		return false
	}
	n := []needle{newNeedle(d, false)}
	return len(n[0].runs) > 0 && len(l.classes[nacre.SeenOperator].sources(n)) > 0 && len(l.profile.sources(n)) == 0
}

// singledOut reports whether a field of a record, which no other record of the
// result has, stands in the operator's words: a text, or a day that the system minted.
func (l *Ledger) singledOut(p *picker, of *mintedRecord) bool {
	return p.distinct(of, func(text string, minted bool) bool {
		return l.points(doc(normalise([]byte(text)))) || minted && l.classes[nacre.SeenOperator].hasDay(text)
	})
}

// refers reports whether the system has written the id of a record that the operator
// named into this one, and into no other of the result.
func (m *minted) refers(p *picker, of *mintedRecord) bool {
	return p.distinct(of, func(text string, minted bool) bool { return minted && m.isNamed(text) })
}

// about reports whether one of a call's own texts is the id of a record that the
// operator named.
func (m *minted) about(arguments []byte) bool {
	for i, d := range readValues(arguments) {
		if i == maxFields {
			return false
		}
		if m.isNamed(string(d)) {
			return true
		}
	}
	return false
}

func (m *minted) isNamed(text string) bool {
	return len(text) <= maxIdentifier && isIdentifier(text) && len(m.named.sources([]needle{newNeedle(normalise([]byte(text)), false)})) > 0
}

// hasDay reports whether a text is one day, which stands in the class.
func (c *class) hasDay(text string) bool {
	found := dates(string(normalise([]byte(text))))
	if len(found) != 1 || found[0].year == 0 {
		return false
	}
	f := forms{}
	f.date([]byte(text))
	return len(c.sources(f.needles)) > 0
}

// picker finds what stands at the places that are minted.
type picker struct {
	found []mint
	// records are the different ones that were found, values how often each field
	// of them has each text.
	records []*mintedRecord
	values  map[string]int
	steps   int
}

// mintedRecord is a record with what is minted in it, as the places are declared: the
// first is its id.
type mintedRecord struct {
	fields map[string]any
	mints  []string
}

// mint is one minted value and the record that it is a field of.
type mint struct {
	value  string
	record map[string]any
}

func (p *picker) pickAll(v any, paths []string) {
	for _, path := range paths {
		p.pick(v, strings.Split(path, "."), nil)
	}
}

func (p *picker) pick(v any, path []string, record map[string]any) {
	if p.steps++; len(p.found) >= maxMinted || p.steps > 4*maxMinted {
		return
	}
	if len(path) == 0 {
		switch x := v.(type) {
		case string:
			if len(x) <= maxIdentifier {
				p.found = append(p.found, mint{x, record})
			}
		case float64:
			text, err := json.Marshal(x)
			if err == nil {
				p.found = append(p.found, mint{string(text), record})
			}
		}
		return
	}
	switch x := v.(type) {
	case []any:
		if path[0] != "*" {
			return
		}
		for _, element := range x {
			p.pick(element, path[1:], record)
		}
	case map[string]any:
		if path[0] != "*" {
			p.pick(x[path[0]], path[1:], x)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			p.pick(x[key], path[1:], x)
		}
	}
}

// placeOf is by what a record is known: where its map is.
func placeOf(record map[string]any) uintptr { return reflect.ValueOf(record).Pointer() }

// count puts the minted values to their records, and says how often each text stands
// in each field.
func (p *picker) count() {
	p.values = make(map[string]int)
	at := make(map[uintptr]*mintedRecord)
	for _, m := range p.found {
		if m.record == nil {
			continue
		}
		same := placeOf(m.record)
		if of := at[same]; of != nil {
			of.mints = append(of.mints, m.value)
			continue
		}
		if len(at) == maxRecords {
			p.values = nil // of so many none is singled out
			return
		}
		of := &mintedRecord{m.record, []string{m.value}}
		at[same], p.records = of, append(p.records, of)
		for key, field := range m.record {
			if text, ok := field.(string); ok && len(text) <= maxPointer {
				p.values[key+"\x00"+text]++
			}
		}
	}
}

// distinct reports whether is holds for a text that this record alone has in its field.
func (p *picker) distinct(of *mintedRecord, is func(text string, minted bool) bool) bool {
	if len(of.fields) > maxFields {
		return false
	}
	for key, field := range of.fields {
		if text, ok := field.(string); ok && p.values[key+"\x00"+text] == 1 && is(text, slices.Contains(of.mints, text)) {
			return true
		}
	}
	return false
}
