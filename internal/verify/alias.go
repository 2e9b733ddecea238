package verify

import (
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// spellings finds the name by which the base has what some file system would
// take a new name for: in another case, with its accents composed differently,
// with trailing dots, or with characters that are not compared. Landing
// .GITHUB/x beside .github changes .github wherever the two are one.
type spellings struct {
	exact  map[string]bool
	folded map[string]string
}

func (d delta) spellings() spellings {
	s := spellings{map[string]bool{}, map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(d.base)) {
		for ; name != "." && !s.exact[name]; name = path.Dir(name) {
			s.exact[name] = true
			if key := fold(name); s.folded[key] == "" {
				s.folded[key] = name
			}
		}
	}
	return s
}

// of are the names by which a path is judged: its own, and the base's for it.
func (s spellings) of(name string) []string {
	known := ""
	for part := range strings.SplitSeq(name, "/") {
		next := path.Join(known, part)
		if other := s.folded[fold(next)]; other != "" && !s.exact[next] {
			next = other
		}
		known = next
	}
	if known == name {
		return []string{name}
	}
	return []string{name, known}
}

// fold is what two names share that some file system takes for one.
func fold(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		part = strings.TrimRight(strings.Map(dropIgnored, part), " .")
		if part == "" {
			part = parts[i]
		}
		parts[i] = norm.NFC.String(cases.Fold().String(norm.NFD.String(part)))
	}
	return strings.Join(parts, "/")
}

// dropIgnored removes the code points that HFS+ does not compare.
func dropIgnored(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
