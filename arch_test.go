package nacre_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/nacre-dev/nacre"

// floors is the map of the house (ARCHITECTURE.md): a room imports only rooms
// on lower floors. Adding a room is one reviewed line here.
var floors = map[string]int{
	"": 0, // the root: nouns
	// what all deciders read: JSON that cannot be read in two ways, and on top of
	// it constraints, which policy and grants both narrow
	"internal/wire": -1, "internal/constraint": 0, "internal/message": 0,
	// what roles, gates and verifiers are made of
	"internal/atom": 0,
	// what a shell command runs and writes: for gates and for tripwires
	"internal/shell": 0,
	// what finds words in a text
	"internal/automaton": 0,
	// the form in which JSON is hashed and signed
	"internal/canonical": 0,
	// numbers, dates and lengths, compared
	"internal/quantity": 0,
	// who may decide what, and how long that stands
	"internal/person": 0, "internal/deadline": 0,
	// what events are called, and who may publish them
	"internal/events": 0,
	// what nacre names itself, told from secrets
	"internal/ownid": 0,
	// numbers of cards and accounts, told by their check digits
	"internal/checksum": 0,

	// 1: deciders, pure
	"policy": 1, "internal/token": 1, "internal/firewall": 1, "internal/redact": 1,
	"internal/posture": 1, "internal/budget": 1, "internal/zmtp": 1, "internal/reference": 1,
	"internal/provenance": 1, "internal/handle": 1, "internal/search": 1, "internal/schema": 1, "internal/address": 1,
	"internal/gate": 1, "internal/role": 1, "internal/dna": 1, "internal/tripwire": 1, "internal/urlpath": 1,
	"internal/manifest": 1, "internal/report": 1, "internal/leak": 1, "internal/unpack": 1,
	"internal/planted": 1, "internal/calendar": 1, "internal/routing": 1, "internal/recall": 1, "internal/mcptool": 1,
	// what a person is shown before a decision
	"internal/question": 1,

	// 2: records on disk
	"audit": 2, "internal/registry": 2, "internal/approval": 2, "internal/memory": 2,
	"internal/revocation": 2, "internal/revocation/shared": 2, "internal/ledger": 2, "internal/guard": 2, "internal/confine": 2, "internal/sigv4": 2,
	"internal/schedule": 2, "internal/sqlitefile": 2, "internal/inbox": 2, "internal/disk": 2,
	// paths of the host, and whose process is at the other end of a socket
	"internal/hostpath": 2, "internal/socket": 2,
	// the database that nodes share, and who of them is alive
	"internal/database": 2, "internal/node": 2,
	// the chains of all machines
	"internal/machines": 3,
	// how many calls there were at all machines
	"internal/rates": 2,
	// what a session told, for whoever looks later
	"internal/eventlog": 2,
	// what others filled, looked at
	"internal/tree": 2, "internal/overlay": 2,
	// what a program that waits keeps, and what one that starts takes
	"internal/idle": 2, "internal/hugepage": 2,
	// what nacre itself dials through
	"internal/outward": 2,

	// what earlier tasks teach those that are like them
	"internal/experience": 3,

	// 3: effects, network and processes
	"internal/sandbox/probe": 3,
	"internal/sandbox":       3, "internal/egress": 3, "internal/model": 3, "internal/brain": 3,
	"internal/pluginhost": 3, "internal/repo": 3, "internal/engine": 3, "internal/ipc": 3,
	"internal/scriptedmodel": 3, "driver/http": 3, "driver/mcp": 3,
	"internal/planted/search": 3, "internal/home": 3, "internal/lease": 3, "internal/login": 3, "internal/verify": 3, "internal/hooks": 3, "internal/bus": 3,

	"kernel": 4, "internal/layering": 4, "internal/plantings": 4, "internal/ports": 4,
	// what embedders put around a kernel
	"grant": 5, "toolformat": 5, "telemetry": 5, "internal/intrinsic": 5,
	"internal/session": 5,
	// where plugins come from, and what their authors hold them against
	"internal/consent": 3, "internal/install": 5, "internal/plugintest": 5, "internal/testhost": 5,
	"internal/door": 6, "internal/task": 6, "internal/dispatch": 6,
	// what the parts of the composition are opened with
	"internal/learned": 5, "internal/config": 6, "internal/process": 6,
	// who may decide, and what faces stand on
	"internal/roster": 7, "internal/passkey": 7, "internal/ceremony": 8, "internal/cockpit": 9, "internal/web": 19,
	// the database that machines share, as a whole
	"internal/store": 8, "internal/store/tables": 7,
	"internal/configfile": 7, "internal/installation": 7, "internal/access": 8, "internal/upstream": 8, "internal/leasing": 8, "internal/signin": 8, "internal/asking": 8, "internal/folders": 8, "internal/quiet": 8, "internal/operator": 8, "internal/toolchain": 8, "internal/pins": 8, "internal/receipt": 8, "internal/handler": 8,
	// plugins that run
	"internal/hosting": 9,
	// what looks on while an agent works, and what it costs
	"internal/watch": 9, "internal/metering": 9,
	"internal/scheduling": 9, "internal/leftover": 9, "internal/acceptance": 9, "internal/review": 9, "internal/overview": 9, "internal/account": 9, "internal/survey": 9, "internal/replay": 9,
	// what a sealed session stands on, and rooms that need no more of one
	"internal/basis": 9,
	"internal/fetch": 10, "internal/order": 10, "internal/agent": 10, "internal/gitdir": 10, "internal/children": 10, "internal/explain": 10, "internal/reach": 10, "internal/recollection": 10, "internal/toolset": 10, "internal/doorway": 10,
	// a sealed session, and what is known of those that work in one
	"internal/seal": 11, "internal/launch": 11,
	"internal/conversation": 11, "internal/graduation": 11, "internal/interactive": 12,
	// what nacre does with one
	"internal/command": 12, "internal/converse": 12, "internal/work": 12, "internal/erasure": 12, "internal/learn": 12, "internal/pluginadmin": 12,
	"internal/telling": 10, "internal/endpoints": 11, "internal/mailbox": 12, "internal/ticking": 12, "internal/serve": 13, "internal/doctor": 13, "internal/prove": 12,
	"assembly": 17, "internal/terminal": 17,
	"internal/demo": 18,
	// what a record tells, in words
	"internal/sentence": 18,
	// the commands of nacre: what they share, a room a group of them, and their table
	"cmd/nacre/internal/command": 18, "cmd/nacre/internal/program": 18,
	"cmd/nacre/internal/workcmd": 19, "cmd/nacre/internal/rolecmd": 19, "cmd/nacre/internal/hookcmd": 19, "cmd/nacre/internal/sessioncmd": 19,
	"cmd/nacre/internal/policycmd": 19, "cmd/nacre/internal/plugincmd": 19, "cmd/nacre/internal/memorycmd": 19, "cmd/nacre/internal/servecmd": 19,
	"cmd/nacre": 20, "cmd/nacre-hook": 19, "cmd/nacre-web": 20, "cmd/nacre-probe": 19, "cmd/ipc": 19, "cmd/ipc-mcp": 19, "cmd/brain": 19, "cmd/sandbox-init": 19,
	"plugins/reminders": 19, "plugins/bug_report": 19, "plugins/files": 19, "plugins/http_fetch": 19, "plugins/webhook": 19, "plugins/local": 19, "plugins/telegram": 19, "plugins/slack": 19, "plugins/discord": 19,
	// what channels to chat services have in common
	"internal/chat": 18,
}

// wings are parts of a room that live in folders of their own: the key may
// be imported by its own room, and may itself import what its room may.
var wings = map[string]string{
	"audit/internal/keyfile":      "audit",
	"audit/internal/naming":       "audit",
	"audit/internal/member":       "audit",
	"audit/internal/quota":        "audit",
	"audit/internal/flood":        "audit",
	"audit/internal/bundle":       "audit",
	"audit/internal/rows":         "audit",
	"internal/sandbox/inside":     "internal/sandbox",
	"internal/sandbox/seccomp":    "internal/sandbox",
	"internal/sandbox/spawn":      "internal/sandbox",
	"internal/sandbox/container":  "internal/sandbox",
	"internal/sandbox/handout":    "internal/sandbox",
	"internal/sandbox/loopback":   "internal/sandbox",
	"internal/sandbox/mux":        "internal/sandbox",
	"internal/egress/gitwire":     "internal/egress",
	"internal/egress/fields":      "internal/egress",
	"internal/egress/certificate": "internal/egress",
	"internal/redact/encoded":     "internal/redact",
	"internal/repo/beneath":       "internal/repo",
	"internal/repo/borrowed":      "internal/repo",
	"internal/repo/git":           "internal/repo",
	"internal/repo/gitconfig":     "internal/repo",
	"internal/repo/large":         "internal/repo",
	"internal/repo/sign":          "internal/repo",
	"internal/lease/keystore":     "internal/lease",
	"internal/lease/issuer":       "internal/lease",
	"internal/lease/sshagent":     "internal/lease",
	"internal/lease/oauth":        "internal/lease",
	"internal/brain/agent":        "internal/brain",
	"internal/brain/braintest":    "internal/brain",
	"internal/ipc/mcpserver":      "internal/ipc",
	"internal/pluginhost/mcp":     "internal/pluginhost",
	"telemetry/prometheus":        "telemetry",
	"internal/chat/chattest":      "internal/chat",
}

// bases are rooms that the others on their floor stand on: those may import
// them, and each of them the ones before it.
var bases = []string{"internal/hostpath", "internal/disk", "internal/sqlitefile", "internal/database", "internal/node"}

// free are rooms that any floor may use: the public SDK of plugins, which
// imports the root only, and support for tests.
var free = map[string]bool{"plugin": true, "internal/testpeer": true, "internal/testwait": true, "internal/corpus": true}

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

// What finds methods by names that the linker cannot know makes it keep every method of every type.
// That is a tenth of nacre, and of the time that it takes to start. The page has templates, and a
// program of its own.
func TestNoRoomFindsMethodsByName(t *testing.T) {
	for _, file := range sources(t) {
		if file.room == "internal/web" {
			continue // which nacre does not link: see TestNacreLinksNothingThatIsSlowToStart
		}
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

// P-01, P-06: what these initialise before main would be milliseconds of every
// start, of nacre hook as much as of nacre exec.
func TestNacreLinksNothingThatIsSlowToStart(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/nacre", "./cmd/brain", "./cmd/ipc-mcp").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/assembly") {
		t.Fatal("the list of packages is not that of nacre")
	}
	for _, slow := range []string{"github.com/santhosh-tekuri/jsonschema", "github.com/distribution/reference", "github.com/moby/moby/client", "html/template"} {
		for _, path := range linked {
			if strings.HasPrefix(path, slow) {
				t.Errorf("nacre links %s", path)
			}
		}
	}
}

// P-06: what answers a hook before every tool call links the answer, and nothing else.
func TestTheHookLinksNothingButItsAnswer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/nacre-hook").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/internal/guard") {
		t.Fatal("the list of packages is not that of nacre-hook")
	}
	for _, path := range linked {
		for _, slow := range []string{"net/http", "crypto/tls", "encoding/gob", "modernc.org/", "github.com/spf13/", "github.com/dbos-inc/", "github.com/goccy/", module + "/assembly"} {
			if strings.HasPrefix(path, slow) {
				t.Errorf("nacre-hook links %s", path)
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

// beforeMain is the room that assembles nothing and has to act before others are initialized.
const beforeMain = "internal/hugepage"

func TestNoInitFunctions(t *testing.T) {
	for _, file := range sources(t) {
		for _, decl := range file.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && file.room != beforeMain {
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

// sources are all Go files of the module, test data and tools left out.
func sources(t *testing.T) []sourceFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found %d Go files: the walk does not see the module", len(files))
	}
	return files
}

// parsed reads the files once for all tests, which only look at them.
var parsed = sync.OnceValues(func() (files []sourceFile, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(path, entry.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
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
	return files, err
})

func skipDir(path, name string) error {
	if path == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules" || path == "tools" || path == "examples" || path == "k8s" {
		return fs.SkipDir
	}
	return nil
}

// M-40: what carries messages and presses is known to plugins alone. The rooms that decide
// who may answer, and what a person is shown, import nothing but nouns.
func TestOnlyPluginsKnowTheSDKsOfServices(t *testing.T) {
	sdks := []string{"slack", "disgo", "discord", "telegram", "telebot", "gotgbot", "mautrix", "whatsmeow", "chromedp", "websocket"}
	core := []string{"internal/person", "internal/question"}
	for _, file := range sources(t) {
		if file.test || strings.HasPrefix(file.room, "plugins/") {
			continue
		}
		for _, path := range importsOf(file.ast) {
			if slices.ContainsFunc(sdks, func(sdk string) bool { return strings.Contains(path, sdk) }) && !strings.HasPrefix(path, module) {
				t.Errorf("%s imports %q: a service is a plugin's own", file.path, path)
			}
			if slices.Contains(core, file.room) && strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, module) {
				t.Errorf("%s imports %q: who decides, and what is shown, need nothing of others", file.path, path)
			}
		}
	}
}
