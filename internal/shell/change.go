package shell

import (
	"slices"
	"strings"
)

// maxTargets is how many places cp is taken to write where it is given several folders.
const maxTargets = 4096

// Changes tells whether a call changes files, as far as its name and options
// say, and which of its words name them. A word that is not literal may be any.
func (c Call) Changes() (bool, []Word) {
	args := c.Args[1:]
	switch name := c.Name(); strings.TrimRight(name, "0123456789.") {
	case "rm", "rmdir", "unlink", "shred", "touch", "mkdir", "truncate", "chmod", "chown", "chgrp", "tee", "sponge", "mknod", "mkfifo", "setfacl", "setfattr", "chattr",
		"grm", "gmv", "gtouch", "trash", "trash-put", "gio", "srm", "wipe", "rename", "prename", "mmv", "fallocate", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "pico", "micro",
		"patch", "gpatch", "dos2unix", "unix2dos", "gofmt", "gofumpt", "goimports", "rustfmt", "black", "isort", "prettier", "chcon", "mktemp", "gzip", "gunzip", "bzip", "xz", "zstd", "unzip",
		"csplit", "link", "symlink", "ditto", "strip", "ar", "objcopy":
		return true, paths(args)
	case "apply_patch", "applypatch":
		return true, []Word{{Text: "a patch"}} // its files are on standard input
	case "mv":
		return true, moved(args, true)
	case "cp", "install", "ln", "rsync", "scp", "gcp", "gln", "ginstall":
		return true, moved(args, false)
	case "dd":
		return valued(args, "of")
	case "sed", "gsed", "perl", "ruby", "gawk", "awk":
		if inPlace(name, args) {
			return true, paths(args)
		}
	case "sort", "gsort", "gcc", "cc", "clang", "rustc", "ld", "go", "g++", "pandoc", "dot", "protoc":
		return after(args, "-o", "--output")
	case "curl":
		return after(separated(args), "-o", "--output", "-O", "--remote-name", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--output-dir", "-J", "--remote-name-all")
	case "wget":
		return true, append(second(after(args, "-O", "--output-document", "-o", "-P", "-a")), wgetNames(args)...)
	case "yq", "jq", "xq", "toml", "dasel", "sd", "crudini", "xmlstarlet", "eslint", "ruff", "autopep", "yapf", "clang-format", "shfmt", "taplo":
		if name == "sd" || name == "toml" || name == "crudini" || HasFlag(args, "-i", "--in-place", "--inplace", "--fix", "-w", "--write", "-L") {
			return true, paths(args)
		}
	case "tar", "gtar", "bsdtar", "cpio":
		return archived(args)
	case "split", "gsplit":
		return true, paths(args)
	case "find", "gfind", "bfs":
		return found(args)
	case "xxd":
		if words, _ := OperandsOf(args, "-c -cols -g -groupsize -l -len -n -name -o -s -seek -R"); len(words) > 1 {
			return true, []Word{literalWord(words[1])}
		}
	case "uniq":
		if list := paths(args); len(list) > 1 {
			return true, list[1:]
		}
	case "tree", "iconv":
		return after(args, "-o", "--output")
	case "less":
		return after(args, "-o", "-O", "--log-file", "--LOG-FILE")
	}
	return false, nil
}

// curlFlags are the letters of curl's options that take no value.
const curlFlags = "#:012346aBfgGiIjJklLMnNOpqRsSvVZ"

// separated are the words of curl with the o of -fsSLo as an option of its own.
func separated(args []Word) []Word {
	list := make([]Word, 0, len(args))
	for _, arg := range args {
		if letters, value, _ := strings.Cut(arg.Text, "o"); len(letters) > 1 && cluster(arg.Text, 'o') {
			list = append(list, literalWord(letters))
			arg.Text = "-o" + value
		}
		list = append(list, arg)
	}
	return list
}

// second leaves out whether there are any.
func second(_ bool, list []Word) []Word { return list }

// paths are the words that are no options. The values of --option=value are
// among them, since they may be.
func paths(args []Word) []Word {
	var list []Word
	for _, arg := range args {
		if strings.HasPrefix(arg.Text, "-") && arg.Literal {
			if _, value, given := strings.Cut(arg.Text, "="); given {
				list = append(list, literalWord(value))
			}
			continue
		}
		list = append(list, arg)
	}
	return list
}

// moved are the targets of cp and mv: the last word, or -t's value, and what
// the sources are called in it. The sources of mv change as well.
func moved(args []Word, sources bool) []Word {
	list, into := Copied(args)
	if len(into) > 1 && len(into)*len(list) > maxTargets {
		return []Word{{}} // it may be any; cp itself takes one folder
	}
	targets := append([]Word(nil), into...)
	for _, to := range into {
		for _, from := range list {
			inside := to
			inside.Text = strings.TrimRight(to.Text, "/") + "/" + Base(strings.TrimRight(from.Text, "/"))
			inside.Literal = to.Literal && from.Literal
			targets = append(targets, inside)
		}
	}
	if sources {
		targets = append(targets, list...)
	}
	return targets
}

// Copied are the sources and the targets among the words of cp, mv, ln and their like.
func Copied(args []Word) (sources, into []Word) {
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		switch {
		case (text == "-t" || text == "--target-directory") && i+1 < len(args):
			i++
			into = append(into, args[i])
		case strings.HasPrefix(text, "--target-directory="):
			into = append(into, literalWord(strings.TrimPrefix(text, "--target-directory=")))
		case strings.HasPrefix(text, "-t") && len(text) > 2 && !strings.HasPrefix(text, "--"):
			into = append(into, literalWord(text[2:]))
		case text == "--exclude" || text == "--include" || text == "--exclude-from" || text == "-e" || text == "--filter" || text == "-f" && i == 0:
			i++
		case strings.HasPrefix(text, "-") && args[i].Literal:
		default:
			sources = append(sources, args[i])
		}
	}
	if len(into) == 0 && len(sources) > 0 {
		into, sources = sources[len(sources)-1:], sources[:len(sources)-1]
	}
	return sources, into
}

func valued(args []Word, key string) (bool, []Word) {
	var list []Word
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg.Text, "="); ok && name == key && !IsDiscard(value) {
			arg.Text = value
			list = append(list, arg)
		}
	}
	return len(list) > 0, list
}

// inPlace tells sed -i and its like.
func inPlace(name string, args []Word) bool {
	for i, arg := range args {
		text := arg.Text
		switch {
		case strings.HasPrefix(text, "--in-place"):
			return true
		case strings.HasSuffix(name, "awk"):
			if text == "-i" && i+1 < len(args) && args[i+1].Text == "inplace" || text == "-iinplace" {
				return true
			}
		case strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--"):
			cluster := text[1:]
			if at := strings.IndexAny(cluster, "ef"); at >= 0 && strings.HasSuffix(name, "sed") {
				cluster = cluster[:at]
			}
			if at := strings.IndexAny(cluster, "eEMmI"); at >= 0 && !strings.HasSuffix(name, "sed") {
				cluster = cluster[:at]
			}
			if strings.Contains(cluster, "i") {
				return true
			}
		}
	}
	return false
}

// after are the values of options.
func after(args []Word, flags ...string) (bool, []Word) {
	var list []Word
	changed := false
	for i, arg := range args {
		flag, value, given := strings.Cut(arg.Text, "=")
		for _, want := range flags {
			switch {
			case flag == want && given:
				changed, list = true, append(list, literalWord(value))
			case arg.Text == want:
				changed = true
				if i+1 < len(args) {
					list = append(list, args[i+1])
				}
			case len(want) == 2 && strings.HasPrefix(arg.Text, want) && !given:
				changed, list = true, append(list, Word{Text: arg.Text[2:], Literal: arg.Literal})
			}
		}
	}
	kept := list[:0]
	for _, w := range list {
		if !w.Literal || !IsDiscard(w.Text) && w.Text != "-" {
			kept = append(kept, w)
		}
	}
	return changed && (len(kept) > 0 || len(list) == 0), kept
}

// wgetNames are the files that wget would write by the names of their addresses.
func wgetNames(args []Word) []Word {
	var list []Word
	for _, arg := range paths(args) {
		arg.Text = Base(arg.Text)
		list = append(list, arg)
	}
	return list
}

// HasFlag tells whether one of the words is one of these flags.
func HasFlag(args []Word, flags ...string) bool {
	for _, arg := range args {
		if slices.Contains(flags, arg.Text) {
			return true
		}
	}
	return false
}

// archived are what tar writes: the archive, or the folder it unpacks into.
func archived(args []Word) (bool, []Word) {
	extracts, creates := false, false
	for i, arg := range args {
		if strings.HasPrefix(arg.Text, "--") {
			switch arg.Text {
			case "--create", "--append", "--update":
				creates = true
			case "--extract", "--get":
				extracts = true
			}
		} else if strings.HasPrefix(arg.Text, "-") || i == 0 {
			extracts = extracts || strings.Contains(arg.Text, "x")
			creates = creates || strings.ContainsAny(arg.Text, "cru")
		}
	}
	switch {
	case extracts:
		_, into := after(args, "-C", "--directory")
		if len(into) == 0 {
			into = []Word{literalWord(".")}
		}
		return true, into
	case creates:
		for i, arg := range args {
			if !strings.HasPrefix(arg.Text, "--") && strings.HasSuffix(arg.Text, "f") && (i == 0 || strings.HasPrefix(arg.Text, "-")) && i+1 < len(args) {
				return true, []Word{args[i+1]}
			}
			if value, ok := strings.CutPrefix(arg.Text, "--file="); ok {
				return true, []Word{literalWord(value)}
			}
		}
	}
	return false, nil
}

// found is what find deletes or writes.
func found(args []Word) (bool, []Word) {
	var list []Word
	for i, arg := range args {
		switch arg.Text {
		case "-delete":
			for _, from := range args {
				if strings.HasPrefix(from.Text, "-") || from.Text == "(" || from.Text == "!" {
					break
				}
				list = append(list, from)
			}
			if len(list) == 0 {
				list = append(list, literalWord("."))
			}
			return true, list
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(args) {
				return true, []Word{args[i+1]}
			}
		}
	}
	return false, nil
}

// Changed are all words that name what a script writes.
func (s *Script) Changed() []Word {
	list := append([]Word(nil), s.Writes...)
	for _, call := range s.Calls {
		if changes, what := call.Changes(); changes {
			if call.More {
				what = append(what, Word{})
			}
			list = append(list, what...)
		}
	}
	return list
}
