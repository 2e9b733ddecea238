package repo

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The reasons to look at a change before it lands (M-13).
const (
	reasonGit = "git reads it"
	// The others' folders hold hooks and programs to run, as .git does.
	reasonVersions = "a version control tool obeys it"
	reasonEditor   = "an editor runs what it says"
	reasonAgent    = "a coding agent obeys it"
	reasonShell    = "a shell runs it on entering the directory"
	reasonBuild    = "a build or package tool runs what it says"
	reasonCI       = "continuous integration runs what it says"
	reasonLink     = "a symbolic link out of the project"
	reasonControl  = "its name has control characters or is not UTF-8"
	reasonCase     = "its name differs from another file's in case, or in how its characters are composed, only"
	reasonModule   = "a submodule"
	reasonHidden   = "its name begins with a dot: tools read such files without being told to"
	reasonScript   = "a script: people and tools start it by its name"
	reasonCommand  = "its name is more than a name to a shell that is given it unquoted"
)

// sensitiveName says why a path is sensitive by its name alone, or "".
func sensitiveName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unsafeRune) {
		return reasonControl
	}
	parts := strings.Split(folded(name), "/")
	for _, part := range parts {
		if reason := sensitiveDir(part); reason != "" {
			return reason
		}
	}
	if shadowsPython(parts) { // before the end of its name, which says less
		return reasonShadow
	}
	base := strings.TrimRight(parts[len(parts)-1], " .") // as Windows does
	if reason := sensitiveFile(base); reason != "" {
		return reason
	}
	if len(parts) == 1 && topNames[base] != "" {
		return topNames[base]
	}
	if reason := endOf(topEnds, base); reason != "" && len(parts) == 1 {
		return reason
	}
	if len(parts) > 1 && parts[len(parts)-2] == "project" && strings.HasSuffix(base, ".scala") { // of sbt's own build
		return reasonBuild
	}
	for _, part := range parts {
		if reason := oddName(part); reason != "" {
			return reason
		}
		if isHidden(part) {
			return reasonHidden
		}
	}
	return ""
}

// folded is a name as file systems compare it that ignore case and the ways of
// composing a character: ſ is an s there.
func folded(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		name = strings.ToUpper(norm.NFC.String(name))
	}
	return strings.ToLower(name)
}

// oddName says why a component is sensitive whatever it is the name of, be it an
// empty folder: a shell's * hands it on.
func oddName(part string) string {
	switch {
	case !utf8.ValidString(part) || strings.ContainsFunc(part, unsafeRune):
		return reasonControl
	case strings.HasPrefix(part, "-"):
		return reasonOption
	case part == "~", strings.ContainsAny(part, "`;|<>*"), strings.Contains(part, "$("), strings.Contains(part, "${"):
		return reasonCommand
	}
	return ""
}

// sensitiveDir says why whatever is below a folder of this name is sensitive. A
// link of the name is one, too: what it leads to is then found below it.
func sensitiveDir(part string) string {
	if reason := sensitiveDirs()[part]; reason != "" {
		return reason
	}
	if isGitName(part) {
		return reasonGit
	}
	return endOf(sensitiveDirEnds, part)
}

// sensitiveFile says why a file of this base name, in lower case, is sensitive.
func sensitiveFile(base string) string {
	if reason := sensitiveNames()[base]; reason != "" {
		return reason
	}
	if reason := endOf(sensitiveEnds(), base); reason != "" {
		return reason
	}
	for begin, reason := range sensitiveBegins {
		if strings.HasPrefix(base, begin) {
			return reason
		}
	}
	stem, extension, _ := strings.Cut(base, ".")
	switch {
	case extension == "" && strings.HasSuffix(stem, "file"), extension != "" && sensitiveStems()[stem]:
		return reasonBuild
	case strings.Contains(base, ".config."), strings.Contains(base, ".conf."):
		return reasonBuild
	case strings.HasPrefix(base, "requirements") && (strings.HasSuffix(base, ".txt") || strings.HasSuffix(base, ".in")):
		return reasonBuild
	}
	return ""
}

// endOf looks for the ends of a name, each of which begins with a dot or a dash.
func endOf(ends map[string]string, part string) string {
	for i := range len(part) {
		if part[i] != '.' && part[i] != '-' {
			continue
		}
		if reason := ends[part[i:]]; reason != "" {
			return reason
		}
	}
	return ""
}

// isHidden reports whether a name begins with a dot, as those do that tools read
// without being told to, and is not known to be harmless.
func isHidden(part string) bool {
	return strings.HasPrefix(part, ".") && !harmlessHidden[part] && !strings.HasSuffix(part, "ignore")
}

// unsafeRune finds what a terminal obeys, shows out of order or does not show.
func unsafeRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune("\u2028\u2029\u115f\u1160\u3164\uffa0\u2800", r)
}

// markSensitive fills in why each change is sensitive.
func (p *Project) markSensitive(ctx context.Context, tree string, files []Change) error {
	if len(files) == 0 {
		return nil
	}
	for i := range files {
		f := &files[i]
		f.Sensitive = sensitiveName(f.Path)
		if f.Sensitive == "" && f.Kind != Deleted {
			f.Sensitive = endOf(compiledEnds, folded(path.Base(f.Path)))
		}
		if f.OldMode == modeGitlink || f.NewMode == modeGitlink {
			f.Sensitive = reasonModule
		}
	}
	entries, err := p.listTree(ctx, tree)
	if err != nil {
		return err
	}
	markCase(files, entries)
	markBare(files, entries)
	return p.markLinks(ctx, files, entries)
}

// markCase finds new names that collide on a file system that ignores case.
func markCase(files []Change, entries map[string]entry) {
	count := make(map[string]int, len(entries))
	seen := make(map[string]bool)
	for name := range entries {
		for _, part := range append(parents(name), name) {
			if !seen[part] {
				seen[part] = true
				count[folded(part)]++
			}
		}
	}
	for i, f := range files {
		if f.Kind != Added || f.Sensitive != "" {
			continue
		}
		for _, part := range append(parents(f.Path), f.Path) {
			if count[folded(part)] > 1 {
				files[i].Sensitive = reasonCase
			}
		}
	}
}

// markBare finds folders that git takes for a repository, without any .git: it
// obeys their configuration as soon as somebody enters them.
func markBare(files []Change, entries map[string]entry) {
	const head, objects, refs = 1, 2, 4
	has := make(map[string]int)
	for name := range entries {
		dirs := parents(name)
		for _, dir := range dirs {
			switch path.Base(dir) {
			case "objects":
				has[path.Dir(dir)] |= objects
			case "refs":
				has[path.Dir(dir)] |= refs
			}
		}
		switch path.Base(name) {
		case "HEAD":
			has[path.Dir(name)] |= head
		case "commondir": // it names where objects and refs are
			has[path.Dir(name)] |= objects | refs
		}
	}
	for i, f := range files {
		for _, dir := range parents(f.Path) {
			if has[dir] == head|objects|refs && f.Kind != Deleted && f.Sensitive == "" {
				files[i].Sensitive = reasonNested
			}
		}
	}
}

// markLinks finds links that lead out of the project, and files that a link
// shows under a name that is sensitive, or that git's configuration names.
func (p *Project) markLinks(ctx context.Context, files []Change, entries map[string]entry) error {
	var links []string
	for name, e := range entries {
		if e.mode == modeLink {
			links = append(links, name)
		}
	}
	targets := make(map[string]string, len(links))
	err := p.withBlobs(ctx, links, entries, func(name string, _ entry, size int64, content io.Reader) error {
		if size > MaxPath {
			return fmt.Errorf("link target of %d bytes: %w", size, ErrTooBig)
		}
		target, err := io.ReadAll(content)
		targets[name] = string(target)
		return err
	})
	if err != nil {
		return err
	}
	shown := shownAs(maps.Keys(targets), func(name string) (string, bool) {
		target, ok := targets[name]
		return target, ok
	})
	for _, name := range p.place.obeyed() {
		shown[name] = reasonConfigured
	}
	for i, f := range files {
		if target, ok := targets[f.Path]; ok && leavesProject(f.Path, target) {
			files[i].Sensitive = reasonLink
		}
		for _, name := range append(parents(f.Path), f.Path) {
			if shown[name] != "" && files[i].Sensitive == "" {
				files[i].Sensitive = shown[name]
			}
		}
	}
	return nil
}

// maxHops is how many links are followed from one to the next.
const maxHops = 8

// shownAs gives the places that links lead to whose names are sensitive, with
// why; read gives what is in a link, or says that it is none.
func shownAs(links iter.Seq[string], read func(name string) (target string, isLink bool)) map[string]string {
	shown := make(map[string]string)
	for link := range links {
		reason := sensitiveName(link)
		for at, hops := link, 0; reason != "" && hops < maxHops; hops++ {
			target, more := read(at)
			if !more || leavesProject(at, target) {
				break
			}
			at = path.Join(path.Dir(at), target)
			shown[at] = reason
		}
	}
	return shown
}

// leavesProject tells a link that leads out of the project, or may do so: the
// name before a ".." may be a link itself, and nobody knows to what depth.
func leavesProject(link, target string) bool {
	resolved := path.Join(path.Dir(link), target)
	top, _, _ := strings.Cut(resolved, "/")
	return path.IsAbs(target) || turnsBack(target) || top == ".." || isGitName(top)
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
