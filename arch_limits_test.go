package nacre_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The limits of the house. A room, a type or a chain of imports beyond them is
// something that nobody holds in mind at once.
const (
	maxImportDepth  = 9
	maxPackageLines = 5000
	maxPartLines    = 2500 // of a part of the composition
	maxFanOut       = 12
	maxSealFanOut   = 14 // seal joins the parts of a session
	maxMethods      = 25
	maxKernelOnes   = 40 // methods of the kernel, which is one public type
	maxFields       = 15
)

// parts are the rooms that the composition is made of.
var parts = []string{
	"assembly", "internal/config", "internal/installation", "internal/operator", "internal/cockpit", "internal/passkey", "internal/process", "internal/toolchain", "internal/pins",
	"internal/receipt", "internal/scheduling", "internal/store", "internal/machines", "internal/leftover", "internal/learn", "internal/learned", "internal/review", "internal/graduation", "internal/overview", "internal/account", "internal/survey", "internal/access", "internal/upstream", "internal/lease", "internal/leasing", "internal/signin", "internal/asking", "internal/folders", "internal/quiet", "internal/intrinsic", "internal/handler", "internal/hosting", "internal/watch", "internal/metering", "internal/basis", "internal/explain", "internal/plantings", "internal/reach", "internal/recollection", "internal/toolset", "internal/doorway", "internal/seal", "internal/launch", "internal/conversation", "internal/fetch", "internal/gitdir", "internal/order", "internal/children", "internal/agent",
	"internal/command", "internal/interactive", "internal/home", "internal/eventlog", "internal/converse", "internal/work", "internal/erasure", "internal/pluginadmin", "internal/telling", "internal/endpoints", "internal/mailbox", "internal/ticking", "internal/serve", "internal/doctor", "internal/prove",
}

// known are what exceeds a limit today, with today's number. A number may only be
// lowered, and an entry that is within its limit goes.
var known = map[string]int{
	"depth of cmd/nacre":                     11,
	"depth of cmd/nacre-web":                 10,
	"depth of cmd/nacre/internal/hookcmd":    10,
	"depth of cmd/nacre/internal/memorycmd":  10,
	"depth of cmd/nacre/internal/plugincmd":  10,
	"depth of cmd/nacre/internal/rolecmd":    10,
	"depth of cmd/nacre/internal/servecmd":   10,
	"depth of cmd/nacre/internal/sessioncmd": 10,
	"depth of cmd/nacre/internal/workcmd":    10,
	"imports of internal/work":               24,
}

func TestTheHouseKeepsItsLimits(t *testing.T) {
	measured := measure(t)
	for _, what := range slices.Sorted(maps.Keys(measured)) {
		m := measured[what]
		most, listed := known[what]
		switch {
		case listed && m.value > most:
			t.Errorf("%s: %d, and %d before: what exceeds its limit may only shrink", what, m.value, most)
		case !listed && m.value > m.limit:
			t.Errorf("%s: %d, at most %d", what, m.value, m.limit)
		}
	}
}

func TestExceptionsOfTheLimitsAreNotStale(t *testing.T) {
	measured := measure(t)
	for _, what := range slices.Sorted(maps.Keys(known)) {
		if m, there := measured[what]; !there || m.value <= m.limit {
			t.Errorf("%s is within its limit: remove its exception", what)
		}
	}
}

// measured is a number of the house with its limit.
type measured struct{ value, limit int }

func measure(t *testing.T) map[string]measured {
	t.Helper()
	all := map[string]measured{}
	imports := map[string]map[string]bool{}
	for _, file := range sources(t) {
		if file.test {
			continue
		}
		countLines(t, all, file)
		countTypes(all, file)
		if imports[file.room] == nil {
			imports[file.room] = map[string]bool{}
		}
		for _, room := range roomsImported(file.ast) {
			imports[file.room][room] = true
		}
	}
	depths := map[string]int{}
	for room, imported := range imports {
		all["depth of "+name(room)] = measured{depthOf(room, imports, depths), maxImportDepth}
		if room != "assembly" {
			all["imports of "+name(room)] = measured{len(imported), fanOutOf(room)}
		}
	}
	return all
}

func fanOutOf(room string) int {
	if room == "internal/seal" {
		return maxSealFanOut
	}
	return maxFanOut
}

func name(room string) string {
	if room == "" {
		return "nacre"
	}
	return room
}

// depthOf is how many rooms lie below one, counted along the longest chain.
func depthOf(room string, imports map[string]map[string]bool, known map[string]int) int {
	if depth, ok := known[room]; ok {
		return depth
	}
	known[room] = 0 // imports have no circle: the compiler refuses it
	depth := 0
	for imported := range imports[room] {
		depth = max(depth, 1+depthOf(imported, imports, known))
	}
	known[room] = depth
	return depth
}

func countLines(t *testing.T, all map[string]measured, file sourceFile) {
	t.Helper()
	text, err := os.ReadFile(file.path)
	if err != nil {
		t.Fatal(err)
	}
	limit := maxPackageLines
	if slices.Contains(parts, file.room) {
		limit = maxPartLines
	}
	what := "lines of " + name(file.room)
	all[what] = measured{all[what].value + strings.Count(string(text), "\n"), limit}
}

func countTypes(all map[string]measured, file sourceFile) {
	for _, decl := range file.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			receiver := receiverName(d.Recv.List[0].Type)
			limit := maxMethods
			if file.room == "kernel" && receiver == "Kernel" {
				limit = maxKernelOnes
			}
			what := fmt.Sprintf("methods of %s.%s", name(file.room), receiver)
			all[what] = measured{all[what].value + 1, limit}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if structure, ok := s.Type.(*ast.StructType); ok {
					all[fmt.Sprintf("fields of %s.%s", name(file.room), s.Name.Name)] = measured{fieldsOf(structure), maxFields}
				}
			}
		}
	}
}

func receiverName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func fieldsOf(structure *ast.StructType) (n int) {
	for _, field := range structure.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}
