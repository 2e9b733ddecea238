package gate

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/shell"
)

// The limits of paths.
const (
	maxPath  = 4096
	maxLinks = 40
)

// locate returns what a path names, relative to the project: as it is written,
// and where symbolic links really lead. An error says why it is refused.
func (w World) locate(name string) ([]string, error) {
	if err := plain(name); err != nil {
		return nil, err
	}
	if w.Project == "" || !path.IsAbs(w.Project) {
		return nil, errors.New("the project's folder is not known")
	}
	if w.Dir != "" && !path.IsAbs(w.Dir) {
		return nil, fmt.Errorf("the working directory %q is not absolute", w.Dir)
	}
	written := w.absolute(name)
	root, err := w.follow(w.Project)
	if err != nil {
		return nil, err
	}
	real, err := w.follow(written)
	if err != nil {
		return nil, err
	}
	first, ok := w.within(path.Clean(written), path.Clean(w.Project))
	if !ok {
		if first, ok = w.within(path.Clean(written), root); !ok {
			return nil, fmt.Errorf("%q is outside the project", name)
		}
	}
	second, ok := w.within(real, root)
	if !ok {
		return nil, fmt.Errorf("%q leads outside the project", name)
	}
	if first == second {
		return []string{first}, nil
	}
	return []string{first, second}, nil
}

// places are what a path names in the project, and outside says that as it is
// written, or where it leads, it is not in it.
func (w World) places(name string) (inside []string, outside bool) {
	written := w.absolute(name)
	real, err := w.follow(written)
	if err != nil {
		return []string{name}, false
	}
	root, err := w.follow(w.Project)
	if err != nil {
		return []string{name}, false
	}
	for _, full := range []string{path.Clean(written), real} {
		for _, project := range []string{path.Clean(w.Project), root} {
			if place, ok := w.within(full, project); ok {
				inside = append(inside, place)
			}
		}
	}
	return inside, len(inside) == 0
}

// absolute is a path from the working directory on.
func (w World) absolute(name string) string {
	switch {
	case path.IsAbs(name):
		return name
	case w.Dir != "":
		return w.Dir + "/" + name
	default:
		return w.Project + "/" + name
	}
}

// plain refuses paths that could be read in two ways.
func plain(name string) error {
	switch {
	case name == "":
		return errors.New("the path is empty")
	case len(name) > maxPath:
		return fmt.Errorf("the path is over %d bytes", maxPath)
	case !utf8.ValidString(name):
		return errors.New("the path is not UTF-8")
	case strings.ContainsRune(name, '\\'):
		return fmt.Errorf("%q has a backslash: write / between folders", name)
	case strings.HasPrefix(name, "~"):
		return fmt.Errorf("%q: write the path in full", name)
	}
	for _, r := range name {
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("%q has a character that cannot be seen", name)
		}
	}
	return nil
}

// within is full relative to root, and whether it is strictly below it.
func (w World) within(full, root string) (string, bool) {
	root = strings.TrimSuffix(root, "/") + "/"
	if len(full) <= len(root) {
		return "", false
	}
	if full[:len(root)] == root || w.FoldCase && strings.EqualFold(full[:len(root)], root) {
		return full[len(root):], true
	}
	return "", false
}

// follow is where an absolute path really leads, as the kernel walks it. What
// does not exist yet leads where it says.
func (w World) follow(full string) (string, error) {
	rest := strings.Split(full, "/")
	at, links := "", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
			continue
		}
		next := at + "/" + part
		if w.Readlink != nil {
			target, link, err := w.Readlink(next)
			if err != nil {
				return "", fmt.Errorf("%q cannot be resolved: %w", full, err)
			}
			if link {
				if links++; links > maxLinks || len(rest) > maxPath {
					return "", fmt.Errorf("%q goes through too many links", full)
				}
				if strings.HasPrefix(target, "/") {
					at = ""
				}
				rest = append(strings.Split(target, "/"), rest...)
				continue
			}
		}
		at = next
	}
	if at == "" {
		at = "/"
	}
	return at, nil
}

// glob is a pattern of paths: * stays within a folder, ** as a whole part
// crosses folders, everything else is itself.
type glob []string

// parseGlob reads a pattern relative to the project.
func (w World) parseGlob(pattern string) (glob, error) {
	text := pattern
	if path.IsAbs(text) {
		rel, ok := w.within(text, path.Clean(w.Project))
		if !ok {
			return nil, fmt.Errorf("the pattern %q is outside the project", pattern)
		}
		text = rel
	}
	if strings.HasSuffix(text, "/") {
		text += "**"
	}
	var parts glob
	for part := range strings.SplitSeq(text, "/") {
		switch part {
		case "", ".":
		case "..":
			return nil, fmt.Errorf("the pattern %q has ..: name the folder", pattern)
		default:
			parts = append(parts, part)
		}
	}
	switch {
	case len(parts) == 0:
		return nil, fmt.Errorf("the pattern %q names nothing", pattern)
	case len(pattern) > maxPath:
		return nil, fmt.Errorf("the pattern is over %d bytes", maxPath)
	case strings.ContainsAny(text, "{\\") || strings.HasPrefix(text, "!"):
		return nil, fmt.Errorf("the pattern %q: braces, backslashes and ! are not supported; write one pattern each", pattern)
	}
	return parts, nil
}

// match tells whether the pattern names exactly this path. Its time is the
// product of both lengths at most.
func (g glob) match(name string, fold bool) bool {
	parts := strings.Split(name, "/")
	// can[i] says that the patterns read so far match the first i parts.
	can := make([]bool, len(parts)+1)
	can[0] = true
	for n, pattern := range g {
		if pattern == "**" {
			if n == len(g)-1 { // what is below, not the folder itself
				return slices.Contains(can[:len(parts)], true)
			}
			for i := 1; i <= len(parts); i++ {
				can[i] = can[i] || can[i-1]
			}
			continue
		}
		for i := len(parts); i > 0; i-- {
			can[i] = can[i-1] && matchPart(pattern, parts[i-1], fold)
		}
		can[0] = false
	}
	return can[len(parts)]
}

// below tells whether the pattern matches a folder above the path.
func (g glob) below(parts []string, fold bool) bool {
	for i := 1; i < len(parts); i++ {
		if g.match(strings.Join(parts[:i], "/"), fold) {
			return true
		}
	}
	return false
}

// matchPart matches one part of a path, in which * is any text.
func matchPart(pattern, part string, fold bool) bool {
	if fold {
		pattern, part = foldCase(pattern), foldCase(part)
	}
	p, s, star, mark := 0, 0, -1, 0
	for s < len(part) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, s
			p++
		case p < len(pattern) && pattern[p] == part[s]:
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		low := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			low = min(low, next)
		}
		return low
	}, s)
}

// scope is the gate of scope::files-whitelist and scope::files-denylist (S-06).
// The denylist beats the whitelist in both.
func (r Rule) scope(c Call, w World) Decision {
	targets, d := c.targets(w)
	if !d.Allowed {
		return d
	}
	for _, target := range targets {
		if d := r.admits(target, w); !d.Allowed {
			return d
		}
	}
	if c.class == classShell && len(r.Denylist) > 0 {
		if s, _ := c.read(); s != nil {
			return r.keeps(s, w)
		}
	}
	return allow()
}

// keeps refuses to remove or move a folder as a whole that holds what is denied.
func (r Rule) keeps(s *shell.Script, w World) Decision {
	for _, call := range s.Calls {
		if !slices.Contains([]string{"rm", "grm", "srm", "mv", "gmv", "trash", "trash-put", "gio", "rename", "rmdir"}, call.Name()) {
			continue
		}
		_, what := call.Changes()
		for _, to := range what {
			places, err := w.locate(to.Text)
			if err != nil { // it is not in the project
				continue
			}
			for _, pattern := range r.Denylist {
				if i := slices.IndexFunc(places, func(place string) bool { return above(place, pattern) }); i >= 0 {
					return deny("%s holds what is on the denylist (%s): leave it as it is", places[i], pattern)
				}
			}
		}
	}
	return allow()
}

// above says that a folder holds, for sure, what a pattern names.
func above(place, pattern string) bool {
	known, _, _ := strings.Cut(pattern, "*")
	known = strings.TrimPrefix(known, "./")
	return known != "" && (place == "." || strings.HasPrefix(known, place+"/"))
}

// targets are the files that a call is known to write.
func (c Call) targets(w World) ([]string, Decision) {
	switch c.class {
	case classRead, classNeutral:
		return nil, allow()
	case classWrite:
		return c.paths, allow()
	case classShell:
		s, d := c.read()
		if s == nil {
			return nil, d
		}
		return targetsOf(s, w)
	default:
		return nil, deny("the tool %s is not known, and may write anywhere: use Edit or Write", c.Tool)
	}
}

// targetsOf are the files that a script is known to write; one that is not
// literal is refused.
func targetsOf(s *shell.Script, w World) ([]string, Decision) {
	words, d := programTargets(s)
	if !d.Allowed {
		return nil, d
	}
	var targets []string
	for _, to := range append(s.Changed(), words...) {
		name := to.Text
		if to.Tilde && w.Home != "" && (name == "~" || strings.HasPrefix(name, "~/")) {
			name = w.Home + name[1:]
		}
		switch {
		case !to.Literal:
			return nil, deny("the command writes %s, which is not literal: write the path in full", to.Shown())
		case s.Moves && !path.IsAbs(name):
			return nil, deny("the command writes %q after a change of directory: write the path from the project's folder", name)
		case shell.IsDiscard(name), w.scratch(name):
		default:
			targets = append(targets, name)
		}
	}
	return append(targets, linked(s)...), allow()
}

// programTargets are the files that programs on the command line name and write.
func programTargets(s *shell.Script) (words []shell.Word, d Decision) {
	for _, call := range s.Calls {
		name := call.Name()
		code := codeOf(name, call)
		if interpreted := shell.IsInterpreter(name) || strings.HasSuffix(name, "awk"); !interpreted || code == "" {
			continue
		}
		if shell.ChangesUnnamed(name, code) {
			return nil, deny("%s is given code that changes files which it does not name: use Edit or Write, or name each file in the call that writes it", name)
		}
		shell.ProgramFiles(name, code, func(file string) {
			words = append(words, shell.Word{Text: file, Literal: true})
		})
	}
	return words, allow()
}

// linked are the files that links lead to which a script makes: what is written
// through one is written there.
func linked(s *shell.Script) (targets []string) {
	for _, call := range s.Calls {
		symbolic, hard := linkKind(call)
		if !symbolic && !hard {
			continue
		}
		sources, into := shell.Copied(call.Args[1:])
		for _, from := range sources {
			if hard || strings.HasSuffix(call.Name(), "cp") || path.IsAbs(from.Text) {
				targets = append(targets, from.Text)
				continue
			}
			for _, to := range into { // a link's own folder, be it the operand or the one that holds it
				targets = append(targets, path.Join(path.Dir(to.Text), from.Text))
				if strings.HasSuffix(to.Text, "/") || len(sources) > 1 {
					targets = append(targets, path.Join(to.Text, from.Text))
				}
			}
		}
	}
	return targets
}

// linkKind tells ln and cp -s or -l.
func linkKind(c shell.Call) (symbolic, hard bool) {
	flag := func(short, long string) bool {
		return slices.ContainsFunc(c.Args[1:], func(w shell.Word) bool {
			return w.Text == long || strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") && strings.Contains(w.Text, short)
		})
	}
	switch c.Name() {
	case "ln", "gln":
		symbolic = flag("s", "--symbolic")
		return symbolic, !symbolic
	case "cp", "gcp":
		return flag("s", "--symbolic-link"), flag("l", "--link")
	}
	return false, false
}

// scratch tells what a command may write outside the project: files below /tmp,
// which is the sandbox's own.
func (w World) scratch(name string) bool {
	if plain(name) != nil || !strings.HasPrefix(path.Clean(name), "/tmp/") {
		return false
	}
	real, err := w.follow(name)
	if err != nil || !strings.HasPrefix(real, "/tmp/") {
		return false
	}
	root, err := w.follow(w.Project)
	if err != nil {
		return false
	}
	for _, place := range []string{path.Clean(name), real} {
		for _, project := range []string{path.Clean(w.Project), root} {
			if _, inside := w.within(place, project); inside || place == project {
				return false
			}
		}
	}
	return true
}

func (r Rule) admits(target string, w World) Decision {
	places, err := w.locate(target)
	if err != nil {
		return deny("%v", err)
	}
	for _, place := range places {
		hit, err := w.hits(r.Denylist, place, true)
		if err != nil {
			return deny("%v", err)
		}
		if hit != "" {
			return deny("%s is on the denylist (%s): leave it as it is", place, hit)
		}
		if r.Kind == FilesDenylist {
			continue
		}
		if hit, err = w.hits(r.Whitelist, place, false); err != nil {
			return deny("%v", err)
		}
		if hit == "" {
			return deny("%s is outside the files of this task (%s)", place, listed(r.Whitelist))
		}
	}
	return allow()
}

// Place decides on one file by its name alone, as a verifier meets it in a tree
// that came back: the gates of paths and their verifiers share their rules. A
// kind that is no gate of paths refuses. Of a link, where it leads counts too,
// for the lists.
func (r Rule) Place(name string, w World) Decision {
	switch r.Kind {
	case FilesWhitelist, FilesDenylist:
		return r.admits(name, w)
	case NoDepBump:
		if !r.AllowDepBump && isManifest(name, w.FoldCase) {
			return deny("%s declares or locks dependencies", name)
		}
		return allow()
	case NoRuleEdits:
		if isRule(name) {
			return deny("%s instructs or restrains agents", name)
		}
		return allow()
	default:
		return deny("%s is no rule of paths", r.Kind)
	}
}

// listed shows a whitelist in a reason.
func listed(patterns []string) string {
	const most = 6
	if len(patterns) == 0 {
		return "none is allowed"
	}
	text := strings.Join(patterns[:min(most, len(patterns))], ", ")
	if len(patterns) > most {
		text += ", …"
	}
	return text
}

// hits is the first pattern that names a path, or with above a folder over it.
func (w World) hits(patterns []string, place string, above bool) (string, error) {
	for _, pattern := range patterns {
		g, err := w.parseGlob(pattern)
		if err != nil {
			return "", err
		}
		if g.match(place, w.FoldCase) || above && g.below(strings.Split(place, "/"), w.FoldCase) {
			return pattern, nil
		}
	}
	return "", nil
}
