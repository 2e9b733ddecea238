package task

import (
	"strconv"
	"strings"
)

// maxNamed is how many files are named in a sentence.
const maxNamed = 5

// Named are the first of some files, in a sentence for a person. A name that could be taken for
// something else, such as one with the end of a line in it, is quoted.
func Named(files []string) string {
	names := make([]string, 0, maxNamed)
	for _, name := range files[:min(len(files), maxNamed)] {
		if !strconv.CanBackquote(name) {
			name = strconv.Quote(name)
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if len(files) > maxNamed {
		text += " and others"
	}
	return text
}
