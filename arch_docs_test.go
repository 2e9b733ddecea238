package nacre_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What ARCHITECTURE.md names is there: each folder, each file, and each function or
// type that stands with its room.
func TestTheArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	others := []string{"policy.toml", "message.inbound", "/run/nacre/door.sock", "internal/"} // a file of the user's, a topic, a socket, all rooms
	have := declared(t)
	named := 0
	for _, said := range regexp.MustCompile("`[^`\n]+`").FindAllString(string(text), -1) {
		said = strings.Trim(said, "`")
		room, name, qualified := strings.Cut(path.Base(said), ".")
		switch {
		case slices.Contains(others, said):
			continue
		case strings.HasSuffix(said, ".go"):
			if !have.file(said) {
				t.Errorf("%s: no file has this name", said)
			}
		case strings.HasPrefix(said, "internal/") && !qualified:
			if _, err := fs.Stat(os.DirFS("."), said); err != nil {
				t.Errorf("%s: no room has this name", said)
			}
		case qualified && have.rooms[room] != nil && token.IsIdentifier(name):
			if !have.rooms[room][name] {
				t.Errorf("%s: room %s declares no %s", said, room, name)
			}
		default:
			continue
		}
		named++
	}
	if named < 20 {
		t.Errorf("have %d names, want the walks to name more", named)
	}
}

// declarations are the files of the module, and what each room declares, under the
// last part of its path.
type declarations struct {
	files []string
	rooms map[string]map[string]bool
}

// file tells whether there is one: a path, or a name in some room.
func (d declarations) file(name string) bool {
	return slices.ContainsFunc(d.files, func(f string) bool { return f == name || !strings.Contains(name, "/") && path.Base(f) == name })
}

func declared(t *testing.T) declarations {
	t.Helper()
	d := declarations{rooms: map[string]map[string]bool{}}
	for _, file := range sources(t) {
		d.files = append(d.files, file.path)
		room := path.Base(file.room)
		if file.test || file.room == "" {
			room = "nacre"
		}
		if d.rooms[room] == nil {
			d.rooms[room] = map[string]bool{}
		}
		for _, decl := range file.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				d.rooms[room][decl.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						d.rooms[room][spec.Name.Name] = true
					}
				}
			}
		}
	}
	return d
}
