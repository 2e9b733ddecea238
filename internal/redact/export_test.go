package redact

// Suspect and Find are both halves of String, for the test that the first
// never hides what the second would find.
func (*Engine) Suspect(s string) bool { return shared().suspects.suspect(s) }

// Find reports whether a search without the first look finds a secret.
func (*Engine) Find(s string) bool { return len(shared().find(s)) > 0 }

// ShortestForms are prefixes with the shortest rest that an issuer uses.
func ShortestForms() map[string]int {
	shortest := map[string]int{}
	for _, f := range forms() {
		shortest[f.exact] = len(f.prefix) + f.least
	}
	for _, s := range shapes {
		shortest[s.infix] = len(s.infix) + s.beforeLeast + s.afterLeast
	}
	return shortest
}

// MinRun is the shortest token that the first look lets through.
const MinRun = minRun
