package verify

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// cargoSettings pin what cargo does. The wrappers are off whatever a
// configuration says: they would run in the place of the compiler.
func cargoSettings() []string {
	return []string{
		"CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_BUILD_RUSTC_WRAPPER=", "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER=",
		"RUSTC_WRAPPER=", "RUSTC_WORKSPACE_WRAPPER=", "CARGO_INCREMENTAL=0", "CARGO_TARGET_DIR=target", "RUST_BACKTRACE=0",
	}
}

func cargoTest(trees, part, layout, string) (argv, env []string, err error) {
	// One stream, because cargo says on one what it runs, and the tests answer on the other.
	return []string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh", "cargo", "test", "--offline", "--no-fail-fast"}, cargoSettings(), nil
}

var (
	running = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s+Running (unittests )?(\S+) \((?:.*/)?([^/)]+?)(?:-[0-9a-f]{16})?(?:\.exe)?\)$`)
	})
	docTests  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s+Doc-tests (\S+)$`) })
	announced = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^running (\d+) tests?$`) })
	testLine  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, .*| <.*>)?$`)
	})
	openLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. `) })
	resultLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; `)
	})
	saidBy  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^---- (.+) stdout ----$`) })
	docLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` \(line \d+\)`) })
)

// libtest reads the text of cargo test and of the harness that rustc builds in.
type libtest struct {
	*results
	section string
	doc     bool
	open    string // a test whose outcome follows on a line of its own
	talks   string // the test whose output follows
	counts  [3]int // passed, failed, ignored in this section
	due     string // how many the section has announced
}

func parseRust(out Output, _ string) *results {
	l := &libtest{results: newResults()}
	for line := range bytes.Lines(out.Stdout) {
		l.line(strings.TrimRight(string(line), "\r\n"))
	}
	l.leave()
	return l.results
}

func (l *libtest) line(line string) {
	if m := running().FindStringSubmatch(line); m != nil {
		l.enter(m[2]+" ("+m[3]+")", false)
		return
	}
	if m := docTests().FindStringSubmatch(line); m != nil {
		l.enter("Doc-tests "+m[1], true)
		return
	}
	switch m := testLine().FindStringSubmatch(line); {
	case m != nil:
		l.outcome(m[1], m[2])
	case l.open != "" && (line == "ok" || line == "FAILED" || line == "ignored"):
		l.outcome(l.open, line)
	case openLine().MatchString(line):
		l.open = openLine().FindStringSubmatch(line)[1]
	case announced().MatchString(line):
		l.announce(announced().FindStringSubmatch(line)[1])
	case resultLine().MatchString(line):
		l.total(resultLine().FindStringSubmatch(line))
	case saidBy().MatchString(line):
		l.talks = saidBy().FindStringSubmatch(line)[1]
	case l.talks != "":
		l.says(l.key(l.talks), line+"\n")
	case l.section == "" || strings.HasPrefix(line, "error"):
		l.says(building, line+"\n")
	}
}

func (l *libtest) enter(section string, doc bool) {
	l.leave()
	l.section, l.doc = section, doc
}

// leave ends a section: what it announced must have been counted up.
func (l *libtest) leave() {
	if l.due != "" {
		l.strange("%s announced %s tests and did not report how they ended", l.section, l.due)
	}
	l.section, l.open, l.talks, l.due, l.counts = "", "", "", "", [3]int{}
}

func (l *libtest) announce(n string) {
	if l.due != "" && !l.doc {
		l.strange("%s announced its tests twice", l.section)
	}
	l.due = n
}

func (l *libtest) key(name string) string {
	if l.doc {
		name = docLine().ReplaceAllString(name, "")
	}
	return l.section + "::" + name
}

func (l *libtest) outcome(name, word string) {
	s, column := green, 0
	switch word {
	case "FAILED":
		s, column = red, 1
	case "ignored":
		s, column = skipped, 2
	}
	l.counts[column]++
	l.open = ""
	if l.due == "" {
		l.strange("%s is reported where no tests were announced", l.key(name))
	}
	if l.doc { // two examples of one item have one name
		l.again(l.key(name), s)
		return
	}
	l.end(l.key(name), s)
}

// total holds a section's own count against its lines.
func (l *libtest) total(m []string) {
	have := [...]string{fmt.Sprint(l.counts[0]), fmt.Sprint(l.counts[1]), fmt.Sprint(l.counts[2])}
	if [...]string{m[2], m[3], m[4]} != have {
		l.strange("%s counts %s passed, %s failed and %s ignored, and its lines say otherwise", l.section, m[2], m[3], m[4])
	}
	if l.due != fmt.Sprint(l.counts[0]+l.counts[1]+l.counts[2]) {
		l.strange("%s announced %s tests, and its lines are others", l.section, l.due)
	}
	if l.due == "" {
		l.strange("%s reports a result that it had not announced", l.section)
	}
	if (m[1] == "FAILED") != (l.counts[1] > 0) {
		l.strange("%s ends with %s, and its lines say otherwise", l.section, m[1])
	}
	l.due, l.talks, l.counts = "", "", [3]int{}
}

// plantRust adds a failing test to every file that is the root of a test binary.
func plantRust(t trees, p part, l layout, nonce string) []canary {
	var list []canary
	for _, manifest := range t.base.names() {
		if path.Base(manifest) != "Cargo.toml" || !inside(p.dir, manifest) || borrowed(manifest) {
			continue
		}
		dir := path.Dir(manifest)
		for _, root := range t.crateRoots(dir) {
			name := path.Join(dir, root)
			source, ok := l.bytes(name)
			if !ok {
				continue
			}
			c := canary{
				name: fmt.Sprintf("nacre_%s_%d", nonce, len(list)), text: fmt.Sprintf("seen %s %d", nonce, len(list)), beside: root + " (",
			}
			l.text(name, fmt.Sprintf("%s\n#[cfg(test)]\nmod %s {\n    #[test]\n    fn shown() {\n        panic!(%q)\n    }\n}\n", source, c.name, c.text))
			list = append(list, c)
		}
	}
	return list
}

// crateRoots are the files of a package that cargo builds a test binary from.
func (t trees) crateRoots(dir string) []string {
	roots := []string{"src/lib.rs", "src/main.rs"}
	for _, name := range t.base.names() {
		rel := strings.TrimPrefix(name, strings.TrimPrefix(dir+"/", "./"))
		switch {
		case !inside(dir, name), path.Ext(rel) != ".rs":
		case path.Dir(rel) == "tests", path.Dir(rel) == "src/bin":
			roots = append(roots, rel)
		case path.Base(rel) == "main.rs" && (path.Dir(path.Dir(rel)) == "tests" || path.Dir(path.Dir(rel)) == "src/bin"):
			roots = append(roots, rel)
		}
	}
	return append(roots, t.namedRoots(dir)...)
}

// namedRoots are those that a manifest gives a path of its own.
func (t trees) namedRoots(dir string) []string {
	type target struct {
		Path string `toml:"path"`
	}
	var m struct {
		Lib  target   `toml:"lib"`
		Bin  []target `toml:"bin"`
		Test []target `toml:"test"`
	}
	data, err := t.base.read(path.Join(dir, "Cargo.toml"))
	if err != nil || atom.CheckShape(data) != nil || toml.Unmarshal(data, &m) != nil {
		return nil
	}
	var roots []string
	for _, one := range append(append(m.Bin, m.Test...), m.Lib) {
		clean := path.Clean(one.Path)
		usual := clean == "src/lib.rs" || clean == "src/main.rs" || path.Dir(clean) == "tests" || path.Dir(clean) == "src/bin"
		if one.Path != "" && !usual && path.Ext(clean) == ".rs" && !strings.HasPrefix(clean, "..") {
			roots = append(roots, clean)
		}
	}
	return roots
}
