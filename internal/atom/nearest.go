package atom

import "iter"

const (
	// far is how many edits a name may not lie from the one that was meant.
	far = 3
	// longest is the longest name that is compared, in bytes.
	longest = 64
)

// Nearest returns the known name that the fewest edits lie from the one given, the first of several
// by their letters, or "" where each lies three edits or more away.
func Nearest(name string, known iter.Seq[string]) string {
	best, least := "", far
	for candidate := range known {
		if d := distance(name, candidate); d < least || d < far && d == least && candidate < best {
			best, least = candidate, d
		}
	}
	return best
}

// distance is how many bytes are to be put in, taken out or changed between two names; far or more is far.
func distance(a, b string) int {
	if len(a) > longest || len(a)-len(b) >= far || len(b)-len(a) >= far {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, last+1, row[j]+1)
		}
	}
	return min(row[len(b)], far)
}
