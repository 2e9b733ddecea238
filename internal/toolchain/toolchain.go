// Package toolchain finds the language tools of a machine that lie outside of its system folders.
// It says how a sandbox is shown them: read-only, pinned, with nothing of the home they lie in.
package toolchain

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/posture"
)

// probeLimit is how long asking a toolchain where it lives may take.
const probeLimit = 10 * time.Second

// Find finds the language tools that lie outside of the system folders,
// such as a Go that was unpacked into a home. What is not there is left out.
func Find(ctx context.Context, m *Memo) []posture.Toolchain {
	finders := []func(context.Context, *Memo) (posture.Toolchain, bool){goToolchain, rustToolchain, nodeToolchain, pythonToolchain}
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

// Inside, Go is pinned: no other toolchain, no workspace above the project. A module cache
// that an agent makes in the project is left so that its owner can remove it (F-138).
func goInside() []string {
	return []string{"GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=-mod=readonly -modcacherw", "GOPATH=" + posture.Home + "/go", "GOENV=off", "GOTELEMETRY=off"}
}

func goToolchain(ctx context.Context, m *Memo) (posture.Toolchain, bool) {
	program, err := hostpath.LookPath("go")
	if err != nil {
		return posture.Toolchain{}, false
	}
	folders := []string{"GOROOT", "GOMODCACHE", "GOCACHE"}
	settings := []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOSUMDB", "CGO_ENABLED"}
	// Both ends must not be empty, for empty lines there are lost: GOROOT and CGO_ENABLED never are.
	names := slices.Concat(folders, settings)
	// The answer must not depend on a project: asked in /, with its own toolchain. All is asked
	// at once, since a start of Go takes longer than one of git.
	values, ok := recallOrAsk(ctx, m, slices.Concat(names[1:], []string{"GOPATH", "GOENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CC"}),
		slices.Concat([]string{program, "env"}, names))
	if !ok || len(values) != len(names) || !IsDir(values[0]) || !absolute(values[:len(folders)]) {
		return posture.Toolchain{}, false
	}
	t := goMounts(values[0], values[1], values[2])
	servers, cgo := goSettings(settings, values[len(folders):])
	t.Fetching.From, t.Fetching.Open = servers.first, servers.settings
	if cgo == "0" { // else Go inside looks for a C compiler itself, as it does outside
		t.Env = append(t.Env, "CGO_ENABLED=0")
	}
	return t, true
}

// goServers say where modules come from, and what vouches for them.
type goServers struct {
	first    string   // who is asked first
	settings []string // without passwords, which stay on the host
}

// goSettings are the settings of the host's Go that hold inside too. What the host
// has built fits inside only where both use C, or neither does (P-10, F-107).
func goSettings(names, values []string) (servers goServers, cgo string) {
	if values[0] == "" {
		return goServers{}, ""
	}
	last := len(names) - 1
	for i, name := range names[:last] {
		value := password().ReplaceAllString(values[i], "$1")
		if value != "" {
			servers.settings = append(servers.settings, name+"="+value)
		}
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(servers.settings[0], "GOPROXY="), "|", ","), ",")
	servers.first = strings.TrimSpace(first)
	return servers, values[last]
}

// password finds the user and the password in URLs.
func password() *regexp.Regexp { return regexp.MustCompile(`(https?://)[^/@,|]*@`) }

func goMounts(root, modules, cache string) posture.Toolchain {
	// The same paths as on the host, so that the host-warmed build cache fits.
	t := posture.Toolchain{
		Name: "go", Path: []string{filepath.Join(root, "bin")}, Mounts: []nacre.Mount{{Source: root, Target: root}},
		Env:      append([]string{"GOROOT=" + root}, goInside()...),
		Fetching: posture.Fetching{Closed: []string{"GOPROXY=off", "GOSUMDB=off"}},
	}
	if IsDir(modules) {
		t.Fetching.Caches = []nacre.Mount{{Source: modules, Target: modules}}
		t.Env = append(t.Env, "GOMODCACHE="+modules)
	}
	if IsDir(cache) {
		t.BuildCache = cache
	}
	return t
}

// IsDir reports whether an absolute path is that of a folder.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && filepath.IsAbs(path)
}
