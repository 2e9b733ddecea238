package toolchain

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/verify"
)

// Rust is the language as lock files name it.
const Rust = "rust"

// CargoHome is cargo's own folder inside, Crates the one of it where commands find
// what was fetched, and CargoConfig the file that says so.
const (
	CargoHome   = posture.Home + "/.cargo"
	Crates      = "vendor"
	CargoConfig = "config.toml"
)

// CrateIndex is whom cargo asks for crates unless its operator chose another.
const CrateIndex = "https://index.crates.io/"

// ShownCrates adds crates that were fetched to the toolchains.
func ShownCrates(all []posture.Toolchain, modules []verify.Module) []posture.Toolchain {
	i := slices.IndexFunc(modules, func(m verify.Module) bool { return m.Cache == Rust })
	if i < 0 {
		return all
	}
	t := posture.Toolchain{Name: Rust, Env: []string{"CARGO_HOME=" + CargoHome}}
	for _, name := range []string{Crates, CargoConfig} {
		t.Mounts = append(t.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: filepath.Join(modules[i].Source, name), Target: CargoHome + "/" + name})
	}
	return append(slices.Clone(all), t)
}

// maxCargoConfig is the largest config of cargo's that is read, in bytes.
const maxCargoConfig = 1 << 20

// ReplacedIndex is the registry that the operator's cargo asks in the place of crates.io, and nil
// where it asks crates.io. A lock file names crates.io, and a project chooses none. What cargo
// would ask in another way than a sandbox can, or nobody can read, is an error.
func ReplacedIndex(getenv func(string) string) (*url.URL, error) {
	home := cmp.Or(getenv("CARGO_HOME"), filepath.Join(getenv("HOME"), ".cargo"))
	data, err := disk.Read(filepath.Join(home, CargoConfig), maxCargoConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // crates.io is no other registry
	}
	var config cargoFile
	if err == nil {
		err = atom.CheckShape(data)
	}
	if err == nil {
		err = toml.Unmarshal(data, &config)
	}
	if err != nil {
		return nil, fmt.Errorf("cargo's %s cannot be read: %w", CargoConfig, err)
	}
	name := config.Source["crates-io"].ReplaceWith
	if name == "" {
		return nil, nil //nolint:nilnil // see above
	}
	other := config.Source[name]
	index, err := url.Parse(strings.TrimPrefix(other.Registry, "sparse+"))
	if err != nil || !strings.HasPrefix(other.Registry, "sparse+http") || index.Hostname() == "" || index.User != nil || other.ReplaceWith != "" {
		return nil, fmt.Errorf("cargo's %s has %q in the place of crates.io: what is asked is a registry = \"sparse+https://…\" without a password", CargoConfig, name)
	}
	return index, nil
}
