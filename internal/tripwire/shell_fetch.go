package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nacre-dev/nacre/internal/shell"
)

// maxFetched is how many places of downloads are kept.
const maxFetched = 1024

// maxPath is the longest name that a file can be reached by, in bytes.
const maxPath = 4096

// maxName is the longest that a part of a path can be, in bytes.
const maxName = 255

// maxLetters is how many letters after one - are looked at.
const maxLetters = 64

// downloads tells whether anything in a part of a script fetches from the network.
func (r *reader) downloads(node syntax.Node) bool {
	return r.anywhere(node, func(n syntax.Node) (found, within bool) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			args, _ := r.unwrapped(n.Args)
			return r.isFetch(args), true
		case *syntax.Redirect:
			return r.connects(n), true
		}
		return false, true
	})
}

// anywhere looks at a part of a script and at all within it, as far as look says,
// until it has found something or enough was looked at.
func (r *reader) anywhere(node syntax.Node, look func(n syntax.Node) (found, within bool)) bool {
	if node == nil || node == (*syntax.Word)(nil) || node == (*syntax.Stmt)(nil) {
		return false
	}
	found := false
	syntax.Walk(node, func(n syntax.Node) bool {
		if found || !r.spend(1) || n == nil {
			return false
		}
		within := false
		found, within = look(n)
		return within && !found
	})
	return found
}

// connects tells a redirection from a connection.
func (r *reader) connects(redirect *syntax.Redirect) bool {
	from := r.literal(redirect.Word)
	return redirect.Op != syntax.RdrOut && isNetwork(from) || redirect.Op == syntax.DplIn && r.opened[from]
}

func (r *reader) isFetch(args []*syntax.Word) bool {
	if len(args) == 0 {
		return false
	}
	name := strings.TrimSuffix(path.Base(r.literal(args[0])), ".exe")
	switch {
	case shell.IsDownloader(name), r.functions[name].fetches:
		return true
	case len(args) == 1:
		return false
	case shell.IsInterpreter(name):
		return strings.HasPrefix(r.literal(args[1]), "-") && programFetches(strings.ToLower(r.texts(args[1:])))
	}
	return name == "ssh" && len(args) > 2 || slices.Contains(downloaders[name], r.literal(args[1]))
}

// gives tells a program that writes what is in a download.
func (r *reader) gives(args []*syntax.Word) bool {
	return len(args) > 1 && passesOn(path.Base(r.literal(args[0]))) &&
		slices.ContainsFunc(args[1:], func(w *syntax.Word) bool { return r.isFetched(strings.TrimPrefix(r.literal(w), "if=")) })
}

// downloaders are programs that download where the first word after them is one of these.
var downloaders = map[string][]string{
	"openssl": {"s_client"}, "gh": {"api", "gist"}, "gsutil": {"cat", "cp"}, "rclone": {"cat"}, "aws": {"s3"}, "mc": {"cat"}, "svn": {"cat"},
	"gcloud": {"storage"}, "s3cmd": {"get"}, "az": {"storage"},
}

// assign notes what a variable is, or that it holds a download.
func (r *reader) assign(a *syntax.Assign) {
	if a.Array != nil {
		r.compound(a.Array, stdin{})
	}
	if a.Name == nil || a.Value == nil {
		return
	}
	name := a.Name.Value
	r.tainted[name] = r.downloads(a.Value) || r.says(a.Value)
	text := r.literal(a.Value)
	delete(r.values, name)
	if text != "" {
		r.values[name] = text
	}
	switch name {
	case "BASH_ENV", "ENV", "PROMPT_COMMAND", "PYTHONSTARTUP":
		r.runs = r.runs || r.tainted[name]
		r.script(text, stdin{})
	case "VISUAL", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_PAGER", "EDITOR", "PAGER", "LESSOPEN":
		r.script(text, stdin{})
	}
	r.within(a.Value, stdin{})
}

// fetch notes where a download is.
func (r *reader) fetch(to string) {
	if to == "" || len(to) > maxPath || strings.HasPrefix(to, "/dev/") && !strings.HasPrefix(to, "/dev/shm/") || len(r.fetched) >= maxFetched {
		return
	}
	if at := r.place(to); at != "" && isName(at) {
		r.fetched[at] = true
	}
}

// isFetched tells a name, or a pattern of names, of a download.
func (r *reader) isFetched(name string) bool {
	if name == "" || len(name) > maxPath {
		return false
	}
	at := r.place(name)
	if !strings.ContainsAny(name, "*?[") || !isName(at) {
		return r.fetched[at]
	}
	pattern := strings.Split(at, "/")
	for fetched := range r.fetched {
		if r.matches(pattern, fetched) {
			return true
		}
	}
	return false
}

// matches tells a path that a pattern of names stands for, part by part: each
// costs the product of what is compared.
func (r *reader) matches(pattern []string, name string) bool {
	for i, part := range pattern {
		have, rest, more := strings.Cut(name, "/")
		if more != (i+1 < len(pattern)) || !r.spend(1) {
			return false
		}
		if part != have {
			if !r.spend(len(part) * len(have) / bytesEach) {
				return false
			}
			if ok, err := path.Match(part, have); !ok || err != nil {
				return false
			}
		}
		name = rest
	}
	return true
}

// isName tells a path that a file can have: no part of it is too long.
func isName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return false
		}
	}
	return true
}

// moved notes that a download has another name as well.
func (r *reader) moved(operands []string) {
	to := operands[len(operands)-1]
	if len(to) > maxPath {
		return
	}
	for _, from := range operands[:len(operands)-1] {
		if r.isFetched(from) && r.spend(len(to)) {
			r.fetch(to)
			r.fetch(to + "/" + path.Base(from))
		}
	}
}

// saved notes what a downloader calls by the name in its address.
func (r *reader) saved(name string, args []*syntax.Word) {
	var names []string
	dir, remote := "", name != "curl"
	for i := 0; i < len(args); i++ {
		text := r.literal(args[i])
		long, value, joined := strings.Cut(text, "=")
		_, short := option(name, text, 'O')
		switch {
		case text == "--remote-name", text == "--remote-name-all", short:
			remote = true
		case (text == "-P" && name != "curl" || text == "--output-dir" || text == "--directory-prefix") && i+1 < len(args):
			i++
			dir = r.literal(args[i])
		case joined && (long == "--output-dir" || long == "--directory-prefix"):
			dir = value
		case text != "" && text[0] != '-':
			address, _, _ := strings.Cut(text, "?")
			names = append(names, path.Base(address))
		}
	}
	for _, saved := range names {
		if remote && saved != "." && saved != "/" && r.spend(len(dir)) {
			r.fetch(path.Join(dir, saved))
			r.write(path.Join(dir, saved))
		}
	}
}

// written notes what a program is known to write, and fed says that it reads a download.
func (r *reader) written(name string, args []*syntax.Word, fed bool) {
	var operands []string
	output, unpacks := "", r.unpacks(name, args)
	for i, arg := range args {
		text := r.literal(arg)
		long, value, joined := strings.Cut(text, "=")
		switch {
		case isOutput(name, text) && i+1 < len(args):
			output = r.literal(args[i+1])
		case joined && isOutput(name, long):
			output = value
		case i+1 < len(args) && unpacks && unpacksInto(name, text):
			r.write(r.literal(args[i+1]) + "/.")
		case joined && long == "--target-directory", joined && long == "--directory", joined && long == "--directory-prefix":
			r.write(value + "/.")
		case strings.HasPrefix(text, "of=") && name == "dd":
			output = value
		case gluedOutput(name, text) != "":
			output = gluedOutput(name, text)
		case !strings.HasPrefix(text, "-"):
			operands = append(operands, text)
		}
	}
	if name == "ssh-keygen" && len(args) > 0 && showsKey(r.literal(args[0])) {
		output = ""
	}
	if output != "" {
		r.write(output)
	}
	if shell.IsDownloader(name) && output != "" || fed {
		r.fetch(output)
	}
	r.writtenBy(name, args, operands, output, fed)
}

// writtenBy notes what a program writes that its operands tell.
func (r *reader) writtenBy(name string, args []*syntax.Word, operands []string, output string, fed bool) {
	switch name {
	case "curl", "wget", "wget2", "wcurl", "aria2c", "axel":
		if output == "" || name == "curl" {
			r.saved(name, args)
		}
	case "tee", "touch", "rm", "unlink", "truncate", "shred", "ed", "ex", "sponge", "patch":
		for _, to := range operands {
			r.write(to)
			if (name == "tee" || name == "sponge") && fed {
				r.fetch(to)
			}
			if name == "rm" {
				r.write(to + "/.") // all that is in the folder
			}
		}
	case "sed", "perl", "ruby", "awk", "gawk", "yq":
		if slices.ContainsFunc(args, func(w *syntax.Word) bool { return isInPlace(name, r.literal(w)) }) {
			for _, to := range operands {
				r.write(to)
			}
		}
	case "dd":
		for _, from := range args {
			if rest, ok := strings.CutPrefix(r.literal(from), "if="); ok && r.isFetched(rest) {
				r.fetch(output)
			}
		}
	case "gunzip", "bunzip2", "unxz", "unzstd", "gzip", "xz":
		for _, packed := range operands {
			if r.isFetched(packed) {
				r.fetch(strings.TrimSuffix(packed, path.Ext(packed)))
			}
		}
	case "cp", "mv", "ln", "install", "rsync", "scp":
		if len(operands) > 1 {
			r.write(operands[len(operands)-1] + "/.") // what is copied into a folder is in it
			r.moved(operands)
			if from := operands[0]; fed && isStdin(from) || (name == "scp" || name == "rsync") && strings.Contains(from, ":") {
				to := operands[len(operands)-1]
				r.fetch(to)
				r.fetch(path.Join(to, path.Base(from[strings.LastIndex(from, ":")+1:])))
			}
		}
	case "find":
		r.foundWrites(args)
	case "ssh-keygen":
		if !slices.ContainsFunc(args, func(w *syntax.Word) bool { return isKeyFile(r.literal(w)) }) {
			r.write("~/.ssh/id")
		}
	case "claude", "codex", "gemini":
		if len(args) > 1 && r.literal(args[0]) == "mcp" && strings.HasPrefix(r.literal(args[1]), "add") {
			r.write("~/." + name + "/settings.json")
		}
	}
}

// foundWrites notes what the command behind find -exec writes.
func (r *reader) foundWrites(args []*syntax.Word) {
	for i, arg := range args {
		if option := r.literal(arg); i+2 < len(args) && (option == "-exec" || option == "-execdir") && r.spend(len(args)) {
			end := i + 2
			for end < len(args) && r.literal(args[end]) != ";" && r.literal(args[end]) != "+" {
				end++
			}
			r.written(path.Base(r.literal(args[i+1])), args[i+2:end], false)
		}
	}
}

// isKeyFile tells the options of ssh-keygen with which it makes no key of its user's.
func isKeyFile(option string) bool {
	return len(option) > 1 && option[0] == '-' && strings.ContainsAny(option[1:], "fFlyRBAYQeiHrLks")
}

// showsKey tells those, at the front, with which it only reads the file behind -f.
func showsKey(option string) bool {
	return slices.Contains([]string{"-l", "-lv", "-y", "-F", "-B", "-e", "-L"}, option)
}

// unpacks tells a program that writes where an option says. An archiver does where
// it takes files out.
func (r *reader) unpacks(name string, args []*syntax.Word) bool {
	return name != "tar" && name != "bsdtar" || slices.ContainsFunc(args, func(w *syntax.Word) bool {
		text := r.literal(w)
		return text == "--extract" || text == "--get" || strings.Trim(text, "-abcdfghijklmnoprstuvwxyzAJPSUZ") == "" && strings.Contains(text, "x") && (text[0] == '-' || w == args[0])
	})
}

// unpacksInto tells the options before a folder that a program writes into.
func unpacksInto(name, option string) bool {
	switch name {
	case "cp", "mv", "ln", "install":
		return option == "-t" || option == "--target-directory"
	case "wget", "wget2":
		return option == "-P" || option == "--directory-prefix"
	case "unzip":
		return option == "-d"
	case "tar", "bsdtar":
		return option == "-C" || option == "--directory"
	}
	return false
}

// isInPlace tells the options with which a program changes the files it reads.
func isInPlace(name, option string) bool {
	if strings.HasPrefix(option, "--") {
		return strings.HasPrefix(option, "--in-place") || option == "--inplace"
	}
	if strings.HasSuffix(name, "awk") {
		return option == "-i"
	}
	if !strings.HasPrefix(option, "-") || takesLibrary(name, option) || strings.HasPrefix(option, "-I") {
		return false
	}
	programs := "ef" // what follows is the program
	if name == "perl" {
		programs = "eEF"
	}
	end := strings.IndexAny(option, programs)
	if end < 0 {
		end = len(option)
	}
	return strings.Contains(option[:end], "i")
}

// valueless are the letters of a downloader's options that take no value.
var valueless = map[string]string{
	"curl": "#:012346aBfgGiIjJklLMnNOpqRsSvVZ", "wget": "46bcdEFhHkKLmnNpqrSvVx", "wget2": "46bcdEFhHkKLmnNpqrSvVx",
}

// option looks for a letter in options like -fsSLo, and gives what follows it.
// One that takes a value ends them: -XPOST has no O.
func option(name, text string, letter byte) (rest string, ok bool) {
	if len(text) < 2 || text[0] != '-' || text[1] == '-' {
		return "", false
	}
	letters := valueless[name]
	for i := 1; i < min(len(text), maxLetters); i++ {
		switch {
		case text[i] == letter:
			return text[i+1:], true
		case strings.IndexByte(letters, text[i]) < 0:
			return "", false
		}
	}
	return "", false
}

// gluedOutput is the name in curl's -oNAME and wget's -ONAME.
func gluedOutput(name, text string) string {
	var output string
	switch name {
	case "curl":
		output, _ = option(name, text, 'o')
	case "wget", "wget2":
		output, _ = option(name, text, 'O')
	}
	return output
}

// isOutput tells the options that name what a program writes.
func isOutput(name, text string) bool {
	switch name {
	case "curl":
		rest, ok := option(name, text, 'o')
		return text == "--output" || ok && rest == ""
	case "wget", "wget2":
		rest, ok := option(name, text, 'O')
		return text == "--output-document" || ok && rest == ""
	case "ssh-keygen":
		return text == "-f"
	case "sort", "gpg":
		return text == "-o" || text == "--output"
	case "openssl":
		return text == "-out"
	}
	return false
}

func (r *reader) write(to string) {
	if to == "" || len(to) > maxPath || len(r.writes) >= maxWrites {
		return
	}
	if at := r.place(to); at != "" && sensitive(at) != "" {
		r.writes = append(r.writes, at)
	}
}
