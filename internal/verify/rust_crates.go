package verify

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// cratesIO is what a Cargo.lock calls the registry whose crates are fetched.
var cratesIO = []string{"registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"}

var (
	crateName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+-[0-9][A-Za-z0-9._+-]*$`) })
	crateSum  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
)

// crateLock is what a Cargo.lock says.
type crateLock struct {
	Package []struct {
		Name, Version, Source, Checksum string
	} `toml:"package"`
}

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
	if err == nil {
		err = atom.CheckShape(data)
	}
	var lock crateLock
	if err == nil {
		err = toml.Unmarshal(data, &lock)
	}
	if err != nil {
		return false, err.Error()
	}
	if len(lock.Package) > maxPackages {
		return false, fmt.Sprintf("it names more than %d crates", maxPackages)
	}
	for _, one := range lock.Package {
		crate := one.Name + "-" + one.Version
		switch {
		case one.Source == "":
			continue // the project's own
		case !slices.Contains(cratesIO, one.Source):
			return false, fmt.Sprintf("%s comes from %q: what is fetched are crates of crates.io", clip(crate), clip(one.Source))
		case !crateName().MatchString(crate) || strings.Contains(crate, ".."):
			return false, fmt.Sprintf("%q is no crate", clip(crate))
		case !crateSum().MatchString(one.Checksum):
			return false, fmt.Sprintf("%s is not pinned: it has the checksum %q", crate, clip(one.Checksum))
		}
		found = true
		p.Crates = append(p.Crates, crate)
	}
	return found, ""
}

// fetchCrates fetches the crates of some Cargo projects of a tree, into one folder
// for all of them.
func (s Subject) fetchCrates(ctx context.Context, c checkout, parts []part, d *Dependencies) error {
	p, why := rustPackages(c, parts)
	return s.fetchCache(ctx, "Cargo.lock", p, why, len(p.Folders) > 0, d)
}
