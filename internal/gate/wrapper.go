package gate

import "strings"

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

// wrapperOf tells the programs that run what they are given.
func wrapperOf(name string) (wrapper, bool) { //nolint:funlen // one table
	switch name {
	case "env", "genv":
		return wrapper{flags: "iv0", values: "uCP", long: "--unset --chdir", scripts: "-S --split-string", assigns: true}, true
	case "sudo":
		return wrapper{flags: "AbEeHiKklnPSsVvN", values: "ugpCcDhRTtUr", long: "--user --group --prompt --chdir --host --role --type --close-from --chroot --other-user --command-timeout", assigns: true}, true
	case "doas":
		return wrapper{flags: "Lns", values: "uCa"}, true
	case "pkexec":
		return wrapper{long: "--user"}, true
	case "runuser":
		return wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command"}, true
	case "su":
		return wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command", skip: 1}, true
	case "sg", "newgrp":
		return wrapper{scripts: "-c", skip: 1, joins: true}, true
	case "script":
		return wrapper{flags: "aefq", values: "EIOBTmot", long: "--echo --log-in --log-out --log-io --log-timing --logging-format --output-limit", scripts: "-c --command", skip: 1}, true
	case "nohup", "setsid", "chronic", "builtin", "noglob", "nocorrect", "-", "fakeroot", "unbuffer", "ccache", "sccache", "distcc",
		"catchsegv", "eatmydata", "ssh-agent", "systemd-cat", "aa-exec", "busybox", "toybox", "proxychains", "proxychains4", "torsocks", "torify", "ifne", "setpriv":
		return wrapper{flags: "cfwpqvl", values: "W"}, true
	case "repeat":
		return wrapper{skip: 1}, true
	case "command":
		return wrapper{flags: "p"}, true
	case "exec":
		return wrapper{flags: "cl", values: "a"}, true
	case "time", "gtime":
		return wrapper{flags: "apqvV", values: "fo", long: "--format --output"}, true
	case "timeout", "gtimeout":
		return wrapper{flags: "fpv", values: "ks", long: "--kill-after --signal", skip: 1}, true
	case "nice", "gnice":
		return wrapper{flags: "0123456789", values: "n", long: "--adjustment"}, true
	case "ionice":
		return wrapper{flags: "t", values: "cnpPu", long: "--class --classdata"}, true
	case "stdbuf", "gstdbuf":
		return wrapper{values: "ioe", long: "--input --output --error"}, true
	case "taskset", "chrt", "cpulimit", "schedtool":
		return wrapper{flags: "abcfior", values: "", skip: 1}, true
	case "setarch", "linux32", "linux64", "i386", "x86_64", "aarch64":
		return wrapper{flags: "BFILRSTXZv3"}, true
	case "xargs", "gxargs":
		return wrapper{flags: "0oprtx", values: "aEdILnPsRSJ", long: "--arg-file --delimiter --max-args --max-procs --max-chars --max-lines --replace --process-slot-var", appends: true}, true
	case "watch":
		return wrapper{flags: "bcdegptwx", values: "nq", long: "--interval --equexit", joins: true}, true
	case "entr":
		return wrapper{flags: "acdnprsxz", joins: true}, true
	case "flock":
		return wrapper{flags: "Fensuxo", values: "wE", long: "--wait --timeout --conflict-exit-code", scripts: "-c --command", skip: 1}, true
	case "ssh", "autossh", "mosh":
		return wrapper{flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopQRSWw", skip: 1, joins: true}, true
	case "chroot":
		return wrapper{long: "--userspec --groups", skip: 1}, true
	case "strace", "ltrace", "valgrind", "dtruss", "heaptrack", "uftrace", "caffeinate", "rlwrap", "prlimit", "numactl", "winpty",
		"dbus-run-session", "dbus-launch", "chpst", "run-one", "cgexec", "sshpass", "dotenv",
		"reflex", "retry", "tsp", "wine", "arch", "trickle", "systemd-inhibit":
		return wrapper{scripts: "-c --command --run"}, true
	case "faketime", "setuidgid", "gosu", "su-exec", "envdir":
		return wrapper{flags: "f", skip: 1}, true
	case "cross-env", "env-cmd":
		return wrapper{values: "f", assigns: true}, true
	case "cross-env-shell":
		return wrapper{joins: true}, true
	case "perf", "rr", "proot", "bwrap", "firejail", "unshare", "nsenter", "capsh", "systemd-run", "gdb", "lldb", "screen", "tmux", "xvfb-run", "start-stop-daemon",
		"daemonize", "daemon", "expect", "schroot", "runcon", "xterm", "gnome-terminal", "konsole", "kitty", "alacritty", "stap", "bpftrace", "dtrace", "envchain", "run-parts",
		"hyperfine", "watchexec", "sem":
		return wrapper{scripts: "-c --command --run", loose: true}, true
	case "npm", "pnpm", "yarn", "bun":
		return wrapper{sub: "exec x dlx", scripts: "-c --call", long: "--package"}, true
	case "npx", "bunx", "pnpx":
		return wrapper{values: "p", long: "--package", scripts: "-c --call"}, true
	case "poetry", "uv", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "micromamba", "pyenv", "pixi", "op", "infisical", "sops", "doppler", "dotenvx":
		return wrapper{sub: "run exec", values: "n", long: "--name --with --python"}, true
	case "bundle", "rbenv":
		return wrapper{sub: "exec x"}, true
	case "rustup":
		return wrapper{sub: "run", skip: 1}, true
	case "direnv", "aws-vault", "vaulted", "chamber":
		return wrapper{sub: "exec", skip: 1}, true
	case "mise", "rtx", "asdf":
		return wrapper{sub: "exec x", loose: true}, true
	case "nix", "nix-shell", "guix", "devbox", "flatpak", "distrobox", "toolbox":
		return wrapper{scripts: "--run --command -c", scriptsOnly: true}, true
	}
	return wrapper{}, false
}

// wrapped runs what a wrapper runs. Where an option is not known, each operand
// that may be its command is taken to be it.
func (w *walker) wrapped(name string, spec wrapper, c invocation) {
	if asksOnly(name, c.args[1:]) {
		return
	}
	rest := c.args[1:]
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
	slack, skip, marker, more := 0, spec.skip, "", c.more || spec.appends
	for len(rest) > 0 {
		arg := rest[0]
		switch {
		case arg.text == "--" && arg.literal:
			w.operands(spec, invocation{args: append(c.args[:1:1], rest[1:]...), stdin: c.stdin, more: more}, skip, slack, marker)
			return
		case strings.HasPrefix(arg.text, "-") && len(arg.text) > 1 || arg.text == "-" && (name == "su" || name == "env"):
			used, unknown, done := w.option(name, spec, c, rest, &marker)
			if done {
				return
			}
			slack += unknown
			rest = rest[min(used, len(rest)):]
			continue
		case spec.assigns && strings.Contains(arg.text, "=") && strings.IndexByte(arg.text, '=') > 0:
			rest = rest[1:]
			continue
		}
		w.operands(spec, invocation{args: append(c.args[:1:1], rest...), stdin: c.stdin, more: more}, skip, slack, marker)
		return
	}
	w.bare(name, spec, c, more)
}

// anyScript reads the script among the words of programs that take options
// after operands, and tells whether there is one.
func (w *walker) anyScript(name string, spec wrapper, c invocation) bool {
	for i, arg := range c.args[1:] {
		flag, value, given := strings.Cut(arg.text, "=")
		if attached, ok := scriptOption(spec, arg.text, flag, value, given); ok {
			w.scriptValue(name, c, c.args[i+1:], attached)
			return true
		}
	}
	return false
}

// asksOnly tells command -v and its like, which run nothing.
func asksOnly(name string, args []word) bool {
	if len(args) == 0 || !args[0].literal {
		return false
	}
	first := args[0].text
	switch name {
	case "command":
		return strings.HasPrefix(first, "-") && strings.ContainsAny(first, "vV") && !strings.HasPrefix(first, "--")
	case "sudo":
		return first == "-l" || first == "-v" || first == "-k" || first == "-K" || first == "-V"
	}
	return (first == "--version" || first == "--help") && len(args) == 1
}

// afterSub returns the words after a subcommand that runs something, or nil.
func (w *walker) afterSub(spec wrapper, rest []word) []word {
	for i, arg := range rest {
		if !arg.literal {
			w.refuse("the subcommand %s is not literal", shown(arg))
			return nil
		}
		if oneOf(arg.text, strings.Fields(spec.scripts)) {
			return rest[i:]
		}
		if strings.HasPrefix(arg.text, "-") || strings.HasPrefix(arg.text, "+") {
			continue
		}
		if oneOf(arg.text, strings.Fields(spec.sub)) {
			return rest[i+1:]
		}
		return nil
	}
	return nil
}

// option reads one option. It returns how many words it takes, one for unknown
// where it is not known whether the next is its value, and done where its value
// was all there is to run.
func (w *walker) option(name string, spec wrapper, c invocation, rest []word, marker *string) (used, unknown int, done bool) {
	arg := rest[0]
	flag, value, given := strings.Cut(arg.text, "=")
	if attached, ok := scriptOption(spec, arg.text, flag, value, given); ok {
		w.scriptValue(name, c, rest, attached)
		return 2, 0, true
	}
	if !arg.literal && !given && !strings.HasPrefix(arg.text, "-P") {
		w.refuse("%s is given %s, which is not literal", name, shown(arg))
		return 1, 0, true
	}
	if name == "xargs" {
		*marker = replaceMarker(rest, *marker)
	}
	switch {
	case strings.HasPrefix(arg.text, "--"):
		if !given && oneOf(flag, strings.Fields(spec.long)) {
			return 2, 0, false
		}
		if given || spec.long != "" && knownFlag(flag) {
			return 1, 0, false
		}
		return 1, 1, false
	case takesValue(arg.text, spec.values, ""):
		return 2, 0, false
	}
	for i := 1; i < len(arg.text); i++ {
		if strings.IndexByte(spec.values, arg.text[i]) >= 0 {
			return 1, 0, false
		}
		if strings.IndexByte(spec.flags, arg.text[i]) < 0 {
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

func (w *walker) scriptValue(name string, c invocation, rest []word, attached string) {
	script, after := literalWord(attached), rest[1:]
	if attached == "" {
		if len(after) == 0 {
			w.refuse("%s is given no script", name)
			return
		}
		script, after = after[0], after[1:]
	}
	if !rest[0].literal || !script.literal {
		w.refuse("the script given to %s is not literal", name)
		return
	}
	text := script.text
	if name == "env" || name == "nix" || name == "guix" { // the words that follow belong to the same command
		for _, arg := range after {
			text += " " + quote(arg.text)
		}
	}
	w.nested(text, name, c.stdin)
}

// quote makes one word of text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// replaceMarker is what xargs replaces in its command, where it does.
func replaceMarker(rest []word, marker string) string {
	text := rest[0].text
	switch {
	case text == "-I" || text == "-J" || text == "--replace":
		if len(rest) > 1 {
			return rest[1].text
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
func (w *walker) operands(spec wrapper, c invocation, skip, slack int, marker string) {
	words := c.args[1:]
	if spec.joins {
		if len(words) > skip+1 && words[skip].text == "--" {
			skip++
		}
		if len(words) > skip {
			w.joined(invocation{args: c.args, stdin: c.stdin, more: c.more}, words[skip:])
		}
		return
	}
	if c.args[0].text != "" && spec.assigns {
		for len(words) > 0 && strings.IndexByte(words[0].text, '=') > 0 {
			words = words[1:]
		}
	}
	if len(words) <= skip {
		w.bare(c.name(), spec, c, c.more)
		return
	}
	words = words[skip:]
	if words[0].text == "--" && len(words) > 1 { // which ends the options that come after a first operand
		words = words[1:]
	}
	w.candidates(spec, c, words, slack, marker)
}

// candidates runs each operand that may be the command: the first, and one
// more for every option of which it is not known whether it takes a value.
func (w *walker) candidates(spec wrapper, c invocation, words []word, slack int, marker string) {
	seen := 0
	for k, word := range words {
		if k > 0 && strings.HasPrefix(word.text, "-") && word.literal {
			slack++
			continue
		}
		if w.full || seen > slack && !spec.loose {
			return
		}
		seen++
		next := invocation{args: words[k:], stdin: c.stdin, more: c.more}
		switch {
		case spec.appends:
			w.filled(next, next.args, marker)
		case word.literal && (spec.loose || slack > 0) && strings.ContainsAny(word.text, " \t\n"):
			w.nested(word.text, c.name(), c.stdin)
		default:
			w.run(next)
		}
		if slack == 0 && !spec.loose {
			return
		}
	}
}

// bare is a wrapper without a command.
func (w *walker) bare(name string, spec wrapper, c invocation, more bool) {
	switch {
	case spec.appends && !c.more: // xargs alone prints
	case more:
		w.refuse("%s runs a command that is not known", name)
	case name == "sudo" || name == "su" || name == "doas" || name == "runuser" || name == "chroot" || name == "script" || name == "unshare" || name == "nsenter":
		if c.stdin.piped {
			w.shellInput(c)
		}
	}
}
