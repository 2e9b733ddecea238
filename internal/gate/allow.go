package gate

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// maxPattern is the longest pattern, in bytes.
const maxPattern = 1024

// rendered is a call for patterns: its words, unquoted, with one space between
// them, and a backslash before white space, quotes and backslashes in them.
type rendered struct {
	text string
	// starts is where each word begins.
	starts []int
}

func render(c invocation) rendered {
	var b strings.Builder
	starts := make([]int, 0, len(c.args))
	for i, arg := range c.args {
		if i > 0 {
			b.WriteByte(' ')
		}
		starts = append(starts, b.Len())
		if arg.text == "" && arg.literal {
			b.WriteString("''")
		}
		for _, r := range []byte(arg.text) {
			if strings.IndexByte(" \t\n'\"\\", r) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(r)
		}
	}
	return rendered{b.String(), starts}
}

// wordAt is the index of the word that ends at or after a place in the text.
func (r rendered) wordAt(end int) int {
	i := 0
	for i+1 < len(r.starts) && r.starts[i+1] < end {
		i++
	}
	return i
}

// matches is the first pattern that a call matches from its first word on.
func matches(patterns []string, c invocation) (string, error) {
	text := render(c).text
	for _, pattern := range patterns {
		end, err := matchStart(pattern, text)
		if err != nil {
			return "", err
		}
		if end >= 0 {
			return pattern, nil
		}
	}
	return "", nil
}

// matchStart is where a match from the start ends, or -1.
func matchStart(pattern, text string) (int, error) {
	if pattern == "" || len(pattern) > maxPattern {
		return -1, fmt.Errorf("the pattern %q is empty or over %d bytes", pattern[:min(len(pattern), 40)], maxPattern)
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)`)
	if err != nil {
		return -1, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	if at := re.FindStringIndex(text); at != nil {
		return at[1], nil
	}
	return -1, nil
}

// bashAllowlist is the gate of tools::bash-allowlist: every command, however
// deep, is on the list, and nothing is written beside it (S-02, S-05).
func (r Rule) bashAllowlist(c Call, w World) Decision {
	s, d := c.read()
	if s == nil {
		return d
	}
	if len(s.calls) == 0 {
		return deny("the command is empty")
	}
	if len(s.writes) > 0 {
		return deny("a redirection writes %s: only the listed commands are allowed here (%s)", shown(s.writes[0]), listed(r.Commands))
	}
	if len(s.functions) > 0 {
		return deny("functions and aliases are not allowed here: %s", s.functions[0])
	}
	for _, name := range s.assigned {
		if !ownName(name) {
			return deny("setting %s may change what a command runs", name)
		}
	}
	for _, call := range s.calls {
		if d := r.listed(call, w); !d.Allowed {
			return d
		}
	}
	return allow()
}

// ownName tells variables that a script keeps for itself.
func ownName(name string) bool {
	return strings.ToLower(name) == name && !strings.HasSuffix(name, "_proxy") || harmless(name)
}

// harmless tells variables that change what a program prints, not what it runs.
func harmless(name string) bool {
	switch name {
	case "RUST_BACKTRACE", "RUST_LOG", "RUST_TEST_THREADS", "CARGO_TERM_COLOR", "CARGO_INCREMENTAL", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "TERM", "LANG", "LC_ALL", "TZ", "CI", "COLUMNS":
		return true
	}
	return false
}

// listed decides on one call of an allow-list.
func (r Rule) listed(c invocation, w World) Decision {
	for _, name := range c.env {
		if !harmless(name) {
			return deny("setting %s may change what %s runs", name, c.name())
		}
	}
	call := render(c)
	for _, pattern := range r.Commands {
		end, err := matchStart(pattern, call.text)
		if err != nil {
			return deny("%v", err)
		}
		if end < 0 || end < len(c.args[0].text) {
			continue
		}
		if why := beyond(pattern, call, end, c); why != "" {
			return deny("%q: %s", call.text, why)
		}
		if why := exploits(c, w); why != "" {
			return deny("%q: %s", call.text, why)
		}
		return allow()
	}
	return deny("%q is not on the list of commands (%s)", call.text, listed(r.Commands))
}

// beyond says why a matched call is more than its pattern: the match must end
// with a word, or in a path under which every operand stays. What it covers
// must be known.
func beyond(pattern string, call rendered, end int, c invocation) string {
	last := call.wordAt(end)
	for _, arg := range c.args[:last+1] {
		if !arg.literal {
			return shown(arg) + " is not literal"
		}
	}
	root := call.text[call.starts[last]:end]
	if last > 0 && strings.HasSuffix(root, "/") {
		return under(c, last, root)
	}
	if end == len(call.text) || call.text[end] == ' ' || call.text[end-1] == ' ' {
		return ""
	}
	return "the pattern " + pattern + " ends within a word"
}

// under says why not every operand from the first on stays under a folder.
func under(c invocation, first int, root string) string {
	if c.more {
		return "its operands are not known"
	}
	for _, arg := range c.args[first:] {
		if why := strays(arg, root); why != "" {
			return why
		}
	}
	return ""
}

// strays says why an operand does not stay under root.
func strays(arg word, root string) string {
	switch {
	case !arg.literal || arg.tilde:
		return shown(arg) + " is not a literal path under " + root
	case strings.HasPrefix(arg.text, "-"):
		return "the option " + arg.text + " is not part of the pattern"
	case plain(arg.text) != nil:
		return shown(arg) + " is no plain path"
	}
	for part := range strings.SplitSeq(arg.text, "/") {
		if part == ".." {
			return shown(arg) + " leaves " + root
		}
	}
	clean := path.Clean(arg.text)
	if !strings.HasPrefix(clean, path.Clean(root)+"/") {
		return shown(arg) + " is not under " + root
	}
	return ""
}

// exploits says where a listed tool is made to run or publish something that
// the list does not mean.
func exploits(c invocation, w World) string {
	switch c.name() {
	case "cargo":
		return cargoExploits(c, w)
	case "rustc":
		if why := rustcExploits(c.args[1:]); why != "" {
			return why
		}
		return rustcWrites(c.args[1:], w)
	}
	return ""
}

// valueOf is the value of the first word, where that is one of these flags.
func valueOf(args []word, flags ...string) (value word, given bool) {
	flag, attached, with := strings.Cut(args[0].text, "=")
	switch {
	case !oneOf(flag, flags):
		return word{}, false
	case with:
		value = args[0]
		value.text = attached
		return value, true
	case len(args) > 1:
		return args[1], true
	}
	return word{}, true // nothing that is known
}

// leaves tells a path that is not known to lie in the project or in /tmp, by its
// words alone.
func leaves(value word, w World) bool {
	inside := !path.IsAbs(value.text) || value.text == "/dev/null" || strings.HasPrefix(value.text, "/tmp/") || w.Project != "" && strings.HasPrefix(value.text, w.Project+"/")
	return !value.literal || value.tilde || !inside || oneOf("..", strings.Split(value.text, "/"))
}

func cargoExploits(c invocation, w World) string {
	sub, rest := cargoSub(c)
	for i, arg := range c.args[1:] {
		text := arg.text
		switch {
		case text == "--":
			if sub == "rustc" || sub == "rustdoc" || sub == "clippy" {
				return rustcExploits(rest)
			}
			return ""
		case strings.HasPrefix(text, "--config"), strings.HasPrefix(text, "-Z"):
			return text + " can make cargo run anything"
		case text == "-C" || text == "--fix" || text == "--allow-dirty":
			return text + " is not allowed: it changes what cargo works on"
		case strings.HasPrefix(text, "+") && strings.ContainsAny(text, "/."+`\`) && strings.Trim(text, "+0123456789.") != "":
			return text + " is a toolchain of its own"
		}
		if value, given := valueOf(c.args[1+i:], "--manifest-path", "--target-dir", "--out-dir", "--artifact-dir"); given && leaves(value, w) {
			return text + " leaves the project"
		}
	}
	switch sub {
	case "login", "logout", "owner", "publish", "yank", "install", "uninstall", "fix", "script", "package-login", "init", "new":
		return "cargo " + sub + " is not a check"
	case "?":
		return "the subcommand is not literal"
	}
	return ""
}

// cargoSub is cargo's subcommand, "?" where it is not known, and what follows.
func cargoSub(c invocation) (string, []word) {
	args := c.args[1:]
	for i := 0; i < len(args); i++ {
		text := args[i].text
		switch {
		case !args[i].literal:
			return "?", nil
		case text == "--color" || text == "--config" || text == "-C" || text == "-Z" || text == "--explain" || text == "--manifest-path":
			i++
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, "+"):
		default:
			return text, args[i+1:]
		}
	}
	if c.more {
		return "?", nil
	}
	return "", nil
}

// rustcWrites says where a compiler is told to write outside of the project.
func rustcWrites(args []word, w World) string {
	for i, arg := range args {
		value, given := valueOf(args[i:], "-o", "--out-dir")
		if to, attached := strings.CutPrefix(arg.text, "-o"); attached && to != "" { // -o/etc/x
			value, given = arg, true
			value.text = to
		}
		if kinds, emits := valueOf(args[i:], "--emit"); emits { // --emit=link=/etc/x,dep-info
			value, given = kinds, true
			for kind := range strings.SplitSeq(kinds.text, ",") {
				if _, to, named := strings.Cut(kind, "="); named {
					value.text = to
				} else {
					value.text = "."
				}
				if leaves(value, w) {
					break
				}
			}
		}
		if given && leaves(value, w) {
			return arg.text + " leaves the project"
		}
	}
	return ""
}

func rustcExploits(args []word) string {
	for i, arg := range args {
		text := arg.text
		next := ""
		if i+1 < len(args) {
			next = args[i+1].text
		}
		option := strings.TrimPrefix(strings.TrimPrefix(text, "-C"), "--codegen=")
		if text == "-C" || text == "--codegen" {
			option = next
		}
		switch {
		case strings.HasPrefix(text, "@"), strings.HasPrefix(text, "-Z"):
			return text + " can make rustc run anything"
		case strings.HasPrefix(option, "linker"), strings.HasPrefix(option, "link-"), strings.HasPrefix(option, "llvm-args"), strings.HasPrefix(option, "dlltool"):
			return text + " " + next + " chooses what rustc runs"
		}
	}
	return ""
}
