package shell

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// maxFileName is the longest name that a file can be reached by, in bytes.
	maxFileName = 4096
	// maxMode is the longest mode in which a file is opened, in bytes.
	maxMode = 4
)

// ProgramFiles gives the names in quotes that an interpreter's program opens to
// write, as far as its words say.
func ProgramFiles(interpreter, program string, give func(name string)) {
	mode := "" // of Perl's open(F, ">>", "name")
	for rest := program; ; {
		begin := strings.IndexAny(rest, `"'`)
		if begin < 0 {
			return
		}
		before := strings.ToLower(rest[max(0, begin-len("file_put_contents(")):begin])
		name, after, closed := strings.Cut(rest[begin+1:], rest[begin:begin+1])
		if !closed {
			return
		}
		prints := strings.HasSuffix(interpreter, "awk") && strings.HasSuffix(strings.TrimRight(before, " "), ">")
		if len(name) <= maxFileName && (writesBefore(before) || writesAfter(after) || prints || mode != "" && strings.Trim(before, ", ") == "") {
			give(name)
		}
		mode = ""
		if to := strings.TrimLeft(name, "+> "); interpreter == "perl" && to != name && strings.Contains(before, "open") {
			mode = name
			if to != "" {
				give(to) // its open(F, ">>name")
			}
		}
		rest = after
	}
}

func writesBefore(text string) bool {
	return slices.ContainsFunc([]string{"writefile(", "writefilesync(", "appendfile(", "appendfilesync(", "file_put_contents(", "file.write("}, func(call string) bool {
		return strings.HasSuffix(text, call)
	})
}

// writesAfter tells the mode after a name, as in open("x", "wb"), and the call of a path.
func writesAfter(text string) bool {
	if strings.HasPrefix(text, ").expanduser()") {
		text = text[len(").expanduser("):]
	}
	if strings.HasPrefix(text, ").write_text(") || strings.HasPrefix(text, ").write_bytes(") {
		return true
	}
	text = strings.TrimPrefix(strings.TrimLeft(text, " ,)"), "mode=")
	if len(text) < 3 || strings.IndexByte("\"'`", text[0]) < 0 {
		return false
	}
	mode, after, closed := strings.Cut(text[1:min(len(text), maxMode+2)], text[:1])
	if !closed || strings.HasPrefix(after, "]") || mode == "" || strings.IndexByte("waxr", mode[0]) < 0 {
		return false // ] ends a list of names, and no call
	}
	return strings.Trim(mode[1:], "btx+U") == "" && (mode[0] != 'r' || strings.Contains(mode, "+"))
}

// The signs of a program that changes files which it does not name in the call.
var (
	changesOther = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\bshutil\.\w|\bos\.(?:remove|unlink|rename|renames|replace|symlink|link|mkdir|makedirs|rmdir|removedirs|truncate|open)\s*\(` +
			`|\.(?:symlink_to|hardlink_to|unlink|rmtree|touch)\s*\(|\b(?:FileUtils|File\.(?:rename|delete|symlink|link|unlink))\b` +
			`|\b(?:rmSync|unlinkSync|renameSync|copyFileSync|symlinkSync|linkSync|mkdirSync|truncateSync|cpSync|createWriteStream|openSync)\b|\bfs\.(?:rm|unlink|rename|copyFile|symlink|link|mkdir|truncate|cp|open)\s*\(`)
	})
	opensVariable = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\bopen\s*\(\s*[^'"\s),][^,]*,\s*(?:mode\s*=\s*)?['"](?:[wax][bt+]*|r[bt]*\+[bt]*)['"]` +
			`|\b(?:writeFile|writeFileSync|appendFile|appendFileSync|file_put_contents|File\.write)\s*\(\s*[^'"\s]` +
			`|[^'")\s]\s*\)?\.write_(?:text|bytes)\s*\(`)
	})
	perlWrites = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:unlink|rename|symlink|link|mkdir|rmdir|truncate)\b`)
	})
	awkString    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(?:[^"\\]|\\.)*"`) })
	awkRedirects = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bprintf?\b[^;}\n]*>\s*[^">\s]`) })
)

// ChangesUnnamed tells an interpreter's program that seems to change files which
// it does not name in quotes.
func ChangesUnnamed(interpreter, program string) bool {
	switch {
	case strings.HasSuffix(interpreter, "awk"):
		return awkRedirects().MatchString(awkString().ReplaceAllString(program, `""`))
	case interpreter == "perl" && perlWrites().MatchString(program):
		return true
	}
	return changesOther().MatchString(program) || opensVariable().MatchString(program)
}
