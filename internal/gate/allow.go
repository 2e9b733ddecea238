package gate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/shell"
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

func render(c shell.Call) rendered {
	var b strings.Builder
	starts := make([]int, 0, len(c.Args))
	for i, arg := range c.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		starts = append(starts, b.Len())
		if arg.Text == "" && arg.Literal {
			b.WriteString("''")
		}
		for _, r := range []byte(arg.Text) {
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
func matches(patterns []string, c shell.Call) (string, error) {
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
	if len(s.Calls) == 0 {
		return deny("the command is empty")
	}
	if len(s.Writes) > 0 {
		return deny("a redirection writes %s: only the listed commands are allowed here (%s)", s.Writes[0].Shown(), listed(r.Commands))
	}
	if len(s.Functions) > 0 {
		return deny("functions and aliases are not allowed here: %s", s.Functions[0])
	}
	for _, name := range s.Assigned {
		if !ownName(name) {
			return deny("setting %s may change what a command runs", name)
		}
	}
	for _, call := range s.Calls {
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
func (r Rule) listed(c shell.Call, w World) Decision {
	for _, name := range c.Env {
		if !harmless(name) {
			return deny("setting %s may change what %s runs", name, c.Name())
		}
	}
	call := render(c)
	for _, pattern := range r.Commands {
		end, err := matchStart(pattern, call.text)
		if err != nil {
			return deny("%v", err)
		}
		if end < 0 || end < len(c.Args[0].Text) {
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
func beyond(pattern string, call rendered, end int, c shell.Call) string {
	last := call.wordAt(end)
	for _, arg := range c.Args[:last+1] {
		if !arg.Literal {
			return arg.Shown() + " is not literal"
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
func under(c shell.Call, first int, root string) string {
	if c.More {
		return "its operands are not known"
	}
	for _, arg := range c.Args[first:] {
		if why := strays(arg, root); why != "" {
			return why
		}
	}
	return ""
}

// strays says why an operand does not stay under root.
func strays(arg shell.Word, root string) string {
	switch {
	case !arg.Literal || arg.Tilde:
		return arg.Shown() + " is not a literal path under " + root
	case strings.HasPrefix(arg.Text, "-"):
		return "the option " + arg.Text + " is not part of the pattern"
	case plain(arg.Text) != nil:
		return arg.Shown() + " is no plain path"
	}
	for part := range strings.SplitSeq(arg.Text, "/") {
		if part == ".." {
			return arg.Shown() + " leaves " + root
		}
	}
	clean := path.Clean(arg.Text)
	if !strings.HasPrefix(clean, path.Clean(root)+"/") {
		return arg.Shown() + " is not under " + root
	}
	return ""
}

// exploits says where a listed tool is made to run or publish something that
// the list does not mean.
func exploits(c shell.Call, w World) string {
	switch c.Name() {
	case "cargo":
		return cargoExploits(c, w)
	case "rustc":
		if why := rustcExploits(c.Args[1:]); why != "" {
			return why
		}
		return rustcWrites(c.Args[1:], w)
	}
	return ""
}

// valueOf is the value of the first word, where that is one of these flags.
func valueOf(args []shell.Word, flags ...string) (value shell.Word, given bool) {
	flag, attached, with := strings.Cut(args[0].Text, "=")
	switch {
	case !slices.Contains(flags, flag):
		return shell.Word{}, false
	case with:
		value = args[0]
		value.Text = attached
		return value, true
	case len(args) > 1:
		return args[1], true
	}
	return shell.Word{}, true // nothing that is known
}

// leaves tells a path that is not known to lie in the project or in /tmp, by its
// words alone.
func leaves(value shell.Word, w World) bool {
	inside := !path.IsAbs(value.Text) || value.Text == "/dev/null" || strings.HasPrefix(value.Text, "/tmp/") || w.Project != "" && strings.HasPrefix(value.Text, w.Project+"/")
	return !value.Literal || value.Tilde || !inside || slices.Contains(strings.Split(value.Text, "/"), "..")
}

func cargoExploits(c shell.Call, w World) string {
	sub, rest := cargoSub(c)
	for i, arg := range c.Args[1:] {
		text := arg.Text
		switch {
		case text == "--":
			if sub == "rustc" || sub == "rustdoc" || sub == "clippy" {
				return rustcExploits(rest)
			}
			return ""
		case strings.HasPrefix(text, "--config"), strings.HasPrefix(text, "-Z"):
			return text + " can make cargo run anything"
		case strings.HasPrefix(text, "-C") || text == "--fix" || text == "--allow-dirty":
			return text + " is not allowed: it changes what cargo works on"
		case strings.HasPrefix(text, "+"):
			return text + " is not the project's toolchain"
		}
		if value, given := valueOf(c.Args[1+i:], "--target-dir", "--out-dir", "--artifact-dir"); given && leaves(value, w) {
			return text + " leaves the project"
		}
		if value, given := valueOf(c.Args[1+i:], "--manifest-path", "--lockfile-path"); given && (leaves(value, w) || isScratch(value)) {
			return text + " is of another project"
		}
	}
	return subExploits(sub)
}

// isScratch tells a path below /tmp: it may be written, but is no part of the project.
func isScratch(value shell.Word) bool { return strings.HasPrefix(value.Text, "/tmp/") }

// subExploits says why a subcommand is not a check of the project. One that is
// not known may be an alias, or any program of the name cargo-NAME.
func subExploits(sub string) string {
	switch sub {
	case "", "b", "build", "c", "check", "t", "test", "r", "run", "d", "doc", "bench", "clean", "clippy", "fmt", "tree", "metadata", "fetch", "search", "info", "nextest", "audit", "deny",
		"verify-project", "pkgid", "locate-project", "read-manifest", "version", "help", "report", "vendor", "package", "rustc", "rustdoc",
		"add", "rm", "remove", "update", "generate-lockfile":
		return ""
	case "?":
		return "the subcommand is not literal"
	}
	return "cargo " + sub + " is not a check"
}

// cargoSub is cargo's subcommand, "?" where it is not known, and what follows.
func cargoSub(c shell.Call) (string, []shell.Word) {
	args := c.Args[1:]
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		switch {
		case !args[i].Literal:
			return "?", nil
		case text == "--color" || text == "--config" || text == "-C" || text == "-Z" || text == "--explain" || text == "--manifest-path" || text == "--lockfile-path" || text == "--target-dir":
			i++
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, "+"):
		default:
			return text, args[i+1:]
		}
	}
	if c.More {
		return "?", nil
	}
	return "", nil
}

// rustcWrites says where a compiler is told to write outside of the project.
func rustcWrites(args []shell.Word, w World) string {
	for i, arg := range args {
		value, given := valueOf(args[i:], "-o", "--out-dir")
		if to, attached := strings.CutPrefix(arg.Text, "-o"); attached && to != "" { // -o/etc/x
			value, given = arg, true
			value.Text = to
		}
		if kinds, emits := valueOf(args[i:], "--emit"); emits { // --emit=link=/etc/x,dep-info
			value, given = kinds, true
			for kind := range strings.SplitSeq(kinds.Text, ",") {
				if _, to, named := strings.Cut(kind, "="); named {
					value.Text = to
				} else {
					value.Text = "."
				}
				if leaves(value, w) {
					break
				}
			}
		}
		if given && leaves(value, w) {
			return arg.Text + " leaves the project"
		}
	}
	return ""
}

func rustcExploits(args []shell.Word) string {
	for i, arg := range args {
		text := arg.Text
		next := ""
		if i+1 < len(args) {
			next = args[i+1].Text
		}
		option := strings.TrimPrefix(strings.TrimPrefix(text, "-C"), "--codegen=")
		if text == "-C" || text == "--codegen" {
			option = next
		}
		switch {
		case strings.HasPrefix(text, "+"):
			return text + " is not the project's toolchain"
		case strings.HasPrefix(text, "@"), strings.HasPrefix(text, "-Z"):
			return text + " can make rustc run anything"
		case strings.HasPrefix(option, "linker"), strings.HasPrefix(option, "link-"), strings.HasPrefix(option, "llvm-args"), strings.HasPrefix(option, "dlltool"):
			return text + " " + next + " chooses what rustc runs"
		}
	}
	return ""
}
