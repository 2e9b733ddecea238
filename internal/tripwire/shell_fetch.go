package tripwire

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxFetched is how many places of downloads are kept.
const maxFetched = 1024

// downloads tells whether anything in a part of a script fetches from the
// network; with carried, also whether it says what was fetched before.
func (r *reader) downloads(node syntax.Node, carried bool) bool {
	if node == nil || node == (*syntax.Word)(nil) || node == (*syntax.Stmt)(nil) {
		return false
	}
	found := false
	syntax.Walk(node, func(n syntax.Node) bool {
		if r.walked++; r.walked > maxWalked {
			r.unread = true
			return false
		}
		switch n := n.(type) {
		case *syntax.CallExpr:
			args, _ := r.unwrapped(n.Args)
			found = found || r.isFetch(args)
		case *syntax.ParamExp:
			found = found || carried && n.Param != nil && r.tainted[n.Param.Value]
		case *syntax.Redirect:
			from := r.literal(n.Word)
			found = found || n.Op != syntax.RdrOut && isNetwork(from) || n.Op == syntax.DplIn && r.opened[from]
		}
		return !found
	})
	return found
}

func (r *reader) isFetch(args []*syntax.Word) bool {
	if len(args) == 0 {
		return false
	}
	name := path.Base(r.literal(args[0]))
	return isDownloader(name) || name == "openssl" && len(args) > 1 && r.literal(args[1]) == "s_client" ||
		r.functions[name].fetches
}

// leads tells a word that begins with what was fetched: as a script, that is run.
func (r *reader) leads(word *syntax.Word) bool {
	if len(word.Parts) == 0 {
		return false
	}
	part := word.Parts[0]
	if quoted, ok := part.(*syntax.DblQuoted); ok && len(quoted.Parts) > 0 {
		part = quoted.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	return ok && p.Param != nil && r.tainted[p.Param.Value]
}

// isRun tells whether a script that is given as a word is, or begins with, a download.
func (r *reader) isRun(script *syntax.Word) bool {
	return r.downloads(script, false) || r.leads(script)
}

// assign notes what a variable is, or that it holds a download.
func (r *reader) assign(a *syntax.Assign) {
	if a.Name == nil || a.Value == nil {
		return
	}
	name := a.Name.Value
	r.tainted[name] = r.downloads(a.Value, true)
	delete(r.values, name)
	if text := r.literal(a.Value); text != "" {
		r.values[name] = text
	}
	switch name {
	case "BASH_ENV", "ENV", "PROMPT_COMMAND", "PYTHONSTARTUP":
		r.runs = r.runs || r.tainted[name]
	}
	r.within(a.Value)
}

// fetch notes where a download is.
func (r *reader) fetch(to string) {
	if to != "" && !strings.HasPrefix(to, "/dev/") && len(r.fetched) < maxFetched {
		r.fetched[r.place(to)] = true
	}
}

func (r *reader) isFetched(name string) bool { return name != "" && r.fetched[r.place(name)] }

// moved notes that a download has another name as well.
func (r *reader) moved(operands []string) {
	to := operands[len(operands)-1]
	for _, from := range operands[:len(operands)-1] {
		if r.isFetched(from) {
			r.fetch(to)
			r.fetch(to + "/" + path.Base(from))
		}
	}
}

// saved notes what a downloader calls by the name in its address.
func (r *reader) saved(name string, args []*syntax.Word) {
	var names []string
	dir, remote := "", name != "curl"
	for i, arg := range args {
		text := r.literal(arg)
		long, value, joined := strings.Cut(text, "=")
		switch {
		case text == "--remote-name", text == "--remote-name-all", len(text) > 1 && text[0] == '-' && text[1] != '-' && name == "curl" && strings.Contains(text, "O"):
			remote = true
		case (text == "-P" && name != "curl" || text == "--output-dir" || text == "--directory-prefix") && i+1 < len(args):
			dir = r.literal(args[i+1])
		case joined && (long == "--output-dir" || long == "--directory-prefix"):
			dir = value
		case text != "" && text[0] != '-':
			address, _, _ := strings.Cut(text, "?")
			names = append(names, path.Base(address))
		}
	}
	for _, saved := range names {
		if remote && saved != "." && saved != "/" {
			r.fetch(path.Join(dir, saved))
		}
	}
}

// written notes what a program is known to write, and fed says that it reads a download.
func (r *reader) written(name string, args []*syntax.Word, fed bool) {
	var operands []string
	output := ""
	for i, arg := range args {
		text := r.literal(arg)
		long, value, joined := strings.Cut(text, "=")
		switch {
		case isOutput(name, text) && i+1 < len(args):
			output = r.literal(args[i+1])
		case joined && isOutput(name, long):
			output = value
		case strings.HasPrefix(text, "of=") && name == "dd":
			output = value
		case gluedOutput(name, text) != "":
			output = gluedOutput(name, text)
		case !strings.HasPrefix(text, "-"):
			operands = append(operands, text)
		}
	}
	if output != "" {
		r.write(output)
	}
	if isDownloader(name) && output != "" || name == "dd" && fed {
		r.fetch(output)
	}
	switch name {
	case "curl", "wget", "wget2", "wcurl", "aria2c", "axel":
		r.saved(name, args)
	case "tee", "touch", "rm", "unlink", "truncate", "shred", "ed", "ex":
		for _, to := range operands {
			r.write(to)
			if name == "tee" && fed {
				r.fetch(to)
			}
		}
	case "sed", "perl":
		if slices.ContainsFunc(args, func(w *syntax.Word) bool { return strings.HasPrefix(r.literal(w), "-i") }) {
			for _, to := range operands {
				r.write(to)
			}
		}
	case "cp", "mv", "ln", "install", "rsync", "scp":
		if len(operands) > 1 {
			r.write(operands[len(operands)-1] + "/.") // what is copied into a folder is in it
			r.moved(operands)
		}
	}
}

// gluedOutput is the name in curl's -oNAME.
func gluedOutput(name, option string) string {
	mark := map[string]string{"curl": "o", "wget": "O", "wget2": "O"}[name]
	if mark == "" || len(option) < 3 || option[0] != '-' || option[1] == '-' {
		return ""
	}
	_, output, _ := strings.Cut(option, mark)
	return output
}

// isOutput tells the options that name what a program writes.
func isOutput(name, option string) bool {
	switch name {
	case "curl":
		return option == "-o" || option == "--output" || len(option) > 2 && option[0] == '-' && option[1] != '-' && strings.HasSuffix(option, "o")
	case "wget", "wget2":
		return option == "-O" || option == "--output-document" || len(option) > 2 && option[0] == '-' && option[1] != '-' && strings.HasSuffix(option, "O")
	case "cp", "mv", "ln", "install":
		return option == "-t" || option == "--target-directory"
	case "ssh-keygen":
		return option == "-f"
	case "sort":
		return option == "-o"
	}
	return false
}

func (r *reader) write(to string) {
	if to != "" && len(r.writes) < maxWrites {
		r.writes = append(r.writes, r.place(to))
	}
}
