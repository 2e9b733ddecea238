package verify

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/manifest"
)

// GoModule is a module of the tree, for which others are fetched.
type GoModule struct {
	// Dir is its folder below the tree.
	Dir string
	// Env is how a Go command is run there, for what it takes from the project.
	Env  []string
	Pins []manifest.Pin
}

// These files of a tree say which modules and which crates it is made of.
var (
	goManifests   = []string{"go.mod", "go.sum", "go.work", "go.work.sum"}
	rustManifests = []string{"Cargo.toml", "Cargo.lock"}
)

// goPackages are what the go.sum of some modules of a tree pin. Go is given these
// files of the whole tree, because one module may be replaced by another's folder.
func goPackages(c checkout, parts []part) (p Packages, why string) {
	p = Packages{Language: golang, Files: map[string][]byte{}}
	for _, one := range parts {
		if _, is := workspace(c, one); !is && c.has(path.Join(one.dir, "vendor/modules.txt")) {
			continue // the project keeps them itself
		}
		m := GoModule{Dir: one.dir, Env: goSettings(c, one)}
		for _, name := range sums(c, one) {
			data, err := c.readUpTo(name, maxLock)
			if err != nil {
				return Packages{}, err.Error()
			}
			pins, err := manifest.ReadSum(data)
			if err != nil {
				return Packages{}, fmt.Sprintf("%s: %v", name, err)
			}
			m.Pins = append(m.Pins, pins...)
		}
		if len(m.Pins) > manifest.MaxPackages {
			return Packages{}, fmt.Sprintf("the module in %s names more than %d modules", one.dir, manifest.MaxPackages)
		}
		if len(m.Pins) > 0 {
			p.Modules = append(p.Modules, m)
		}
	}
	if len(p.Modules) == 0 {
		return p, ""
	}
	return p, p.manifests(c, goManifests)
}

// manifests takes all files of a tree by some names.
func (p *Packages) manifests(c checkout, names []string) (why string) {
	left := int64(maxLock)
	for _, name := range c.names() {
		if !c.has(name) || !slices.Contains(names, path.Base(name)) || below(name, "vendor") || below(name, "node_modules") {
			continue
		}
		data, err := c.readUpTo(name, left)
		if err != nil {
			return err.Error()
		}
		left -= int64(len(data))
		p.Files[name] = data
	}
	return ""
}

// sums are the files that pin a module's dependencies: its own, and within a
// workspace those of all of its modules too.
func sums(c checkout, p part) []string {
	list := []string{path.Join(p.dir, "go.sum")}
	if dir, is := workspace(c, p); is {
		data, _ := c.read(path.Join(dir, "go.work")) // what cannot be read uses nothing
		list = append(list, path.Join(dir, "go.work.sum"))
		for _, line := range manifest.Directives(data) {
			if used, is := strings.CutPrefix(line, "use "); is {
				list = append(list, path.Join(dir, strings.Trim(used, "\"`"), "go.sum"))
			}
		}
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(name string) bool { return !c.has(name) })
}

// fetchModules fetches what some Go modules of a tree need: what their go.sum pin,
// into one cache for all of them.
func (s Subject) fetchModules(ctx context.Context, c checkout, parts []part, d *Dependencies) error {
	p, why := goPackages(c, parts)
	return s.fetchCache(ctx, "go.sum", p, why, len(p.Modules) > 0, d)
}

// fetchCache fetches what is shown in the place of a language's own cache. Why says
// that it cannot be named; needed that something is.
func (s Subject) fetchCache(ctx context.Context, name string, p Packages, why string, needed bool, d *Dependencies) error {
	if why != "" {
		d.lack(why)
	}
	if why != "" || !needed || d.Broken != "" {
		return nil
	}
	dir, err := s.get(ctx, name, p, d)
	if err == nil && dir != "" {
		d.Modules = append(d.Modules, Module{Source: dir, Cache: p.Language})
	}
	return err
}

// partsOf are the projects of a tree in one language.
func partsOf(c checkout, language string) []part {
	return slices.DeleteFunc(manifests(c), func(p part) bool { return p.language != language })
}
