package planted

import (
	"iter"
	"path"
	"strings"
)

// maxHops is how many links are followed from one to the next.
const maxHops = 8

// ClassifyLink says what obeys a link by its path alone. The link may lead to a file or to a
// folder, so a name counts that matters for either.
func ClassifyLink(name string) Class {
	c := Classify(name)
	if c.Kind != None {
		return c
	}
	t, folded := obeyed(), Folded(name)
	switch {
	case t.python[folded]: // at the top; what it leads to is the package
		return Class{Kind: Python, Program: "Python"}
	case path.Base(folded) == "project": // of sbt's own build
		return Class{Kind: Build, Program: "sbt"}
	}
	return c
}

// ShownAs gives the places that links lead to whose names are sensitive, with why, and the links on
// the way there. Each of these links shows other content under the name once it changes. read gives
// what is in a link, or says that it is none.
func ShownAs(links iter.Seq[string], read func(name string) (target string, isLink bool)) map[string]Class {
	shown := make(map[string]Class)
	for link := range links {
		class := ClassifyLink(link)
		for at, hops := link, 0; class.Kind != None && hops < maxHops; hops++ {
			on, rest, target := linkOn(at, read)
			if on == "" || LeavesProject(on, target) {
				break
			}
			if on != link {
				shown[on] = class
			}
			at = path.Join(path.Dir(on), target, rest)
			shown[at] = class
		}
	}
	return shown
}

// Through is a path, and where the links lead that it goes through, within the project.
func Through(at string, read func(name string) (target string, isLink bool)) []string {
	all := []string{at}
	for range maxHops {
		on, rest, target := linkOn(at, read)
		if on == "" || LeavesProject(on, target) {
			break
		}
		at = path.Join(path.Dir(on), target, rest)
		all = append(all, at)
	}
	return all
}

// linkOn is the first link on the way to a place, what is behind it, and what is in it.
func linkOn(at string, read func(name string) (target string, isLink bool)) (on, rest, target string) {
	for _, part := range above(at) {
		if target, is := read(part); is {
			return part, at[len(part):], target
		}
	}
	return "", "", ""
}

// LeavesProject tells a link that leads out of the project, or may do so: the
// name before a ".." may be a link itself, and nobody knows to what depth.
func LeavesProject(link, target string) bool {
	resolved := path.Join(path.Dir(link), target)
	top, _, _ := strings.Cut(resolved, "/")
	return path.IsAbs(target) || turnsBack(target) || top == ".." || IsGitName(top)
}

// turnsBack tells a path that goes up after it went down.
func turnsBack(target string) bool {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && down {
			return true
		}
		down = down || part != "" && part != "." && part != ".."
	}
	return false
}
