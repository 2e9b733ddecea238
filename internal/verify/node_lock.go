package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/manifest"
)

const (
	// maxLock is the largest lock file that is read, in bytes.
	maxLock = 32 << 20
	// maxLocks is how many lock files one tree may have.
	maxLocks = 16
)

// npmSettings are what npm takes from a project's own settings: how a tree is laid
// out, and never a program, a registry or a credential.
var npmSettings = []string{"legacy-peer-deps", "strict-peer-deps", "install-links", "install-strategy"}

// Packages are what lock files name, and all that the program which fetches is
// given to read: of a project's files nothing else decides.
type Packages struct {
	// Language is node, go or rust.
	Language string
	// Files are the lock file, and the manifests of the project and its workspaces,
	// by their paths below the project; for Go and Rust those of the whole tree.
	Files map[string][]byte
	// Sources are the servers that the lock file names, such as
	// https://registry.example.com:443, sorted. A go.sum names none.
	Sources []string

	// Folders are those of a Node project and of its workspaces, below each of which
	// there may be a folder node_modules, sorted; for Rust those with a lock file.
	Folders []string
	// Modules are the Go modules for which others are fetched.
	Modules []GoModule
	// Crates are the names of those that are fetched for Rust, with their versions:
	// name-1.0.0. Stubs are the sources that cargo wants to see there, and reads not.
	Crates, Stubs []string

	// pins are what each package's content is pinned to, by where it lies.
	pins map[string]string
}

// readLock reads the lock file of the npm project in a folder. Where it cannot
// be held to, why says so.
func readLock(c checkout, dir, name string) (p Packages, why string) {
	data, err := c.readUpTo(path.Join(dir, name), maxLock)
	if err != nil {
		return Packages{}, err.Error()
	}
	lock, why := manifest.ReadNode(name, data)
	if why != "" {
		return Packages{}, why
	}
	p = Packages{Language: node, Files: map[string][]byte{name: data}, Sources: lock.Sources, pins: lock.Pins}
	for _, place := range lock.Projects {
		if why := p.project(c, dir, place); why != "" {
			return Packages{}, why
		}
	}
	p.settings(c, dir)
	slices.Sort(p.Folders)
	return p, ""
}

// project takes the manifest of the project itself, or of a workspace of it.
func (p *Packages) project(c checkout, dir, place string) string {
	manifest := path.Join(place, "package.json")
	data, err := c.read(path.Join(dir, manifest))
	if err != nil {
		return err.Error()
	}
	p.Files[manifest] = data
	p.Folders = append(p.Folders, path.Join(".", place))
	return ""
}

// settings takes over what a project's .npmrc says of how its tree is laid out.
func (p *Packages) settings(c checkout, dir string) {
	data, err := c.read(path.Join(dir, ".npmrc"))
	if err != nil {
		return
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		plain := value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz") == ""
		if slices.Contains(npmSettings, name) && plain {
			kept.WriteString(name + "=" + value + "\n")
		}
	}
	if kept.Len() > 0 {
		p.Files[".npmrc"] = []byte(kept.String())
	}
}

// lockOf is a folder with a lock file.
type lockOf struct{ dir, name string }

// locks are npm's lock files at and below a folder. What speaks of dependencies
// and is none of those is told in others.
func locks(c checkout, dir string) (list []lockOf, others []string) {
	npm := manifest.LockNames()
	for _, name := range c.names() {
		at, base := path.Dir(name), path.Base(name)
		if !c.has(name) || !inside(dir, at) || borrowed(name) {
			continue
		}
		switch {
		case base == npm[0], base == npm[1] && !c.has(path.Join(at, npm[0])):
			list = append(list, lockOf{at, base})
		case slices.Contains(manifest.ForeignLocks(), base) && !c.has(path.Join(at, npm[0])) && !c.has(path.Join(at, npm[1])):
			others = append(others, name+" is no lock file of npm's, and only those are fetched by")
		}
	}
	return list, others
}
