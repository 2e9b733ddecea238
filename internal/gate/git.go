package gate

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre/internal/shell"
)

// isGit tells a program by which git state is read or changed. Names are
// compared without regard to case, since some file systems do the same.
func isGit(name string) bool {
	name = strings.ToLower(shell.Base(name))
	switch name {
	case "git", "gitk", "tig", "lazygit", "gitui", "hub", "gix", "ein", "scalar", "gitg", "gitsome", "git2", "jj":
		return true
	}
	return strings.HasPrefix(name, "git-") && !strings.Contains(name, ".") // a script of the project's by such a name is none
}

// checkGit is the gate of policy::no-git-ops (S-04).
func checkGit(s *shell.Script) string {
	for _, c := range s.Calls {
		if why := gitCall(c, s); why != "" {
			return why
		}
	}
	for _, c := range s.Calls {
		if why := intoGitDir(c, s); why != "" {
			return why
		}
	}
	for _, to := range s.Writes {
		if inGitDir(to.Text) {
			return "it writes " + to.Text + ", which is git's"
		}
	}
	return ""
}

// intoGitDir refuses to go into git's folder and change something, or to run
// something on what find finds in it.
func intoGitDir(c shell.Call, s *shell.Script) string {
	switch c.Name() {
	case "cd", "pushd", "chdir":
		for _, arg := range c.Args[1:] {
			if inGitDir(arg.Text) && len(s.Changed()) > 0 {
				return "it changes files in " + arg.Text + ", which is git's"
			}
		}
	case "find", "gfind", "bfs":
		for _, arg := range c.Args[1:] {
			if strings.HasPrefix(arg.Text, "-") || arg.Text == "(" || arg.Text == "!" {
				break
			}
			if inGitDir(arg.Text) && len(s.Changed()) > 0 {
				return "find runs on " + arg.Text + ", which is git's, and changes files"
			}
		}
	}
	return ""
}

func gitCall(c shell.Call, s *shell.Script) string {
	name := c.Name()
	if asksAboutGit(c, s) {
		return ""
	}
	if isGit(c.Args[0].Text) || strings.Contains(c.Args[0].Text, "/git-core/") {
		return name + " is a git operation"
	}
	if strings.EqualFold(name, "gh") || strings.EqualFold(name, "glab") {
		return gh(c)
	}
	if code := codeOf(name, c); code != "" && runsGit(name, code) {
		return name + " is given code that runs git"
	}
	if reach, what := c.Changes(); reach {
		for _, target := range what {
			if inGitDir(target.Text) {
				return name + " changes " + target.Text + ", which is git's"
			}
		}
	}
	return gitBinary(name, c)
}

// asksAboutGit tells git --version and its like, which look at no repository. Each is
// one word: behind any other, and in a script that sets what git obeys, git might be
// given an alias or another program.
func asksAboutGit(c shell.Call, s *shell.Script) bool {
	switch c.Args[0].Text {
	case "git", "/usr/bin/git", "/bin/git", "/usr/local/bin/git":
	default:
		return false
	}
	sets := func(name string) bool { return strings.HasPrefix(name, "GIT_") || isGit(name) }
	if len(c.Env) > 0 || slices.ContainsFunc(s.Assigned, sets) || slices.ContainsFunc(s.Functions, sets) {
		return false
	}
	if c.More || slices.ContainsFunc(c.Args, func(w shell.Word) bool { return !w.Literal }) {
		return false
	}
	switch strings.Join(c.Texts(), " ") {
	case "--version", "-v", "version", "version --build-options", "--help", "-h", "help", "--exec-path", "--html-path", "--man-path", "--info-path":
		return true
	}
	return false
}

// gitBinary refuses what handles the git program as a file or an image.
func gitBinary(name string, c shell.Call) string {
	switch name {
	case "echo", "printf", "ls", "file", "stat", "test", "[", "dirname", "readlink", "realpath", "basename", "which", "type", "command", ":", "true":
		return ""
	case "cp", "mv", "ln", "install", "rsync", "dd", "cat":
		for _, arg := range c.Args[1:] {
			if strings.EqualFold(shell.Base(arg.Text), "git") && strings.ContainsRune(arg.Text, '/') && (strings.Contains(arg.Text, "bin/") || strings.Contains(arg.Text, "git-core")) {
				return name + " is given the git program"
			}
		}
	case "docker", "podman", "nerdctl", "kubectl", "lxc", "oc", "docker-compose", "buildah", "crictl", "ctr":
		if words, _ := shell.OperandsOf(c.Args[1:], "-n --namespace -H --host --context -f --file"); len(words) == 0 || !slices.Contains([]string{"run", "exec", "create", "debug", "compose", "container"}, words[0]) {
			return ""
		}
		for _, arg := range c.Args[1:] {
			image, _, _ := strings.Cut(arg.Text, ":")
			if isGit(image) || runsGit("sh", "sh; "+arg.Text) && strings.Contains(arg.Text, " ") {
				return name + " runs git in a container"
			}
		}
	}
	for _, arg := range c.Args[1:] {
		if slices.ContainsFunc(arg.Finds, isGit) {
			return name + " is given the git program"
		}
	}
	return ""
}

// inGitDir tells a path with .git for a component.
func inGitDir(path string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// gh refuses what reads or changes a repository's state.
func gh(c shell.Call) string {
	const refused = "gh changes or reads repository state here"
	words, dynamic := shell.OperandsOf(c.Args[1:], "-R --repo --hostname")
	if len(words) == 0 {
		if dynamic || c.More {
			return "gh is given words that are not literal"
		}
		return ""
	}
	verb := ""
	if len(words) > 1 {
		verb = words[1]
	}
	if dynamic && words[0] != "help" && (len(words) < 2 || words[0] == "" || words[1] == "" || words[0] == "api") {
		return "gh is given words that are not literal"
	}
	switch words[0] {
	case "repo", "release", "co", "ruleset", "secret", "variable", "codespace", "cs", "deploy-key", "sync":
		return refused
	case "api":
		return ghAPI(c.Args[1:])
	case "pr", "mr":
		switch verb {
		case "view", "list", "ls", "status", "checks", "diff", "comment", "":
			return ""
		}
		return refused
	case "alias", "extension", "extensions", "ext":
		if verb != "list" && verb != "ls" && verb != "" && verb != "search" && verb != "browse" {
			return "gh " + words[0] + " " + verb + " changes what gh runs"
		}
	case "workflow", "run", "cache", "gist", "label", "project", "issue":
		switch verb {
		case "run", "enable", "disable", "rerun", "delete", "develop", "clone", "transfer":
			return refused
		}
	}
	return ""
}

// ghAPI lets reading of what is no repository pass.
func ghAPI(args []shell.Word) string {
	words, _ := shell.OperandsOf(args, "-R --repo --hostname -X --method -f -F --field --raw-field -H --header -q --jq -t --template --input --cache -p --preview")
	if len(words) < 2 {
		return "gh api without an address"
	}
	address := strings.ToLower(words[1])
	if i := strings.Index(address, "://"); i >= 0 {
		_, address, _ = strings.Cut(address[i+3:], "/")
	}
	address = strings.Trim(address, "/")
	address = strings.TrimPrefix(strings.TrimPrefix(address, "api/v3/"), "api/")
	for part := range strings.SplitSeq(address, "/") {
		switch part, _, _ = strings.Cut(part, "?"); part {
		case "repos", "repositories", "projects", "..", ".":
			return "gh api reaches " + part
		}
		if strings.Contains(part, "%") {
			return "gh api is given an address in escapes"
		}
	}
	return ghMethod(address, args)
}

func ghMethod(address string, args []shell.Word) string {
	method, fields := "", false
	for i, arg := range args {
		flag, value, given := strings.Cut(arg.Text, "=")
		if !given && i+1 < len(args) {
			value = args[i+1].Text
		}
		switch {
		case flag == "-X" || flag == "--method":
			method = value
		case strings.HasPrefix(arg.Text, "-X"):
			method = arg.Text[2:]
		case slices.Contains([]string{"-f", "-F", "--field", "--raw-field"}, flag) || strings.HasPrefix(arg.Text, "-f") || strings.HasPrefix(arg.Text, "-F"):
			fields = true
			if address == "graphql" && (strings.Contains(strings.ToLower(arg.Text+value), "mutation") || strings.Contains(value, "@")) {
				return "gh api graphql is given a mutation, or one that is not known"
			}
			if !arg.Literal || i+1 < len(args) && !args[i+1].Literal {
				return "gh api is given a field that is not literal"
			}
		case flag == "--input":
			return "gh api is given a body that is not known"
		}
	}
	if address == "graphql" {
		return ""
	}
	if method == "" && fields {
		method = "POST"
	}
	switch strings.ToUpper(strings.TrimPrefix(method, "=")) {
	case "", "GET", "HEAD":
		return ""
	}
	return "gh api changes something"
}

// codeOf is the code that an interpreter is given on its command line or its
// standard input, as far as it is known.
func codeOf(name string, c shell.Call) string {
	plain := strings.TrimRight(name, "0123456789.")
	switch plain {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "ex", "vi", "vim", "nvim", "view",
		"ed", "emacs", "make", "gmake", "tclsh", "wish", "osascript", "Rscript", "R", "julia", "groovy", "scala", "sqlite", "psql", "mysql", "gdb", "expect", "ipython", "guile", "sbcl",
		"crontab", "just", "task", "ghci", "irb", "elixir", "erl", "m", "bc", "dc", "nano", "less", "more", "most", "screen", "tmux", "ftp", "telnet", "zsh", "jshell", "swift", "raku", "racket", "cmake", "ninja":
	default:
		return ""
	}
	return strings.Join(c.Texts(), "\n") + "\n" + c.Stdin.Text
}

// The heuristics by which code is taken to run git.
var (
	gitWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[^\w.\-/]|/bin/|/git-core/)git(?:-[a-z-]+)?(?:[^\w.\-/:=]|$)`)
	})
	executes = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)system|exec|popen|spawn|subprocess|\brun\s*\(|\bcall\b|check_output|shell|` + "`" + `|%x|\bqx\b|open\s*\(|getline|\|\s*["']|["']\s*\||do script`)
	})
	bang = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?im)(?:^|[:;"'\s(|,+])!\s*(?:[\w./-]*/)?git\b|\.shell\s+git\b|\\!\s*git\b|term(?:inal)?\s+git\b`)
	})
	sedRuns = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)(?:^|[\s;{}/$!0-9,])e\s+(?:\S*/)?git\b|git\b[^\n]*[/|#,@!][gpimI0-9]*e[gpimIw0-9]*\s*(?:$|[;}\n])`)
	})
	// sedCommand and sedFlag are sed's w, W and e, as commands and as flags of s.
	sedCommand = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)(?:^|[;{}]|[0-9$/!,])\s*[wWe](?:\s|$)`) })
	sedFlag    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)[/|#,@!][gpimI0-9]*[we][gpimI0-9]*(?:\s|$|[;}])`)
	})
	recipe = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\s+[@+-]*\s*(?:\S*/)?git\b|\$\(shell\s+(?:\S*/)?git\b|;\s*git\b|:=?\s*git\b|COMMAND\s+git\b`)
	})
	gitLib = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)\b(?:import|from|require|use)\b[^\n]{0,40}\b(?:simple-git|isomorphic-git|nodegit|pygit2|dulwich|git)\b`)
	})
	cronJob = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)(?:^|\s)(?:\S*/)?git\s`) })
)

// runsGit tells code that names git as a program, or a library that is git.
func runsGit(name, code string) bool {
	if !strings.Contains(strings.ToLower(code), "git") {
		return false
	}
	switch strings.TrimRight(name, "0123456789.") {
	case "sed", "gsed":
		return sedRuns().MatchString(code)
	case "make", "gmake", "cmake", "ninja", "just", "task":
		return recipe().MatchString(code)
	case "crontab":
		return cronJob().MatchString(code)
	case "sh":
		return cronJob().MatchString(code + " ")
	}
	if bang().MatchString(code) || gitLib().MatchString(code) {
		return true
	}
	at := executes().FindStringIndex(code)
	return at != nil && gitWord().MatchString(code)
}
