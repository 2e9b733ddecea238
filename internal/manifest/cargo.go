package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// cratesIO is what a Cargo.lock calls the registry whose crates are fetched.
func cratesIO() []string {
	return []string{"registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"}
}

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

// ReadCargo gives the crates that a Cargo.lock pins, each as name-1.0.0. Where one is
// of another registry, or pinned to nothing, why says so.
func ReadCargo(data []byte) (crates []string, why string) {
	var lock crateLock
	err := atom.CheckShape(data)
	if err == nil {
		err = toml.Unmarshal(data, &lock)
	}
	if err != nil {
		return nil, err.Error()
	}
	if len(lock.Package) > MaxPackages {
		return nil, fmt.Sprintf("it names more than %d crates", MaxPackages)
	}
	for _, one := range lock.Package {
		crate := one.Name + "-" + one.Version
		switch {
		case one.Source == "":
			continue // the project's own
		case !slices.Contains(cratesIO(), one.Source):
			return nil, fmt.Sprintf("%s comes from %q: what is fetched are crates of crates.io", clip(crate), clip(one.Source))
		case !crateName().MatchString(crate) || strings.Contains(crate, ".."):
			return nil, fmt.Sprintf("%q is no crate", clip(crate))
		case !crateSum().MatchString(one.Checksum):
			return nil, fmt.Sprintf("%s is not pinned: it has the checksum %q", crate, clip(one.Checksum))
		}
		crates = append(crates, crate)
	}
	return crates, ""
}
