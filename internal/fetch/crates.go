package fetch

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// rustCache is where cargo puts crates that are fetched, rustCacheDir where they are
	// kept in the state folder, as Go's are.
	rustCache, rustCacheDir = "/var/cache/cargo", "cargo"
)

// vendored tells cargo to take crates from a folder, and from nowhere else.
const vendored = `[source.crates-io]
replace-with = "nacre"

[source.nacre]
directory = "` + toolchain.CargoHome + "/" + toolchain.Crates + `"
`

// fetchCrates fetches the crates that a tree's Cargo.lock name, unless the host has
// all of them. Cargo holds each against its checksum. It sees manifests, and empty
// files where sources are: it builds nothing.
func fetchCrates(ctx context.Context, s *basis.Basis, p verify.Packages) (verify.Fetched, error) {
	return once(s, rustCacheDir, p, func(room, cache string) (verify.Fetched, error) {
		if s.Sandbox().HostTools() && hasCrates(s.Found.Toolchains, p.Crates) {
			return verify.Fetched{}, errHostHas
		}
		index, absent := crateIndexOf(s.Inst)
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		rules, absent := listed(s, index.sources)
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		if index.replaced { // it says itself from where crates come
			rules = s.Rules
		}
		tree := map[string][]byte{}
		for _, name := range p.Stubs {
			tree[name] = nil
		}
		for name, data := range p.Files {
			tree[name] = data
		}
		if err := lay(filepath.Join(room, roomTree), tree); err != nil {
			return verify.Fetched{}, err
		}
		got, err := fetch(ctx, s, fetching{
			language: toolchain.Rust, from: index.sources, room: room, cache: cache, inside: rustCache, rules: rules,
			steps: []fetchStep{{dir: roomTree, argv: cargoCommand(p.Folders, index.url)}},
		})
		if err != nil || got != (verify.Fetched{}) {
			return got, err
		}
		return got, lay(cache, map[string][]byte{toolchain.CargoConfig: []byte(vendored)}) // which follows no link out of it
	})
}

// cargoCommand lays out what the lock files below some folders pin. What a project
// says of how cargo runs is not there.
func cargoCommand(folders []string, index string) []string {
	argv := []string{
		"env", "CARGO_HOME=" + posture.Workspace + "/home", "CARGO_NET_OFFLINE=false", "CARGO_NET_RETRY=2", "CARGO_HTTP_TIMEOUT=60", "CARGO_TERM_COLOR=never",
		"RUSTC_WRAPPER=", "RUSTC_WORKSPACE_WRAPPER=", "cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", "--respect-source-config",
		`--config=source.crates-io.replace-with="listed"`, fmt.Sprintf("--config=source.listed.registry=%q", "sparse+"+index),
	}
	for i, folder := range folders {
		flag := "--sync="
		if i == 0 {
			flag = "--manifest-path="
		}
		argv = append(argv, flag+path.Join(posture.Workspace, roomTree, folder, "Cargo.toml"))
	}
	return append(argv, rustCache+"/"+toolchain.Crates)
}

// crateIndex is where the operator's own cargo looks for crates.
type crateIndex struct {
	url      string
	sources  []string
	replaced bool
}

// crateIndexOf is that index, or why it cannot be asked.
func crateIndexOf(inst *installation.Installation) (found crateIndex, absent string) {
	other, err := toolchain.ReplacedIndex(inst.Options.Getenv)
	switch {
	case err != nil:
		return crateIndex{}, err.Error()
	case other == nil:
		return crateIndex{url: toolchain.CrateIndex, sources: []string{"https://index.crates.io:443", "https://static.crates.io:443"}}, ""
	}
	return crateIndex{other.String(), []string{serverOf(other)}, true}, ""
}

// hasCrates says that the registry that the host shows has all crates.
func hasCrates(toolchains []posture.Toolchain, names []string) bool {
	i := slices.IndexFunc(toolchains, func(t posture.Toolchain) bool { return t.Name == toolchain.Rust })
	if i < 0 {
		return false
	}
	for _, m := range toolchains[i].Mounts {
		if m.Target == toolchain.CargoHome+"/registry" {
			return !slices.ContainsFunc(names, func(name string) bool {
				found, err := filepath.Glob(filepath.Join(m.Source, "cache", "*", name+".crate"))
				return err != nil || len(found) == 0
			})
		}
	}
	return false
}
