package provenance

import (
	"maps"
	"slices"
)

// The bounds of the lists that are kept of records that the operator named. What is
// over them is a list of nobody's, which asks.
const (
	maxLists   = 256
	maxListed  = 64
	leastItems = 2
)

// lists are those in records that the operator's words single out, such as who takes part in a
// meeting. Each has two texts or more, since a single one would be a value that anybody may have
// written into the record. A list says only that all of it is the same.
type lists [][]string

// observe takes in the lists of a record.
func (l *lists) observe(record map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(record)) {
		items, ok := record[key].([]any)
		if !ok || len(items) < leastItems || len(items) > maxListed || len(*l) == maxLists {
			continue
		}
		if texts, ok := textsOf(items); ok && !slices.ContainsFunc(*l, func(other []string) bool { return slices.Equal(other, texts) }) {
			*l = append(*l, texts)
		}
	}
}

// observeColumns takes in what stands in the same field of all records of a result: their
// addresses, or what the system minted.
func (l *lists) observeColumns(records []*mintedRecord, profile *class) {
	if len(records) < leastItems || len(records) > maxListed || len(records[0].fields) > maxFields {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(records[0].fields)) {
		var items []any
		for _, of := range records {
			text, _ := of.fields[key].(string)
			if address := addressOf(text); address != "" {
				text = address
			} else if !slices.Contains(of.mints, text) {
				text = ""
			}
			items = append(items, text)
		}
		if texts, ok := textsOf(items); ok && len(texts) == len(records) && others(texts, profile) >= leastItems && len(*l) < maxLists {
			*l = append(*l, texts)
		}
	}
}

// others is how many texts are not of who the operator is.
func others(texts []string, profile *class) (count int) {
	for _, text := range texts {
		if len(profile.sources([]needle{newNeedle([]byte(text), false)})) == 0 {
			count++
		}
	}
	return count
}

// textsOf are the different texts of a list, in order; false where one of them is no
// text, or too few are left.
func textsOf(items []any) ([]string, bool) {
	texts := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.(string)
		if !ok || text == "" || len(text) > maxIdentifier {
			return nil, false
		}
		texts = append(texts, string(normalise([]byte(text))))
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return texts, len(texts) >= leastItems
}

// same are the arguments whose values are, all together, one of the lists. The operator, of
// whom profile tells, may be in one of them and not in the other.
func (l lists) same(values []value, profile *class) map[string]bool {
	if len(l) == 0 {
		return nil
	}
	of := make(map[string][]*value)
	for i := range values {
		of[values[i].root] = append(of[values[i].root], &values[i])
	}
	same := make(map[string]bool)
	for root, group := range of {
		same[root] = slices.ContainsFunc(l, func(list []string) bool { return isList(group, list, profile) })
	}
	return same
}

// isList reports whether values are the texts of a list, all of them and no other.
func isList(group []*value, list []string, profile *class) bool {
	met := make(map[string]bool)
	for _, v := range group {
		at := slices.IndexFunc(list, v.is)
		if at < 0 && !v.self || v.atom || v.empty {
			return false
		}
		if at >= 0 {
			met[list[at]] = true
		}
	}
	return !slices.ContainsFunc(list, func(text string) bool {
		return !met[text] && len(profile.sources([]needle{newNeedle([]byte(text), false)})) == 0
	})
}

// is reports whether a text, normalised, is one spelling of a value.
func (v *value) is(text string) bool {
	return slices.ContainsFunc(v.forms, func(n needle) bool { return string(n.text) == text })
}
