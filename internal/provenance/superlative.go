package provenance

import (
	"maps"
	"slices"
)

// superlative is how the operator picks one of several: the cheapest, the latest.
type superlative struct {
	most bool
	// nouns are the stems of the names of the fields that are compared; none where it is days.
	nouns [2]string
}

// superlativeOf reads the token at i as one.
func superlativeOf(tokens []token, i int) (s superlative, is bool) {
	switch tokens[i].text {
	case "cheapest":
		return superlative{nouns: [2]string{stem("price"), stem("cost")}}, true
	case "earliest", "oldest":
		return superlative{}, true
	case "latest", "newest":
		return superlative{most: true}, true
	case "first", "last":
		return superlative{most: tokens[i].text == "last"}, around(tokens, i-1) == "the"
	case "lowest", "smallest", "fewest", "shortest":
		return superlative{nouns: [2]string{stem(around(tokens, i+1)), "size"}}, true
	case "highest", "largest", "biggest", "longest":
		return superlative{most: true, nouns: [2]string{stem(around(tokens, i+1)), "size"}}, true
	}
	return superlative{}, false
}

// of finds the one record of several that comes first or last in every field that is compared.
func (s superlative) of(records []*mintedRecord) (only *mintedRecord) {
	if len(records) < 2 || len(records[0].fields) > maxFields {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(records[0].fields)) {
		if !s.compares(key) {
			continue
		}
		first, comparable := s.at(key, records)
		if comparable && (first == nil || only != nil && only != first) {
			return nil
		}
		if comparable {
			only = first
		}
	}
	return only
}

func (s superlative) compares(key string) bool {
	return s.nouns == [2]string{} || slices.ContainsFunc(nounsOf(key), func(noun string) bool { return slices.Contains(s.nouns[:], noun) })
}

// at is the record that comes first by a field which all of them have; none where two do.
func (s superlative) at(key string, records []*mintedRecord) (first *mintedRecord, comparable bool) {
	var best float64
	for i, of := range records {
		rank, is := s.rank(of, key)
		if !is {
			return nil, false
		}
		switch {
		case i == 0 || rank < best:
			first, best = of, rank
		case rank == best:
			first = nil
		}
	}
	return first, true
}

// rank is where a record stands by a field: a number that a system has given as one, or a day
// that it minted. Neither is what an outsider can write as a text.
func (s superlative) rank(of *mintedRecord, key string) (rank float64, is bool) {
	if s.nouns == [2]string{} {
		text, _ := of.fields[key].(string)
		d, one := oneDay(text)
		rank, is = float64(d.since(day{1970, 1, 1})), one && d.year != 0 && isDay(text) && slices.Contains(of.mints, text)
	} else {
		rank, is = of.fields[key].(float64)
	}
	if s.most {
		rank = -rank
	}
	return rank, is
}
