package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// gitHosts are those that npm knows to be git's.
func gitHosts() []string {
	return []string{"github.com", "gist.github.com", "gitlab.com", "bitbucket.org", "git.sr.ht"}
}

// LockNames are npm's lock files, the one first that npm itself prefers.
func LockNames() []string { return []string{"npm-shrinkwrap.json", "package-lock.json"} }

// ForeignLocks are those of package managers that are not asked.
func ForeignLocks() []string {
	return []string{"yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"}
}

// NodeLock is what an npm lock file pins.
type NodeLock struct {
	// Sources are the servers that it names, such as https://registry.example.com:443, sorted.
	Sources []string
	// Projects are the places of the project itself ("") and of its workspaces, sorted.
	Projects []string
	// Pins are what each package's content is pinned to, by where it lies.
	Pins map[string]string
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

// ReadNode reads an npm lock file of that name. Where it cannot be held to, why says so.
func ReadNode(name string, data []byte) (lock NodeLock, why string) {
	all, err := parseLock(data)
	if err != nil {
		return NodeLock{}, fmt.Sprintf("%s is no lock file: %v", name, err)
	}
	if len(all) == 0 {
		return NodeLock{}, name + " is of an old form, which pins too little: run `npm install --package-lock-only` with npm 7 or newer"
	}
	if len(all) > MaxPackages {
		return NodeLock{}, fmt.Sprintf("%s names more than %d packages", name, MaxPackages)
	}
	lock.Pins = map[string]string{}
	for place, entry := range all {
		if place != "" && (path.Clean(place) != place || !localPath(place)) {
			return NodeLock{}, fmt.Sprintf("%q lies outside of the project", clip(place))
		}
		switch {
		case fetched(place):
			why = lock.dependency(all, place, entry)
		case entry.is("link"):
			why = fmt.Sprintf("%s is a link and no dependency", clip(place))
		default:
			lock.Projects = append(lock.Projects, place)
		}
		if why != "" {
			return NodeLock{}, why
		}
	}
	slices.Sort(lock.Sources)
	slices.Sort(lock.Projects)
	return lock, ""
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

// dependency takes one package: its content has to be pinned, and its server named.
func (lock *NodeLock) dependency(all map[string]locked, place string, entry locked) string {
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
	lock.Pins[place] = pin
	source := u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + portOf(u)
	if !slices.Contains(lock.Sources, source) {
		lock.Sources = append(lock.Sources, source)
	}
	if len(lock.Sources) > maxServers {
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
	return slices.Contains(gitHosts(), host) && (host != "gitlab.com" || !plain || !strings.Contains(u.Path, "/-/"))
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

// digestSize is that of a digest that counts, in bytes, and 0 for any other.
func digestSize(algorithm string) int {
	switch algorithm {
	case "sha512":
		return 64
	case "sha384":
		return 48
	case "sha256":
		return 32
	}
	return 0
}

// pinned says that a package's integrity is a digest that nobody can make another content for. npm
// goes by the strongest of those that are there, and by none where it cannot read one.
func pinned(integrity string) bool {
	return slices.ContainsFunc(strings.Fields(integrity), func(one string) bool {
		algorithm, digest, _ := strings.Cut(one, "-")
		sum, err := base64.StdEncoding.DecodeString(digest)
		return err == nil && len(sum) > 0 && len(sum) == digestSize(algorithm)
	})
}

// IsLock tells the names of lock files, those of package managers that are not asked too.
func IsLock(name string) bool {
	return slices.Contains(LockNames(), name) || slices.Contains(ForeignLocks(), name) || slices.Contains([]string{"go.sum", "go.work.sum", "Cargo.lock"}, name)
}
