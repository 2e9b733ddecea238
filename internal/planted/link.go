package planted

import (
	"iter"
	"path"
	"strings"
)

// maxHops is how many links are followed from one to the next.
const maxHops = 8

// ShownAs gives the places that links lead to whose names are sensitive, with
// why; read gives what is in a link, or says that it is none.
func ShownAs(links iter.Seq[string], read func(name string) (target string, isLink bool)) map[string]Class {
	shown := make(map[string]Class)
	for link := range links {
		class := Classify(link)
		for at, hops := link, 0; class.Kind != None && hops < maxHops; hops++ {
			target, more := read(at)
			if !more || LeavesProject(at, target) {
				break
			}
			at = path.Join(path.Dir(at), target)
			shown[at] = class
		}
	}
	return shown
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
