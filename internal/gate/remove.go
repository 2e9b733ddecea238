package gate

import (
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/shell"
)

// noMassDelete is the gate of safety::no-mass-delete: one call deletes at most
// so many files, and how many is known beforehand (S-04).
func (r Rule) noMassDelete(c Call, w World) Decision {
	limit := r.MaxDeletes
	if limit <= 0 {
		limit = DefaultMaxDeletes
	}
	var names []string
	switch c.class {
	case classShell:
		s, d := c.read()
		if s == nil {
			return d
		}
		if names, d = deletedBy(s, w); !d.Allowed {
			return d
		}
	case classWrite:
		names = c.deletes
	default:
		return allow()
	}
	total := 0
	for _, name := range names {
		n, why := w.weigh(name, limit-total)
		if why != "" {
			return deny("deleting %q: %s", name, why)
		}
		if total += n; total > limit {
			return deny("this deletes more than %d files: name a few files at a time, or say in your report what should go", limit)
		}
	}
	return allow()
}

// weigh is how many files go with a path.
func (w World) weigh(name string, limit int) (int, string) {
	name = w.absolute(name)
	if w.Count == nil {
		return 0, "how many files go is not known"
	}
	n, err := w.Count(path.Clean(name), limit)
	if err != nil {
		return 0, "how many files go is not known: " + err.Error()
	}
	return n, ""
}

// deletedBy are the paths that a script deletes. What is not known is refused.
func deletedBy(s *shell.Script, w World) ([]string, Decision) {
	var names []string
	for _, call := range s.Calls {
		list, unknown := deletions(call)
		if unknown != "" {
			return nil, deny("%s: how many files go is not known. Name the files", unknown)
		}
		for _, arg := range list {
			name := arg.Text
			if arg.Tilde && w.Home != "" && strings.HasPrefix(name, "~") {
				name = w.Home + name[1:]
			}
			if !arg.Literal || arg.Tilde && w.Home == "" {
				return nil, deny("%s is given %s: how many files go is not known. Name the files", call.Name(), arg.Shown())
			}
			if s.Moves && !path.IsAbs(name) {
				return nil, deny("%s deletes %q after a change of directory: write the path in full", call.Name(), name)
			}
			names = append(names, name)
		}
	}
	return names, allow()
}

// deletions are the words that a call deletes, or why that is not known.
func deletions(c shell.Call) (list []shell.Word, unknown string) {
	args := c.Args[1:]
	switch name := c.Name(); name {
	case "rm", "grm", "unlink", "shred", "srm", "wipe", "trash", "trash-put", "rmdir":
		if c.More {
			return nil, name + " is given names that are not known"
		}
		for i, arg := range args {
			if arg.Text == "--" {
				return append(list, args[i+1:]...), ""
			}
			if strings.HasPrefix(arg.Text, "-") && arg.Literal {
				continue
			}
			list = append(list, arg)
		}
	case "find", "gfind", "bfs", "fd":
		if shell.HasFlag(args, "-delete") {
			return nil, name + " -delete"
		}
		for _, arg := range args {
			if slices.Contains([]string{"rm", "unlink", "shred", "rmdir"}, shell.Base(arg.Text)) && shell.HasFlag(args, "-exec", "-execdir", "-x", "-X", "--exec", "--exec-batch", "-ok") {
				return nil, name + " that runs " + arg.Text
			}
		}
	case "git":
		if words, _ := shell.OperandsOf(args, "-C -c"); len(words) > 0 && (words[0] == "clean" || words[0] == "rm" || words[0] == "checkout" || words[0] == "reset" || words[0] == "restore") {
			return nil, "git " + words[0]
		}
	case "rsync":
		for _, arg := range args {
			if strings.HasPrefix(arg.Text, "--del") || arg.Text == "--remove-source-files" {
				return nil, "rsync " + arg.Text
			}
		}
	case "python", "python3", "perl", "ruby", "node", "php":
		code := codeOf(name, c)
		for _, sign := range []string{"rmtree", "unlink", "os.remove", "rm_rf", "remove_dir_all", "rmSync", "rmdir", "FileUtils.rm", "rimraf"} {
			if strings.Contains(code, sign) {
				return nil, name + " with " + sign
			}
		}
	case "tar", "gtar", "bsdtar", "zip", "7z", "7za", "7zz", "gio":
		if flag := packsAway(name, args); flag != "" {
			return nil, name + " " + flag
		}
	case "rimraf", "del", "del-cli":
		return args, ""
	}
	return list, ""
}

// packsAway is the word by which a program deletes what it packs or puts away.
func packsAway(name string, args []shell.Word) string {
	for i, arg := range args {
		move := name == "zip" && !strings.HasPrefix(arg.Text, "--") && strings.HasPrefix(arg.Text, "-") && strings.Contains(arg.Text, "m")
		away := name == "gio" && i == 0 && (arg.Text == "trash" || arg.Text == "remove")
		if move || away || slices.Contains([]string{"--remove-files", "--move", "-sdel"}, arg.Text) {
			return arg.Text
		}
	}
	return ""
}

// noRuleEdits is the gate of scope::no-rule-edits: what instructs or restrains
// agents is not theirs to edit.
func (r Rule) noRuleEdits(c Call, w World) Decision {
	switch c.class {
	case classWrite:
		for _, name := range c.paths {
			places, err := w.locate(name)
			if err != nil && isRule(name) {
				return ruleDenied(name)
			}
			for _, place := range append(places, name) {
				if isRule(place) {
					return ruleDenied(place)
				}
			}
		}
		return allow()
	case classShell:
		s, d := c.read()
		if s == nil {
			return d
		}
		for _, to := range s.Changed() {
			if isRule(to.Text) {
				return ruleDenied(to.Text)
			}
			if places, err := w.locate(to.Text); err == nil && to.Literal {
				for _, place := range places {
					if isRule(place) {
						return ruleDenied(place)
					}
				}
			}
		}
		return allow()
	case classRead, classNeutral:
		return allow()
	default:
		return deny("the tool %s is not known, and may edit rules", c.Tool)
	}
}

func ruleDenied(name string) Decision {
	return deny("%s instructs or restrains agents: say in your report what should change in it", name)
}

// isRule tells the files and folders by which agents are instructed or restrained.
func isRule(place string) bool {
	parts := strings.Split(strings.ToLower(strings.ReplaceAll(place, `\`, "/")), "/")
	for i, part := range parts {
		switch part {
		case ".claude", ".codex", ".nacre", ".cursor", ".gemini", ".windsurf", ".aider", ".agents", ".continue", ".roo", ".clinerules",
			"claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".mcp.json",
			".claude.json", ".aider.conf.yml", "managed-settings.json":
			return true
		case "instructions", "copilot":
			if i > 0 && parts[i-1] == ".github" {
				return true
			}
		}
	}
	return false
}

// readsOnly lets a script pass that calls nothing but what is known to read,
// check or build.
func readsOnly(s *shell.Script, w World) Decision {
	if len(s.Writes) > 0 {
		return deny("this role only reads: a redirection writes %s", s.Writes[0].Shown())
	}
	for _, call := range s.Calls {
		if changes, _ := call.Changes(); changes {
			return deny("this role only reads: %s changes files", call.Name())
		}
		if !reads(call, w) {
			return deny("this role only reads, and %s is not known to: use Read, Glob or Grep", call.Name())
		}
	}
	return allow()
}

// reads tells the programs that read, check or build.
func reads(c shell.Call, w World) bool {
	name := strings.TrimRight(c.Name(), "0123456789.")
	switch name {
	case "cat", "head", "tail", "less", "more", "ls", "tree", "stat", "file", "wc", "nl", "tac", "rev", "od", "xxd", "hexdump", "strings", "cut", "paste", "tr", "fold", "fmt", "column", "expand",
		"sort", "uniq", "comm", "join", "diff", "cmp", "colordiff", "grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "zcat", "find", "fd", "locate", "which", "type", "whereis", "command", "hash",
		"echo", "printf", "pwd", "cd", "pushd", "popd", "true", "false", ":", "test", "[", "read", "date", "uname", "hostname", "whoami", "id", "groups", "env", "printenv", "sleep", "seq", "expr",
		"basename", "dirname", "realpath", "readlink", "md", "md5sum", "sha", "sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "du", "df", "ps", "free", "uptime", "nproc", "lscpu",
		"jq", "yq", "xmllint", "bat", "eza", "exa", "cloc", "tokei", "scc", "sed", "awk", "gawk", "mawk", "xargs", "time", "timeout", "nice", "exit", "return", "set", "shift", "local", "export",
		"base", "basenc", "iconv", "look", "getconf", "tput", "man", "help", "info", "numfmt", "wait", "jobs", "let", "break", "continue", "bc", "dc", "sum", "arch", "tsort", "nohup", "stdbuf", "bash", "sh", "unset", "trap", "declare", "eval", "mapfile", "readarray", "getopts":
		return !interprets(name, c) && !sets(name, c)
	case "cargo":
		sub, _ := cargoSub(c)
		return slices.Contains([]string{"", "check", "test", "build", "clippy", "tree", "metadata", "doc", "bench", "nextest", "audit", "deny", "search", "verify-project", "pkgid", "locate-project", "version", "help"}, sub) &&
			cargoExploits(c, w) == "" || sub == "fmt" && shell.HasFlag(c.Args[1:], "--check")
	case "go":
		words, _ := shell.OperandsOf(c.Args[1:], "-C")
		return len(words) > 0 && slices.Contains([]string{"vet", "build", "test", "list", "doc", "version", "env"}, words[0]) && goBump(c) == "" && !shell.HasFlag(withoutValues(c.Args[1:]), "-w", "-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool")
	case "rustc", "node", "python", "npm", "gcc", "java":
		return shell.HasFlag(c.Args[1:], "--version", "-V", "-v", "-version")
	case "tsc", "mypy", "pyright", "pytest", "golangci-lint", "staticcheck", "shellcheck", "hadolint":
		return true
	}
	return false
}

// interprets tells a reader that is given code that may do more.
func interprets(name string, c shell.Call) bool {
	code := strings.Join(c.Texts(), "\n")
	switch name {
	case "awk", "gawk", "mawk":
		for _, arg := range c.Args[1:] {
			if !arg.Literal || arg.Text == "-f" || strings.HasPrefix(arg.Text, "-f") {
				return true
			}
		}
		return strings.Contains(code, "system") || strings.Contains(code, "|") || strings.Contains(code, ">") || strings.Contains(code, "getline")
	case "sed":
		for _, arg := range c.Args[1:] {
			if arg.Text == "-f" || strings.HasPrefix(arg.Text, "--file") || !arg.Literal {
				return true
			}
		}
		return sedWrites(c.Args[1:])
	case "bash", "sh":
		// what -c holds is read by itself; a file may do anything
		words, _ := shell.OperandsOf(c.Args[1:], "")
		return len(words) > 0 && !shell.HasScript(c.Args[1:])
	}
	return false
}

// sets tells programs that show something, and set it where they are given one.
func sets(name string, c shell.Call) bool {
	switch name {
	case "date":
		return shell.HasFlag(withoutValues(c.Args[1:]), "-s", "--set")
	case "hostname":
		words, dynamic := shell.OperandsOf(c.Args[1:], "")
		return len(words) > 0 || dynamic || shell.HasFlag(withoutValues(c.Args[1:]), "-F", "--file", "-b")
	case "bat":
		return shell.HasFlag(withoutValues(c.Args[1:]), "--pager")
	}
	return false
}

// withoutValues are words without what follows an equals sign.
func withoutValues(args []shell.Word) []shell.Word {
	flags := make([]shell.Word, len(args))
	for i, arg := range args {
		flags[i] = arg
		flags[i].Text, _, _ = strings.Cut(arg.Text, "=")
	}
	return flags
}

// sedWrites tells scripts of sed that write files or run commands.
func sedWrites(args []shell.Word) bool {
	for i, arg := range args {
		script := arg.Text
		switch {
		case strings.HasPrefix(script, "-") && i+1 < len(args):
			continue
		case sedCommand().MatchString(script), sedFlag().MatchString(script):
			return true
		}
		if i > 0 && args[i-1].Text == "-e" {
			continue
		}
		return false // the first operand is the script
	}
	return false
}
