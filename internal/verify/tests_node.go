package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// nodeReporter is loaded by the process that runs the test files, each of which has a process of
// its own. It prints what those reported.
const nodeReporter = `import path from 'node:path';
export default async function* report(source) {
  const kinds = {'test:start': 'start', 'test:pass': 'end', 'test:fail': 'end'};
  for await (const {type, data} of source) {
    if (!kinds[type] || (type === 'test:pass' && data.details?.type === 'suite')) continue;
    const skip = data.skip !== undefined && data.skip !== false, todo = data.todo !== undefined && data.todo !== false;
    const error = data.details?.error;
    yield '\n%[1]s ' + JSON.stringify({
      kind: kinds[type], name: String(data.name), depth: data.nesting, file: data.file ? path.relative(process.cwd(), data.file) : '',
      status: type === 'test:pass' ? (skip || todo ? 'skipped' : 'passed') : (todo ? 'skipped' : 'failed'),
      text: error ? String(error.cause?.stack ?? error.cause?.message ?? error.message ?? error).slice(0, 2000) : '',
    }) + '\n';
  }
}
`

// testScript is how the base's package.json runs its tests.
type testScript struct {
	program string // node, jest or vitest
	flags   []string
	paths   []string
	env     []string
}

var errNodeRunner = errors.New("the base's package.json runs its tests in a way that no report by name is known for. Use `node --test`, jest or vitest, or declare a check of the host's own")

// scriptOf reads scripts.test of the base. No shell and no npm reads it, so
// that neither pre and post scripts nor .npmrc take part.
func scriptOf(base checkout, p part) (testScript, error) {
	data, err := base.read(path.Join(p.dir, "package.json"))
	if err != nil {
		return testScript{program: "node"}, nil //nolint:nilerr // without a package.json, node --test is the runner
	}
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return testScript{}, fmt.Errorf("the base's package.json: %w", err)
	}
	line := strings.TrimSpace(manifest.Scripts["test"])
	if line == "" || strings.Contains(line, "no test specified") {
		return testScript{program: "node"}, nil
	}
	if strings.ContainsAny(line, "|&;<>$`()\\\n#{}") {
		return testScript{}, errNodeRunner
	}
	return readScript(strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(line)))
}

func readScript(words []string) (testScript, error) {
	var s testScript
	for len(words) > 0 && (words[0] == "cross-env" || words[0] == "npx" || strings.Contains(words[0], "=")) {
		if strings.Contains(words[0], "=") {
			s.env = append(s.env, words[0])
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return testScript{}, errNodeRunner
	}
	s.program = words[0]
	for _, word := range words[1:] {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(name, "--test-reporter"), strings.HasPrefix(name, "--watch"), name == "--json", strings.HasPrefix(name, "--reporter"), name == "--outputFile":
		case strings.HasPrefix(word, "-"):
			s.flags = append(s.flags, word)
		default:
			s.paths = append(s.paths, word)
		}
	}
	switch s.program {
	case "node":
		if !slices.Contains(s.flags, "--test") {
			return testScript{}, errNodeRunner
		}
		s.flags = slices.DeleteFunc(s.flags, func(f string) bool { return f == "--test" })
	case "jest", "vitest":
	default:
		return testScript{}, errNodeRunner
	}
	return s, nil
}

func nodeTest(t trees, p part, l layout, nonce string) (argv, env []string, err error) {
	s, err := scriptOf(t.base, p)
	if err != nil {
		return nil, nil, err
	}
	env = append([]string{"NODE_OPTIONS=", "NODE_PATH=", "NODE_ENV=test", "CI=1", "NO_COLOR=1", "FORCE_COLOR=0", "NODE_V8_COVERAGE="}, s.env...)
	switch s.program {
	case "jest":
		entry, err := judging(t, p, "jest/bin/jest.js")
		return append([]string{"node", entry, "--ci", "--json", "--watchAll=false"}, append(s.flags, s.paths...)...), env, err
	case "vitest":
		entry, err := judging(t, p, "vitest/vitest.mjs")
		return append([]string{"node", entry, "run", "--reporter=json"}, append(s.flags, slices.DeleteFunc(s.paths, func(w string) bool { return w == "run" })...)...), env, err
	}
	files := nodeFiles(l, p, s.paths)
	if len(files) == 0 {
		return nil, nil, errors.New("there is no test file that `node --test` would run")
	}
	reporter := ".nacre-" + nonce + ".mjs"
	l.text(path.Join(p.dir, reporter), fmt.Sprintf(nodeReporter, nonce))
	argv = append([]string{"node"}, s.flags...)
	argv = append(argv, "--test", "--test-reporter=./"+reporter, "--test-reporter-destination=stdout")
	return append(argv, files...), env, nil
}

// installed is a program of the base's node_modules; one that the work brought
// along would be a runner of its own making.
func installed(base checkout, p part, entry string) (string, error) {
	for dir := p.dir; ; dir = path.Dir(dir) {
		if name := path.Join(dir, "node_modules", entry); base.has(name) || base.fetched.holds(name) {
			rel, err := filepath.Rel(filepath.FromSlash(p.dir), filepath.FromSlash(name))
			return filepath.ToSlash(rel), err
		}
		if dir == "." {
			return "", fmt.Errorf("%s is not installed: the base has no node_modules/%s, and nothing can be judged without it", strings.Split(entry, "/")[0], entry)
		}
	}
}

// judging is an installed program that forms a verdict: the base chose it, and
// the work did not choose another.
func judging(t trees, p part, entry string) (string, error) {
	rel, err := installed(t.base, p, entry)
	if err != nil {
		return "", err
	}
	if wrong := t.repinned(path.Join(p.dir, rel)); wrong != "" {
		return "", errors.New(wrong)
	}
	return rel, nil
}

// nodeFiles are the test files of a layout, relative to the project: what the
// script names, or what node --test finds by itself.
func nodeFiles(l layout, p part, named []string) []string {
	var list []string
	for _, name := range l.names() {
		if !inside(p.dir, name) || borrowed(name) || languageOf(name) != node || manifestOf(path.Base(name)) != "" {
			continue
		}
		rel := strings.TrimPrefix(name, strings.TrimPrefix(p.dir+"/", "./"))
		if len(named) == 0 && isNodeTest(rel) || slices.ContainsFunc(named, func(pattern string) bool { return selects(pattern, rel) }) {
			list = append(list, "./"+rel)
		}
	}
	return list
}

// selects says that a word of the script means a file: as its path, as a folder
// above it of which the tests are meant, or as a glob.
func selects(pattern, name string) bool {
	pattern = path.Clean(pattern)
	if pattern == name || inside(pattern, name) && (isNodeTest(name) || pattern != ".") && !below(name, "fixtures") {
		return pattern == name || isNodeTest(name)
	}
	return strings.ContainsAny(pattern, "*?[") && glob(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// maxGlobSteps bounds what ** may try, because a base is not written by us.
const maxGlobSteps = 16

func glob(pattern, name []string) bool {
	for i, part := range pattern {
		if part == "**" {
			if i > maxGlobSteps {
				return false
			}
			for skip := i; skip <= len(name); skip++ {
				if glob(pattern[i+1:], name[skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(name) {
			return false
		}
		if ok, err := path.Match(part, name[i]); err != nil || !ok {
			return false
		}
	}
	return len(pattern) == len(name)
}

// plantNode adds a failing test to every test file: each has a process of its own.
func plantNode(t trees, p part, l layout, nonce string) []canary {
	s, err := scriptOf(t.base, p)
	if err != nil {
		return nil
	}
	if s.program != "node" {
		return plantBeside(l, p, nonce, s.program)
	}
	var list []canary
	for _, file := range nodeFiles(l, p, s.paths) {
		rel := strings.TrimPrefix(file, "./")
		name := path.Join(p.dir, rel)
		source, ok := l.bytes(name)
		if !ok {
			continue
		}
		c := canary{name: fmt.Sprintf("nacre %s %d", nonce, len(list)), text: fmt.Sprintf("seen %s %d", nonce, len(list)), beside: rel + " > "}
		l.text(name, fmt.Sprintf("%s\n;process.getBuiltinModule('node:test').test(%q, () => { throw new Error(%q) });\n", source, c.name, c.text))
		list = append(list, c)
	}
	return list
}

// plantBeside adds one failing test file beside the first test.
func plantBeside(l layout, p part, nonce, program string) []canary {
	for _, name := range l.names() {
		if !inside(p.dir, name) || !isNodeTest(name) || !strings.Contains(path.Base(name), ".") {
			continue
		}
		_, suffix, _ := strings.Cut(path.Base(name), ".")
		c := canary{name: "nacre " + nonce, text: "seen " + nonce + " 0"}
		head := ""
		if program == "vitest" {
			head = "import { test } from 'vitest';\n"
		}
		l.text(path.Join(path.Dir(name), "nacre-"+nonce+"."+suffix), fmt.Sprintf("%stest(%q, () => { throw new Error(%q) });\n", head, c.name, c.text))
		return []canary{c}
	}
	return nil
}

func parseNode(out Output, nonce string) *results {
	if report, ok := jestReport(out.Stdout); ok {
		return report
	}
	r := newResults()
	stacks := map[string][]string{}
	events(out, nonce, r, func(e event) {
		if e.Depth < 0 || e.Depth > maxTestDepth {
			r.strange("a test is nested %d deep", e.Depth)
			return
		}
		stack := stacks[e.File]
		for len(stack) < e.Depth {
			stack = append(stack, "")
		}
		stack = append(stack[:e.Depth:e.Depth], e.Name)
		stacks[e.File] = stack
		if e.Kind == "end" {
			name := e.File + " > " + strings.Join(stack, " > ")
			r.says(name, e.Text)
			r.again(name, statusOf(e.Status))
		}
	})
	return r
}
