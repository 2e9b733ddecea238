package tripwire

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell reads the words after sh. An each says that its words come from its input.
func (r *reader) shell(name string, args []*syntax.Word, in stdin, each bool) {
	if name == "pwsh" || name == "powershell" {
		r.runs = r.runs || commandsFetchAndRun(r.texts(args))
	}
	for i := 0; i < len(args); i++ {
		text := r.literal(args[i])
		short := len(text) > 1 && text[0] == '-' && text[1] != '-'
		switch {
		case r.downloads(args[i]), r.says(args[i]):
			r.runs = true // sh <(curl …)
			return
		case isStdin(text), short && strings.Contains(text, "s"):
			r.fed(in)
			return
		case short && strings.Contains(text, "n"):
			return // it is read, and not run
		case short && strings.Contains(text, "c"):
			r.given(args[i+1:], in, each)
			return
		case text == "--rcfile", text == "--init-file":
			i++
			r.sourced(args[i:])
			r.runs = r.runs || i < len(args) && r.downloads(args[i])
		case short && strings.HasSuffix(text, "o"), text == "+o":
			i++ // its value
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, "+"):
		default:
			r.sourced(args[i:])
			r.script(r.handed(args[i]), stdin{})
			return
		}
	}
	r.fed(in)
}

// fed notes what a shell reads and runs.
func (r *reader) fed(in stdin) {
	r.runs = r.runs || in.fed || in.holds
	if in.text != "" {
		r.script(in.text, stdin{})
	}
}

// given reads the script after sh -c.
func (r *reader) given(args []*syntax.Word, in stdin, each bool) {
	if len(args) == 0 {
		r.runs = r.runs || each && in.fed
		return
	}
	script := r.literal(args[0])
	r.runs = r.runs || r.isRun(args[0])
	if each && in.fed {
		script = r.filled(script)
	}
	r.script(script, in)
}

// filled is a script in which {} is a download: a variable that holds one. Where
// that is no command it may still hold a ; and is told.
func (r *reader) filled(script string) string {
	if strings.Trim(script, "{}%@_+,^") == "" {
		r.runs = true
		return ""
	}
	if !strings.Contains(script, "{}") || !r.spend(len(filledName)*len(script)) {
		return script
	}
	r.joins, r.tainted[filledName] = true, true
	return strings.ReplaceAll(script, "{}", "${"+filledName+"}")
}

// interpreter reads the words after python and its like: without a script of
// its own it runs what it reads.
func (r *reader) interpreter(name string, args []*syntax.Word, in stdin) {
	fed := in.fed || in.holds
	for i, arg := range args {
		text := r.literal(arg)
		switch {
		case isStdin(text):
			r.runs = r.runs || fed
			r.piped(name, in.text)
			return
		case takesLibrary(name, text):
		case len(text) > 1 && text[0] == '-' && strings.ContainsAny(strings.TrimLeft(text, "-"), "cemnpr"):
			if i+1 < len(args) {
				program := r.literal(args[i+1])
				low := strings.ToLower(r.texts(args[:i+2]))
				r.runs = r.runs || r.isRun(args[i+1]) || evaluates(name, program) && (programFetches(low) || fed && readsInput(low)) || fed && runsLines(name, text, program)
				if programRunsShell(name, program) {
					r.mentions(program)
				}
				r.programWrites(name, program)
			}
			return
		case strings.HasPrefix(text, "-"), text == "run" && i == 0:
		default:
			r.runs = r.runs || r.downloads(arg) || r.isFetched(text)
			return
		}
	}
	r.runs = r.runs || fed
	r.piped(name, in.text)
}

// piped reads a program that an interpreter is given as its input. It may be
// long, and hold a command among what it edits: one counts where a shell is called.
func (r *reader) piped(name, program string) {
	if program == "" || !r.spend(len(program)) {
		return
	}
	low := strings.ToLower(program)
	r.runs = r.runs || evaluates(name, program) && programFetches(low)
	if names(low, "os.system(", "os.popen(") || strings.Contains(low, "shell=true") || strings.Contains(low, "execsync(") {
		r.mentions(program)
	}
	r.programWrites(name, program)
}
