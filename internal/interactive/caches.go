package interactive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/home"
	"github.com/nacre-dev/nacre/internal/layering"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/toolchain"
)

// The caches that Go has where no toolchain of the host's says another place.
const (
	goModules = "go/pkg/mod"
	goBuilds  = ".cache/go-build"
)

// caches are the folders below the home in which package managers keep what they fetched.
// None of them holds settings, and none is looked for programs.
func caches() []string {
	return []string{
		".npm/_cacache", ".local/share/pnpm/store", ".cache/yarn", ".cache/pip", ".cache/uv", ".cargo/registry", ".cargo/git", goModules, goBuilds,
	}
}

// Caches are the package caches of a session, which last for the next one of the same
// group and project (U-03). The zero Caches last no longer than the session.
type Caches struct {
	// Mounts are caches in their places, those over the caches of the host's tools too.
	Mounts []nacre.Mount
	// Close, where it is set, is told when nothing runs in the session any more.
	Close func() error
}

// OpenCaches opens the caches of a session. Where they cannot be had, the session works
// without: they can be made again.
func OpenCaches(ctx context.Context, s *seal.Session, project string) Caches {
	c, err := openCaches(ctx, s, project)
	if errors.Is(err, disk.ErrLocked) {
		return Caches{} // another session in this project has them
	}
	if err != nil {
		s.Warn(nacre.Step{Kind: nacre.StepResult, Name: "caches", Text: "packages are not kept for the next session: " + err.Error(), IsError: true})
		return Caches{}
	}
	return c
}

func openCaches(ctx context.Context, s *seal.Session, project string) (Caches, error) {
	quota, err := s.Inst.Config.Home.Bytes()
	if err != nil {
		return Caches{}, &config.Error{Err: err}
	}
	kept, err := home.Open(s.Inst.Registry.Paths().Homes(), s.Group(), project)
	if err != nil {
		return Caches{}, s.Inst.Writable(fmt.Errorf("home: %w", err))
	}
	opened, err := kept.OpenCaches(ctx)
	if err != nil {
		return Caches{}, err
	}
	var toolchains []posture.Toolchain
	if s.Sandbox().HostTools() {
		toolchains = s.Found.Toolchains
	}
	var c Caches
	c.Mounts, err = opened.Mounts(free(toolchains))
	if err == nil {
		var layered []nacre.Mount
		layered, err = layers(ctx, s, opened, shown(toolchains))
		c.Mounts = append(c.Mounts, layered...)
	}
	if err != nil {
		return Caches{}, errors.Join(err, opened.Close())
	}
	c.Close = measured(ctx, opened, quota)
	return c, nil
}

// layers lie over the caches of the host's tools, where this machine lays them.
func layers(ctx context.Context, s *seal.Session, opened *home.Caches, shown []nacre.Mount) ([]nacre.Mount, error) {
	laid := len(shown) > 0 && layering.Work(ctx, layering.Of(s.Sandbox(), s.Inst.Registry.Paths(), s.Inst.Options.Version, s.Inst.Options.Now)) == nil
	if !laid {
		return nil, nil // they end with the session
	}
	for i, m := range shown {
		layer, err := opened.Layer(m.Target)
		if err != nil {
			return nil, err
		}
		shown[i] = nacre.Mount{Kind: nacre.Overlay, Source: m.Source, Target: m.Target, Layer: layer}
	}
	return shown, nil
}

// measured measures the caches while the session works, and ends that with it.
func measured(ctx context.Context, opened *home.Caches, quota int64) (end func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var measuring sync.WaitGroup
	measuring.Go(func() { _ = opened.Measure(ctx, quota) }) // a later session measures again
	return func() error {
		cancel()
		measuring.Wait()
		return opened.Close()
	}
}

// shown are the host's caches that toolchains are shown.
func shown(toolchains []posture.Toolchain) []nacre.Mount {
	var caches []nacre.Mount
	for _, t := range toolchains {
		caches = append(caches, t.Fetching.Caches...)
		if t.BuildCache != "" {
			caches = append(caches, nacre.Mount{Source: t.BuildCache, Target: posture.BuildCache})
		}
	}
	return caches
}

// free are the caches in whose place a toolchain has none of the host's.
func free(toolchains []posture.Toolchain) []string {
	taken := shown(toolchains)
	at := func(target string) bool {
		return slices.ContainsFunc(taken, func(m nacre.Mount) bool { return m.Target == target })
	}
	return slices.DeleteFunc(caches(), func(path string) bool {
		return at(home.Inside+"/"+path) || path == goBuilds && at(posture.BuildCache) || path == goModules && toolchain.ModuleCache(toolchains) != ""
	})
}
