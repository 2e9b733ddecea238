package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrappers run the command that follows them. Each has the letters of its options
// that take a value.
var wrappers = map[string]string{
	"sudo": "ugpCDRTUrth", "doas": "uC", "env": "uC", "nohup": "", "time": "fo", "timeout": "sk", "exec": "a", "command": "", "builtin": "",
	"nice": "n", "ionice": "cnpPu", "stdbuf": "ioe", "setsid": "", "unbuffer": "", "xargs": "InPLdaEs", "chronic": "", "busybox": "",
	"flock": "wE", "chroot": "", "taskset": "", "fakeroot": "", "unshare": "", "strace": "oepE", "systemd-run": "pu", "torsocks": "", "proxychains": "f",
}

// wrapperOperands is how many words come before the command.
var wrapperOperands = map[string]int{"flock": 1, "chroot": 1, "taskset": 1}

// valueOptions are the long options of wrappers that take the next word.
var valueOptions = []string{"--user", "--group", "--signal", "--kill-after", "--adjustment", "--unset", "--chdir", "--replace", "--max-args", "--max-procs"}

// unwrapped leaves out what only runs what follows: sudo -u root, env A=b,
// timeout 5; by is the last of them.
func (r *reader) unwrapped(args []*syntax.Word) (left []*syntax.Word, by string) {
	operands := 0
	for len(args) > 0 {
		text := r.literal(args[0])
		_, wraps := wrappers[path.Base(text)]
		switch {
		case wraps && operands == 0:
			by = path.Base(text)
			operands = wrapperOperands[by]
		case by == "":
			return args, by
		case by == "command" && asks(text):
			return nil, by
		case takesValue(by, text) && len(args) > 1:
			args = args[1:]
		case text == "", text[0] == '-', strings.Contains(text, "="), isDuration(text):
		case operands > 0:
			operands--
		default:
			return args, by
		}
		args = args[1:]
	}
	return args, by
}

func takesValue(wrapper, option string) bool {
	if slices.Contains(valueOptions, option) {
		return true
	}
	return len(option) == 2 && option[0] == '-' && strings.IndexByte(wrappers[wrapper], option[1]) >= 0
}

// asks tells the options of command -v, which says where a program is and runs none.
func asks(option string) bool {
	return len(option) > 1 && option[0] == '-' && option[1] != '-' && strings.ContainsAny(option, "vV")
}

// isDuration tells 5, 0.5 and 10s.
func isDuration(text string) bool {
	return text[0] >= '0' && text[0] <= '9' && strings.Trim(text, "0123456789.smhd") == ""
}

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "pwsh", "csh", "tcsh", "yash", "powershell":
		return true
	}
	return false
}

// isInterpreter tells the programs that run what they read where they are given nothing else.
func isInterpreter(name string) bool {
	return strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pypy") || strings.HasPrefix(name, "lua") || slices.Contains([]string{
		"perl", "ruby", "node", "nodejs", "php", "bun", "deno", "tsx", "ts-node", "tclsh", "expect", "Rscript", "julia", "elixir", "groovy", "guile", "swift", "osascript",
	}, name)
}

func isDownloader(name string) bool {
	switch name {
	case "curl", "wget", "wget2", "wcurl", "curlie", "aria2c", "axel", "http", "https", "xh", "fetch", "lynx", "w3m", "links", "elinks", "GET", "lwp-request",
		"nc", "ncat", "netcat", "socat", "ftp", "tftp", "telnet", "sftp":
		return true
	}
	return false
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

// programFetchesAndRuns tells what an interpreter is given on the command line
// that downloads and runs what it got.
func programFetchesAndRuns(text string) bool {
	low := strings.ToLower(text)
	return names(low, "exec(", "eval(") &&
		(names(low, "urlopen(", "requests.get(", "fetch(", "uri.open(", "http.get(") || strings.Contains(low, ".urlopen("))
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
