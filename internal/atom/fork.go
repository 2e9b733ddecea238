package atom

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Fork is a new atom's files, to be written beside others of a project.
type Fork struct {
	ID ID
	// Dir is the folder below .nacre, such as capabilities/policy/no-git-ops-lax.
	Dir string
	// TOML is capability.toml; Text is the text, byte for byte the source's,
	// under the name TextName.
	TOML, Text []byte
	TextName   string
	// Rewritten is how many fields of the source changed.
	Rewritten int
}

// Fork makes a copy of an atom under a new name: name and category rewritten,
// lineage set, all else as it was (S-07). now is when; creator is who, and
// "unknown" where empty.
func (a Atom) Fork(name, creator string, now time.Time) (Fork, error) {
	id, err := ParseID(name)
	if err != nil {
		return Fork{}, err
	}
	if canonicalName(name) != name || id == a.ID {
		return Fork{}, fmt.Errorf("%s is taken: choose another name", id)
	}
	if creator == "" {
		creator = "unknown"
	}
	if len(creator) > 256 || strings.ContainsFunc(creator, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Fork{}, fmt.Errorf("the creator %q is no name", clip(creator))
	}
	source, rewritten := rewrite(string(a.source), id)
	source += fmt.Sprintf("\n[lineage]\nfork_from = %s\nparents = [%s]\ncreator = %s\ncreated = %s\n",
		strconv.Quote(string(a.ID)), strconv.Quote(string(a.ID)), quoteTOML(creator), strconv.Quote(now.UTC().Format(time.RFC3339)))
	f := Fork{ID: id, Dir: path.Join(folder, id.path()), TOML: []byte(source), Text: a.text, TextName: "text.md", Rewritten: rewritten}
	_, text, err := parse(id, f.TOML)
	if err != nil {
		return Fork{}, fmt.Errorf("%s cannot be forked as it is written: %w", a.ID, err)
	}
	if text != "" {
		f.TextName = text
	}
	return f, nil
}

// quoteTOML is a basic string of TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// rewrite sets name and category line by line, so that comments stay, and
// leaves an older lineage out.
func rewrite(source string, id ID) (string, int) {
	var b strings.Builder
	table, rewritten := "", 0
	for line := range strings.Lines(source) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") && !strings.Contains(trimmed, "=") {
			table, _, _ = strings.Cut(strings.Trim(trimmed, "["), "]")
			table = strings.TrimSpace(table)
		}
		if table == "lineage" {
			continue
		}
		key, _, _ := strings.Cut(trimmed, "=")
		switch key = strings.TrimSpace(key); {
		case table == "capability" && key == "name":
			line = "name = " + strconv.Quote(string(id)) + "\n"
			rewritten++
		case table == "capability" && key == "category":
			line = "category = " + strconv.Quote(id.Category()) + "\n"
			rewritten++
		}
		b.WriteString(line)
	}
	return strings.TrimRight(b.String(), "\n") + "\n", rewritten
}
