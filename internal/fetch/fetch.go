// Package fetch fetches the dependencies that a project's lock file names, in
// sandboxes that see nothing but that file and reach nothing but their servers.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/handler"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
)

const (
	// fetchLimit is how long one command that fetches packages may take.
	fetchLimit = 15 * time.Minute
)

const (
	// keepPackages is how long what was fetched is kept after it was used last.
	keepPackages = 30 * 24 * time.Hour
)

const (
	// roomTree is the folder of a room in which the project's files lie.
	roomTree = "tree"
)

const (
	// maxToldCommand is how much of a command is told where it failed.
	maxToldCommand = 200
	// maxToldOutput is how much of what it printed is, in bytes.
	maxToldOutput = 4 << 10
)

// Packages fetches what a lock file names, in sandboxes of their own (S-13). They see nothing but
// that file and its manifests, and reach those of its servers that the session may reach. What was
// fetched once is there.
func Packages(ctx context.Context, s *basis.Basis, p verify.Packages) (verify.Fetched, error) {
	switch p.Language {
	case toolchain.Go:
		return fetchModules(ctx, s, p)
	case toolchain.Rust:
		return fetchCrates(ctx, s, p)
	}
	return fetchNode(ctx, s, p)
}

// fetching is how packages are fetched into a folder.
type fetching struct {
	// language is that of the tools that are shown, from is whom they ask.
	language string
	from     []string
	// room is what they work in, cache is shown at its place inside, writable.
	room, cache, inside string
	// rules say what they may reach; none means nothing.
	rules []nacre.EgressRule
	// steps are run one after the other, for as long as they end with 0.
	steps []fetchStep
}

// fetchStep is one command, and the folder below the room that it is run in.
type fetchStep struct {
	dir  string
	argv []string
	// offline steps reach nothing.
	offline bool
}

// fetch runs the steps, with a way out of their own: no door, no model, no
// credential is near them. What went wrong is in the result.
func fetch(ctx context.Context, s *basis.Basis, f fetching) (verify.Fetched, error) {
	s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "fetch", Text: "dependencies from " + strings.Join(f.from, ", ")})
	sockets := filepath.Join(filepath.Dir(s.SocketDir()), "fetch")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		return verify.Fetched{}, err
	}
	notice := asking.Notice{Recorder: s.Recorder, Tell: s.Tell}
	out, err := handler.OpenWay(s.Session, s.Inst, sockets, f.rules, notice, func(err error) {
		s.Warn(nacre.Step{Kind: nacre.StepResult, Name: "fetch", Text: "the way out ended: " + err.Error(), IsError: true})
	})
	if err != nil {
		return verify.Fetched{}, errors.Join(err, os.RemoveAll(sockets))
	}
	defer out.Close()
	for _, step := range f.steps {
		if got, err := runStep(ctx, s, f, step, sockets); err != nil || got != (verify.Fetched{}) {
			return got, err
		}
	}
	return verify.Fetched{}, nil
}

func runStep(ctx context.Context, s *basis.Basis, f fetching, step fetchStep, sockets string) (verify.Fetched, error) {
	in := posture.Input{
		Project: f.room, Egress: f.rules, Limits: s.Inst.Config.Limits.Over(nacre.Limits{Wall: fetchLimit}),
		Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: f.cache, Target: f.inside}}, Offline: step.offline,
	}
	if in.Env = installation.Trusted(s.Inst); step.offline {
		sockets, in.Egress, in.Env = "", nil, nil
	}
	if s.Sandbox().HostTools() {
		in.System = slices.Clone(s.Found.System())
		in.Toolchains = slices.DeleteFunc(slices.Clone(s.Found.Toolchains), func(t posture.Toolchain) bool { return t.Name != f.language })
	}
	p, err := posture.Compute(in)
	if err != nil {
		return verify.Fetched{}, err
	}
	p.Dir = path.Join(p.Dir, step.dir)
	out, err := process.Output(ctx, s, sandbox.Command{Posture: p, SocketDir: sockets, Argv: step.argv})
	what := strings.Join(slices.DeleteFunc(slices.Clone(step.argv), isSetting), " ")
	what = what[:min(len(what), maxToldCommand)]
	switch {
	case err != nil:
		return verify.Fetched{}, err
	case out.ExitCode == process.ExitNotFound:
		return verify.Fetched{Absent: strings.Fields(what)[0] + " is not installed in the sandbox"}, nil
	case out.TimedOut:
		return verify.Fetched{Broken: fmt.Sprintf("%s did not end within %s", what, fetchLimit)}, nil
	case out.ExitCode != 0:
		said, _ := s.Inst.Redact.String(strings.TrimSpace(string(append(out.Stderr, out.Stdout...))))
		return verify.Fetched{Broken: fmt.Sprintf("%s ended with %d: %s", what, out.ExitCode, said[:min(len(said), maxToldOutput)])}, nil
	}
	return verify.Fetched{}, nil
}

var (
	// errHostHas says that the sandbox shows what is needed already.
	errHostHas = errors.New("the host has it")
	// errInPart says that something did not come that need not be missed.
	errInPart = errors.New("some of it did not come")
)

// once fetches into a folder that is kept for those packages, and that nothing writes to once it is
// whole. What another session left in part is none, and what came in part ends with the session.
// The room of a fetch is empty and ends with it.
func once(s *basis.Basis, tool string, p verify.Packages, fill func(room, cache string) (verify.Fetched, error)) (got verify.Fetched, err error) {
	now, all, digest := s.Inst.Options.Now(), filepath.Join(s.Inst.Registry.Paths().State, tool), digestOf(p)
	dir, part := filepath.Join(all, digest), filepath.Join(s.Dir(), registry.PackagesDir, tool+"-"+digest)
	if toolchain.IsDir(dir) {
		return verify.Fetched{Dir: dir}, used(dir, now)
	}
	if toolchain.IsDir(part) {
		return verify.Fetched{Dir: part}, nil
	}
	room, cache := filepath.Join(s.Dir(), registry.PackagesDir, tool+".part"), dir+"."+string(s.ID())
	defer func() { err = errors.Join(err, registry.Discard(room), registry.Discard(cache)) }()
	if err := errors.Join(registry.Discard(room), registry.Discard(cache), os.MkdirAll(room, 0o700), os.MkdirAll(cache, 0o700), forget(all, now)); err != nil {
		return verify.Fetched{}, err
	}
	switch got, err = fill(room, cache); {
	case errors.Is(err, errHostHas):
		return verify.Fetched{}, nil
	case errors.Is(err, errInPart):
		return verify.Fetched{Dir: part}, os.Rename(cache, part)
	case err != nil || got != (verify.Fetched{}):
		return got, err
	}
	if err := os.Rename(cache, dir); err != nil && !toolchain.IsDir(dir) { // another session may have been faster
		return verify.Fetched{}, err
	}
	return verify.Fetched{Dir: dir}, nil
}

// isSetting tells what comes before a command's own words: env, variables and flags.
func isSetting(word string) bool {
	return word == "env" || strings.Contains(word, "=") || strings.HasPrefix(word, "-")
}

// forget removes what lies in a folder of packages and was not used for keepPackages:
// it can be fetched again.
func forget(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, gone := entry.Info()
		if gone == nil && now.Sub(info.ModTime()) > keepPackages {
			err = errors.Join(err, registry.Discard(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// used marks a folder of packages as used now.
func used(dir string, now time.Time) error { return os.Chtimes(dir, now, now) }

// listed are the rules by which servers can be reached, each of which has to be.
func listed(s *basis.Basis, sources []string) (rules []nacre.EgressRule, absent string) {
	for _, source := range sources {
		i := slices.IndexFunc(s.Rules, func(r nacre.EgressRule) bool { return leadsTo(r, source) })
		if i < 0 {
			return nil, fmt.Sprintf("%s is not on the egress list (--egress %s)", source, egressText(source))
		}
		rules = append(rules, s.Rules[i])
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

// serverOf is a server with its port, such as https://registry.example.com:443.
func serverOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// egressText is a server as an operator lists it.
func egressText(source string) string {
	scheme, address, _ := strings.Cut(source, "://")
	if scheme == "http" {
		return address + "/http"
	}
	return address
}

// digestOf names what is asked for: one project of a tree asks for less than all of
// them by the same files.
func digestOf(p verify.Packages) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(p) // it is made of texts, and a hash takes everything
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// lay writes files below an empty folder.
func lay(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, root.MkdirAll(path.Dir(name), 0o755), root.WriteFile(name, files[name], 0o644))
	}
	return errors.Join(err, root.Close())
}
