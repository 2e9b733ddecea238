package verify

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

const (
	// maxLock is the largest lock file that is read, in bytes.
	maxLock = 32 << 20
	// maxLocks is how many lock files one tree may have.
	maxLocks = 16
	// maxPackages is how many packages one lock file may name.
	maxPackages = 50_000
	// maxServers is how many servers one lock file may name.
	maxServers = 64
)

// gitHosts are those that npm knows to be git's.
var gitHosts = []string{"github.com", "gist.github.com", "gitlab.com", "bitbucket.org", "git.sr.ht"}

// lockNames are npm's lock files, the one first that npm itself prefers.
var lockNames = []string{"npm-shrinkwrap.json", "package-lock.json"}

// foreignLocks are those of package managers that are not asked.
var foreignLocks = []string{"yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"}

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

// locked is one entry of a lock file, by its exact names: npm does not take
// "Integrity" for "integrity".
type locked map[string]any

func (l locked) text(name string) string {
	text, _ := l[name].(string)
	return text
}

func (l locked) is(name string) bool {
	set, _ := l[name].(bool)
	return set
}

// readLock reads the lock file of the npm project in a folder. Where it cannot
// be held to, why says so.
func readLock(c checkout, dir, name string) (p Packages, why string) {
	data, err := c.readUpTo(path.Join(dir, name), maxLock)
	if err != nil {
		return Packages{}, err.Error()
	}
	all, err := parseLock(data)
	if err != nil {
		return Packages{}, fmt.Sprintf("%s is no lock file: %v", name, err)
	}
	if len(all) == 0 {
		return Packages{}, name + " is of an old form, which pins too little: run `npm install --package-lock-only` with npm 7 or newer"
	}
	if len(all) > maxPackages {
		return Packages{}, fmt.Sprintf("%s names more than %d packages", name, maxPackages)
	}
	p = Packages{Language: node, Files: map[string][]byte{name: data}, pins: map[string]string{}}
	for place, entry := range all {
		if place != "" && (path.Clean(place) != place || !localPath(place)) {
			return Packages{}, fmt.Sprintf("%q lies outside of the project", clip(place))
		}
		switch {
		case fetched(place):
			why = p.dependency(all, place, entry)
		case entry.is("link"):
			why = fmt.Sprintf("%s is a link and no dependency", clip(place))
		default:
			why = p.project(c, dir, place)
		}
		if why != "" {
			return Packages{}, why
		}
	}
	p.settings(c, dir)
	slices.Sort(p.Sources)
	slices.Sort(p.Folders)
	return p, ""
}

// parseLock gives a lock file's entries. Names are taken as they are written: npm
// does not take "Packages" for "packages", and would install what was not read here.
func parseLock(data []byte) (all map[string]locked, err error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if text, there := file["packages"]; there {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// fetched says that a place is a dependency's, and not one of the project's own folders.
func fetched(place string) bool { return slices.Contains(strings.Split(place, "/"), "node_modules") }

func localPath(name string) bool {
	return !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\\x00")
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

// dependency takes one package: its content has to be pinned, and its server named.
func (p *Packages) dependency(all map[string]locked, place string, entry locked) string {
	resolved := entry.text("resolved")
	if strings.Contains(place, "node_modules/.") { // there npm keeps its own, and tools theirs
		return fmt.Sprintf("%s is no place of a package", clip(place))
	}
	if entry.is("link") {
		if _, known := all[resolved]; !known || strings.Contains(resolved, "node_modules") {
			return fmt.Sprintf("%s is a link to %q, which is no workspace", clip(place), clip(resolved))
		}
		return ""
	}
	if entry.is("inBundle") && entry["resolved"] == nil {
		return bundled(all, place)
	}
	u, err := url.Parse(resolved)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || isGit(u) {
		return fmt.Sprintf("%s comes from %q: what is fetched are packages of registries, by https", clip(place), clip(resolved))
	}
	pin := entry.text("integrity")
	if !pinned(pin) {
		return fmt.Sprintf("%s is not pinned: it has the integrity %q, and sha512 is what counts", clip(place), clip(pin))
	}
	p.pins[place] = pin
	source := u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + portOf(u)
	if !slices.Contains(p.Sources, source) {
		p.Sources = append(p.Sources, source)
	}
	if len(p.Sources) > maxServers {
		return fmt.Sprintf("packages come from more than %d servers", maxServers)
	}
	return ""
}

// bundled takes what is a part of another package's content, which pins it. npm goes
// by the content and not by this word: what is in no package it would fetch unpinned.
func bundled(all map[string]locked, place string) string {
	around := place[:max(0, strings.LastIndex(place, "/node_modules/"))]
	_, known := all[around]
	if !known || !fetched(around) || all[around].is("link") {
		return fmt.Sprintf("%s is said to be a part of a package, and is in none", clip(place))
	}
	return ""
}

// isGit says that npm clones what it would fetch elsewhere: on these hosts it takes
// an address for a repository's, to which no integrity is held.
func isGit(u *url.URL) bool {
	host := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
	plain := path.Clean(u.Path) == u.Path && u.EscapedPath() == u.Path // as npm reads it, too
	return slices.Contains(gitHosts, host) && (host != "gitlab.com" || !plain || !strings.Contains(u.Path, "/-/"))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// digestSizes are those of the digests that count, in bytes.
var digestSizes = map[string]int{"sha512": 64, "sha384": 48, "sha256": 32}

// pinned says that a package's integrity is a digest that nobody can make
// another content for; npm goes by the strongest of those that are there, and by
// none where it cannot read one.
func pinned(integrity string) bool {
	return slices.ContainsFunc(strings.Fields(integrity), func(one string) bool {
		algorithm, digest, _ := strings.Cut(one, "-")
		sum, err := base64.StdEncoding.DecodeString(digest)
		return err == nil && len(sum) > 0 && len(sum) == digestSizes[algorithm]
	})
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
	for _, name := range c.names() {
		at, base := path.Dir(name), path.Base(name)
		if !c.has(name) || !inside(dir, at) || borrowed(name) {
			continue
		}
		switch {
		case base == lockNames[0], base == lockNames[1] && !c.has(path.Join(at, lockNames[0])):
			list = append(list, lockOf{at, base})
		case slices.Contains(foreignLocks, base) && !c.has(path.Join(at, lockNames[0])) && !c.has(path.Join(at, lockNames[1])):
			others = append(others, name+" is no lock file of npm's, and only those are fetched by")
		}
	}
	return list, others
}

// IsLock tells the names of lock files, those of package managers that are not asked too.
func IsLock(name string) bool {
	return slices.Contains(lockNames, name) || slices.Contains(foreignLocks, name) || slices.Contains([]string{"go.sum", "go.work.sum", "Cargo.lock"}, name)
}
