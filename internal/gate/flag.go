package gate

import (
	"slices"
	"strings"
)

// flagged reads the commands that programs take among their options.
func (w *walker) flagged(name string, c invocation) bool {
	args := c.args[1:]
	switch name {
	case "find", "gfind", "bfs":
		w.eachExec(c, args, "-exec", "-execdir", "-ok", "-okdir")
	case "fd", "fdfind":
		w.eachExec(c, args, "-x", "-X", "--exec", "--exec-batch")
	case "parallel":
		w.parallel(c, args)
	case "rg", "sort", "gsort", "tar", "gtar", "bsdtar", "rsync", "split", "gsplit", "man", "zip", "less", "ag", "fzf", "nodemon", "tcpdump", "lftp":
		w.options(name, args)
	default:
		return false
	}
	return true
}

// eachExec runs the words after each of the flags, up to ; or +.
func (w *walker) eachExec(c invocation, args []word, flags ...string) {
	for i := 0; i < len(args); i++ {
		flag, value, given := strings.Cut(args[i].text, "=")
		if !oneOf(flag, flags) {
			continue
		}
		var words []word
		if given {
			words = append(words, literalWord(value))
		}
		for i++; i < len(args) && args[i].text != ";" && args[i].text != "+"; i++ {
			words = append(words, args[i])
		}
		w.filled(c, words, "{}")
	}
}

// filled runs words in which a marker is replaced by text that is not known.
func (w *walker) filled(c invocation, words []word, marker string) {
	if len(words) == 0 {
		w.refuse("%s is given no command to run", c.name())
		return
	}
	var inShell bool
	words = slices.Clone(words)
	for i := range words {
		inShell = inShell || isShell(base(words[i].text)) || oneOf(words[i].text, []string{"eval", "-c"})
		if marker != "" && strings.Contains(words[i].text, marker) && (i == 0 || inShell && (words[i].text != marker || hasScript(words[i-1:i]))) {
			words[i].literal = false
		}
	}
	w.run(invocation{args: words, stdin: stdin{piped: true}, more: c.more})
}

func oneOf(s string, list []string) bool {
	for _, one := range list {
		if s == one {
			return true
		}
	}
	return false
}

// parallel runs the words before :::, or what it reads where there are none.
func (w *walker) parallel(c invocation, args []word) {
	var command []word
	for len(args) > 0 && strings.HasPrefix(args[0].text, "-") {
		if takesValue(args[0].text, "jNnLIadpSsP", "--jobs --colsep --delay --joblog --timeout --retries --arg-file --tmpdir --results") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	for len(args) > 0 && !strings.HasPrefix(args[0].text, ":::") {
		command, args = append(command, args[0]), args[1:]
	}
	switch {
	case len(command) > 0:
		if strings.Contains(command[0].text, "{") {
			command[0].literal = false
		}
		w.joined(invocation{args: c.args, stdin: stdin{piped: true}}, command)
	case len(args) == 0:
		w.shellInput(c)
	default:
		for _, input := range args[1:] {
			w.joined(c, []word{input})
		}
	}
}

// takesValue tells an option whose value is the next word.
func takesValue(option, short, long string) bool {
	if strings.HasPrefix(option, "--") {
		return oneOf(option, strings.Fields(long))
	}
	// the last letter of a cluster, since a value would follow at once otherwise
	for i := 1; i < len(option); i++ {
		if strings.IndexByte(short, option[i]) >= 0 {
			return i == len(option)-1
		}
	}
	return false
}

// options reads the options of everyday programs whose value is a command.
func (w *walker) options(name string, args []word) {
	for i, arg := range args {
		flag, value, given := strings.Cut(arg.text, "=")
		if !commandOption(name, flag) {
			continue
		}
		switch {
		case given:
			value = strings.TrimPrefix(value, "exec=")
		case i+1 < len(args):
			if !args[i+1].literal {
				w.refuse("the command that %s is given with %s is not literal", name, flag)
				continue
			}
			value = strings.TrimPrefix(args[i+1].text, "exec=")
		}
		if !arg.literal {
			w.refuse("the command that %s is given with %s is not literal", name, flag)
			continue
		}
		if name == "tar" && flag == "--checkpoint-action" && !strings.Contains(arg.text, "exec=") {
			continue
		}
		if value != "" {
			w.nested(value, name, stdin{piped: true})
		}
	}
}

func commandOption(name, flag string) bool {
	switch strings.TrimPrefix(name, "g") {
	case "rg":
		return flag == "--pre" || flag == "--hostname-bin"
	case "sort":
		return flag == "--compress-program"
	case "tar", "bsdtar":
		return oneOf(flag, []string{"--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script", "-F"})
	case "rsync":
		return flag == "-e" || flag == "--rsh" || flag == "--rsync-path"
	case "split":
		return flag == "--filter"
	case "man":
		return flag == "-P" || flag == "--pager" || flag == "-H" || flag == "--html"
	case "zip":
		return flag == "-TT" || flag == "--unzip-command"
	case "ag":
		return flag == "--pager"
	case "fzf":
		return flag == "--preview" || flag == "--bind"
	case "nodemon":
		return flag == "--exec" || flag == "-x"
	case "tcpdump":
		return flag == "-z"
	}
	return false
}
