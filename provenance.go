package nacre

// Provenance says where the whole of a value was seen before it became an
// argument (K-26). The zero value is the strictest: nowhere.
type Provenance uint8

// The provenances, from the strictest. A value that was seen in several places
// has the highest of them.
const (
	// SeenNowhere counts as untrusted.
	SeenNowhere Provenance = iota
	// SeenUntrusted is text that an outsider may have written.
	SeenUntrusted
	// SeenTrusted is the result of a capability that returns trusted data.
	SeenTrusted
	// SeenOperator is the operator's own words.
	SeenOperator
)

var provenanceNames = [...]string{"nowhere", "untrusted", "trusted", "operator"}

func (p Provenance) String() string { return enumName(provenanceNames[:], uint8(p), "nowhere") }

// Label is the trust that a provenance earns.
func (p Provenance) Label() Label {
	if p == SeenTrusted || p == SeenOperator {
		return Trusted
	}
	return Untrusted
}

// MarshalText implements encoding.TextMarshaler.
func (p Provenance) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts exactly "nowhere", "untrusted", "trusted" or "operator".
func (p *Provenance) UnmarshalText(text []byte) error {
	i, err := enumIndex("provenance", provenanceNames[:], string(text))
	*p = Provenance(i)
	return err
}

// Source is where a piece of a session's text came from. The host sets it.
type Source struct {
	Provenance Provenance `json:"provenance"`
	// Name says it to a person, such as "the task", "result of notes.list" or
	// "what the brain read in the sandbox".
	Name string `json:"name"`
}

// Origin is where one sink argument's value came from.
type Origin struct {
	// Argument is its path in the arguments, such as "to" or "recipients.0".
	Argument   string     `json:"argument"`
	Provenance Provenance `json:"provenance"`
	// Sources name the places where the whole value was seen, the most trusted
	// first, at most four.
	Sources []string `json:"sources,omitempty"`
	// Grounds are why it is trusted where no trusted text had said it as it is.
	Grounds Grounds `json:"grounds,omitempty"`
}
