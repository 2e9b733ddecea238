package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/manifest"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// goCache is where Go puts modules that are fetched, and goCacheDir where they are kept in the
	// state folder. There is a cache for each set of files that named them, which nothing writes to
	// once it is whole.
	goCache, goCacheDir = "/var/cache/go", "go"
)

const (
	// goLocal is the folder of a room in which those modules lie that the host has.
	goLocal = "modules"
)

// fetchModules fetches the modules that a tree's go.sum pin and the host's own cache
// lacks. Go holds each against its pin; those that the host has are taken from there,
// which needs no network. Where it has all of them, its cache is shown as it is.
func fetchModules(ctx context.Context, s *basis.Basis, p verify.Packages) (verify.Fetched, error) {
	return once(s, goCacheDir, p, func(room, cache string) (verify.Fetched, error) {
		host := ""
		if s.Sandbox().HostTools() {
			host = toolchain.ModuleCache(s.Found.Toolchains)
		}
		if holdsAll(host, p.Modules) {
			return verify.Fetched{}, errHostHas
		}
		proxy, absent := moduleProxyOf(ctx, s.Inst)
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		rules, absent := listed(s, proxy.sources)
		if absent != "" {
			return verify.Fetched{Absent: absent}, nil
		}
		if err := lay(filepath.Join(room, roomTree), p.Files); err != nil {
			return verify.Fetched{}, err
		}
		steps, err := goSteps(host, room, p.Modules, proxy)
		if err != nil {
			return verify.Fetched{}, err
		}
		got, err := fetch(ctx, s, fetching{
			language: toolchain.Go, from: proxy.sources, room: room, cache: cache, inside: goCache, rules: rules, steps: steps,
		})
		if err == nil && got == (verify.Fetched{}) && !hasManifests(cache, p.Modules) {
			err = errInPart
		}
		return got, err
	})
}

// hasManifests says that a cache has every manifest that is pinned.
func hasManifests(cache string, modules []verify.GoModule) bool {
	for _, m := range modules {
		for _, pin := range m.Pins {
			if pin.Manifest && !holds(cache, pin) {
				return false
			}
		}
	}
	return true
}

// goSteps are what Go is told, for each module of the tree. What the project says of how Go runs is
// overruled: none of its code runs, nothing but modules by their pins is asked for, and of nobody
// but the proxy. The graph of modules is asked for last, by manifests alone, of which a go.sum may
// have some that nothing needs. Go does not end where one does not come, and who needs it misses
// it.
func goSteps(host, room string, modules []verify.GoModule, proxy moduleProxy) (steps []fetchStep, err error) {
	local := "file://" + posture.Workspace + "/" + goLocal
	for _, m := range modules {
		var have, lack []string
		dir := path.Join(roomTree, m.Dir)
		for _, pin := range m.Pins {
			there, failed := takeFromHost(host, filepath.Join(room, goLocal), pin)
			err = errors.Join(err, failed)
			switch name := pin.Path + "@" + pin.Version; {
			case pin.Manifest:
			case there:
				have = append(have, name)
			default:
				lack = append(lack, name)
			}
		}
		env := append([]string{"env"}, m.Env...)
		env = append(env, "GOMODCACHE="+goCache, "GOVCS=*:off", "GONOSUMDB=", "GOPRIVATE=", "GOINSECURE=", "GOAUTH=off", "GOSUMDB=off", "GOFLAGS=-mod=readonly -modcacherw")
		offline := append(slices.Clone(env), "GOPROXY="+local, "GONOPROXY=none", "go", "mod", "download")
		online := append(slices.Clone(env), "GONOPROXY="+proxy.not)
		for _, some := range slices.Collect(slices.Chunk(have, maxAtOnce)) {
			steps = append(steps, fetchStep{dir, append(slices.Clone(offline), some...), true})
		}
		for _, some := range slices.Collect(slices.Chunk(lack, maxAtOnce)) {
			steps = append(steps, fetchStep{dir, append(append(slices.Clone(online), "GOPROXY="+proxy.list, "go", "mod", "download"), some...), false})
		}
		steps = append(steps, fetchStep{dir, append(slices.Clone(online), "GOPROXY="+local+","+proxy.list, "go", "list", "-m", "-e", "all"), false})
	}
	return steps, err
}

// maxAtOnce is how many modules one command names.
const maxAtOnce = 500

// moduleProxy is whom the operator's own Go asks for modules.
type moduleProxy struct {
	list    string   // as GOPROXY has it, without what is no server
	sources []string // such as https://proxy.example.com:443
	not     string   // GONOPROXY: what it is not asked for
}

// moduleProxyOf asks the host's Go whom it asks, outside of every project: a go.sum
// names no server, and a project chooses none.
func moduleProxyOf(ctx context.Context, inst *installation.Installation) (p moduleProxy, absent string) {
	lines := []string{inst.Options.Getenv("GOPROXY"), inst.Options.Getenv("GONOPROXY")}
	keep := []string{"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOENV", "XDG_CONFIG_HOME"}
	if told, ok := toolchain.Ask(ctx, inst.Options.Getenv, keep, []string{"go", "env", "GOPROXY", "GONOPROXY"}); ok {
		lines = append(told, "", "")
	}
	p.not = lines[1]
	var taken []string
	for _, one := range strings.FieldsFunc(lines[0], func(c rune) bool { return c == ',' || c == '|' }) {
		if one == "direct" || one == "off" {
			break // nothing is cloned, and what follows would not be asked
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
			return p, "GOPROXY names something else than servers, by https and without a password: set it to one that is on the egress list"
		}
		p.sources = append(p.sources, serverOf(u))
		taken = append(taken, one)
	}
	if len(taken) == 0 {
		return p, "GOPROXY names no server to fetch modules from: set it to one that is on the egress list, or fetch them on the host with go mod download"
	}
	p.list = strings.Join(taken, ",")
	return p, ""
}

// inCache is the file of a module in a cache, without its ending: Go writes a capital
// letter as a small one behind a mark.
func inCache(cache string, pin manifest.Pin) string {
	return filepath.Join(cache, "cache", "download", lowered(pin.Path), "@v", lowered(pin.Version))
}

func lowered(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('!')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// holdsAll says that the host's cache has all that is pinned.
func holdsAll(host string, modules []verify.GoModule) bool {
	for _, m := range modules {
		for _, pin := range m.Pins {
			if host == "" || !holds(host, pin) || !pin.Manifest && !toolchain.IsDir(filepath.Join(host, lowered(pin.Path)+"@"+lowered(pin.Version))) {
				return false
			}
		}
	}
	return true
}

// holds says that the host's cache has what a pin names. Of a go.mod Go itself says
// whether it is what is pinned.
func holds(host string, pin manifest.Pin) bool {
	at := inCache(host, pin)
	if pin.Manifest {
		info, err := os.Stat(at + ".mod")
		return err == nil && info.Mode().IsRegular()
	}
	sum, err := os.ReadFile(at + ".ziphash")
	return err == nil && strings.TrimSpace(string(sum)) == pin.Sum
}

// takeFromHost lays what the host's cache has of a pin where Go finds it as at a
// server, and says whether it has it.
func takeFromHost(host, room string, pin manifest.Pin) (bool, error) {
	if host == "" || !holds(host, pin) {
		return false, nil
	}
	from, to := inCache(host, pin), filepath.Join(room, lowered(pin.Path), "@v", lowered(pin.Version))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return false, err
	}
	if err := copyFile(from+".mod", to+".mod"); err != nil || pin.Manifest {
		return err == nil, notThere(err)
	}
	if err := copyFile(from+".zip", to+".zip"); err != nil {
		return false, notThere(err)
	}
	// The host's Go need not have asked when it was made.
	about := fmt.Sprintf("{\"Version\":%q}", pin.Version)
	return true, errors.Join(os.WriteFile(to+".info", []byte(about), 0o600), os.WriteFile(filepath.Join(filepath.Dir(to), "list"), nil, 0o600))
}

// notThere makes what is missing no error.
func notThere(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
