package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
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

const (
	rustLanguage = "rust"
	// rustCache is where cargo puts crates that are fetched, rustCacheDir where they are
	// kept in the state folder, as Go's are.
	rustCache, rustCacheDir = "/var/cache/cargo", "cargo"
	// cargoHome is cargo's own folder inside, crates the one of it where commands find
	// what was fetched, and cargoConfig the file that says so.
	cargoHome, crates, cargoConfig = posture.Home + "/.cargo", "vendor", "config.toml"
	// maxCargoConfig is the largest config of cargo's that is read, in bytes.
	maxCargoConfig = 1 << 20
)

// vendored tells cargo to take crates from a folder, and from nowhere else.
const vendored = `[source.crates-io]
replace-with = "nacre"

[source.nacre]
directory = "` + cargoHome + "/" + crates + `"
`

// fetchCrates fetches the crates that a tree's Cargo.lock name, unless the host has
// all of them. Cargo holds each against its checksum. It sees manifests, and empty
// files where sources are: it builds nothing.
func (s *sealed) fetchCrates(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
	return s.once(rustCacheDir, p, func(room, cache string) (verify.Fetched, error) {
		if s.Sandbox().HostTools() && hasCrates(s.found.toolchains, p.Crates) {
			return verify.Fetched{}, errHostHas
		}
		index, absent := s.runtime.crateIndex()
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		rules, absent := s.listed(index.sources)
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		if index.replaced { // it says itself from where crates come
			rules = s.rules
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
		got, err := s.fetch(ctx, fetching{
			language: rustLanguage, from: index.sources, room: room, cache: cache, inside: rustCache, rules: rules,
			steps: []fetchStep{{dir: roomTree, argv: cargoCommand(p.Folders, index.url)}},
		})
		if err != nil || got != (verify.Fetched{}) {
			return got, err
		}
		return got, lay(cache, map[string][]byte{cargoConfig: []byte(vendored)}) // which follows no link out of it
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
	return append(argv, rustCache+"/"+crates)
}

// crateIndex is where the operator's own cargo looks for crates.
type crateIndex struct {
	url      string
	sources  []string
	replaced bool
}

// crateIndex reads whom the operator's cargo asks in the place of crates.io: a lock
// file names that one, and a project chooses none.
func (r *Runtime) crateIndex() (found crateIndex, absent string) {
	found = crateIndex{url: "https://index.crates.io/", sources: []string{"https://index.crates.io:443", "https://static.crates.io:443"}}
	home := r.options.Getenv("CARGO_HOME")
	if home == "" {
		home = filepath.Join(r.options.Getenv("HOME"), ".cargo")
	}
	data, err := disk.Read(filepath.Join(home, cargoConfig), maxCargoConfig)
	if errors.Is(err, os.ErrNotExist) {
		return found, ""
	}
	type source struct {
		Replace  string `toml:"replace-with"`
		Registry string `toml:"registry"`
	}
	var config struct {
		Source map[string]source `toml:"source"`
	}
	if err == nil {
		err = atom.CheckShape(data)
	}
	if err == nil {
		err = toml.Unmarshal(data, &config)
	}
	if err != nil {
		return found, fmt.Sprintf("cargo's %s cannot be read: %v", cargoConfig, err)
	}
	other := config.Source["crates-io"].Replace
	if other == "" {
		return found, ""
	}
	registry := config.Source[other].Registry
	from, err := url.Parse(strings.TrimPrefix(registry, "sparse+"))
	if err != nil || !strings.HasPrefix(registry, "sparse+http") || from.Hostname() == "" || from.User != nil || config.Source[other].Replace != "" {
		return found, fmt.Sprintf("cargo's %s has %q in the place of crates.io: what is asked is a registry = \"sparse+https://…\" without a password", cargoConfig, other)
	}
	return crateIndex{from.String(), []string{serverOf(from)}, true}, ""
}

// hasCrates says that the registry that the host shows has all crates.
func hasCrates(toolchains []posture.Toolchain, names []string) bool {
	i := slices.IndexFunc(toolchains, func(t posture.Toolchain) bool { return t.Name == rustLanguage })
	if i < 0 {
		return false
	}
	for _, m := range toolchains[i].Mounts {
		if m.Target == cargoHome+"/registry" {
			return !slices.ContainsFunc(names, func(name string) bool {
				found, err := filepath.Glob(filepath.Join(m.Source, "cache", "*", name+".crate"))
				return err != nil || len(found) == 0
			})
		}
	}
	return false
}

// shownCrates adds crates that were fetched to the toolchains.
func shownCrates(all []posture.Toolchain, modules []verify.Module) []posture.Toolchain {
	i := slices.IndexFunc(modules, func(m verify.Module) bool { return m.Cache == rustLanguage })
	if i < 0 {
		return all
	}
	t := posture.Toolchain{Name: rustLanguage, Env: []string{"CARGO_HOME=" + cargoHome}}
	for _, name := range []string{crates, cargoConfig} {
		t.Mounts = append(t.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: filepath.Join(modules[i].Source, name), Target: cargoHome + "/" + name})
	}
	return append(slices.Clone(all), t)
}
