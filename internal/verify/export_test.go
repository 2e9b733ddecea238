package verify

// Functions finds the functions of a Go source, each as its first and last line.
func Functions(source []byte) (spans [][2]int, err error) {
	list, err := goFunctions(source)
	for _, s := range list {
		spans = append(spans, [2]int{s.first, s.last})
	}
	return spans, err
}
