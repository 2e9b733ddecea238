package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// RegistryRoot is where a registry of containers says that it is one, which its clients ask first.
const RegistryRoot = "/v2/"

// maxImages is how many repositories a token of a registry is for.
const maxImages = 16

func (m Minting) checkRegistry() error {
	switch {
	case m.URL == "":
		return errors.New("url is where the registry's tokens come from, which its answers name as realm, such as \"https://auth.docker.io/token\": what a registry says at the time is not followed")
	case !isWord(m.Service):
		return errors.New("service is what the registry is called there, such as \"registry.docker.io\"")
	case !isWord(m.Account) || strings.Contains(m.Account, ":"):
		return errors.New("account is who the value is the password of, without a colon")
	case len(m.Repositories) == 0 || len(m.Repositories) > maxImages:
		return fmt.Errorf("repositories names what is fetched, such as \"acme/app\" or \"library/alpine\"; at most %d", maxImages)
	case slices.ContainsFunc(m.Repositories, func(r string) bool { return !isImage(r) }):
		return errors.New("repositories are names such as \"acme/app\", in lower-case letters, without the registry's host and without a tag")
	}
	return nil
}

// Leads are the paths that a credential is for: prefixes, and whole ones. A token of a registry is for those
// that hold its repositories, and for the one that says whether it is a registry at all. It is not for what
// lies below a repository's name and is another repository. All else is for the paths that are named.
func (m Minting) Leads(paths []string) (below, whole []string) {
	if m.Kind != Registry {
		return paths, nil
	}
	for _, name := range m.Repositories {
		for _, kind := range []string{"manifests/", "blobs/", "tags/", "referrers/"} {
			below = append(below, RegistryRoot+name+"/"+kind)
		}
	}
	return below, []string{RegistryRoot}
}

// isImage accepts the name of a repository of a registry.
func isImage(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" || strings.Trim(part, "._-") == "" || strings.ContainsRune("._-", rune(part[0])) {
			return false
		}
	}
	return len(name) <= maxName
}

// isWord accepts a name of visible ASCII.
func isWord(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}
