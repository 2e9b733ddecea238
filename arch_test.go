package nacre_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/nacre-dev/nacre"

// floors is the map of the house (ARCHITECTURE.md): a room imports only rooms
// on lower floors. Adding a room is one reviewed line here.
var floors = map[string]int{
	"": 0, // the root: nouns
	// what all deciders read: JSON that cannot be read in two ways, and on top of
	// it constraints, which policy and grants both narrow
	"internal/wire": -1, "internal/constraint": 0,
	// what roles, gates and verifiers are made of
	"internal/atom": 0,

	// 1: deciders, pure
	"policy": 1, "internal/token": 1, "internal/firewall": 1, "internal/redact": 1,
	"internal/posture": 1, "internal/budget": 1, "internal/zmtp": 1,
	"internal/provenance": 1, "internal/handle": 1, "internal/search": 1, "internal/schema": 1, "internal/address": 1,
	"internal/gate": 1, "internal/role": 1, "internal/dna": 1, "internal/tripwire": 1,
	"internal/calendar": 1, "internal/routing": 1, "internal/recall": 1, "internal/mcptool": 1,

	// 2: records on disk
	"audit": 2, "internal/registry": 2, "internal/approval": 2, "internal/memory": 2,
	"internal/revocation": 2, "internal/ledger": 2, "internal/guard": 2, "internal/confine": 2, "internal/lease": 2,
	"internal/schedule": 2, "internal/sqlitefile": 2, "internal/inbox": 2, "internal/disk": 2,

	// 3: effects, network and processes
	"internal/sandbox": 3, "internal/egress": 3, "internal/model": 3, "internal/brain": 3,
	"internal/pluginhost": 3, "internal/repo": 3, "internal/engine": 3, "internal/ipc": 3,
	"internal/scriptedmodel": 3, "driver/http": 3, "driver/mcp": 3,
	"internal/verify": 3, "internal/hooks": 3, "internal/bus": 3,

	"kernel": 4,
	// what embedders put around a kernel
	"toolformat": 5, "telemetry": 5,
	"internal/session": 5,
	// where plugins come from, and what their authors hold them against
	"internal/install": 5, "internal/plugintest": 5, "internal/testhost": 5,
	"internal/door": 6, "internal/task": 6, "internal/dispatch": 6,
	"assembly": 7, "internal/display": 7,
	"internal/demo": 8,
	"cmd/nacre":     9, "cmd/ipc": 9, "cmd/ipc-mcp": 9, "cmd/brain": 9, "cmd/sandbox-init": 9,
	"plugins/reminders": 9, "plugins/bug_report": 9, "plugins/files": 9, "plugins/http_fetch": 9, "plugins/webhook": 9, "plugins/local": 9,
}

// wings are parts of a room that live in folders of their own: the key may
// be imported by its own room, and may itself import what its room may.
var wings = map[string]string{
	"internal/sandbox/inside":    "internal/sandbox",
	"internal/sandbox/probe":     "internal/sandbox",
	"internal/sandbox/seccomp":   "internal/sandbox",
	"internal/sandbox/spawn":     "internal/sandbox",
	"internal/sandbox/container": "internal/sandbox",
	"internal/brain/agent":       "internal/brain",
	"internal/brain/braintest":   "internal/brain",
	"internal/ipc/mcpserver":     "internal/ipc",
	"internal/pluginhost/mcp":    "internal/pluginhost",
	"telemetry/prometheus":       "telemetry",
}

// bases are rooms that the others on their floor stand on: those may import
// them, and each of them the ones before it.
var bases = []string{"internal/disk", "internal/sqlitefile"}

// free are rooms that any floor may use: the public SDK of plugins, which
// imports the root only, and support for tests.
var free = map[string]bool{"plugin": true, "internal/testpeer": true}

// pure floors perform no effect: what they need of the world is an argument.
var impure = []string{"os", "os/exec", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "io/ioutil"}

type sourceFile struct {
	path string
	room string
	test bool
	ast  *ast.File
}

func TestImportsGoDownOnly(t *testing.T) {
	for _, file := range sources(t) {
		if file.test {
			continue
		}
		home := homeOf(file.room)
		floor, known := floors[home]
		if !known && !free[home] {
			t.Errorf("%s: room %q is not on the map in arch_test.go", file.path, file.room)
			continue
		}
		for _, imported := range roomsImported(file.ast) {
			checkImport(t, file, imported, floor)
		}
	}
}

func checkImport(t *testing.T, file sourceFile, imported string, floor int) {
	t.Helper()
	from, to := homeOf(file.room), homeOf(imported)
	target, known := floors[to]
	switch {
	case from == to || imported == "":
	case free[from]:
		t.Errorf("%s imports %q: plugin and testpeer import the root only", file.path, imported)
	case free[to]:
	case !known:
		t.Errorf("%s imports %q, which is not on the map", file.path, imported)
	case target == floor && standsOn(from, to):
	case target >= floor:
		t.Errorf("%s (floor %d) imports %q (floor %d): imports go down only", file.path, floor, imported, target)
	}
}

// standsOn reports whether a room may import a base of its own floor.
func standsOn(from, base string) bool {
	at, above := slices.Index(bases, base), slices.Index(bases, from)
	return at >= 0 && (above < 0 || at < above)
}

func TestDecidersArePure(t *testing.T) {
	for _, file := range sources(t) {
		if floor, known := floors[homeOf(file.room)]; file.test || !known || floor > 1 {
			continue
		}
		for _, path := range importsOf(file.ast) {
			for _, effect := range impure {
				if path == effect {
					t.Errorf("%s imports %q: a decider takes what it needs as an argument", file.path, path)
				}
			}
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && isClock(call) {
				t.Errorf("%s uses time.%s: a decider is given `now`", file.path, call.Sel.Name)
			}
			return true
		})
	}
}

func isClock(s *ast.SelectorExpr) bool {
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "time" && (s.Sel.Name == "Now" || s.Sel.Name == "Since" || s.Sel.Name == "Sleep")
}

// M-02: only the brain room knows the names of providers.
func TestSessionAndTaskKnowNoProvider(t *testing.T) {
	providers := []string{"claude", "anthropic", "openai", "codex"}
	for _, file := range sources(t) {
		if file.test || (file.room != "internal/session" && file.room != "internal/task") {
			continue
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			var text string
			switch n := n.(type) {
			case *ast.Ident:
				text = n.Name
			case *ast.BasicLit:
				text = n.Value
			}
			for _, provider := range providers {
				if strings.Contains(strings.ToLower(text), provider) {
					t.Errorf("%s names the provider %q: the seam is internal/brain", file.path, provider)
				}
			}
			return true
		})
	}
}

// A package's variables are made before main, at every start of every program
// that links it. A regular expression takes as long there as a file to open.
func TestNothingIsCompiledBeforeMain(t *testing.T) {
	for _, file := range sources(t) {
		for _, decl := range file.ast.Decls {
			variables, ok := decl.(*ast.GenDecl)
			if !ok || file.test {
				continue
			}
			if compilesNow(variables, regexpNames(file.ast)) {
				t.Errorf("%s compiles a regular expression in a variable: sync.OnceValue does it where one is needed", file.path)
			}
		}
	}
}

func TestWhatIsCompiledBeforeMainIsFound(t *testing.T) {
	for source, want := range map[string]bool{
		`import "regexp"; var a = regexp.MustCompile("x")`:                                                                                  true,
		`import "regexp"; var a, _ = regexp.Compile("x")`:                                                                                   true,
		`import "regexp"; var a = []*regexp.Regexp{regexp.MustCompile("x")}`:                                                                true,
		`import re "regexp"; var a = re.MustCompile("x")`:                                                                                   true,
		`import . "regexp"; var a = MustCompile("x")`:                                                                                       true,
		`import "regexp"; var a = func() *regexp.Regexp { return regexp.MustCompile("x") }()`:                                               true,
		`import ("regexp"; "sync"); var a = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("x") })()`:                     true,
		`import ("regexp"; "sync"); var a = (sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("x") }))()`:                   true,
		`import ("regexp"; "sync"); var a = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("x") })`:                       false,
		`import "regexp"; var a = func() *regexp.Regexp { return regexp.MustCompile("x") }`:                                                 false,
		`import ("regexp"; "sync"); var a = sync.OnceValue(func() int { f := func() { regexp.MustCompile("x") }; f(); return 1 })`:          false,
		`import "regexp"; var a *regexp.Regexp`:                                                                                             false,
		`import "other/regexps"; var a = regexps.MustCompile("x")`:                                                                          false,
		`import ("regexp"; "sync"); var a = func() any { return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("x") }) }`: false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package x; "+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if have := compilesNow(file, regexpNames(file)); have != want {
			t.Errorf("%s: have %t", source, have)
		}
	}
}

// regexpNames are what a file calls the package, "." for a name of its own.
func regexpNames(file *ast.File) (names []string) {
	for _, spec := range file.Imports {
		if spec.Path.Value != `"regexp"` {
			continue
		}
		name := "regexp"
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names = append(names, name)
	}
	return names
}

// compilesNow reports whether what is evaluated of a node compiles: a function
// counts where what it is in, or what is made of it, is called at once.
func compilesNow(node ast.Node, names []string) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			found = found || isCompiling(n, names) || compilesWhenCalled(n.Fun, names)
		}
		return !found
	})
	return found
}

// compilesWhenCalled looks into the functions that a call is of.
func compilesWhenCalled(callee ast.Expr, names []string) (found bool) {
	ast.Inspect(callee, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncLit); ok {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				found = found || ok && isCompiling(call, names)
				return !found
			})
		}
		return !found
	})
	return found
}

func isCompiling(call *ast.CallExpr, names []string) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return slices.Contains(names, ".") && strings.Contains(f.Name, "Compile")
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		return ok && slices.Contains(names, pkg.Name) && strings.Contains(f.Sel.Name, "Compile")
	}
	return false
}

// What finds methods by names that the linker cannot know makes it keep every
// method of every type: a tenth of nacre, and of the time that it takes to start.
func TestNoRoomFindsMethodsByName(t *testing.T) {
	for _, file := range sources(t) {
		for _, path := range importsOf(file.ast) {
			if !file.test && (path == "text/template" || path == "html/template") {
				t.Errorf("%s imports %q: the linker could leave out nothing any more", file.path, path)
			}
		}
	}
}

// Its library and what that stands on would be a millisecond of every start:
// only embedders link it, through a room that nothing else imports.
func TestPrometheusIsForEmbedders(t *testing.T) {
	const room = "telemetry/prometheus"
	for _, file := range sources(t) {
		if file.test || file.room == room {
			continue
		}
		for _, path := range importsOf(file.ast) {
			if path == module+"/"+room || strings.HasPrefix(path, "github.com/prometheus/") {
				t.Errorf("%s imports %q: see telemetry.Write", file.path, path)
			}
		}
	}
}

func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	documented, seen := map[string]bool{}, map[string]bool{}
	for _, file := range sources(t) {
		if file.test {
			continue
		}
		seen[file.room] = true
		documented[file.room] = documented[file.room] || file.ast.Doc != nil
	}
	for room := range seen {
		if !documented[room] {
			t.Errorf("room %q has no package comment", room)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, file := range sources(t) {
		for _, decl := range file.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function: the composition root is a table", file.path)
			}
		}
	}
}

func homeOf(room string) string {
	if home, ok := wings[room]; ok {
		return home
	}
	return room
}

func roomsImported(f *ast.File) []string {
	var rooms []string
	for _, path := range importsOf(f) {
		if path == module {
			rooms = append(rooms, "")
		} else if room, ok := strings.CutPrefix(path, module+"/"); ok {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

func importsOf(f *ast.File) []string {
	var paths []string
	for _, spec := range f.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// sources parses every Go file of the module, test data and tools left out.
func sources(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(path, entry.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(path))
		if room == "." {
			room = ""
		}
		files = append(files, sourceFile{path, room, strings.HasSuffix(path, "_test.go"), parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found %d Go files: the walk does not see the module", len(files))
	}
	return files
}

func skipDir(path, name string) error {
	if path == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules" || path == "tools" || path == "examples" {
		return fs.SkipDir
	}
	return nil
}
