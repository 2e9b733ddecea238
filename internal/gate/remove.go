package gate

import (
	"path"
	"strings"
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
		if names, d = s.deleted(w); !d.Allowed {
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

// deleted are the paths that a script deletes. What is not known is refused.
func (s *script) deleted(w World) ([]string, Decision) {
	var names []string
	for _, call := range s.calls {
		list, unknown := call.deletes()
		if unknown != "" {
			return nil, deny("%s: how many files go is not known. Name the files", unknown)
		}
		for _, arg := range list {
			name := arg.text
			if arg.tilde && w.Home != "" && strings.HasPrefix(name, "~") {
				name = w.Home + name[1:]
			}
			if !arg.literal || arg.tilde && w.Home == "" {
				return nil, deny("%s is given %s: how many files go is not known. Name the files", call.name(), shown(arg))
			}
			if s.moves && !path.IsAbs(name) {
				return nil, deny("%s deletes %q after a change of directory: write the path in full", call.name(), name)
			}
			names = append(names, name)
		}
	}
	return names, allow()
}

// deletes are the words that a call deletes, or why that is not known.
func (c invocation) deletes() (list []word, unknown string) {
	args := c.args[1:]
	switch name := c.name(); name {
	case "rm", "grm", "unlink", "shred", "srm", "wipe", "trash", "trash-put", "rmdir":
		if c.more {
			return nil, name + " is given names that are not known"
		}
		for i, arg := range args {
			if arg.text == "--" {
				return append(list, args[i+1:]...), ""
			}
			if strings.HasPrefix(arg.text, "-") && arg.literal {
				continue
			}
			list = append(list, arg)
		}
	case "find", "gfind", "bfs", "fd":
		if someFlag(args, "-delete") {
			return nil, name + " -delete"
		}
		for _, arg := range args {
			if oneOf(base(arg.text), []string{"rm", "unlink", "shred", "rmdir"}) && someFlag(args, "-exec", "-execdir", "-x", "-X", "--exec", "--exec-batch", "-ok") {
				return nil, name + " that runs " + arg.text
			}
		}
	case "git":
		if words, _ := operandsOf(args, "-C -c"); len(words) > 0 && (words[0] == "clean" || words[0] == "rm" || words[0] == "checkout" || words[0] == "reset" || words[0] == "restore") {
			return nil, "git " + words[0]
		}
	case "rsync":
		for _, arg := range args {
			if strings.HasPrefix(arg.text, "--del") || arg.text == "--remove-source-files" {
				return nil, "rsync " + arg.text
			}
		}
	case "python", "python3", "perl", "ruby", "node", "php":
		code := codeOf(name, c)
		for _, sign := range []string{"rmtree", "unlink", "os.remove", "rm_rf", "remove_dir_all", "rmSync", "rmdir", "FileUtils.rm", "rimraf"} {
			if strings.Contains(code, sign) {
				return nil, name + " with " + sign
			}
		}
	case "rimraf", "del", "del-cli":
		return args, ""
	}
	return list, ""
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
		for _, to := range s.changed() {
			if isRule(to.text) {
				return ruleDenied(to.text)
			}
			if places, err := w.locate(to.text); err == nil && to.literal {
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
func readsOnly(s *script, w World) Decision {
	if len(s.writes) > 0 {
		return deny("this role only reads: a redirection writes %s", shown(s.writes[0]))
	}
	for _, call := range s.calls {
		if changes, _ := call.changes(); changes {
			return deny("this role only reads: %s changes files", call.name())
		}
		if !reads(call, w) {
			return deny("this role only reads, and %s is not known to: use Read, Glob or Grep", call.name())
		}
	}
	return allow()
}

// reads tells the programs that read, check or build.
func reads(c invocation, w World) bool {
	name := strings.TrimRight(c.name(), "0123456789.")
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
		return oneOf(sub, []string{"", "check", "test", "build", "clippy", "tree", "metadata", "doc", "bench", "nextest", "audit", "deny", "search", "verify-project", "pkgid", "locate-project", "version", "help"}) &&
			cargoExploits(c, w) == "" || sub == "fmt" && someFlag(c.args[1:], "--check")
	case "go":
		words, _ := operandsOf(c.args[1:], "-C")
		return len(words) > 0 && oneOf(words[0], []string{"vet", "build", "test", "list", "doc", "version", "env"}) && goBump(c) == "" && !someFlag(withoutValues(c.args[1:]), "-w", "-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool")
	case "rustc", "node", "python", "npm", "gcc", "java":
		return someFlag(c.args[1:], "--version", "-V", "-v", "-version")
	case "tsc", "mypy", "pyright", "pytest", "golangci-lint", "staticcheck", "shellcheck", "hadolint":
		return true
	}
	return false
}

// interprets tells a reader that is given code that may do more.
func interprets(name string, c invocation) bool {
	code := strings.Join(c.texts(), "\n")
	switch name {
	case "awk", "gawk", "mawk":
		for _, arg := range c.args[1:] {
			if !arg.literal || arg.text == "-f" || strings.HasPrefix(arg.text, "-f") {
				return true
			}
		}
		return strings.Contains(code, "system") || strings.Contains(code, "|") || strings.Contains(code, ">") || strings.Contains(code, "getline")
	case "sed":
		for _, arg := range c.args[1:] {
			if arg.text == "-f" || strings.HasPrefix(arg.text, "--file") || !arg.literal {
				return true
			}
		}
		return sedWrites(c.args[1:])
	case "bash", "sh":
		// what -c holds is read by itself; a file may do anything
		words, _ := operandsOf(c.args[1:], "")
		return len(words) > 0 && !hasScript(c.args[1:])
	}
	return false
}

// sets tells programs that show something, and set it where they are given one.
func sets(name string, c invocation) bool {
	switch name {
	case "date":
		return someFlag(withoutValues(c.args[1:]), "-s", "--set")
	case "hostname":
		words, dynamic := operandsOf(c.args[1:], "")
		return len(words) > 0 || dynamic || someFlag(withoutValues(c.args[1:]), "-F", "--file", "-b")
	case "bat":
		return someFlag(withoutValues(c.args[1:]), "--pager")
	}
	return false
}

// withoutValues are words without what follows an equals sign.
func withoutValues(args []word) []word {
	flags := make([]word, len(args))
	for i, arg := range args {
		flags[i] = arg
		flags[i].text, _, _ = strings.Cut(arg.text, "=")
	}
	return flags
}

func hasScript(args []word) bool {
	for _, arg := range args {
		if strings.HasPrefix(arg.text, "-") && !strings.HasPrefix(arg.text, "--") && strings.Contains(arg.text, "c") {
			return true
		}
	}
	return false
}

// sedWrites tells scripts of sed that write files or run commands.
func sedWrites(args []word) bool {
	for i, arg := range args {
		script := arg.text
		switch {
		case strings.HasPrefix(script, "-") && i+1 < len(args):
			continue
		case sedCommand().MatchString(script), sedFlag().MatchString(script):
			return true
		}
		if i > 0 && args[i-1].text == "-e" {
			continue
		}
		return false // the first operand is the script
	}
	return false
}
