package shell

import (
	"slices"
	"strings"
)

// flagged reads the commands that programs take among their options.
func (c *invocation) flagged() bool {
	args := c.Args[1:]
	switch c.name {
	case "find", "gfind", "bfs":
		c.eachExec(args, "-exec", "-execdir", "-ok", "-okdir")
	case "fd", "fdfind":
		c.eachExec(args, "-x", "-X", "--exec", "--exec-batch")
	case "parallel":
		c.parallel(args)
	case "rg", "sort", "gsort", "tar", "gtar", "bsdtar", "rsync", "split", "gsplit", "man", "zip", "less", "ag", "fzf", "nodemon", "tcpdump", "lftp":
		c.options(args)
	case "socat":
		c.addresses(args)
	case "ssh", "autossh", "scp", "sftp":
		c.settings(args)
		return false // the words behind the host are run there
	default:
		return false
	}
	return true
}

// addresses runs the programs that socat speaks to: EXEC:'…', SYSTEM:'…'.
func (c *invocation) addresses(args []Word) {
	for _, arg := range args {
		kind, command, given := strings.Cut(arg.Text, ":")
		if !given || !isAmong(strings.ToLower(kind), "exec system shell") {
			continue
		}
		if !arg.Literal {
			c.refuse("the command that socat is given is not literal")
			continue
		}
		c.nested(command, "socat", Stdin{piped: true})
	}
}

// settings runs the commands that ssh is told by its settings: -o ProxyCommand='…'.
func (c *invocation) settings(args []Word) {
	for i, arg := range args {
		setting := strings.TrimPrefix(arg.Text, "-o")
		if arg.Text == "-o" && i+1 < len(args) {
			arg = args[i+1]
			setting = arg.Text
		}
		name, command, given := strings.Cut(strings.TrimLeft(setting, " \t"), "=")
		if at := strings.IndexAny(name, " \t"); at >= 0 { // which ssh takes for = as well
			name, command, given = name[:at], setting[strings.Index(setting, name[:at])+at:], true
		}
		if !given || !isAmong(strings.ToLower(name), "proxycommand localcommand knownhostscommand remotecommand") {
			continue
		}
		if !arg.Literal {
			c.refuse("the command that ssh is given with %s is not literal", name)
			continue
		}
		c.nested(strings.TrimLeft(command, " \t="), "ssh", Stdin{piped: true})
	}
}

// eachExec runs the words after each of the flags, up to ; or +.
func (c *invocation) eachExec(args []Word, flags ...string) {
	for i := 0; i < len(args); i++ {
		flag, value, given := strings.Cut(args[i].Text, "=")
		if !slices.Contains(flags, flag) {
			continue
		}
		var words []Word
		if given {
			words = append(words, literalWord(value))
		}
		for i++; i < len(args) && args[i].Text != ";" && args[i].Text != "+"; i++ {
			words = append(words, args[i])
		}
		c.filled(words, "{}")
	}
}

// filled runs words in which a marker is replaced by text that is not known.
func (c *invocation) filled(words []Word, marker string) {
	if len(words) == 0 {
		c.refuse("%s is given no command to run", c.name)
		return
	}
	var inShell bool
	words = slices.Clone(words)
	for i := range words {
		inShell = inShell || IsShell(Base(words[i].Text)) || isTimed(Base(words[i].Text)) || slices.Contains([]string{"eval", "-c"}, words[i].Text)
		if marker != "" && strings.Contains(words[i].Text, marker) && (i == 0 || inShell && (words[i].Text != marker || HasScript(words[i-1:i]))) {
			words[i].Literal = false
			words[i].Fetched = c.Stdin.Fetched && strings.HasPrefix(words[i].Text, marker)
		}
	}
	c.run(Call{Args: words, Stdin: Stdin{piped: true, Fetched: c.Stdin.Fetched}, More: c.More})
}

// isAmong tells one of the words of a list with spaces between them.
func isAmong(word, list string) bool {
	for one := range strings.FieldsSeq(list) {
		if one == word {
			return true
		}
	}
	return false
}

// parallel runs the words before :::, or what it reads where there are none.
func (c *invocation) parallel(args []Word) {
	var command []Word
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") {
		if takesValue(args[0].Text, "jNnLIadpSsP", "--jobs --colsep --delay --joblog --timeout --retries --arg-file --tmpdir --results") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	for len(args) > 0 && !strings.HasPrefix(args[0].Text, ":::") {
		command, args = append(command, args[0]), args[1:]
	}
	switch {
	case len(command) > 0:
		if strings.Contains(command[0].Text, "{") {
			command[0].Literal = false
		}
		many := invocation{Call: Call{Args: c.Args, Stdin: Stdin{piped: true}, More: true}, walker: c.walker, name: c.name}
		many.joined(command) // lines of the input, of a file, or many words
	case len(args) == 0:
		c.input()
	default:
		for _, input := range args[1:] {
			c.joined([]Word{input})
		}
	}
}

// takesValue tells an option whose value is the next word.
func takesValue(option, short, long string) bool {
	if strings.HasPrefix(option, "--") {
		return isAmong(option, long)
	}
	if !strings.HasPrefix(option, "-") {
		return false
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
func (c *invocation) options(args []Word) {
	name := c.name
	for i, arg := range args {
		flag, value, given := strings.Cut(arg.Text, "=")
		if !commandOption(name, flag) {
			continue
		}
		switch {
		case given:
			value = strings.TrimPrefix(value, "exec=")
		case i+1 < len(args):
			if !args[i+1].Literal {
				c.refuse("the command that %s is given with %s is not literal", name, flag)
				continue
			}
			value = strings.TrimPrefix(args[i+1].Text, "exec=")
		}
		if !arg.Literal {
			c.refuse("the command that %s is given with %s is not literal", name, flag)
			continue
		}
		if name == "tar" && flag == "--checkpoint-action" && !strings.Contains(arg.Text, "exec=") {
			continue
		}
		if value != "" {
			c.nested(value, name, Stdin{piped: true})
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
		return slices.Contains([]string{"--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script", "-F"}, flag)
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

// OperandsOf are the words that are no options, and whether one is not literal.
func OperandsOf(args []Word, long string) (words []string, dynamic bool) {
	for i := 0; i < len(args); i++ {
		if strings.HasPrefix(args[i].Text, "-") && args[i].Text != "-" {
			if isAmong(args[i].Text, long) {
				i++
			}
			continue
		}
		dynamic = dynamic || !args[i].Literal
		words = append(words, args[i].Text)
	}
	return words, dynamic
}

// HasScript tells words that hold an option such as -c, behind which a script follows.
func HasScript(args []Word) bool {
	for _, arg := range args {
		if strings.HasPrefix(arg.Text, "-") && !strings.HasPrefix(arg.Text, "--") && strings.Contains(arg.Text, "c") {
			return true
		}
	}
	return false
}
