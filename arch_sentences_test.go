package nacre_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// mostWords is how long a sentence of a page or a comment may be: one that is longer is read twice.
const mostWords = 30

// U-33: no sentence of a page is longer than 30 words.
func TestSentencesOfThePagesAreShort(t *testing.T) {
	read := 0
	err := eachFile(".md", func(path string, text []byte) error {
		read++
		for _, sentence := range sentences(string(text)) {
			if n := words(sentence); n > mostWords {
				t.Errorf("%s: %d words, want at most %d: %s", path, n, mostWords, sentence)
			}
		}
		return nil
	})
	if err != nil || read < 60 {
		t.Fatalf("%d pages were read: %v", read, err)
	}
}

// U-33: no sentence of a comment is longer either. Those of generated files are not read.
func TestSentencesOfCommentsAreShort(t *testing.T) {
	read := 0
	err := eachFile(".go", func(path string, text []byte) error {
		read++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		for _, comment := range file.Comments {
			for _, sentence := range sentences(prose(comment)) {
				if n := words(sentence); n > mostWords {
					t.Errorf("%s: %d words, want at most %d: %s", set.Position(comment.Pos()), n, mostWords, sentence)
				}
			}
		}
		return nil
	})
	if err != nil || read < 2000 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}

// eachFile visits the files with an ending, but those of test data and of others.
func eachFile(ending string, visit func(path string, text []byte) error) error {
	return filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules" || path != "." && strings.HasPrefix(entry.Name(), ".") || path == "bin" || path == "dist"):
			return filepath.SkipDir
		case filepath.Ext(path) != ending:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return visit(path, text)
	})
}

// prose is a comment as a page has it: what Go indents by a tab shows a program.
func prose(comment *ast.CommentGroup) string {
	return strings.ReplaceAll(comment.Text(), "\t", "    ")
}

// What finds long sentences finds them wherever a page has some, and nowhere else.
func TestLongSentencesAreFound(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", mostWords+1))
	half := strings.TrimSpace(strings.Repeat("word ", mostWords/2+1))
	for _, c := range []struct {
		name, text string
		found      int
	}{
		{"a paragraph over two lines", half + "\n" + half, 1},
		{"the last of several sentences", "A word. " + long + ".", 1},
		{"an item of a list", "- a word\n- " + half + "\n  " + half, 1},
		{"a cell of a table", "| a | b |\n|---|---|\n| a | " + long + " |", 1},
		{"one with code and links", half + " `a b c` [" + half + "](page.md)", 1},
		{"two items", "- " + half + "\n- " + half, 0},
		{"two cells", "| " + half + " | " + half + " |", 0},
		{"two sentences", half + ". " + half + ".", 0},
		{"the text of a program", "```\n" + long + "\n```\n\n    " + long + "\n    " + long, 0},
		{"names that are joined by dots", half + " · " + half, 0},
	} {
		found := 0
		for _, sentence := range sentences(c.text) {
			if words(sentence) > mostWords {
				found++
			}
		}
		if found != c.found {
			t.Errorf("%s: have %d long sentences, want %d", c.name, found, c.found)
		}
	}
}

// What a comment shows of a program, and what it tells a tool, is no sentence of it.
func TestCommentsAreReadAsPages(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", mostWords+1))
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "// Package x is "+long+".\n//\n//\t"+long+"\n//\n//go:"+long+"\npackage x\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, sentence := range sentences(prose(file.Doc)) {
		if words(sentence) > mostWords {
			found = append(found, sentence)
		}
	}
	if len(found) != 1 || !strings.HasPrefix(found[0], "Package x is ") {
		t.Errorf("have %q, want the first sentence alone", found)
	}
}

// sentences are those of a page's prose: of its paragraphs, items and cells.
func sentences(text string) []string {
	inline := regexp.MustCompile("`[^`]*`")
	link := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	end := regexp.MustCompile(`[.!?]["”')*]*\s+| · `)
	var all []string
	for _, block := range blocks(text) {
		block = link.ReplaceAllString(inline.ReplaceAllString(block, "code"), "$1")
		all = append(all, end.Split(block, -1)...)
	}
	return all
}

// blocks are the paragraphs, items and cells of a page, without what is shown of programs.
func blocks(text string) []string {
	item := regexp.MustCompile(`^\s*([-*+]|\d+\.) `)
	var all []string
	var block []string
	end := func() {
		all = append(all, strings.Join(block, " "))
		block = nil
	}
	fenced, shown := false, false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		shown = strings.HasPrefix(line, "    ") && (shown || block == nil)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			end()
		case fenced || shown:
		case trimmed == "" || strings.HasPrefix(line, "#"):
			end()
		case strings.HasPrefix(trimmed, "|"):
			end()
			all = append(all, strings.Split(trimmed, "|")...)
		case item.MatchString(line):
			end()
			block = []string{item.ReplaceAllString(line, "")}
		default:
			block = append(block, trimmed)
		}
	}
	end()
	return all
}

// words counts what has a letter or a digit between spaces.
func words(sentence string) int {
	n := 0
	for word := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
