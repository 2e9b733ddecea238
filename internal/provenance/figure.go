package provenance

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// minFigureWord is the shortest word of a field's name by which the operator speaks of it.
const minFigureWord = 3

// figure is a number that is all of a field.
type figure struct{ field, number string }

// figures are those of the records with an id, by that id.
type figures struct {
	of map[string][]figure
	// kept counts those in it, at most maxMinted.
	kept int
	// numbers are those that systems gave as numbers, in any record.
	numbers map[string]struct{}
}

func newFigures() figures {
	return figures{of: map[string][]figure{}, numbers: map[string]struct{}{}}
}

// observe takes in the figures of a record: what it says last of itself.
func (f *figures) observe(of *mintedRecord) {
	id := string(normalise([]byte(of.mints[0])))
	if _, known := f.of[id]; len(of.fields) > maxFields || !known && len(f.of) == maxRecords { // it has none, which asks
		return
	}
	var all []figure
	for key, field := range of.fields {
		number, is := numberOf(field)
		if !is || number == id || len(key) > maxIdentifier {
			continue
		}
		all = append(all, figure{key, number})
		if _, counted := field.(float64); counted && len(f.numbers) < maxMinted {
			f.numbers[number] = struct{}{}
		}
	}
	if f.kept -= len(f.of[id]); f.kept+len(all) > maxMinted {
		all = nil
	}
	f.of[id], f.kept = all, f.kept+len(all)
}

// numberOf is the number that a whole field is.
func numberOf(field any) (string, bool) {
	switch x := field.(type) {
	case float64:
		text, err := json.Marshal(x)
		if err != nil { // of a number out of JSON: never
			return "", false
		}
		return decimal(string(text))
	case string:
		if len(x) > maxDigits {
			return "", false
		}
		return spokenNumber(string(normalise([]byte(x))))
	}
	return "", false
}

// tell reports whether a number is a figure of a record whose id is a trusted value of the
// call, in a field that is called as the argument is or of which the operator spoke.
func (f *figures) tell(v *value, values []value, w *wishes) bool {
	argument := nounsOf(v.root[strings.LastIndexByte(v.root, '.')+1:])
	for i := range values {
		about := &values[i]
		if about == v || about.atom || about.origin.Provenance.Label() != nacre.Trusted {
			continue
		}
		for _, n := range about.forms {
			if slices.ContainsFunc(f.of[string(n.text)], func(one figure) bool {
				return v.isNumber(one.number) && slices.ContainsFunc(nounsOf(one.field), func(noun string) bool {
					return slices.Contains(argument, noun) || len(noun) >= minFigureWord && w.wrote(noun)
				})
			}) {
				return true
			}
		}
	}
	return false
}

// outside reports whether only an outsider's text has an amount: no system has given it as a
// number.
func (f *figures) outside(v *value) bool {
	return v.origin.Provenance == nacre.SeenUntrusted && !slices.ContainsFunc(v.forms, func(n needle) bool {
		_, is := f.numbers[strings.TrimPrefix(string(n.text), numberKind)]
		return is
	})
}

func (v *value) isNumber(number string) bool { return v.is(numberKind + number) }
