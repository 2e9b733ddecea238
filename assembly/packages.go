package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// fetchLimit is how long fetching one lock file's packages may take.
	fetchLimit = 15 * time.Minute
	// packagesDir holds, in a session's folder, what was fetched for its verifiers.
	packagesDir = "packages"
	// npmCache is where npm keeps what it has fetched: inside, and in the state folder.
	npmCache, npmCacheDir = "/var/cache/npm", "npm"
	// maxToolCache is what a tool may keep beside the dependencies, in bytes.
	maxToolCache = 256 << 20
)

// npmCommand installs exactly what the lock file pins, and runs nothing of it. npm
// is not told another registry than the file's: what is listed is what it asks.
var npmCommand = []string{
	"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error", "--logs-max=0",
	"--prefer-offline", "--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000", "--fetch-timeout=60000", "--replace-registry-host=never", "--git=false", "--globalconfig=/dev/null", "--cache=" + npmCache,
}

// fetchPackages fetches what a lock file names, in a sandbox of its own that sees
// nothing but that file and its manifests, and reaches those of its servers that
// the session may reach (S-13). What was fetched once in a session is there.
func (s *sealed) fetchPackages(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
	rules, absent := s.listed(p.Sources)
	if absent != "" {
		return verify.Fetched{Absent: absent}, nil
	}
	dir := filepath.Join(s.Dir(), packagesDir, digestOf(p.Files))
	if isDir(dir) {
		return verify.Fetched{Dir: dir}, nil
	}
	room, cache := dir+".part", filepath.Join(s.runtime.registry.Paths().State, npmCacheDir)
	if err := errors.Join(registry.Discard(room), os.MkdirAll(room, 0o700), os.MkdirAll(cache, 0o700), lay(room, p.Files)); err != nil {
		return verify.Fetched{}, err
	}
	s.tell(nacre.Step{Kind: nacre.StepStage, Name: "fetch", Text: "dependencies from " + strings.Join(p.Sources, ", ")})
	out, err := s.npm(ctx, room, cache, rules)
	switch {
	case err != nil:
		return verify.Fetched{}, err
	case out.ExitCode == exitNotFound:
		return verify.Fetched{Absent: "npm is not installed in the sandbox"}, nil
	case out.TimedOut:
		return verify.Fetched{Broken: fmt.Sprintf("npm ci did not end within %s", fetchLimit)}, nil
	case out.ExitCode != 0:
		said, _ := s.runtime.redact.String(strings.TrimSpace(string(append(out.Stderr, out.Stdout...))))
		return verify.Fetched{Broken: fmt.Sprintf("npm ci ended with %d: %s", out.ExitCode, said[:min(len(said), checkTail/4)])}, nil
	}
	return verify.Fetched{Dir: dir}, errors.Join(toolCaches(room, p.Folders), os.Rename(room, dir))
}

// npm runs npm over room, with a way out of its own: no door, no model, no
// credential is near it.
func (s *sealed) npm(ctx context.Context, room, cache string, rules []nacre.EgressRule) (verify.Output, error) {
	in := posture.Input{
		Project: room, Egress: rules, Limits: s.runtime.config.Limits.over(nacre.Limits{Wall: fetchLimit}),
		Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: cache, Target: npmCache}},
	}
	if s.Sandbox().HostTools() {
		in.System = slices.Clone(s.found.system())
		in.Toolchains = slices.DeleteFunc(slices.Clone(s.found.toolchains), func(t posture.Toolchain) bool { return t.Name != "node" })
	}
	p, err := posture.Compute(in)
	if err != nil {
		return verify.Output{}, err
	}
	sockets := filepath.Join(filepath.Dir(s.SocketDir()), npmCacheDir)
	if err := os.Mkdir(sockets, 0o700); err != nil {
		return verify.Output{}, err
	}
	out, err := openWay(s.Context(), sockets, egress.Options{
		Rules: rules, Record: notice{s.Recorder, s.tell}, Session: s.ID(), Group: s.Group(), Now: s.runtime.options.Now,
	}, func(_ context.Context, err error) {
		s.warn(nacre.Step{Kind: nacre.StepResult, Name: "fetch", Text: "the way out ended: " + err.Error(), IsError: true})
	})
	if err != nil {
		return verify.Output{}, errors.Join(err, os.RemoveAll(sockets))
	}
	defer out.close()
	return s.output(ctx, sandbox.Command{Posture: p, SocketDir: sockets, Argv: npmCommand})
}

// listed are the rules by which servers can be reached, each of which has to be.
func (s *sealed) listed(sources []string) (rules []nacre.EgressRule, absent string) {
	for _, source := range sources {
		i := slices.IndexFunc(s.rules, func(r nacre.EgressRule) bool { return leadsTo(r, source) })
		if i < 0 {
			return nil, fmt.Sprintf("%s is not on the egress list (--egress %s)", source, egressText(source))
		}
		rules = append(rules, s.rules[i])
	}
	return rules, ""
}

// leadsTo says that a rule is about a server, such as https://registry.example.com:443.
func leadsTo(r nacre.EgressRule, source string) bool {
	u, err := url.Parse(source)
	if err != nil || u.Port() != strconv.Itoa(int(r.Port)) || (u.Scheme == "http") != (r.Protocol == nacre.ProtocolHTTP) {
		return false
	}
	host := u.Hostname()
	if domain, wild := strings.CutPrefix(r.Host, "*."); wild {
		label, rest, _ := strings.Cut(host, ".")
		return label != "" && rest == domain
	}
	return host == r.Host
}

// egressText is a server as an operator lists it.
func egressText(source string) string {
	scheme, address, _ := strings.Cut(source, "://")
	if scheme == "http" {
		return address + "/http"
	}
	return address
}

// digestOf names a set of files.
func digestOf(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(h, "%q %d\n%s", name, len(files[name]), files[name]) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// lay writes files below an empty folder.
func lay(dir string, files map[string][]byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, root.MkdirAll(path.Dir(name), 0o755), root.WriteFile(name, files[name], 0o644))
	}
	return errors.Join(err, root.Close())
}

// toolCaches makes the folders that a sandbox lays its own over, because nothing
// can be made in a folder that is shown read-only.
func toolCaches(dir string, folders []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		for _, name := range verify.Scratch() {
			made := root.Mkdir(path.Join(folder, "node_modules", name), 0o755)
			if !errors.Is(made, fs.ErrExist) && !errors.Is(made, fs.ErrNotExist) { // a workspace may have none of its own
				err = errors.Join(err, made)
			}
		}
	}
	return errors.Join(err, root.Close())
}

// moduleMounts shows dependencies below the folder of a command: to read, with
// folders for what tools make of them that end with the sandbox.
func moduleMounts(modules []verify.Module) []nacre.Mount {
	var mounts []nacre.Mount
	for _, m := range modules {
		target := path.Join(posture.Workspace, m.Dir)
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: m.Source, Target: target})
		for _, name := range verify.Scratch() {
			if isDir(filepath.Join(m.Source, name)) {
				mounts = append(mounts, nacre.Mount{Kind: nacre.Tmpfs, Target: path.Join(target, name), Size: maxToolCache})
			}
		}
	}
	return mounts
}
