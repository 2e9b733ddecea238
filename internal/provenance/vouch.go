package provenance

import (
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
)

const (
	// maxHolders is how many texts are looked at to find one with all of a call's values.
	maxHolders = 4
	// maxVouched is the longest text that a person can vouch for, in bytes: they are to
	// read all of it.
	maxVouched = 4 << 10
)

// Text is a text of an outsider that a person can vouch for. The zero value is none.
type Text struct {
	// Name is that of its source.
	Name string
	doc  doc
}

// Is reports whether there is a text.
func (t Text) Is() bool { return len(t.doc) > 0 }

// Whole is all of it as values are compared: in lower case, in one line, at most 4 KiB.
func (t Text) Whole() string { return string(t.doc) }

// TextOf finds the one text in which all values of a call stand that no trusted text has said, and
// for which there are no grounds. It is a mail, a page, a file, or one string of a result. There is
// none where one of them was seen nowhere, where they stand in several, and where it is longer than
// a person reads.
func (l *Ledger) TextOf(arguments json.RawMessage, d Declared) Text {
	if !json.Valid(arguments) {
		return Text{}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	var risky []value
	for _, v := range judged(l, arguments, &d) {
		switch v.origin.Provenance {
		case nacre.SeenNowhere:
			return Text{}
		case nacre.SeenUntrusted:
			risky = append(risky, v)
		}
	}
	if len(risky) == 0 {
		return Text{}
	}
	var found Text
	for _, t := range holders(&l.classes[nacre.SeenUntrusted], risky[0].forms) {
		if len(t.doc) > len(found.doc) && len(t.doc) <= maxVouched && t.holds(risky[1:]) {
			found = t
		}
	}
	found.doc = slices.Clone(found.doc) // the ledger lets go of texts
	return found
}

// holders are texts of a class in which a value stands, the newest first.
func holders(c *class, forms []needle) (found []Text) {
	for _, s := range slices.Backward(c.segments) {
		for i := range forms {
			s.places(&forms[i], func(at int) bool {
				if text, ok := s.textAt(at); ok {
					found = append(found, Text{s.sourceAt(at), text})
				}
				return len(found) < maxHolders
			})
			if len(found) == maxHolders {
				return found
			}
		}
	}
	return found
}

// holds reports whether all of the values stand in the text too.
func (t Text) holds(values []value) bool {
	if len(values) == 0 {
		return true
	}
	c := class{limit: 16 * maxVouched}
	c.addAll([]doc{t.doc}, t.Name, nil)
	for _, v := range values {
		if len(c.sources(v.forms)) == 0 {
			return false
		}
	}
	return true
}

// Vouch takes in that a person hands authority to a text: a value that stands in it
// counts as trusted from now on, on grounds of its own (K-29).
func (l *Ledger) Vouch(t Text) {
	if !t.Is() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vouched.addAll([]doc{t.doc}, t.Name, nil)
}
