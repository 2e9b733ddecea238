package erasure

import "io"

// Holds tells whether one of the texts is found in a file.
func Holds(file io.Reader, texts ...string) (bool, error) { return newPhrases(texts).in(file) }
