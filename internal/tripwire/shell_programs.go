package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nacre-dev/nacre/internal/shell"
)

// wrapper tells a program that runs the command which follows it. What runs its
// command in another system, or gives it to a shell as a word, is read elsewhere.
func wrapper(name string) (shell.Wrapper, bool) {
	spec, ok := shell.WrapperOf(name)
	switch name {
	case "su", "script":
		return spec, false
	}
	return spec, ok && spec.Follows() && !shell.IsContainer(name) && !runsWords(name) && !runsOption(name)
}

// unwrapped leaves out what only runs what follows: sudo -u root, env A=b,
// timeout 5; by is the last of them.
func (r *reader) unwrapped(args []*syntax.Word) (left []*syntax.Word, by string) {
	operands := 0
	var outer shell.Wrapper
	args = r.split(args)
	for len(args) > 0 {
		text := r.literal(args[0])
		inner, wraps := wrapper(path.Base(text))
		switch {
		case wraps && operands == 0:
			by, outer, operands = path.Base(text), inner, inner.Skip
		case by == "":
			return args, by
		case by == "command" && asks(text):
			return nil, by
		case by == "env" && splits(text) && len(args) > 1 && r.spend(len(args)):
			args = append([]*syntax.Word{nil}, append(fields(r.literal(args[1])), args[2:]...)...)
		case outer.TakesValue(text) && len(args) > 1:
			args = args[1:]
		case text == "", text[0] == '-', strings.Contains(text, "="):
		case operands > 0:
			operands--
		case isDuration(text):
		default:
			return args, by
		}
		args = args[1:]
	}
	return args, by
}

// splits tells the option of env behind which one word holds many.
func splits(text string) bool { return text == "-S" || text == "--split-string" }

// split is a command whose first word is many: $C of C="curl -s", curl${IFS}-s, {curl,-s}.
func (r *reader) split(args []*syntax.Word) []*syntax.Word {
	if len(args) == 0 || len(args[0].Parts) == 0 {
		return args
	}
	for _, part := range args[0].Parts {
		switch part.(type) {
		case *syntax.Lit, *syntax.ParamExp, *syntax.CmdSubst:
		default:
			return args // what is quoted is one word
		}
	}
	text := r.literal(args[0])
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && strings.Contains(text, ",") && len(args[0].Parts) == 1 {
		text = strings.ReplaceAll(strings.Trim(text, "{}"), ",", " ")
	}
	words := fields(text)
	if len(words) < 2 || !r.spend(len(words)) {
		return args
	}
	return append(words, args[1:]...)
}

// fields are the words of a text that is split at its spaces.
func fields(text string) (words []*syntax.Word) {
	for field := range strings.FieldsSeq(text) {
		words = append(words, &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: field}}})
	}
	return words
}

// startsShell tells what runs a shell where it is given nothing to run.
func (r *reader) startsShell(by string, args []*syntax.Word) bool {
	switch by {
	case "chroot", "unshare", "fakeroot", "proot":
		return true
	case "sudo", "doas":
		return slices.ContainsFunc(args, func(w *syntax.Word) bool {
			text := r.literal(w)
			return slices.Contains([]string{"-s", "-i", "--shell", "--login", "-is", "-si"}, text)
		})
	}
	return false
}

// asks tells the options of command -v, which says where a program is and runs none.
func asks(option string) bool {
	return len(option) > 1 && option[0] == '-' && option[1] != '-' && strings.ContainsAny(option, "vV")
}

// isDuration tells 5, 0.5 and 10s.
func isDuration(text string) bool {
	return text[0] >= '0' && text[0] <= '9' && strings.Trim(text, "0123456789.smhd") == ""
}

// runsWords tells the programs that run a command which is given to them as a word.
func runsWords(name string) bool {
	return strings.HasSuffix(name, "awk") || slices.Contains([]string{
		"watch", "tmux", "parallel", "vim", "nvim", "vi", "expect", "alias", "complete", "bind", "entr", "hyperfine",
	}, name)
}

// matchesText tells those of them whose words are patterns and lists as well.
func matchesText(name string) bool { return strings.HasSuffix(name, "awk") || name == "complete" }

// runsText tells a word of those that gives a command to a shell: awk's system and
// its pipes. Of complete it is the word after -C alone.
func runsText(name, text string) bool {
	return name != "complete" && (pipes(text) || programRunsShell(name, text))
}

// pipes tells a program of awk that has a pipe outside its texts.
func pipes(text string) bool {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case '|':
			to := strings.TrimLeft(text[i+1:], "& \t")
			if !quoted && (strings.HasPrefix(to, `"`) || strings.HasPrefix(to, "getline")) {
				return true
			}
		}
	}
	return false
}

// scriptOf is the command that an option of another program's has.
func scriptOf(name, option, next string) string {
	switch {
	case name == "git" && slices.Contains([]string{"foreach", "-x", "--exec", "--tree-filter"}, option):
		return next
	case name == "tar", name == "ssh":
		for _, begin := range []string{"--to-command=", "--checkpoint-action=exec=", "ProxyCommand="} {
			if script, ok := strings.CutPrefix(option, begin); ok {
				return script
			}
		}
	}
	return ""
}

// runsOption tells those that run the word after -c, or --call.
func runsOption(name string) bool {
	return slices.Contains([]string{"git", "npm", "npx", "pnpm"}, name)
}

// takesLibrary tells the options of an interpreter that name what is loaded.
func takesLibrary(name, option string) bool {
	return name == "perl" && strings.HasPrefix(option, "-M") || name == "ruby" && strings.HasPrefix(option, "-r")
}

// passesOn tells the programs that write what is in the files that they are given.
func passesOn(name string) bool {
	return strings.HasSuffix(name, "awk") || slices.Contains([]string{
		"cat", "tac", "head", "tail", "sed", "tr", "rev", "cut", "grep", "zcat", "gunzip", "gzip", "bzcat", "bunzip2", "xzcat", "xz", "zstdcat", "zstd",
		"base64", "xxd", "dd", "iconv", "gpg",
	}, name)
}

// remote reads the words after ssh: those after the host are a command for a shell
// there, which else runs what it reads.
func (r *reader) remote(args []*syntax.Word, in stdin) {
	for i := 0; i < len(args); i++ {
		text := r.literal(args[i])
		switch {
		case len(text) == 2 && text[0] == '-' && strings.IndexByte("BbcDEeFIiJLlmOoPpQRSWw", text[1]) >= 0:
			i++ // its value
		case strings.HasPrefix(text, "-"):
		case i+1 < len(args):
			r.script(r.texts(args[i+1:]), in)
			return
		default:
			r.fed(in)
		}
	}
}

// isNetwork tells bash's own files that are connections.
func isNetwork(name string) bool {
	return strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/")
}

func isStdin(text string) bool {
	return text == "-" || text == "/dev/stdin" || text == "/dev/fd/0" || text == "/proc/self/fd/0"
}

// handsOver tells a connection whose other end is given a shell.
func (r *reader) handsOver(name string, args []*syntax.Word) bool {
	for _, arg := range args {
		text := r.literal(arg)
		switch name {
		case "nc", "ncat", "netcat":
			if text == "-e" || text == "-c" || strings.HasPrefix(text, "--exec") || strings.HasPrefix(text, "--sh-exec") {
				return true
			}
		case "socat":
			if low := strings.ToLower(text); strings.HasPrefix(low, "exec:") || strings.HasPrefix(low, "system:") {
				return true
			}
		}
	}
	return false
}

// commandsFetchAndRun tells commands of PowerShell that download and run what they got.
func commandsFetchAndRun(text string) bool {
	low := strings.ToLower(text)
	return names(low, "iex", "invoke-expression") &&
		(names(low, "iwr", "irm", "invoke-webrequest", "invoke-restmethod", "curl", "wget") || strings.Contains(low, ".downloadstring("))
}

// evaluates tells a program that runs a text: by a call of what does, or of its
// name alone where the language has a word for it, or hands it on.
func evaluates(name, program string) bool {
	low := strings.ToLower(program)
	if names(low, "exec(", "eval(") || strings.Contains(low, "(eval)") || strings.Contains(low, ",eval)") || handsToShell(low) {
		return true
	}
	if !quotesRun(name) {
		return false
	}
	before, rest, found := strings.Cut(low, "eval")
	for found {
		begins := before == "" || strings.IndexByte(" \t\n;{(=&|", before[len(before)-1]) >= 0
		if begins && rest != "" && strings.IndexByte(" \t\n${\"'", rest[0]) >= 0 {
			return true
		}
		before, rest, found = strings.Cut(rest, "eval")
		if before == "" {
			before = "eval" // it goes on from the last
		}
	}
	return false
}

// handsToShell tells a program that gives a shell what it downloads or reads, in the
// call itself: os.system(urlopen(…).read()).
func handsToShell(low string) bool {
	starts := strings.Contains(low, "child_process")
	for _, call := range []string{"system(", "popen(", "subprocess.run(", "subprocess.call(", "check_call(", "check_output(", "exec(", "execsync("} {
		for before, after, found := strings.Cut(low, call); found; before, after, found = strings.Cut(after, call) {
			if call == "exec(" && strings.HasSuffix(before, ".") && !starts {
				continue // of a pattern, or of a database
			}
			argument := argumentOf(after[:min(len(after), maxBefore)])
			shells := !strings.HasPrefix(call, "subprocess") && !strings.HasPrefix(call, "check") || strings.Contains(argument, "shell=true")
			if shells && argument != "" && strings.IndexByte("\"'`", argument[0]) < 0 && (programFetches(argument) || readsInput(argument)) {
				return true
			}
		}
	}
	return strings.Contains(low, ".pipe(") && strings.Contains(low, "spawn('sh')") || strings.Contains(low, ".pipe(") && strings.Contains(low, `spawn("sh")`)
}

// argumentOf is what comes before the end of a call, or of its line.
func argumentOf(text string) string {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			open++
		case ')':
			open--
		case ';', '\n':
			return text[:i]
		}
		if open < 0 {
			return text[:i]
		}
	}
	return text
}

// readsInput tells a program that reads what it is given, in lower case.
func readsInput(low string) bool {
	return strings.Contains(low, "stdin") || strings.Contains(low, "<>") || strings.Contains(low, "argf") || strings.Contains(low, "$<") ||
		names(low, "open(0", "input(", "readfilesync(0", "gets") || strings.Contains(low, ".readfilesync(0")
}

// runsLines tells a program that gives each line that it reads to a shell.
func runsLines(name, option, program string) bool {
	low := strings.ToLower(program)
	switch {
	case strings.HasSuffix(name, "awk"):
		return strings.Contains(low, "system($0)") || strings.Contains(low, `print | "sh"`) || strings.Contains(low, `print|"sh"`) || strings.Contains(low, `$0 | "sh"`)
	case name == "perl" || name == "ruby":
		alone := strings.Trim(low, " ;{}")
		return strings.ContainsAny(option, "np") && (alone == "eval" || alone == "system" || names(low, "system $_", "system($_)", "exec $_", "eval $_"))
	}
	return false
}

// quotesRun tells the languages in which a text in ` is a command.
func quotesRun(name string) bool { return name == "perl" || name == "ruby" || name == "php" }

// programFetches tells a program that downloads, in lower case.
func programFetches(low string) bool {
	return names(low, "urlopen(", "requests.get(", "fetch(", "uri.open(", "http.get(", "https.get(", "getprint") || strings.Contains(low, ".urlopen(") ||
		strings.Contains(low, "lwp::simple") || strings.Contains(low, `file_get_contents("http`) || strings.Contains(low, `file_get_contents('http`) ||
		strings.Contains(low, `require("https").get(`) || strings.Contains(low, `require('https').get(`)
}

// programRunsShell tells a program that gives commands to a shell.
func programRunsShell(name, text string) bool {
	low := strings.ToLower(text)
	if quotesRun(name) && (strings.Contains(low, "`") || names(low, "exec", "system", "popen") || strings.Contains(low, "popen(") || names(low, "open(") && strings.Contains(low, "|")) {
		return true
	}
	return strings.Contains(low, "os.execute(") || strings.Contains(low, ".popen(") || strings.Contains(low, ".system(") || strings.Contains(low, "import subprocess") ||
		strings.Contains(low, "pty.spawn(") || strings.Contains(low, "child_process") || names(low, "system(", "os.system(", "popen(", "os.popen(", "exec(", "execsync(", "shell_exec(", "spawn") ||
		strings.Contains(low, "subprocess.") || strings.Contains(low, "execsync(") || strings.Contains(low, ".exec(")
}

// names tells whether one of some stands in a text by itself: exec( is not in
// db.exec(, and irm is not in confirm.
func names(text string, some ...string) bool {
	return slices.ContainsFunc(some, func(name string) bool {
		for at := 0; ; at++ {
			next := strings.Index(text[at:], name)
			if next < 0 {
				return false
			}
			at += next
			end := at + len(name)
			if (at == 0 || !ofName(text[at-1])) && (end == len(text) || name[len(name)-1] == '(' || !ofName(text[end])) {
				return true
			}
		}
	})
}

// ofName tells the bytes that make what follows or precedes them part of another name.
func ofName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '/'
}
