package fields

// PartNamesMethod reports whether a part of a form that comes in pieces would
// change the method, and how much was kept of it at most.
func PartNamesMethod(form string, piece int) (found bool, most int) {
	var f partNames
	for text := []byte(form); len(text) > 0; text = text[min(piece, len(text)):] {
		found = f.next(text[:min(piece, len(text))]) || found
		most = max(most, len(f.line))
	}
	return found, most
}
