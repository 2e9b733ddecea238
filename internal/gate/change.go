package gate

import "strings"

// changes tells whether a call changes files, as far as its name and options
// say, and which of its words name them. A word that is not literal may be any.
func (c invocation) changes() (bool, []word) {
	args := c.args[1:]
	switch name := c.name(); strings.TrimRight(name, "0123456789.") {
	case "rm", "rmdir", "unlink", "shred", "touch", "mkdir", "truncate", "chmod", "chown", "chgrp", "tee", "sponge", "mknod", "mkfifo", "setfacl", "setfattr", "chattr",
		"grm", "gmv", "gtouch", "trash", "trash-put", "gio", "srm", "wipe", "rename", "prename", "mmv", "fallocate", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "pico", "micro",
		"patch", "gpatch", "dos2unix", "unix2dos", "gofmt", "gofumpt", "goimports", "rustfmt", "black", "isort", "prettier", "chcon", "mktemp", "gzip", "gunzip", "bzip", "xz", "zstd", "unzip",
		"csplit", "link", "symlink", "ditto", "strip", "ar", "objcopy":
		return true, paths(args)
	case "apply_patch", "applypatch":
		return true, []word{{text: "a patch"}} // its files are on standard input
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
		return after(args, "-o", "--output", "-O", "--remote-name", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--output-dir", "-J", "--remote-name-all")
	case "wget":
		return true, append(second(after(args, "-O", "--output-document", "-o", "-P", "-a")), wgetNames(args)...)
	case "yq", "jq", "xq", "toml", "dasel", "sd", "crudini", "xmlstarlet", "eslint", "ruff", "autopep", "yapf", "clang-format", "shfmt", "taplo":
		if name == "sd" || name == "toml" || name == "crudini" || someFlag(args, "-i", "--in-place", "--inplace", "--fix", "-w", "--write", "-L") {
			return true, paths(args)
		}
	case "tar", "gtar", "bsdtar", "cpio":
		return archived(args)
	case "split", "gsplit":
		return true, paths(args)
	case "find", "gfind", "bfs":
		return found(args)
	case "xxd":
		if words, _ := operandsOf(args, "-c -cols -g -groupsize -l -len -n -name -o -s -seek -R"); len(words) > 1 {
			return true, []word{literalWord(words[1])}
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

func second(_ bool, list []word) []word { return list }

// paths are the words that are no options. The values of --option=value are
// among them, since they may be.
func paths(args []word) []word {
	var list []word
	for _, arg := range args {
		if strings.HasPrefix(arg.text, "-") && arg.literal {
			if _, value, given := strings.Cut(arg.text, "="); given {
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
func moved(args []word, sources bool) []word {
	var into []word
	var list []word
	for i := 0; i < len(args); i++ {
		text := args[i].text
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
		case strings.HasPrefix(text, "-") && args[i].literal:
		default:
			list = append(list, args[i])
		}
	}
	if len(into) == 0 && len(list) > 0 {
		into, list = list[len(list)-1:], list[:len(list)-1]
	}
	targets := append([]word(nil), into...)
	for _, to := range into {
		for _, from := range list {
			inside := to
			inside.text = strings.TrimRight(to.text, "/") + "/" + base(strings.TrimRight(from.text, "/"))
			inside.literal = to.literal && from.literal
			targets = append(targets, inside)
		}
	}
	if sources {
		targets = append(targets, list...)
	}
	return targets
}

func valued(args []word, key string) (bool, []word) {
	var list []word
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg.text, "="); ok && name == key && !isDiscard(value) {
			arg.text = value
			list = append(list, arg)
		}
	}
	return len(list) > 0, list
}

// inPlace tells sed -i and its like.
func inPlace(name string, args []word) bool {
	for i, arg := range args {
		text := arg.text
		switch {
		case strings.HasPrefix(text, "--in-place"):
			return true
		case strings.HasSuffix(name, "awk"):
			if text == "-i" && i+1 < len(args) && args[i+1].text == "inplace" || text == "-iinplace" {
				return true
			}
		case strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--"):
			cluster := text[1:]
			if at := strings.IndexAny(cluster, "ef"); at >= 0 && strings.HasSuffix(name, "sed") {
				cluster = cluster[:at]
			}
			if at := strings.IndexAny(cluster, "eMmI"); at >= 0 && !strings.HasSuffix(name, "sed") {
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
func after(args []word, flags ...string) (bool, []word) {
	var list []word
	changed := false
	for i, arg := range args {
		flag, value, given := strings.Cut(arg.text, "=")
		for _, want := range flags {
			switch {
			case flag == want && given:
				changed, list = true, append(list, literalWord(value))
			case arg.text == want:
				changed = true
				if i+1 < len(args) {
					list = append(list, args[i+1])
				}
			case len(want) == 2 && strings.HasPrefix(arg.text, want) && !given:
				changed, list = true, append(list, word{text: arg.text[2:], literal: arg.literal})
			}
		}
	}
	kept := list[:0]
	for _, w := range list {
		if !w.literal || !isDiscard(w.text) && w.text != "-" {
			kept = append(kept, w)
		}
	}
	return changed && (len(kept) > 0 || len(list) == 0), kept
}

// wgetNames are the files that wget would write by the names of their addresses.
func wgetNames(args []word) []word {
	var list []word
	for _, arg := range paths(args) {
		arg.text = base(arg.text)
		list = append(list, arg)
	}
	return list
}

func someFlag(args []word, flags ...string) bool {
	for _, arg := range args {
		if oneOf(arg.text, flags) {
			return true
		}
	}
	return false
}

// archived are what tar writes: the archive, or the folder it unpacks into.
func archived(args []word) (bool, []word) {
	mode := ""
	for i, arg := range args {
		if strings.HasPrefix(arg.text, "--") {
			switch arg.text {
			case "--create", "--append", "--update":
				mode += "c"
			case "--extract", "--get":
				mode += "x"
			}
		} else if strings.HasPrefix(arg.text, "-") || i == 0 {
			mode += arg.text
		}
	}
	switch {
	case strings.ContainsAny(mode, "x"):
		_, into := after(args, "-C", "--directory")
		if len(into) == 0 {
			into = []word{literalWord(".")}
		}
		return true, into
	case strings.ContainsAny(mode, "cru"):
		for i, arg := range args {
			if !strings.HasPrefix(arg.text, "--") && strings.HasSuffix(arg.text, "f") && (i == 0 || strings.HasPrefix(arg.text, "-")) && i+1 < len(args) {
				return true, []word{args[i+1]}
			}
			if value, ok := strings.CutPrefix(arg.text, "--file="); ok {
				return true, []word{literalWord(value)}
			}
		}
	}
	return false, nil
}

// found is what find deletes or writes.
func found(args []word) (bool, []word) {
	var list []word
	for i, arg := range args {
		switch arg.text {
		case "-delete":
			for _, from := range args {
				if strings.HasPrefix(from.text, "-") || from.text == "(" || from.text == "!" {
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
				return true, []word{args[i+1]}
			}
		}
	}
	return false, nil
}
