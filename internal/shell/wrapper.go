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

// wrapped runs what a wrapper runs. Where an option is not known, each operand
// that may be its command is taken to be it.
func (w *walker) wrapped(name string, spec wrapper, c Call) {
	if asksOnly(name, c.Args[1:]) {
		return
	}
	rest := c.Args[1:]
	if name == "runuser" && !slices.ContainsFunc(rest, namesUser) { // then it is called like su
		spec, _ = changer("su")
	}
	if spec.scriptsOnly || spec.scripts != "" && spec.skip > 0 {
		if w.anyScript(name, spec, c) || spec.scriptsOnly {
			return
		}
	}
	if spec.sub != "" {
		if rest = w.afterSub(spec, rest); rest == nil {
			return
		}
	}
	slack, skip, marker, more := 0, spec.skip, "", c.More || spec.appends
	for len(rest) > 0 {
		arg := rest[0]
		switch {
		case arg.Text == "--" && arg.Literal:
			w.operands(spec, Call{Args: append(c.Args[:1:1], rest[1:]...), Stdin: c.Stdin, More: more}, skip, slack, marker)
			return
		case strings.HasPrefix(arg.Text, "-") && len(arg.Text) > 1 || arg.Text == "-" && (name == "su" || name == "env"):
			used, unknown, done := w.option(name, spec, c, rest, &marker)
			if done {
				return
			}
			slack += unknown
			rest = rest[min(used, len(rest)):]
			continue
		case spec.assigns && strings.Contains(arg.Text, "=") && strings.IndexByte(arg.Text, '=') > 0:
			rest = rest[1:]
			continue
		}
		w.operands(spec, Call{Args: append(c.Args[:1:1], rest...), Stdin: c.Stdin, More: more}, skip, slack, marker)
		return
	}
	w.bare(name, spec, c, more)
}

// namesUser tells the option behind which runuser takes a command as it is.
func namesUser(arg Word) bool {
	return !arg.Literal || strings.HasPrefix(arg.Text, "-u") || strings.HasPrefix(arg.Text, "--user")
}

// anyScript reads the script among the words of programs that take options
// after operands, and tells whether there is one.
func (w *walker) anyScript(name string, spec wrapper, c Call) bool {
	for i, arg := range c.Args[1:] {
		flag, value, given := strings.Cut(arg.Text, "=")
		if attached, ok := scriptOption(spec, arg.Text, flag, value, given); ok {
			w.scriptValue(name, c, c.Args[i+1:], attached)
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
func (w *walker) afterSub(spec wrapper, rest []Word) []Word {
	for i, arg := range rest {
		if !arg.Literal {
			w.refuse("the subcommand %s is not literal", arg.Shown())
			return nil
		}
		if isAmong(arg.Text, spec.scripts) {
			return rest[i:]
		}
		if strings.HasPrefix(arg.Text, "-") || strings.HasPrefix(arg.Text, "+") {
			continue
		}
		if isAmong(arg.Text, spec.sub) {
			return rest[i+1:]
		}
		return nil
	}
	return nil
}

// option reads one option. It returns how many words it takes, one for unknown
// where it is not known whether the next is its value, and done where its value
// was all there is to run.
func (w *walker) option(name string, spec wrapper, c Call, rest []Word, marker *string) (used, unknown int, done bool) {
	arg := rest[0]
	flag, value, given := strings.Cut(arg.Text, "=")
	if attached, ok := scriptOption(spec, arg.Text, flag, value, given); ok {
		w.scriptValue(name, c, rest, attached)
		return 2, 0, true
	}
	if !arg.Literal && !given && !strings.HasPrefix(arg.Text, "-P") {
		w.refuse("%s is given %s, which is not literal", name, arg.Shown())
		return 1, 0, true
	}
	if name == "xargs" {
		*marker = replaceMarker(rest, *marker)
	}
	switch {
	case strings.HasPrefix(arg.Text, "--"):
		if !given && isAmong(flag, spec.long) {
			return 2, 0, false
		}
		if given || spec.long != "" && knownFlag(flag) {
			return 1, 0, false
		}
		return 1, 1, false
	case takesValue(arg.Text, spec.values, "") && !spec.loose:
		return 2, 0, false
	}
	for i := 1; i < len(arg.Text); i++ {
		if strings.IndexByte(spec.values, arg.Text[i]) >= 0 {
			return 1, 0, false
		}
		if strings.IndexByte(spec.flags, arg.Text[i]) < 0 {
			return 1, 1, false
		}
	}
	return 1, 0, false
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
func scriptOption(spec wrapper, text, flag, value string, given bool) (attached string, ok bool) {
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
		case !strings.HasPrefix(option, "--") && !strings.HasPrefix(text, "--") && strings.HasSuffix(text, option[1:]) && onlyFlags(spec, text[1:len(text)-1]):
			return "", true
		}
	}
	return "", false
}

func onlyFlags(spec wrapper, cluster string) bool {
	return cluster != "" && strings.Trim(cluster, spec.flags) == ""
}

func (w *walker) scriptValue(name string, c Call, rest []Word, attached string) {
	script, after := literalWord(attached), rest[1:]
	if attached == "" {
		if len(after) == 0 {
			w.refuse("%s is given no script", name)
			return
		}
		script, after = after[0], after[1:]
	}
	if !rest[0].Literal || !script.Literal {
		w.refuse("the script given to %s is not literal", name)
		return
	}
	text := script.Text
	if name == "env" || name == "nix" || name == "guix" { // the words that follow belong to the same command
		var b strings.Builder
		b.WriteString(text)
		for _, arg := range after {
			b.WriteString(" " + quote(arg.Text))
		}
		text = b.String()
	}
	w.nested(text, name, c.Stdin)
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

// operands runs the words after a wrapper's options. c's first word is the wrapper.
func (w *walker) operands(spec wrapper, c Call, skip, slack int, marker string) {
	words := c.Args[1:]
	if spec.joins {
		if len(words) > skip+1 && words[skip].Text == "--" {
			skip++
		}
		if len(words) > skip {
			w.joined(Call{Args: c.Args, Stdin: c.Stdin, More: c.More}, words[skip:])
		}
		return
	}
	if c.Args[0].Text != "" && spec.assigns {
		for len(words) > 0 && strings.IndexByte(words[0].Text, '=') > 0 {
			words = words[1:]
		}
	}
	if len(words) <= skip {
		w.bare(c.Name(), spec, c, c.More)
		return
	}
	words = words[skip:]
	if words[0].Text == "--" && len(words) > 1 { // which ends the options that come after a first operand
		words = words[1:]
	}
	w.candidates(spec, c, words, slack, marker)
}

// candidates runs each operand that may be the command: the first, and one
// more for every option of which it is not known whether it takes a value.
func (w *walker) candidates(spec wrapper, c Call, words []Word, slack int, marker string) {
	seen := 0
	for k, word := range words {
		if k > 0 && strings.HasPrefix(word.Text, "-") && word.Literal {
			slack++
			continue
		}
		if w.full || seen > slack && !spec.loose {
			return
		}
		seen++
		next := Call{Args: words[k:], Stdin: c.Stdin, More: c.More}
		switch {
		case spec.appends:
			w.filled(next, next.Args, marker)
		case word.Literal && (spec.loose || slack > 0) && strings.ContainsAny(word.Text, " \t\n"):
			w.nested(word.Text, c.Name(), c.Stdin)
		default:
			w.run(next)
		}
		if slack == 0 && !spec.loose {
			return
		}
	}
}

// bare is a wrapper without a command.
func (w *walker) bare(name string, spec wrapper, c Call, more bool) {
	switch {
	case spec.appends && !c.More: // xargs alone prints
	case more:
		w.refuse("%s runs a command that is not known", name)
	case name == "sudo" || name == "su" || name == "doas" || name == "runuser" || name == "chroot" || name == "script" || name == "unshare" || name == "nsenter":
		if c.Stdin.piped {
			w.shellInput(c)
		}
	}
}
