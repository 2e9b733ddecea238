package provenance

import (
	"maps"
	"slices"
	"unicode"
)

const (
	// maxTitle is the longest field whose words describe its record, in bytes: a longer one
	// tells a story, in which any word may stand.
	maxTitle = 64
	// minTelling is the shortest word that describes something, in bytes.
	minTelling = 4
	// maxWords is how many words of all records of a result are looked at.
	maxWords = 64 << 10
)

// describes finds the one record that has a word of the operator's which no other record of
// the result has. Where several have one each, the operator may mean any of them, and an
// outsider who writes such words into a record of their own wins nothing.
func (w *wishes) describes(records []*mintedRecord) (only *mintedRecord) {
	count, all := make(map[string]int), make([][]string, len(records))
	seen := 0
	for i, of := range records {
		all[i] = of.titleWords()
		if seen += len(all[i]); seen > maxWords {
			return nil
		}
		for _, word := range all[i] {
			count[word]++
		}
	}
	for i, of := range records {
		if !slices.ContainsFunc(all[i], func(word string) bool { return count[word] == 1 && w.speaksOf(word) }) {
			continue
		}
		if only != nil {
			return nil
		}
		only = of
	}
	return only
}

// titleWords are the different words, by stem, of a record's short fields.
func (of *mintedRecord) titleWords() (words []string) {
	if len(of.fields) > maxFields {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(of.fields)) {
		text, ok := of.fields[key].(string)
		if !ok || len(text) > maxTitle {
			continue
		}
		r := dateReader{text: string(normalise([]byte(text)))}
		for t := r.next(); t.text != ""; t = r.next() {
			if tells(t.text) {
				words = append(words, stem(t.text))
			}
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// tells reports whether a word says what is spoken of.
func tells(word string) bool {
	_, is := common[word]
	return len(word) >= minTelling && !is && !slices.ContainsFunc([]rune(word), unicode.IsDigit)
}

// speaksOf reports whether the operator wrote a word with that stem which tells something.
func (w *wishes) speaksOf(stem string) bool {
	_, is := w.told[stem]
	return is
}
