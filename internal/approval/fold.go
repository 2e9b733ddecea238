package approval

import "golang.org/x/text/width"

// Fold breaks a line into rows that a terminal shows as they are, after a blank where one is near.
// All but the first begin with a mark. Where the terminal breaks a line itself, the rest of it
// looks like a line of its own, and whoever chose the text chooses what that says.
func Fold(line string, columns int, mark string) []string {
	var rows []string
	begin, margin := 0, columnsIn(mark)
	for rest, before := line, ""; ; before = mark {
		end := rowEnd(rest, columns-begin)
		rows = append(rows, before+rest[:end])
		if rest = rest[end:]; rest == "" {
			return rows
		}
		begin = margin
	}
}

// rowEnd is how much of a text a row takes, in bytes: one character at least.
func rowEnd(text string, columns int) int {
	used, blank := 0, 0
	for i, r := range text {
		used += columnsOf(r)
		if used > columns && i > 0 {
			if blank > i/2 {
				return blank
			}
			return i
		}
		if r == ' ' {
			blank = i + 1
		}
	}
	return len(text)
}

// columnsIn is how many columns of a terminal a text takes.
func columnsIn(s string) (n int) {
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// firstPicture is from where on characters are drawn as wide as two.
const firstPicture = 0x1f000

func columnsOf(r rune) int {
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth || r >= firstPicture {
		return 2
	}
	return 1
}
