package planted

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Classify says what obeys a file by its path alone, which is slash-separated from
// the project's top.
func Classify(name string) Class {
	if !isPlain(name) {
		return Class{Kind: Control}
	}
	t := obeyed()
	parts := strings.Split(Folded(name), "/")
	for _, part := range parts {
		if c := t.dir(part); c.Kind != None {
			return c
		}
	}
	if t.shadowsPython(parts) { // before the end of its name, which says less
		return Class{Kind: Python, Program: "Python"}
	}
	base := strings.TrimRight(parts[len(parts)-1], " .") // as Windows does
	if len(parts) > 1 && base == ".gitignore" && IsHarmless(parts[len(parts)-2]) {
		return Class{} // of a cache that keeps itself out of git
	}
	if c := t.file(base); c.Kind != None {
		return c
	}
	if c := t.atTop(base); c.Kind != None && len(parts) == 1 {
		return c
	}
	if c := t.below(parts[:len(parts)-1], base); c.Kind != None {
		return c
	}
	for _, part := range parts {
		if c := oddName(part); c.Kind != None {
			return c
		}
		if isHidden(part) {
			return Class{Kind: Hidden, Loose: true}
		}
	}
	return Class{}
}

// Folder says what obeys all that is below a folder of this base name, or why its
// name alone matters.
func Folder(base string) Class {
	if !isPlain(base) {
		return Class{Kind: Control}
	}
	base = Folded(base)
	if c := obeyed().dir(base); c.Kind != None {
		return c
	}
	if c := oddName(base); c.Kind != None {
		return c
	}
	if isHidden(base) {
		return Class{Kind: Hidden, Loose: true}
	}
	return Class{}
}

// Whole says that a folder of this base name is named as a whole, whatever in it
// changed: what package tools fill, and folders of tools that nobody knows.
func Whole(base string) (Class, bool) {
	c := Folder(base)
	if Folded(base) == "vendor" {
		c = Class{Kind: Dependencies, Program: "a build or package tool"}
	}
	return c, c.Kind == Dependencies || c.Kind == Hidden
}

// Folded is a name as file systems compare it that ignore case and the ways of
// composing a character: ſ is an s there.
func Folded(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		name = strings.ToUpper(norm.NFC.String(name))
	}
	return strings.ToLower(name)
}

// isPlain reports whether a terminal shows the name, and all of it.
func isPlain(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unsafeRune)
}

// oddName says why a component is sensitive whatever it is the name of, be it an
// empty folder: a shell's * hands it on.
func oddName(part string) Class {
	switch {
	case strings.HasPrefix(part, "-"):
		return Class{Kind: Option}
	case part == "~", strings.ContainsAny(part, "`;|<>*"), strings.Contains(part, "$("), strings.Contains(part, "${"):
		return Class{Kind: Command}
	}
	return Class{}
}

// dir says what obeys whatever is below a folder of this name. A link of the name
// is one, too: what it leads to is then found below it.
func (t *table) dir(part string) Class {
	if c := t.dirs[part]; c.Kind != None {
		return c
	}
	if IsGitName(part) {
		return Class{Kind: Git, Program: "git"}
	}
	return endOf(t.dirEnds, part)
}

// file says what obeys a file of this base name, in lower case.
func (t *table) file(base string) Class {
	if c := t.names[base]; c.Kind != None {
		return c
	}
	if c := endOf(t.ends, base); c.Kind != None {
		return c
	}
	for _, b := range t.begins {
		if strings.HasPrefix(base, b.text) {
			return b.class
		}
	}
	stem, extension, _ := strings.Cut(base, ".")
	switch {
	case extension != "" && t.stems[stem].Kind != None:
		return t.stems[stem]
	case extension == "" && strings.HasSuffix(stem, "file"), strings.Contains(base, ".config."), strings.Contains(base, ".conf."):
		return Class{Kind: Build, Program: "a build or package tool", Loose: true}
	case strings.HasPrefix(base, "requirements") && (strings.HasSuffix(base, ".txt") || strings.HasSuffix(base, ".in")):
		return Class{Kind: Build, Program: "pip"}
	case isVersioned(base):
		return Class{Kind: Output, Program: "a linker", Loose: true}
	}
	return Class{}
}

// isVersioned tells a library with its version, such as libx.so.1.2.
func isVersioned(base string) bool {
	_, version, ok := strings.Cut(base, ".so.")
	return ok && version != "" && strings.Trim(version, "0123456789.") == ""
}

func (t *table) atTop(base string) Class {
	if c := t.tops[base]; c.Kind != None {
		return c
	}
	return endOf(t.topEnds, base)
}

// sourceEnds are those of what a folder of programs may hold without being one.
func sourceEnds() []string {
	return []string{".rs", ".go", ".c", ".cc", ".cpp", ".h", ".hs", ".ts", ".dart", ".java", ".kt", ".scala", ".md", ".txt", ".json", ".yml", ".yaml", ".html", ".css", ".tsx"}
}

// below says what the folders around a file make of it.
func (t *table) below(folders []string, base string) Class {
	if len(folders) == 0 {
		return Class{}
	}
	in, end := folders[len(folders)-1], path.Ext(base)
	switch {
	case in == "project" && end == ".scala": // of sbt's own build
		return Class{Kind: Build, Program: "sbt"}
	case in == "bin" && !slices.Contains(sourceEnds(), end):
		return Class{Kind: Output, Program: "people and tools", Loose: true}
	case (end == ".js" || end == ".mjs" || end == ".cjs") && (slices.Contains(folders, "dist") || slices.Contains(folders, "build") || slices.Contains(folders, "out")):
		return Class{Kind: Output, Program: "node", Loose: true}
	}
	return Class{}
}

// endOf looks for the ends of a name, each of which begins with a dot or a dash.
func endOf(ends map[string]Class, part string) Class {
	for i := range len(part) {
		if part[i] != '.' && part[i] != '-' {
			continue
		}
		if c := ends[part[i:]]; c.Kind != None {
			return c
		}
	}
	return Class{}
}

// isHidden reports whether a name begins with a dot, as those do that tools read
// without being told to, and is not known to be harmless.
func isHidden(part string) bool {
	return strings.HasPrefix(part, ".") && !IsHarmless(part) && !strings.HasSuffix(part, "ignore")
}

// IsHarmless reports whether nothing runs anything for a file of this base name, or
// for what is in a folder of it, which its own tool alone reads as data.
func IsHarmless(base string) bool {
	switch base {
	case ".keep", ".editorconfig", ".nojekyll", ".ds_store", ".coverage", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".nyc_output":
		return true
	}
	return false
}

// unsafeRune finds what a terminal obeys, shows out of order or does not show.
func unsafeRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune("\u2028\u2029\u115f\u1160\u3164\uffa0\u2800", r)
}

// shadowsPython reports whether a path is a module or a package at the top, whose
// name is one of Python's.
func (t *table) shadowsPython(parts []string) bool {
	module, end := splitModule(parts[len(parts)-1])
	switch {
	case end != ".py" && end != ".pyc" && end != ".so" && end != ".pyd":
		return false
	case len(parts) == 1:
		return t.python[module]
	case len(parts) == 2:
		return (module == "__init__" || module == "__main__") && t.python[parts[0]]
	}
	return false
}

// splitModule gives what Python calls a file, and by which end.
func splitModule(base string) (module, end string) {
	end = path.Ext(base)
	module = strings.TrimSuffix(base, end)
	if end == ".so" || end == ".pyd" {
		module, _, _ = strings.Cut(module, ".")
	}
	return module, end
}
