package redact

import (
	"slices"
	"strings"
)

// The kinds of personal data, which [Naming] gives words for. All else that is
// found is a secret, for which there is none.
const (
	Email = "email"
	Phone = "phone"
	IBAN  = "iban"
	Card  = "card"
	ID    = "id"
)

// Namer gives the word that is shown in place of a personal value, or the value itself where it may
// be seen. Not ok leaves it to Marker.
type Namer func(kind, value string) (word string, ok bool)

// Naming is an engine that shows words for personal data, and Marker for secrets.
type Naming struct{ Name Namer }

// JSON is [Engine.JSON] with words.
func (n Naming) JSON(raw []byte) (out []byte, paths []string, err error) {
	return shared().json(raw, n.Name)
}

// String is [Engine.String] with words.
func (n Naming) String(s string) (string, bool) { return shared().string(s, n.Name) }

// Harmless is [Engine.Harmless].
func (Naming) Harmless(name, value []byte) bool { return shared().Harmless(name, value) }

// worded is the engine and who gives words for what it finds; nil gives none.
type worded struct {
	*Engine
	name Namer
}

// personal is a span that is personal data.
type personal struct {
	span

	kind string
}

// word is what stands in the place of what was found: a word where it is one
// piece of personal data and nothing more.
func (d *dig) word(s string, f span, name Namer) string {
	i, is := slices.BinarySearchFunc(d.personal, f, func(p personal, f span) int { return p.start - f.start })
	if name != nil && is && d.personal[i].span == f {
		if word, ok := name(d.personal[i].kind, s[f.start:f.end]); ok {
			return word
		}
	}
	return Marker
}

// named is a text that its name alone makes personal: the words for the values
// in it, or one for all of it.
func (e *Engine) named(s, kind string, name Namer) (string, bool) {
	if clean, found := e.string(s, name); found {
		return clean, true
	}
	word, ok := name(kind, s)
	if !ok {
		return Marker, true
	}
	return word, word != s
}

// personalName is the kind of personal data that a field's name says, if any.
func personalName(plain string) string {
	for _, kind := range [...]string{Email, Phone, IBAN} {
		if strings.Contains(plain, kind) {
			return kind
		}
	}
	if strings.HasSuffix(plain, "cardnumber") || plain == "creditcard" {
		return Card
	} else if plain == "ssn" || plain == "socialsecuritynumber" {
		return ID
	}
	return ""
}
