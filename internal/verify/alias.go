package verify

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// spellings finds the name by which the base has what some file system would take a new name for.
// The new name may be in another case, have its accents composed differently, trailing dots, or
// characters that are not compared. Landing .GITHUB/x beside .github changes .github wherever the
// two are one.
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
	known, key := "", ""
	for part := range strings.SplitSeq(name, "/") {
		next := part
		if known != "" {
			next, key = known+"/"+part, key+"/"
		}
		key += foldPart(part)
		if other := s.folded[key]; other != "" && !s.exact[next] {
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
		parts[i] = foldPart(part)
	}
	return strings.Join(parts, "/")
}

func foldPart(part string) string {
	bare := strings.TrimRight(strings.Map(dropIgnored, part), " .")
	if bare == "" {
		return part
	}
	if strings.IndexFunc(bare, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return strings.ToLower(bare)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(bare)))
}

// dropIgnored removes the code points that HFS+ does not compare.
func dropIgnored(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
