package role

import (
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

// separator stands between the parts of a prompt (S-10).
const separator = "\n\n---\n\n"

// Compose writes the prompt of a task in its role: the texts of the atoms in
// the role's order, then the block of this task's limits, then its body. The
// same input gives the same bytes. A role that is not spawnable is refused.
func Compose(r Resolved, t atom.Task) (string, error) {
	if err := r.CheckSpawnable(); err != nil {
		return "", err
	}
	if t.Role != r.Name {
		return "", fmt.Errorf("the task is for role %q, not %q", t.Role, r.Name)
	}
	parts := make([]string, 0, len(r.Atoms)+2)
	for _, a := range r.Atoms {
		parts = append(parts, strings.TrimSpace(strings.ReplaceAll(a.Text, "\r\n", "\n")))
	}
	parts = append(parts, scopeBlock(r, t), strings.TrimSpace(strings.ReplaceAll(t.Body, "\r\n", "\n")))
	return strings.Join(parts, separator) + "\n", nil
}

// scopeBlock says what the fragments leave to the task and the role.
func scopeBlock(r Resolved, t atom.Task) string {
	var b strings.Builder
	b.WriteString("## Scope of this task\n")
	switch {
	case len(t.Whitelist) > 0:
		list(&b, "Files you may write, and no others:", t.Whitelist)
	case r.Has("scope::files-whitelist"):
		b.WriteString("\nFiles you may write: none.\n")
	}
	list(&b, "Files you must leave alone, whatever else is allowed:", t.Denylist)
	list(&b, "Tools you may use, and no others:", r.Tools)
	for _, commands := range commandLists(r) {
		if len(commands) == 0 {
			b.WriteString("\nShell commands you may run: none.\n")
		}
		list(&b, "Shell commands you may run match one of these patterns, from the first word:", commands)
	}
	list(&b, "Fields that your report must have, each with a value:", t.ReportFields)
	if b.Len() == len("## Scope of this task\n") {
		b.WriteString("\nThis task adds no limits to the above.\n")
	}
	return strings.TrimSpace(b.String())
}

// commandLists are the role's lists, and those of its atoms.
func commandLists(r Resolved) [][]string {
	lists := append([][]string(nil), r.Commands...)
	for _, a := range r.Atoms {
		if len(a.Commands) > 0 {
			lists = append(lists, a.Commands)
		}
	}
	return lists
}

func list(b *strings.Builder, title string, entries []string) {
	if len(entries) == 0 {
		return
	}
	b.WriteString("\n" + title + "\n\n")
	for _, entry := range entries {
		b.WriteString("- " + quoted(entry) + "\n")
	}
}

// quoted puts an entry into as many backticks as it needs to be read as one.
func quoted(entry string) string {
	fence := "`"
	for strings.Contains(entry, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + entry + " " + fence
	}
	return fence + entry + fence
}

// Unheld are the limits of a task that no atom of its role enforces, in words
// for the person who wrote it.
func Unheld(r Resolved, t atom.Task) []string {
	var words []string
	for _, limit := range []struct {
		given bool
		key   string
		by    atom.ID
	}{
		{len(t.Whitelist) > 0, "scope.files-whitelist", "scope::files-whitelist"},
		{len(t.Denylist) > 0, "scope.files-denylist", "scope::files-denylist"},
		{len(t.ReportFields) > 0, "output.report-fields-required", "output::report-format"},
	} {
		if limit.given && !r.accepts(limit.key, limit.by) {
			words = append(words, fmt.Sprintf("the task has %s, and role %q has no atom that holds it, such as %s", limit.key, r.Name, limit.by))
		}
	}
	return words
}

// accepts says whether an atom reads a key of a task.
func (r Resolved) accepts(key string, by atom.ID) bool {
	_, name, _ := strings.Cut(key, ".")
	for _, a := range r.Atoms {
		if a.ID == by {
			return true
		}
		for _, accepted := range a.Accepts {
			if accepted == name {
				return true
			}
		}
	}
	return false
}
