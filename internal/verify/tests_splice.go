package verify

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rust keeps unit tests inside of the files they test, in modules marked
// #[cfg(test)]. Those modules are cut out of the base's version of a file and
// put in the place of the work's, so that a test cannot be emptied in passing.
// Doc tests stay the work's: they are required by name alone.

// block is one #[cfg(test)] module: from its attribute to its closing brace.
type block struct {
	name       string
	start, end int
}

var (
	cfgTest    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#\s*\[\s*cfg\s*\(([^\]]*\W)?test\W[^\]]*\]`) })
	attribute  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*#\s*\[[^\]]*\]`) })
	moduleHead = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(?:pub\s*(?:\([^)]*\)\s*)?)?mod\s+(\w+)\s*\{`) })
	looseTest  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`#\s*\[\s*(?:[\w:]+::)?(?:test|rstest|test_case|quickcheck|wasm_bindgen_test)\b|\bproptest!`)
	})
)

// spliceRust puts the base's inline tests into the work's files.
func spliceRust(t trees, p part, l layout) (string, error) {
	for _, name := range l.names() {
		if !strings.HasSuffix(name, ".rs") || !inside(p.dir, name) || classOf(rust, name) != code || borrowed(name) {
			continue
		}
		equal, err := same(t.base, t.work, name)
		if err != nil {
			return "", err
		}
		if equal || !t.work.has(name) {
			continue
		}
		is, err := t.work.read(name)
		if err != nil {
			return "", err
		}
		var was []byte
		if t.base.has(name) {
			if was, err = t.base.read(name); err != nil {
				return "", err
			}
		}
		if looseTest().Match(without(was, testBlocks(was))) {
			return fmt.Sprintf("%s was changed and holds tests outside of a #[cfg(test)] module: they cannot be taken from the base, so a person has to land that", name), nil
		}
		if spliced := splice(was, is); !bytes.Equal(spliced, is) {
			l.text(name, string(spliced))
		}
	}
	return "", nil
}

// splice is the file is with the test modules of was, and no other.
func splice(was, is []byte) []byte {
	from := testBlocks(was)
	var out bytes.Buffer
	at := 0
	used := make([]bool, len(from))
	for _, b := range testBlocks(is) {
		out.Write(is[at:b.start])
		at = b.end
		if i := slices.IndexFunc(from, func(f block) bool { return f.name == b.name }); i >= 0 && !used[i] {
			used[i] = true
			out.Write(was[from[i].start:from[i].end])
		}
	}
	out.Write(is[at:])
	for i, b := range from {
		if !used[i] {
			out.WriteString("\n")
			out.Write(was[b.start:b.end])
			out.WriteString("\n")
		}
	}
	return out.Bytes()
}

// without is a file with its test modules cut out.
func without(data []byte, blocks []block) []byte {
	var out []byte
	at := 0
	for _, b := range blocks {
		out = append(out, data[at:b.start]...)
		at = b.end
	}
	return append(out, data[at:]...)
}

// testBlocks finds the test modules of a file in one pass. A file that does not
// lex to its end has a module up to there, and does not compile either.
func testBlocks(data []byte) []block {
	var list []block
	for i := 0; i < len(data); {
		if data[i] != '#' {
			i = skipRust(data, i)
			continue
		}
		name, open := testModule(data, i)
		if open == 0 {
			i++
			continue
		}
		end := closing(data, open)
		list = append(list, block{name, i, end})
		i = end
	}
	return list
}

// maxHead is how long the attributes and the head of a module may be, in bytes.
const maxHead = 4 << 10

// testModule reads the head of a test module at i: its name, and where its body begins.
func testModule(data []byte, i int) (string, int) {
	head := data[i:min(len(data), i+maxHead)]
	attr := cfgTest().Find(head)
	if attr == nil || bytes.Contains(attr, []byte("not(")) {
		return "", 0
	}
	at := len(attr)
	for {
		if m := attribute().Find(head[at:]); m != nil {
			at += len(m)
			continue
		}
		if next := comment(head, at); next > at {
			at = next
			continue
		}
		break
	}
	m := moduleHead().FindSubmatch(head[at:])
	if m == nil {
		return "", 0
	}
	return string(m[1]), i + at + len(m[0])
}

// comment skips white space and a comment.
func comment(data []byte, i int) int {
	rest := len(data) - len(bytes.TrimLeft(data[i:], " \t\r\n"))
	if rest+1 < len(data) && data[rest] == '/' && (data[rest+1] == '/' || data[rest+1] == '*') {
		return skipRust(data, rest)
	}
	return i
}

// closing is the index behind the brace that closes the one before i.
func closing(data []byte, i int) int {
	depth := 1
	for i < len(data) {
		switch data[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i = skipRust(data, i)
	}
	return len(data)
}

// skipRust is the index behind the comment, literal or byte at i.
func skipRust(data []byte, i int) int {
	rest := data[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		return i + until(rest, "\n")
	case bytes.HasPrefix(rest, []byte("/*")):
		return i + blockComment(rest)
	case rest[0] == '"':
		return i + quoted(rest, '"')
	case rest[0] == '\'':
		return i + character(rest)
	case rest[0] == 'r' && (i == 0 || !word(data[i-1]) || data[i-1] == 'b' || data[i-1] == 'c'):
		return i + raw(rest)
	}
	return i + 1
}

func word(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func until(data []byte, mark string) int {
	if n := bytes.Index(data, []byte(mark)); n >= 0 {
		return n + len(mark)
	}
	return len(data)
}

// blockComment is how long a comment is; they nest.
func blockComment(data []byte) int {
	depth := 0
	for i := 0; i+1 < len(data); {
		switch {
		case data[i] == '/' && data[i+1] == '*':
			depth++
			i += 2
		case data[i] == '*' && data[i+1] == '/':
			i += 2
			if depth--; depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(data)
}

func quoted(data []byte, mark byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case mark:
			return i + 1
		}
	}
	return len(data)
}

// character is how long a character literal is, or 1 for a lifetime's quote.
func character(data []byte) int {
	if len(data) > 2 && data[1] == '\\' {
		return quoted(data, '\'')
	}
	for i := 2; i < len(data) && i <= 5; i++ {
		if data[i] == '\'' && (i == 2 || data[1] >= 0x80) {
			return i + 1
		}
	}
	return 1
}

// raw is how long a raw string is, or 1 where none begins.
func raw(data []byte) int {
	hashes := 0
	for 1+hashes < len(data) && data[1+hashes] == '#' {
		hashes++
	}
	if 1+hashes >= len(data) || data[1+hashes] != '"' {
		return 1
	}
	body := data[2+hashes:]
	return 2 + hashes + until(body, `"`+strings.Repeat("#", hashes))
}
