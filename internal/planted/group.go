package planted

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// maxGroups is how many lines a level takes; beyond it, folders are told of together.
	maxGroups = 12
	// maxOutputGroups is the same for what a build leaves.
	maxOutputGroups = 4
	// maxNames is how many files a line names.
	maxNames = 5
	// maxReasons is how many reasons a line gives.
	maxReasons = 3
)

// Group is what was planted in a folder, of one level. Nothing is left out of the
// groups: each finding counts in one.
type Group struct {
	// Folder is ".", or a path; of several folders it is the one around them.
	Folder string
	Level  Level
	Kind   Kind // the worst
	Count  int
	// Names are some of the files, the worst first, from the folder.
	Names   []string
	Reasons []string
}

// Groups puts findings together by folder and level, the worst first. However many
// there are, they are told in few: decoys of one level hide none of another.
func Groups(findings []Finding) []Group {
	findings = slices.Clone(findings)
	Sort(findings)
	var groups []Group
	for begin := 0; begin < len(findings); {
		level, end := findings[begin].Kind.Level(), begin
		for end < len(findings) && findings[end].Kind.Level() == level {
			end++
		}
		groups = append(groups, ofLevel(findings[begin:end], level)...)
		begin = end
	}
	return groups
}

// ofLevel takes folders together, from the deepest on, until there are few.
func ofLevel(findings []Finding, level Level) []Group {
	most := maxGroups
	if level == Outputs {
		most = maxOutputGroups
	}
	for _, depth := range []int{1 << 30, 4, 3, 2, 1} {
		if groups, ok := byFolder(findings, level, depth, most); ok {
			return groups
		}
	}
	groups, _ := byFolder(findings, level, 0, 1)
	return groups
}

// byFolder groups by the first components of folders; it gives up where that makes too many.
func byFolder(findings []Finding, level Level, depth, most int) (groups []Group, ok bool) {
	at := map[string]int{}
	for _, f := range findings {
		folder := upTo(path.Dir(strings.TrimSuffix(f.Path, "/")), depth)
		i, known := at[folder]
		if !known {
			if len(groups) == most {
				return nil, false
			}
			i = len(groups)
			at[folder] = i
			groups = append(groups, Group{Folder: folder, Level: level, Kind: f.Kind})
		}
		groups[i].take(f)
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(a.Kind, b.Kind) })
	return groups, true
}

// upTo is a folder's first components.
func upTo(folder string, depth int) string {
	if depth == 0 {
		return "."
	}
	for i := range len(folder) {
		if folder[i] == '/' {
			if depth--; depth == 0 {
				return folder[:i]
			}
		}
	}
	return folder
}

func (g *Group) take(f Finding) {
	g.Count++
	g.Kind = min(g.Kind, f.Kind)
	if len(g.Names) < maxNames {
		name := f.Path
		if g.Folder != "." {
			name = strings.TrimPrefix(name, g.Folder+"/")
		}
		g.Names = append(g.Names, name)
	}
	if len(g.Reasons) < maxReasons && !slices.Contains(g.Reasons, f.Reason) {
		g.Reasons = append(g.Reasons, f.Reason)
	}
}

// String says it in a line, with the reason. It is not escaped.
func (g Group) String() string {
	reasons := strings.Join(g.Reasons, "; ")
	if g.Count == 1 {
		name := g.Names[0]
		if g.Folder != "." {
			name = g.Folder + "/" + name
		}
		if name == "." {
			name = "the project's top folder"
		}
		return name + " is new or changed: " + reasons
	}
	folder := ""
	if g.Folder != "." {
		folder = g.Folder + "/: "
	}
	if g.Level == Outputs {
		return fmt.Sprintf("%s%d build outputs and programs are new or changed, which this machine may run: %s", folder, g.Count, g.list())
	}
	return fmt.Sprintf("%s%s are new or changed: %s", folder, g.list(), reasons)
}

func (g Group) list() string {
	if rest := g.Count - len(g.Names); rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(g.Names, ", "), rest)
	}
	last := len(g.Names) - 1
	return strings.Join(g.Names[:last], ", ") + " and " + g.Names[last]
}
