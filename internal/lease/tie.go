package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckFor is Check of a credential that is minted for these uses. A token of GitHub is for no
// repository, and has no right to write, that its credential has no use for (M-36). The uses of a
// token of a registry follow from its repositories.
func (m Minting) CheckFor(u Uses) error {
	err := m.Check()
	if err == nil && m.Kind == Registry && len(u.Methods)+len(u.Paths)+len(u.Repositories)+len(u.Push) > 0 {
		return errors.New("a token of a registry fetches from mint's repositories, and does nothing else: leave out methods, paths and push")
	}
	if err != nil || m.Kind != GitHubApp {
		return err
	}
	used, err := u.repositories()
	if err != nil {
		return err
	}
	return errors.Join(m.checkNames(used), m.checkLevels(u))
}

// repositories are those of GitHub that a credential is used for.
type repositories struct {
	owner string // empty where no use names one
	names []string
	more  bool // a path is not below one repository
}

// repositories reads them from paths of git and of GitHub's API.
func (u Uses) repositories() (r repositories, err error) {
	for _, path := range append(slices.Clone(u.Repositories), u.Paths...) {
		below, api := strings.CutPrefix(strings.TrimPrefix(path, "/api/v3"), "/repos/")
		if !api && slices.Contains(u.Repositories, path) {
			below, api = strings.TrimSuffix(strings.TrimPrefix(path, "/"), ".git"), true
		}
		parts := strings.Split(below, "/")
		if !api || len(parts) < 2 || parts[0] == "" || parts[1] == "" {
			r.more = true
			continue
		}
		if r.owner == "" {
			r.owner = parts[0]
		}
		if !strings.EqualFold(r.owner, parts[0]) {
			return r, errors.New("it is used for repositories of two owners, and an installation has one: make a credential for each")
		}
		r.names = append(r.names, parts[1])
	}
	return r, nil
}

// checkNames holds the repositories of a token against those that it is used for.
func (m Minting) checkNames(used repositories) error {
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
	}
	for _, name := range used.names {
		if !has(m.Repositories, name) {
			return errors.New("the credential is used for a repository that mint's repositories do not name")
		}
	}
	for _, name := range m.Repositories {
		if !used.more && !has(used.names, name) {
			return fmt.Errorf("a token would be for %q too, which the credential is not used for: leave it out of mint's repositories", name)
		}
	}
	return nil
}

// checkLevels refuses permissions to write where nothing is written.
func (m Minting) checkLevels(u Uses) error {
	reads := len(u.Push) == 0
	if len(u.Repositories) == 0 {
		reads = !slices.ContainsFunc(u.Methods, func(method string) bool { return method != "GET" && method != "HEAD" })
	}
	for name, level := range m.Permissions {
		if reads && Level(level) > Level("read") {
			return fmt.Errorf("the credential only reads, and a token could write: permissions has %s = %q; ask for \"read\", or name the methods or the push that it is for", name, level)
		}
	}
	if len(u.Push) > 0 && Level(m.Permissions["contents"]) < Level("write") {
		return errors.New("push needs permissions with contents = \"write\"")
	}
	return nil
}

// Owner is whose repositories the uses are for, as far as they say.
func (u Uses) Owner() string {
	used, err := u.repositories()
	if err != nil {
		return ""
	}
	return used.owner
}
