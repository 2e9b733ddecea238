// Package firewall promises that what a brain sees of a result fits a budget (K-14, D-10). A result
// within it is passed on as it is. A larger one becomes a frame that says what there was, shows the
// first of it, and counts what it left out. What a grant's constraints hide is taken out before
// anything is shown or counted. Equal results give equal frames, and a session's [Budget] bounds
// them all together (K-16). Time and memory are linear in the result, which is read once.
//
// It does not find secrets: the redactor it is handed does, and sees whatever
// is shown, and only that. It does not keep results.
package firewall

// The budgets of a frame (K-14): rows, fields of a row, characters of all of
// it, and how deep a value is shown.
const (
	FrameRows   = 50
	FrameFields = 20
	FrameChars  = 4000
	FrameDepth  = 3
)

// errorChars is how much of an error is shown, in characters of JSON.
const errorChars = 2000

// Redactor replaces secrets in a document, and tells the paths of what it replaced.
type Redactor interface {
	JSON(raw []byte) (out []byte, paths []string, err error)
	String(s string) (string, bool)
	// Harmless reports whether the object of one member, of that name and value, holds
	// nothing to replace. Both are JSON that was checked. It looks at little, and may
	// say no of one that holds nothing.
	Harmless(name, value []byte) bool
}

// ShowError is what may be seen of an error's text: without secrets, valid
// UTF-8, and of at most 2,000 characters once it is written as JSON.
func ShowError(text string, redactor Redactor) string {
	clean := clip(text, errorChars, redactor)
	if len(text) <= errorChars {
		clean, _ = redactor.String(valid(text))
	}
	if len(clean) <= errorChars/6 { // no escape is longer than six
		return clean
	}
	left := errorChars
	for i, c := range clean {
		var one [8]byte
		if left -= cost(appendQuoted(one[:0], string(c))) - 2; left < 1 {
			return clean[:i] + "…"
		}
	}
	return clean
}
