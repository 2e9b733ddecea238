package verify

// Functions finds the functions of a source, as name:first-last.
func Functions(language string, source []byte) (spans [][2]int, err error) {
	list, err := functionsOf(language, source)
	for _, s := range list {
		spans = append(spans, [2]int{s.first, s.last})
	}
	return spans, err
}

// ReadReport finds a report.
func ReadReport(said []byte) (map[string]any, error) { return readReport(said) }
