package gitconfig

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Entry is one value of a configuration. The section and the name in its key are in small letters, as git lists it.
type Entry struct {
	Key, Value string
	// Own tells what the repository says from what its user says for all of theirs.
	Own bool
}

// Read gives what git lists for a repository of ordinary form, in its order, without running git. It is not ok where
// git has to be asked: where a file of [Files] or the repository's own is not plain, as [Plain] says.
func Read(commonDir, home string) (entries []Entry, ok bool) {
	for i, file := range append([]string{filepath.Join(commonDir, "config")}, Files(home)...) {
		own := i == 0
		if resolved, err := filepath.EvalSymlinks(file); err == nil && !own { // people keep theirs elsewhere
			file = resolved
		}
		text, err := disk.Read(file, maxConfig)
		if errors.Is(err, fs.ErrNotExist) && !own {
			continue
		}
		list, plain := Plain(string(text))
		if err != nil || !plain || !filepath.IsAbs(file) {
			return nil, false
		}
		for _, e := range list {
			if own && (strings.HasPrefix(e.Key, "extensions.") || e.Key == "core.repositoryformatversion" && e.Value != "0") {
				return nil, false
			}
			e.Own = own
			entries = append(entries, e)
		}
	}
	return entries, true
}

// Plain reads the text of a configuration, as git does. It is not ok for one that includes another, is damaged, or is
// written in a way that git's versions do not read alike.
func Plain(text string) (entries []Entry, ok bool) {
	if strings.ContainsAny(text, "\r\x00") {
		return nil, false
	}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\n")
		switch {
		case line == "", line[0] == '#', line[0] == ';':
		case line[0] == '[':
			if section = plainSection(line); section == "" {
				return nil, false
			}
		default:
			name, rest, says := strings.Cut(line, "=")
			name = strings.TrimRight(name, " \t")
			value, whole := plainValue(strings.TrimLeft(rest, " \t"))
			if !says || !whole || section == "" || !isName(name) || name[0] < 'A' {
				return nil, false
			}
			entries = append(entries, Entry{Key: section + strings.ToLower(name), Value: value})
		}
	}
	return entries, true
}

// plainSection is what the keys below a section's line begin with, or "".
func plainSection(line string) string {
	name, closed := strings.CutSuffix(line[1:], "]")
	name, of, named := strings.Cut(name, ` "`)
	if !closed || !isName(name) {
		return ""
	}
	if name = strings.ToLower(name); strings.HasPrefix(name, "include") {
		return ""
	}
	if !named {
		return name + "."
	}
	of, quoted := strings.CutSuffix(of, `"`)
	if !quoted || strings.ContainsAny(of, `"\`) {
		return ""
	}
	return name + "." + of + "."
}

func isName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
	}) < 0
}

// plainValue takes the quotes and the comment from a value, all of which is on one line.
func plainValue(text string) (value string, ok bool) {
	var b strings.Builder
	quoted, spaces := false, 0 // spaces are part of the value where something follows
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted = !quoted
			continue
		case quoted && c != '\\':
		case c == ';', c == '#':
			return b.String(), true
		case c == ' ':
			if b.Len() > 0 {
				spaces++
			}
			continue
		case c == '\t': // which became a space in older versions
			return "", false
		case c == '\\':
			at := -1
			if i++; i < len(text) {
				at = strings.IndexByte(`nt"\`, text[i])
			}
			if at < 0 {
				return "", false
			}
			c = "\n\t\"\\"[at]
		}
		b.WriteString(strings.Repeat(" ", spaces))
		spaces = 0
		b.WriteByte(c)
	}
	return b.String(), !quoted
}
