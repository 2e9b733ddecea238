package shell

import (
	"slices"
	"strings"
)

// wrapper says how a program that runs another one is called.
type wrapper struct {
	// flags are the short options without a value, values those with one.
	flags, values string
	// long are the long options whose value may be the next word.
	long string
	// scripts are the options whose value is a script.
	scripts string
	// skip is how many operands come before the command.
	skip int
	// assigns lets NAME=value come before the command.
	assigns bool
	// joins makes the operands one script, as a shell would read it.
	joins bool
	// appends says that words that are not known follow the command.
	appends bool
	// loose makes every operand one that may be the command.
	loose bool
	// scriptsOnly says that nothing but its scripts is run.
	scriptsOnly bool
	// sub are the words that must come first, such as exec of npm; without
	// one of them nothing is run.
	sub string
}

// wrapping is the call of a wrapper, read up to the command that it runs.
type wrapping struct {
	invocation
	wrapper
	// slack is how many more operands may be the command: one for each option of
	// which it is not known whether it takes a value.
	slack int
	// marker is what xargs replaces in its command, where it does.
	marker string
}

// wraps runs what a wrapper runs.
func (c *invocation) wraps(spec wrapper) {
	args := c.Args[1:]
	if asksOnly(c.name, args) {
		return
	}
	if c.name == "runuser" && !slices.ContainsFunc(args, namesUser) { // then it is called like su
		spec, _ = changer("su")
	}
	w := wrapping{invocation: *c, wrapper: spec}
	if spec.scriptsOnly || spec.scripts != "" && spec.skip > 0 {
		if w.anyScript() || spec.scriptsOnly {
			return
		}
	}
	if spec.sub != "" {
		if args = w.afterSub(args); args == nil {
			return
		}
	}
	w.read(args)
}

// read reads the words behind a wrapper. Where an option is not known, each operand
// that may be its command is taken to be it.
func (w *wrapping) read(rest []Word) {
	prints := w.appends && !w.More // xargs alone
	w.More = w.More || w.appends
	for len(rest) > 0 {
		arg := rest[0]
		switch {
		case arg.Text == "--" && arg.Literal:
			w.operands(rest[1:])
			return
		case strings.HasPrefix(arg.Text, "-") && len(arg.Text) > 1 || arg.Text == "-" && (w.name == "su" || w.name == "env"):
			used, done := w.option(rest)
			if done {
				return
			}
			rest = rest[min(used, len(rest)):]
			continue
		case w.assigns && strings.Contains(arg.Text, "=") && strings.IndexByte(arg.Text, '=') > 0:
			rest = rest[1:]
			continue
		}
		w.operands(rest)
		return
	}
	if !prints {
		w.bare()
	}
}

// namesUser tells the option behind which runuser takes a command as it is.
func namesUser(arg Word) bool {
	return !arg.Literal || strings.HasPrefix(arg.Text, "-u") || strings.HasPrefix(arg.Text, "--user")
}

// anyScript reads the script among the words of programs that take options
// after operands, and tells whether there is one.
func (w *wrapping) anyScript() bool {
	for i, arg := range w.Args[1:] {
		flag, value, given := strings.Cut(arg.Text, "=")
		if attached, ok := w.scriptOption(arg.Text, flag, value, given); ok {
			w.scriptValue(w.Args[i+1:], attached)
			return true
		}
	}
	return false
}

// asksOnly tells command -v and its like, which run nothing.
func asksOnly(name string, args []Word) bool {
	if len(args) == 0 || !args[0].Literal {
		return false
	}
	first := args[0].Text
	switch name {
	case "command":
		return strings.HasPrefix(first, "-") && strings.ContainsAny(first, "vV") && !strings.HasPrefix(first, "--")
	case "sudo":
		return first == "-l" || first == "-v" || first == "-k" || first == "-K" || first == "-V"
	}
	return (first == "--version" || first == "--help") && len(args) == 1
}

// afterSub returns the words after a subcommand that runs something, or nil.
func (w *wrapping) afterSub(rest []Word) []Word {
	for i, arg := range rest {
		if !arg.Literal {
			w.refuse("the subcommand %s is not literal", arg.Shown())
			return nil
		}
		if isAmong(arg.Text, w.scripts) {
			return rest[i:]
		}
		if strings.HasPrefix(arg.Text, "-") || strings.HasPrefix(arg.Text, "+") {
			continue
		}
		if isAmong(arg.Text, w.sub) {
			return rest[i+1:]
		}
		return nil
	}
	return nil
}

// option reads one option. It returns how many words it takes, and done where its
// value was all there is to run.
func (w *wrapping) option(rest []Word) (used int, done bool) {
	arg := rest[0]
	flag, value, given := strings.Cut(arg.Text, "=")
	if attached, ok := w.scriptOption(arg.Text, flag, value, given); ok {
		w.scriptValue(rest, attached)
		return 2, true
	}
	if !arg.Literal && !given && !strings.HasPrefix(arg.Text, "-P") {
		w.refuse("%s is given %s, which is not literal", w.name, arg.Shown())
		return 1, true
	}
	if w.name == "xargs" {
		w.marker = replaceMarker(rest, w.marker)
	}
	switch {
	case strings.HasPrefix(arg.Text, "--"):
		if !given && isAmong(flag, w.long) {
			return 2, false
		}
		if !given && (w.long == "" || !knownFlag(flag)) {
			w.slack++
		}
		return 1, false
	case takesValue(arg.Text, w.values, "") && !w.loose:
		return 2, false
	}
	for i := 1; i < len(arg.Text); i++ {
		if strings.IndexByte(w.values, arg.Text[i]) >= 0 {
			break
		}
		if strings.IndexByte(w.flags, arg.Text[i]) < 0 {
			w.slack++
			break
		}
	}
	return 1, false
}

// knownFlag tells long options without a value that are often seen.
func knownFlag(flag string) bool {
	switch flag {
	case "--null", "--no-run-if-empty", "--verbose", "--interactive", "--preserve-status", "--foreground", "--ignore-environment", "--preserve-env",
		"--non-interactive", "--login", "--background", "--portability", "--append", "--exit", "--open-tty", "--yes", "--silent", "--quiet":
		return true
	}
	return false
}

// scriptOption tells an option whose value is a script, and that value where
// it is part of the same word.
func (spec wrapper) scriptOption(text, flag, value string, given bool) (attached string, ok bool) {
	if len(text) < 2 || text[0] != '-' {
		return "", false
	}
	for _, option := range strings.Fields(spec.scripts) {
		switch {
		case text == option:
			return "", true
		case strings.HasPrefix(option, "--") && given && flag == option:
			return value, true
		case !strings.HasPrefix(option, "--") && !strings.HasPrefix(text, "--") && strings.HasPrefix(text, option):
			return text[len(option):], true
		case !strings.HasPrefix(option, "--") && !strings.HasPrefix(text, "--") && strings.HasSuffix(text, option[1:]) && spec.onlyFlags(text[1:len(text)-1]):
			return "", true
		}
	}
	return "", false
}

// onlyFlags tells letters that are all options without a value.
func (spec wrapper) onlyFlags(cluster string) bool {
	return cluster != "" && strings.Trim(cluster, spec.flags) == ""
}

// scriptValue reads the value of an option that is a script.
func (w *wrapping) scriptValue(rest []Word, attached string) {
	script, after := literalWord(attached), rest[1:]
	if attached == "" {
		if len(after) == 0 {
			w.refuse("%s is given no script", w.name)
			return
		}
		script, after = after[0], after[1:]
	}
	if !rest[0].Literal || !script.Literal {
		w.refuse("the script given to %s is not literal", w.name)
		return
	}
	text := script.Text
	if w.name == "env" || w.name == "nix" || w.name == "guix" { // the words that follow belong to the same command
		var b strings.Builder
		b.WriteString(text)
		for _, arg := range after {
			b.WriteString(" " + quote(arg.Text))
		}
		text = b.String()
	}
	w.nested(text, w.name, w.Stdin)
}

// quote makes one word of text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// replaceMarker is what xargs replaces in its command, where it does.
func replaceMarker(rest []Word, marker string) string {
	text := rest[0].Text
	switch {
	case text == "-I" || text == "-J" || text == "--replace":
		if len(rest) > 1 {
			return rest[1].Text
		}
	case strings.HasPrefix(text, "-I"), strings.HasPrefix(text, "-J"):
		return text[2:]
	case strings.HasPrefix(text, "--replace="):
		return strings.TrimPrefix(text, "--replace=")
	case text == "-i":
		return "{}"
	}
	return marker
}

// operands runs the words after a wrapper's options.
func (w *wrapping) operands(words []Word) {
	skip := w.skip
	if w.joins {
		if len(words) > skip+1 && words[skip].Text == "--" {
			skip++
		}
		if len(words) > skip {
			w.joined(words[skip:])
		}
		return
	}
	if w.assigns {
		for len(words) > 0 && strings.IndexByte(words[0].Text, '=') > 0 {
			words = words[1:]
		}
	}
	if len(words) <= skip {
		w.bare()
		return
	}
	words = words[skip:]
	if words[0].Text == "--" && len(words) > 1 { // which ends the options that come after a first operand
		words = words[1:]
	}
	w.candidates(words)
}

// candidates runs each operand that may be the command: the first, and one
// more for every option of which it is not known whether it takes a value.
func (w *wrapping) candidates(words []Word) {
	seen := 0
	for k, word := range words {
		if k > 0 && strings.HasPrefix(word.Text, "-") && word.Literal {
			w.slack++
			continue
		}
		if w.full || seen > w.slack && !w.loose {
			return
		}
		seen++
		switch {
		case w.appends:
			w.filled(words[k:], w.marker)
		case word.Literal && (w.loose || w.slack > 0) && strings.ContainsAny(word.Text, " \t\n"):
			w.nested(word.Text, w.name, w.Stdin)
		default:
			w.run(Call{Args: words[k:], Stdin: w.Stdin, More: w.More})
		}
		if w.slack == 0 && !w.loose {
			return
		}
	}
}

// bare is a wrapper without a command.
func (w *wrapping) bare() {
	switch name := w.name; {
	case w.More:
		w.refuse("%s runs a command that is not known", name)
	case name == "sudo" || name == "su" || name == "doas" || name == "runuser" || name == "chroot" || name == "script" || name == "unshare" || name == "nsenter":
		if w.Stdin.piped {
			w.input()
		}
	}
}
