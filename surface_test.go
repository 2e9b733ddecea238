package nacre_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// public are the packages an outsider imports; what they export names no
// internal type and hides none behind an alias.
var public = map[string]bool{"": true, "kernel": true, "policy": true, "audit": true, "plugin": true, "assembly": true,
	"driver/http": true, "driver/mcp": true, "toolformat": true, "telemetry": true, "grant": true}

func TestPublicPackagesExposeNoInternalType(t *testing.T) {
	for _, file := range sources(t) {
		if file.test || !public[file.room] {
			continue
		}
		internal := internalNames(file.ast)
		for _, decl := range file.ast.Decls {
			for _, exposed := range exposedBy(decl) {
				if file.room != "assembly" || !isAliasOfPart(decl, exposed) {
					reportInternal(t, file.path, exposed, internal)
				}
			}
		}
	}
}

// What assembly shows under a name of its own is declared in the part that works
// with it. It is public all the same, and shows nothing else that is internal.
func TestTypesThatAssemblyShowsExposeNoInternalType(t *testing.T) {
	files := sources(t)
	shown := map[string]bool{}
	for _, file := range files {
		if file.test || file.room != "assembly" {
			continue
		}
		for _, decl := range file.ast.Decls {
			for _, exposed := range exposedBy(decl) {
				if isAliasOfPart(decl, exposed) {
					s := exposed.(*ast.SelectorExpr)
					shown[s.X.(*ast.Ident).Name+"."+s.Sel.Name] = true
				}
			}
		}
	}
	for _, file := range files {
		part, isPart := strings.CutPrefix(file.room, "internal/")
		if file.test || !isPart || !slices.Contains(parts, file.room) {
			continue
		}
		internal := internalNames(file.ast)
		for _, room := range parts { // their types are shown under a name of assembly's
			delete(internal, strings.TrimPrefix(room, "internal/"))
		}
		for _, decl := range file.ast.Decls {
			if !declares(decl, part, shown) {
				continue
			}
			for _, exposed := range exposedBy(decl) {
				reportInternal(t, file.path, exposed, internal)
			}
		}
	}
}

// isAliasOfPart tells whether an exposed type is another name for one of a part of
// the composition, or for a memory: the command opens one, and works with it whole.
func isAliasOfPart(decl ast.Decl, exposed ast.Node) bool {
	d, ok := decl.(*ast.GenDecl)
	selector, isSelector := exposed.(*ast.SelectorExpr)
	if !ok || !isSelector {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	if !ok || !slices.Contains(parts, "internal/"+pkg.Name) && pkg.Name != "memory" {
		return false
	}
	return slices.ContainsFunc(d.Specs, func(spec ast.Spec) bool {
		s, ok := spec.(*ast.TypeSpec)
		return ok && s.Assign.IsValid() && s.Type == exposed
	})
}

// declares tells whether a declaration is of a type that is shown. Its methods are for
// the other parts too, and may name what an outsider cannot.
func declares(decl ast.Decl, part string, shown map[string]bool) bool {
	d, ok := decl.(*ast.GenDecl)
	return ok && slices.ContainsFunc(d.Specs, func(spec ast.Spec) bool {
		s, ok := spec.(*ast.TypeSpec)
		return ok && shown[part+"."+s.Name.Name]
	})
}

// internalNames are the names under which a file knows internal packages.
func internalNames(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if !strings.HasPrefix(path, module+"/internal/") {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// exposedBy returns the type expressions that a declaration shows to outsiders.
func exposedBy(decl ast.Decl) []ast.Node {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && receiverIsExported(d) {
			return []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		var nodes []ast.Node
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					nodes = append(nodes, exportedParts(s.Type)...)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					nodes = append(nodes, s.Type)
				}
			}
		}
		return nodes
	}
	return nil
}

func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && name.IsExported()
}

// exportedParts leaves out the unexported fields of a struct.
func exportedParts(expr ast.Expr) []ast.Node {
	structure, ok := expr.(*ast.StructType)
	if !ok {
		return []ast.Node{expr}
	}
	var nodes []ast.Node
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			nodes = append(nodes, field.Type)
		}
	}
	return nodes
}

func reportInternal(t *testing.T, path string, node ast.Node, internal map[string]bool) {
	t.Helper()
	ast.Inspect(node, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := selector.X.(*ast.Ident); ok && internal[pkg.Name] {
				t.Errorf("%s exposes the internal type %s.%s", path, pkg.Name, selector.Sel.Name)
			}
		}
		return true
	})
}
