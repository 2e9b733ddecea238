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

// titleWords are the different words, by stem, of a record's short fields, storyWords those
// of all but its long ones.
func (of *mintedRecord) titleWords() []string { return of.wordsUpTo(maxTitle, named) }

func (of *mintedRecord) storyWords() []string { return of.wordsUpTo(maxStory, tells) }

func (of *mintedRecord) wordsUpTo(limit int, tells func(word string) bool) (words []string) {
	if len(of.fields) > maxFields {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(of.fields)) {
		text, ok := of.fields[key].(string)
		if !ok || len(text) > limit {
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
