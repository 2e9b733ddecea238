package toolchain

import (
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
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
