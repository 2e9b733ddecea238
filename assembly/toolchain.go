package assembly

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
)

// probeLimit is how long asking a toolchain where it lives may take.
const probeLimit = 10 * time.Second

// toolchains finds the language tools that lie outside of the system folders,
// such as a Go that was unpacked into a home. What is not there is left out.
func toolchains(ctx context.Context, m *memo) []posture.Toolchain {
	finders := []func(context.Context, *memo) (posture.Toolchain, bool){goToolchain, rustToolchain, nodeToolchain, pythonToolchain}
	all, there := make([]posture.Toolchain, len(finders)), make([]bool, len(finders))
	var asking sync.WaitGroup
	for i, find := range finders {
		asking.Go(func() { all[i], there[i] = find(ctx, m) })
	}
	asking.Wait()
	m.save()
	var found []posture.Toolchain
	for i, t := range all {
		if there[i] {
			found = append(found, t)
		}
	}
	return found
}

// Inside, Go is pinned: no other toolchain, no network, no workspace above the project.
var goInside = []string{"GOTOOLCHAIN=local", "GOPROXY=off", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOSUMDB=off", "CGO_ENABLED=0", "GOPATH=" + posture.Home + "/go", "GOENV=off", "GOTELEMETRY=off"}

func goToolchain(ctx context.Context, m *memo) (posture.Toolchain, bool) {
	program, err := exec.LookPath("go")
	if err != nil {
		return posture.Toolchain{}, false
	}
	// The answer must not depend on a project: asked in /, with its own toolchain.
	folders, ok := probe(ctx, m, []string{"GOMODCACHE", "GOPATH", "GOCACHE", "GOENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"},
		program, "env", "GOROOT", "GOMODCACHE", "GOCACHE")
	if !ok || len(folders) != 3 || !isDir(folders[0]) {
		return posture.Toolchain{}, false
	}
	return goMounts(folders[0], folders[1], folders[2]), true
}

func goMounts(root, modules, cache string) posture.Toolchain {
	// The same paths as on the host, so that the host-warmed build cache fits.
	t := posture.Toolchain{
		Name: "go", Path: []string{filepath.Join(root, "bin")}, Mounts: []nacre.Mount{{Source: root, Target: root}},
		Env: append([]string{"GOROOT=" + root}, goInside...),
	}
	if isDir(modules) {
		t.Mounts = append(t.Mounts, nacre.Mount{Source: modules, Target: modules})
		t.Env = append(t.Env, "GOMODCACHE="+modules)
	}
	if isDir(cache) {
		t.BuildCache = cache
	}
	return t
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && filepath.IsAbs(path)
}
