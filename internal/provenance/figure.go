package provenance

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// observeNumbers takes in what a system gave as numbers in a record.
func (m *minted) observeNumbers(of *mintedRecord) {
	if len(of.fields) > maxFields {
		return
	}
	for _, field := range of.fields {
		counted, is := field.(float64)
		if !is || len(m.facts.numbers) == maxMinted { // of one that is over it only an outsider's text tells, which asks
			continue
		}
		text, err := json.Marshal(counted)
		if number, is := decimal(string(text)); err == nil && is {
			m.facts.numbers[number] = struct{}{}
		}
	}
}

// outside reports whether only an outsider's text has an amount, which no system has given as a
// number; or whether one has a word of a choice, in any form.
func outside(l *Ledger, v *value) bool {
	if v.flag {
		return v.origin.Provenance == nacre.SeenUntrusted || slices.ContainsFunc(v.forms, func(n needle) bool { return hinted(l, string(n.text)) })
	}
	return v.origin.Provenance == nacre.SeenUntrusted && !slices.ContainsFunc(v.forms, func(n needle) bool {
		_, is := l.minted.facts.numbers[strings.TrimPrefix(string(n.text), numberKind)]
		return is
	})
}

// hinted reports whether an outsider's text has a word of a choice in another form.
func hinted(l *Ledger, choice string) bool {
	var forms []needle
	for _, part := range partsOf(choice) {
		if len(part) < minStem {
			continue
		}
		for _, ending := range endings {
			forms = append(forms, newNeedle([]byte(stem(part)+ending), false))
		}
	}
	return len(l.classes[nacre.SeenUntrusted].sources(forms)) > 0
}

// endings make the forms of a word out of its stem.
var endings = [...]string{"", "e", "y", "s", "es", "ies", "ed", "ied", "ing", "ion"}
