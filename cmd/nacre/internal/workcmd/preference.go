package workcmd

import "strings"

// maxPreference is the longest value that is passed on, in bytes.
const maxPreference = 128

// preferences are the variables that say how a person edits and sees colours: all
// that a command gets of the caller's environment (F-136). A value that is not as such
// values are is left out, since it may hold anything.
func preferences(getenv func(string) string) []string {
	var env []string
	for _, p := range []struct{ name, more string }{
		{"EDITOR", "/ "}, {"VISUAL", "/ "}, {"COLORTERM", ""}, {"NO_COLOR", ""},
	} {
		if value := getenv(p.name); isPlain(value, p.more) {
			env = append(env, p.name+"="+value)
		}
	}
	return env
}

// isPlain tells a word, or several where more has a space: letters, digits, and
// what programs and their flags are written with.
func isPlain(value, more string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+"+more, r)
	}
	return value != "" && len(value) <= maxPreference && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0
}
