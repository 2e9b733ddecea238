package verify

import (
	"context"
	"path"

	"github.com/nacre-dev/nacre/internal/manifest"
)

// rustPackages are what the Cargo.lock of some projects of a tree pin. Cargo is given
// the manifests of the whole tree, because one may name another's folder.
func rustPackages(c checkout, parts []part) (p Packages, why string) {
	p = Packages{Language: rust, Files: map[string][]byte{}}
	for _, one := range parts {
		name := path.Join(one.dir, "Cargo.lock")
		if !c.has(name) || c.dirs[path.Join(one.dir, "vendor")] { // the project keeps them itself
			continue
		}
		found, why := p.crates(c, name)
		if why != "" {
			return Packages{}, name + ": " + why
		}
		if found {
			p.Folders = append(p.Folders, one.dir)
		}
	}
	if len(p.Folders) == 0 {
		return p, ""
	}
	for _, name := range c.names() {
		if path.Ext(name) == ".rs" && c.has(name) {
			p.Stubs = append(p.Stubs, name)
		}
	}
	return p, p.manifests(c, rustManifests)
}

// crates takes what one lock file pins, and says whether that is anything.
func (p *Packages) crates(c checkout, name string) (found bool, why string) {
	data, err := c.readUpTo(name, maxLock)
	if err != nil {
		return false, err.Error()
	}
	crates, why := manifest.ReadCargo(data)
	p.Crates = append(p.Crates, crates...)
	return len(crates) > 0, why
}

// fetchCrates fetches the crates of some Cargo projects of a tree, into one folder
// for all of them.
func (s Subject) fetchCrates(ctx context.Context, c checkout, parts []part, d *Dependencies) error {
	p, why := rustPackages(c, parts)
	return s.fetchCache(ctx, "Cargo.lock", p, why, len(p.Folders) > 0, d)
}
