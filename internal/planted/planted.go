// Package planted knows which files programs of a host obey, run or trust without being told to, and
// why (M-13). What an agent left in a project is held against this one list, on the host itself or
// in a change that is to land. It decides by names and says it in few lines; it opens nothing.
package planted

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is why a file matters, the worst first. Its zero value is of files that
// nothing obeys.
type Kind uint8

// The kinds.
const (
	None Kind = iota
	// Git and the next ones count as soon as somebody opens, lists or enters the folder.
	Git
	Versions
	Shell
	Editor
	Agent
	Nested
	Named
	// Shared is of files that are the same as others elsewhere, which were changed with them.
	Shared
	// Python and the next ones count when the project is built, tested or installed.
	Python
	Build
	CI
	Dependencies
	// Link and the next ones are not what they look like.
	Link
	Option
	Command
	Control
	Case
	Module
	Special
	Unlisted
	Place
	Open
	// Output and the next ones are run by whoever calls them.
	Output
	Program
	Script
	Hidden
	kinds
)

// facts are a kind's name in the list and in JSON, its level, and what is said of it;
// %s is the program.
type facts struct {
	name   string
	level  Level
	reason string
}

func factsOf(k Kind) facts {
	return [kinds]facts{
		Git:          {"git", Opening, "%s obeys it"},
		Versions:     {"versions", Opening, "%s obeys it"},
		Shell:        {"shell", Opening, "%s runs what it says"},
		Editor:       {"editor", Opening, "%s runs what it says"},
		Agent:        {"agent", Opening, "%s obeys it"},
		Nested:       {"nested", Opening, "a git repository inside the project: git obeys its configuration"},
		Named:        {"named", Opening, "%s names it, and runs or obeys it"},
		Shared:       {"shared", Opening, "a hard link: a file outside of the project, such as one of a package cache, is the same file and changed with it"},
		Python:       {"python", Building, "Python imports it in place of its own library, or of a tool"},
		Build:        {"build", Building, "%s runs what it says"},
		CI:           {"ci", Building, "%s runs what it says"},
		Dependencies: {"dependencies", Building, "dependencies were installed or changed: %s runs their code with the project's"},
		Link:         {"link", Misleading, "a symbolic link out of the project"},
		Option:       {"option", Misleading, "its name begins with -: a shell's * hands it to a program as an option"},
		Command:      {"command", Misleading, "its name is more than a name to a shell that is given it unquoted"},
		Control:      {"control", Misleading, "its name has control characters or is not UTF-8"},
		Case:         {"case", Misleading, "its name differs from another file's in case, or in how its characters are composed, only"},
		Module:       {"module", Misleading, "a submodule"},
		Special:      {"special", Misleading, "a pipe, socket or device, which whatever reads the folder may open"},
		Unlisted:     {"unlisted", Misleading, "a folder that cannot be listed: what is in it was not looked at"},
		Place:        {"place", Misleading, "it takes the place of a file that a person has to look at"},
		Open:         {"open", Misleading, "%s"},
		Output:       {"output", Outputs, "a build output that this machine may run"},
		Program:      {"program", Outputs, "a program, which people and tools start by its name"},
		Script:       {"script", Others, "a script: %s start it by its name"},
		Hidden:       {"hidden", Others, "its name begins with a dot: tools read such files without being told to"},
	}[min(k, kinds-1)]
}

// Level is when something that was planted may run, the worst first.
type Level uint8

// The levels.
const (
	Opening Level = iota
	Building
	Misleading
	Outputs
	Others
	levels
)

// Level says when a file of the kind may run.
func (k Kind) Level() Level { return factsOf(k).level }

// String is the kind's name.
func (k Kind) String() string { return factsOf(k).name }

// MarshalText gives the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind := Git; kind < kinds; kind++ {
		if factsOf(kind).name == string(text) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("kind %.40q is not known", text)
}

// Class is what obeys a file, and why. Its zero value is of files that nothing obeys.
type Class struct {
	Kind Kind
	// Program is who obeys it, in the words of a sentence.
	Program string
	// Loose says that a part of the name decided, not the whole of it.
	Loose bool
}

// Reason says it in a sentence without an end, or "".
func (c Class) Reason() string {
	reason := factsOf(c.Kind).reason
	if strings.Contains(reason, "%s") {
		return fmt.Sprintf(reason, c.Program)
	}
	return reason
}

// Finding is a file that appeared or changed while an agent had the folder itself,
// and that makes a program of the host run or trust something.
type Finding struct {
	// Path is slash-separated, below the project; a folder that is meant as a whole ends in a slash.
	Path    string `json:"path"`
	Kind    Kind   `json:"kind"`
	Program string `json:"program,omitempty"`
	Reason  string `json:"reason"`
	loose   bool
}

// Found is a finding of a class.
func Found(path string, c Class) Finding {
	return Finding{Path: path, Kind: c.Kind, Program: c.Program, Reason: c.Reason(), loose: c.Loose}
}

// Sort puts the worst first; of one kind, what is known by its whole name.
func Sort(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		switch {
		case a.Kind.Level() != b.Kind.Level():
			return int(a.Kind.Level()) - int(b.Kind.Level())
		case a.loose != b.loose && a.loose:
			return 1
		case a.loose != b.loose:
			return -1
		case a.Kind != b.Kind:
			return int(a.Kind) - int(b.Kind)
		}
		return strings.Compare(a.Path, b.Path)
	})
}

// Top is what stood at a project's top before an agent had it.
type Top struct {
	// Git says that a .git was there.
	Git bool `json:"git,omitempty"`
	// Open says that every user could write there already, by its mode. Throughout says that all
	// that lay in it was so too, as on a file system that keeps no rights.
	Open       bool `json:"open,omitempty"`
	Throughout bool `json:"throughout,omitempty"`
	// Listed says that it had an access list.
	Listed bool `json:"listed,omitempty"`
	// Undumped says that backups were told to leave it out.
	Undumped bool `json:"undumped,omitempty"`
}
