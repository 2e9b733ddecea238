package toolchain

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/verify"
)

// Go is the language as lock files name it.
const Go = "go"

// ModuleCache is where the host's Go keeps modules; empty where it has none.
func ModuleCache(toolchains []posture.Toolchain) string {
	for _, t := range toolchains {
		for _, entry := range t.Env {
			if at, is := strings.CutPrefix(entry, "GOMODCACHE="); is && t.Name == Go {
				return at
			}
		}
	}
	return ""
}

// ShownModules are the toolchains with modules that were fetched in the place of the
// host's own, at its path: what the host compiled of them still fits.
func ShownModules(all []posture.Toolchain, modules []verify.Module) []posture.Toolchain {
	i := slices.IndexFunc(modules, func(m verify.Module) bool { return m.Cache == Go })
	if i < 0 {
		return all
	}
	all = slices.Clone(all)
	n := slices.IndexFunc(all, func(t posture.Toolchain) bool { return t.Name == Go })
	if n < 0 { // an image's own
		all, n = append(all, posture.Toolchain{Name: Go}), len(all)
	}
	t, target := &all[n], ModuleCache(all)
	if target == "" {
		target = posture.Home + "/go/pkg/mod"
		t.Env = append(slices.Clone(t.Env), "GOMODCACHE="+target)
	}
	t.Fetching.Caches = slices.DeleteFunc(slices.Clone(t.Fetching.Caches), func(m nacre.Mount) bool { return m.Target == target })
	t.Mounts = append(t.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: modules[i].Source, Target: target})
	return all
}

const (
	// maxToolCache is what a tool may keep beside the dependencies, in bytes.
	maxToolCache = 256 << 20
)

// ModuleMounts shows dependencies below the folder of a command: to read, with
// folders for what tools make of them that end with the sandbox.
func ModuleMounts(modules []verify.Module) []nacre.Mount {
	var mounts []nacre.Mount
	for _, m := range modules {
		if m.Cache != "" {
			continue // it stands in the place of a toolchain's
		}
		target := path.Join(posture.Workspace, m.Dir)
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: m.Source, Target: target})
		for _, name := range verify.Scratch() {
			if IsDir(filepath.Join(m.Source, name)) {
				mounts = append(mounts, nacre.Mount{Kind: nacre.Tmpfs, Target: path.Join(target, name), Size: maxToolCache})
			}
		}
	}
	return mounts
}
