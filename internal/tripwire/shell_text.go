package tripwire

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nacre-dev/nacre/internal/shell"
)

// maxBefore is how far before a word its list may begin, in bytes.
const maxBefore = 256

// prints is the text that a statement is known to write: of echo, printf, cat
// with a text of its own, and what decodes such a text.
func (r *reader) prints(st *syntax.Stmt) string {
	if st == nil || !r.spend(1) {
		return ""
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		return r.printsCall(st, c.Args)
	case *syntax.BinaryCmd:
		if c.Op != syntax.Pipe {
			return ""
		}
		text := r.prints(c.X)
		if call, ok := c.Y.Cmd.(*syntax.CallExpr); ok && text != "" {
			return r.decoded(call.Args, text)
		}
	}
	return ""
}

func (r *reader) printsCall(st *syntax.Stmt, args []*syntax.Word) string {
	if len(args) == 0 {
		return ""
	}
	switch r.literal(args[0]) {
	case "printf":
		return shell.Escapes(r.texts(args[1:]))
	case "echo":
		text := r.texts(args[1:])
		if rest, ok := strings.CutPrefix(text, "-e "); ok {
			return shell.Escapes(rest)
		}
		return text
	}
	for _, redirect := range st.Redirs {
		switch {
		case redirect.Hdoc != nil:
			return r.decoded(args, r.document(redirect))
		case redirect.Op == syntax.WordHdoc:
			return r.decoded(args, r.literal(redirect.Word))
		}
	}
	return ""
}

// document is the text of <<E, as far as it is known: of <<'E' to the letter.
func (r *reader) document(redirect *syntax.Redirect) string {
	if redirect.Hdoc == nil || redirect.Word == nil || len(redirect.Word.Parts) == 0 {
		return ""
	}
	_, plain := redirect.Word.Parts[0].(*syntax.Lit)
	var b strings.Builder
	for _, part := range redirect.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok && !r.literalPart(&b, part, true), ok && !r.spend(1+len(lit.Value)/bytesEach):
			return ""
		case ok && plain:
			shell.UnescapeHere(lit.Value, &b)
		case ok:
			b.WriteString(lit.Value)
		}
	}
	return b.String()
}

// handed is the text of <(echo …) where that is known.
func (r *reader) handed(word *syntax.Word) string {
	if len(word.Parts) != 1 {
		return ""
	}
	if p, ok := word.Parts[0].(*syntax.ProcSubst); ok && len(p.Stmts) == 1 {
		return r.prints(p.Stmts[0])
	}
	return ""
}

// decoded is what a program that is known to decode or to pass on makes of a text.
func (r *reader) decoded(args []*syntax.Word, text string) string {
	if len(args) == 0 || !r.spend(len(text)) {
		return ""
	}
	has := func(options ...string) bool {
		return slices.ContainsFunc(args[1:], func(w *syntax.Word) bool { return slices.Contains(options, r.literal(w)) })
	}
	var plain []byte
	switch name := path.Base(r.literal(args[0])); {
	case name == "cat" || name == "tee":
		return text
	case name == "base64" && has("-d", "-D", "--decode", "-di", "-id"):
		plain, _ = base64.StdEncoding.DecodeString(unspaced(text)) // what came before an error counts
	case name == "xxd" && has("-r") && has("-p") || name == "xxd" && has("-rp", "-pr"):
		plain, _ = hex.DecodeString(unspaced(text)) // as above
	case name == "openssl" && has("base64", "-base64") && has("-d"):
		plain, _ = base64.StdEncoding.DecodeString(unspaced(text)) // as above
	case name == "rev":
		plain = []byte(strings.TrimRight(text, "\n"))
		slices.Reverse(plain)
	}
	return string(plain)
}

// unspaced is a text without the space that decoders pass over.
func unspaced(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, text)
}

// mentions reads the shell commands that a text for another program holds in
// quotes, or after what begins them there: each from a downloader's name on.
func (r *reader) mentions(text string) {
	for at := 0; at < len(text) && !r.runs; {
		next, length := -1, 0
		for _, name := range []string{"curl", "wget"} {
			if i := strings.Index(text[at:], name); i >= 0 && (next < 0 || i < next) {
				next, length = i, len(name)
			}
		}
		if next < 0 || !r.spend(len(text)-at) {
			return
		}
		if isSearched(text[max(0, at+next-maxBefore) : at+next]) {
			at += next + length
			continue
		}
		script := text[at+next:]
		if end := strings.IndexAny(script, "\"'`\n"); end >= 0 {
			script = strings.TrimRight(script[:end], "| ") // Perl's open(F, "… |")
		}
		r.script(script, stdin{})
		at += next + length
	}
}

// isSearched tells a word in a list of words whose first is a program that looks for
// it, or prints it: ['grep', '-r', 'curl …'].
func isSearched(before string) bool {
	list := strings.TrimLeft(before[strings.LastIndexAny(before, "[(")+1:], " ")
	return slices.ContainsFunc([]string{"grep", "rg", "ag", "ack", "echo"}, func(name string) bool {
		return len(list) > len(name)+2 && strings.IndexByte("\"'", list[0]) >= 0 && list[1:len(name)+1] == name && list[len(name)+1] == list[0]
	})
}

// programWrites notes the names in quotes that an interpreter's program opens to write.
func (r *reader) programWrites(interpreter, program string) {
	if r.spend(len(program)) {
		shell.ProgramFiles(interpreter, program, r.write)
	}
}

// wouldRun tells whether a text runs a download if it is run. It is not, here.
func (r *reader) wouldRun(text string) bool {
	if !strings.Contains(text, "curl") && !strings.Contains(text, "wget") && !strings.Contains(text, "/dev/tcp/") {
		return false
	}
	if !r.deeper() || !r.spend(len(text)) {
		r.unread = true
		return false
	}
	other := newReader(map[string]bool{})
	other.dir, other.nesting, other.nested, other.walked = r.dir, r.nesting, r.nested, r.walked
	other.script(text, stdin{})
	r.nested, r.walked, r.unread = other.nested, other.walked, r.unread || other.unread
	return other.runs
}
